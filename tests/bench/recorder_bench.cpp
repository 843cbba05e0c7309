// How fast a warp's logs become a trace on disk, on one core: merge, encode, compress, write. An item is one access of
// one thread; bytes_per_1000 is what the log takes on disk for a thousand of them.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace {

using namespace deadheat;
using namespace deadheat::trace;

constexpr unsigned rows = 256; // entries of a lane between two syncs

// The logs of the 32 lanes of several warps, as the engine leaves them.
struct Logs {
  std::vector<LogEntry> entries;

  explicit Logs(unsigned warps) { entries.reserve(std::size_t(warps) * 32 * rows); }
  template <class Make> void add_warp(Make&& make) {
    for (unsigned lane = 0; lane < 32; lane++) {
      for (unsigned row = 0; row < rows; row++) entries.push_back(make(lane, row));
    }
  }
  // What the next block does: the same to other addresses, with other values.
  void advance() {
    for (LogEntry& entry : entries) {
      if (entry.address < shared_window) entry.address += 0x10000;
      if (entry.digest > 255) entry.digest = entry.digest * 2654435761u + 12345;
    }
  }
  void lanes(std::size_t warp, LaneLog (&out)[32]) const {
    for (unsigned lane = 0; lane < 32; lane++) {
      out[lane].begin = entries.data() + (warp * 32 + lane) * rows;
      out[lane].end = out[lane].begin + rows;
    }
  }
};

constexpr unsigned warps = 16;
constexpr std::uint64_t array = device_bit | 0x2000'1000'0000;

// A tiled loop: each turn loads two coalesced elements, stores them in shared memory, reads others, adds up.
Logs affine() {
  Logs logs(warps);
  std::mt19937 random(1);
  for (unsigned warp = 0; warp < warps; warp++) {
    logs.add_warp([&](unsigned lane, unsigned row) -> LogEntry {
      const std::uint64_t turn = row / 8;
      switch (row % 8) {
        case 0: return {array + 4 * (warp * 8192 + turn * 32 + lane), 10, 0};
        case 1: return {array + 0x100000 + 4096 * turn + 4 * lane, 11, 0};
        case 2: return {shared_window + warp * 128 + 4 * lane, 12, std::uint32_t(random())}; // stores of floats
        case 3: return {shared_window + 4096 + warp * 128 + 4 * lane, 13, 7};                // of equal values
        case 7: return {array + 0x200000 + 4 * (warp * 8192 + turn * 32 + lane), 20, lane};
        default: return {shared_window + 128 * (row % 8) + 4 * lane, 14 + row % 8, 0};
      }
    });
  }
  return logs;
}

// Affine, reads only: what most accesses of most kernels are.
Logs reads() {
  Logs logs(warps);
  for (unsigned warp = 0; warp < warps; warp++) {
    logs.add_warp([&](unsigned lane, unsigned row) -> LogEntry {
      return {array + 4 * (warp * 8192 + row * 32 + lane) + (row % 4) * 0x100000, 10 + row % 4, 0};
    });
  }
  return logs;
}

// Gather and scatter over 256 MiB; half of them write values of their own.
Logs scattered() {
  Logs logs(warps);
  std::mt19937_64 random(2);
  for (unsigned warp = 0; warp < warps; warp++) {
    logs.add_warp([&](unsigned, unsigned row) -> LogEntry {
      const std::uint64_t bits = random();
      return {array + (bits & 0x0FFFFFFC), 10 + row % 6, row % 2 ? std::uint32_t(bits >> 32) : 0};
    });
  }
  return logs;
}

// Lanes take one of two branches in every turn of a loop.
Logs divergent() {
  Logs logs(warps);
  std::mt19937 random(3);
  for (unsigned warp = 0; warp < warps; warp++) {
    logs.add_warp([&](unsigned lane, unsigned row) -> LogEntry {
      const std::uint32_t site = row % 2 ? 13 : 10 + random() % 2;
      return {array + 4 * (warp * 8192 + row * 32 + lane), site, 0};
    });
  }
  return logs;
}

void record(benchmark::State& state, Logs (*make)()) {
  Logs logs = make();
  const char* where = std::getenv("TMPDIR");
  std::string name = std::string(where ? where : "/tmp") + "/deadheat-bench-XXXXXX";
  if (!::mkdtemp(name.data())) return state.SkipWithError("no temporary directory");
  WriterCounts counts;
  {
    auto writer = TraceWriter::create(name, Process{});
    if (!writer) return state.SkipWithError("cannot create the trace");
    std::uint32_t block = 0;
    for (auto _ : state) {
      for (unsigned warp = 0; warp < warps; warp++) {
        LaneLog lanes[32];
        logs.lanes(warp, lanes);
        (*writer)->write_warp({1, block, warp}, 1, lanes);
      }
      block++;
      state.PauseTiming();
      logs.advance();
      state.ResumeTiming();
    }
    (void)(*writer)->finish(0);
    counts = (*writer)->counts();
  }
  std::error_code ignored;
  std::filesystem::remove_all(name, ignored);
  state.SetItemsProcessed(std::int64_t(counts.accesses));
  state.counters["bytes_per_1000"] = 1000 * double(counts.file_bytes) / double(counts.accesses);
  state.counters["raw_per_1000"] = 1000 * double(counts.raw_bytes) / double(counts.accesses);
}
BENCHMARK_CAPTURE(record, reads, reads);
BENCHMARK_CAPTURE(record, affine, affine);
BENCHMARK_CAPTURE(record, scattered, scattered);
BENCHMARK_CAPTURE(record, divergent, divergent);

