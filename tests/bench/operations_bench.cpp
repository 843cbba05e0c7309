// What the analysis of operations costs as a run grows: streams that launch opaque kernels, set memory, and hand each
// other their events, as a training job's log has them where no accesses are recorded.
//
//   operations_bench [--largest N] [--jobs J] [--megabytes M] [--unordered 1]
//       N: operations of the largest of three runs, 4e6 unless told; M: that each stream's kernels may touch, 1;
//       unordered: all streams use the same memory, and wait for nobody in a step
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "analyzer/detect/find.h"
#include "tests/bench/measured_run.h"

namespace deadheat::bench {
namespace {

class Steps final : public detect::Source {
 public:
  Steps(std::uint64_t operations, std::uint64_t bytes, bool unordered)
      : steps_(operations / of_step), bytes_(bytes), unordered_(unordered) {}
  std::uint64_t operations() const { return steps_ * of_step; }
  std::size_t chunks() const override { return std::size_t((steps_ + in_chunk - 1) / in_chunk); }
  void play(std::size_t chunk, trace::RecordVisitor& visitor) const override {
    if (chunk == 0) begin(visitor);
    for (std::uint64_t n = chunk * in_chunk; n < std::min<std::uint64_t>(steps_, (chunk + 1) * in_chunk); ++n)
      step(visitor, n);
  }

 private:
  static constexpr std::uint32_t streams = 4, kernels = 20; // of a stream in a step
  static constexpr std::uint64_t of_step = streams * (kernels + 2), in_chunk = 64;
  static constexpr std::uint64_t memory = 0xA000'0000'0000;

  static void say(trace::RecordVisitor& visitor, trace::Record record) { visitor.record(record); }
  std::uint32_t owner(std::uint32_t stream) const { return unordered_ ? 0 : stream; }
  std::uint64_t buffer(std::uint32_t stream) const { return memory + owner(stream) * 2 * bytes_; }

  void begin(trace::RecordVisitor& visitor) const {
    for (std::uint32_t stream = 0; stream < streams; ++stream) {
      say(visitor, trace::StreamCreate{stream + 2, trace::StreamCreate::Kind::non_blocking, 0, 0, 1});
      if (owner(stream) != stream) continue;
      trace::Allocate allocation;
      allocation.allocation = stream + 1;
      allocation.address = buffer(stream);
      allocation.bytes = bytes_;
      say(visitor, allocation);
    }
  }
  void step(trace::RecordVisitor& visitor, std::uint64_t number) const {
    std::uint32_t id = std::uint32_t(number * of_step), launches = std::uint32_t(number * streams * kernels);
    for (std::uint32_t stream = 0; stream < streams; ++stream) {
      auto perform = [&](trace::Operation operation) {
        operation.id = ++id;
        operation.stream = stream + 2;
        operation.host_thread = 1;
        say(visitor, std::move(operation));
        say(visitor, trace::OperationBegin{id});
        say(visitor, trace::OperationEnd{id});
      };
      for (std::uint32_t k = 0; k < kernels; ++k) {
        trace::Operation operation;
        trace::Launch launch;
        launch.kernel = "kernel_" + std::to_string(k);
        launch.grid = {1024, 1, 1};
        launch.block = {256, 1, 1};
        launch.footprint = {owner(stream) + 1};
        operation.what = std::move(launch);
        operation.launch = ++launches;
        perform(std::move(operation));
      }
      trace::Operation set;
      set.what = trace::Set{{buffer(stream), 0, bytes_, 1, 1, 0}, 0, 1, "cudaMemsetAsync"};
      perform(std::move(set));
      perform({});
      say(visitor, trace::EventRecord{stream, stream + 2, id, 1});
      if (!unordered_) say(visitor, trace::StreamWait{(stream + 1) % streams + 2, stream, id, 0, 1});
    }
    for (std::uint32_t stream = unordered_ ? 0 : streams - 1; stream < streams; ++stream)
      say(visitor, trace::HostWait{trace::HostWait::Kind::stream, stream + 2, 0, false, 1});
  }

  const std::uint64_t steps_, bytes_;
  const bool unordered_;
};

Cost analysis(std::uint64_t operations, std::uint64_t bytes, bool unordered, unsigned jobs) {
  return measure([=] {
    const Steps source(operations, bytes, unordered);
    detect::FindOptions options;
    options.jobs = jobs;
    const detect::Findings findings = detect::find_races(source, options);
    Cost cost;
    cost.accesses = source.operations();
    cost.races = findings.races.size() + findings.unknown;
    return cost;
  });
}

} // namespace
} // namespace deadheat::bench

int main(int argc, char** argv) {
  using namespace deadheat::bench;
  double largest = 4e6, megabytes = 1;
  unsigned jobs = 1;
  bool unordered = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--largest")) largest = std::strtod(argv[i + 1], nullptr);
    if (!std::strcmp(argv[i], "--megabytes")) megabytes = std::strtod(argv[i + 1], nullptr);
    if (!std::strcmp(argv[i], "--unordered")) unordered = std::strcmp(argv[i + 1], "0") != 0;
    if (!std::strcmp(argv[i], "--jobs")) jobs = unsigned(std::strtoul(argv[i + 1], nullptr, 10));
  }
  Cost first, last;
  for (double share : {0.01, 0.1, 1.0}) {
    const Cost cost = analysis(std::uint64_t(largest * share), std::uint64_t(megabytes * 1048576), unordered, jobs);
    std::printf("%10llu operations %8.2f s of CPU %9.0f a second %8.1f MB%s\n",
                static_cast<unsigned long long>(cost.accesses), cost.cpu, double(cost.accesses) / cost.cpu,
                cost.peak_bytes / 1e6, cost.races ? "  RACES FOUND" : "");
    std::fflush(stdout);
    if (share == 0.01) first = cost;
    last = cost;
  }
  std::printf("time grows with exponent %.2f, memory by %.0f bytes an operation\n",
              std::log(last.cpu / first.cpu) / std::log(double(last.accesses) / double(first.accesses)),
              (last.peak_bytes - first.peak_bytes) / double(last.accesses - first.accesses));
}