// Strong accesses and barriers, a call each: `lanes` of a warp add to counters of their own.
void strong(benchmark::State& state) {
  const char* where = std::getenv("TMPDIR");
  std::string name = std::string(where ? where : "/tmp") + "/deadheat-bench-XXXXXX";
  if (!::mkdtemp(name.data())) return state.SkipWithError("no temporary directory");
  WriterCounts counts;
  {
    auto writer = TraceWriter::create(name, Process{});
    if (!writer) return state.SkipWithError("cannot create the trace");
    const unsigned lanes = unsigned(state.range(0));
    std::uint64_t address[32] = {}, before[32] = {}, after[32] = {}, ticket[32] = {}, next = 1;
    std::uint32_t digest[32] = {};
    AccessView view;
    view.module = 1;
    view.site = 9;
    view.mask = view.wrote = lanes == 32 ? ~0u : (1u << lanes) - 1;
    view.address = address;
    view.digest = digest;
    view.strong = true;
    view.value_read = before;
    view.value_written = after;
    view.order_first = view.order_last = ticket;
    for (auto _ : state) {
      for (unsigned lane = 0; lane < lanes; lane++) {
        address[lane] = array + 4 * lane;
        before[lane] = next / 32;
        after[lane] = digest[lane] = std::uint32_t(before[lane] + 1);
        ticket[lane] = next++;
      }
      (*writer)->write(view);
      (*writer)->write(BlockBarrier{1, 0, 0, std::uint32_t(next), 1, 10});
    }
    (void)(*writer)->finish(0);
    counts = (*writer)->counts();
  }
  std::error_code ignored;
  std::filesystem::remove_all(name, ignored);
  state.SetItemsProcessed(std::int64_t(counts.accesses));
  state.counters["bytes_per_1000"] = 1000 * double(counts.file_bytes) / double(counts.accesses);
}
BENCHMARK(strong)->Arg(1)->Arg(32);

// The merge alone: what the log's layout costs.
void merge(benchmark::State& state, Logs (*make)()) {
  const Logs logs = make();
  std::uint64_t accesses = 0, sum = 0;
  for (auto _ : state) {
    for (unsigned warp = 0; warp < warps; warp++) {
      LaneLog lanes[32];
      logs.lanes(warp, lanes);
      merge_warp(lanes,
                 [&](std::uint32_t, std::uint32_t mask, Space, const std::uint64_t* address, const std::uint32_t*) {
                   accesses += std::uint64_t(std::popcount(mask));
                   sum += address[std::countr_zero(mask)];
                 });
    }
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(std::int64_t(accesses));
}
BENCHMARK_CAPTURE(merge, affine, affine);
BENCHMARK_CAPTURE(merge, divergent, divergent);

// Reading back, record by record, without copies.
void read(benchmark::State& state, Logs (*make)()) {
  Logs logs = make();
  const char* where = std::getenv("TMPDIR");
  std::string name = std::string(where ? where : "/tmp") + "/deadheat-bench-XXXXXX";
  if (!::mkdtemp(name.data())) return state.SkipWithError("no temporary directory");
  {
    auto writer = TraceWriter::create(name, Process{});
    if (!writer) return state.SkipWithError("cannot create the trace");
    for (unsigned block = 0; block < 16; block++, logs.advance()) {
      for (unsigned warp = 0; warp < warps; warp++) {
        LaneLog lanes[32];
        logs.lanes(warp, lanes);
        (*writer)->write_warp({1, block, warp}, 1, lanes);
      }
    }
    (void)(*writer)->finish(0);
  }
  struct Sum : RecordVisitor {
    std::uint64_t accesses = 0, sum = 0;
    bool access(const AccessView& view) override {
      accesses += std::uint64_t(std::popcount(view.mask));
      sum += view.address[std::countr_zero(view.mask)];
      return true;
    }
    bool record(Record&) override { return true; }
  } visitor;
  auto trace = TraceReader::open(name);
  auto log = trace->open_log(0);
  for (auto _ : state) {
    log->rewind();
    log->for_each(visitor);
  }
  std::error_code ignored;
  std::filesystem::remove_all(name, ignored);
  benchmark::DoNotOptimize(visitor.sum);
  state.SetItemsProcessed(std::int64_t(visitor.accesses));
}
BENCHMARK_CAPTURE(read, affine, affine);
BENCHMARK_CAPTURE(read, scattered, scattered);

} // namespace

BENCHMARK_MAIN();
