// What the embedded device costs: four kernels with nobody watching and recorded, as ratios to plain C++ -O2 of the
// same algorithm and tiling, measured in one run, best of several rounds.
//
// Usage: engine_bench kernels.ptx [kernel]      with a kernel: that one alone, with nobody watching
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "kernels_host.h"
#include "replay/device/device.h"
#include "replay/device/trace_sink.h"

using namespace deadheat;

namespace {

constexpr int rounds = 5;

double seconds(const std::function<void()>& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double best(const std::function<void()>& work) {
  double least = 1e9;
  for (int round = 0; round < rounds; ++round) least = std::min(least, seconds(work));
  return least;
}

template <typename T>
T must(Expected<T> value) {
  if (!value) {
    std::fprintf(stderr, "%s\n", value.error().message().c_str());
    std::exit(2);
  }
  return *std::move(value);
}

// A device with the module loaded; launches run to completion.
class Bench {
 public:
  Bench(const std::string& ptx, device::Sink* sink) : sink_(sink) {
    device::DeviceOptions options;
    options.check = sink != nullptr;
    options.record_accesses = sink != nullptr;
    options.sink = sink;
    device_ = must(device::Device::create(options));
    module_ = must(device_->load_module(ptx, "kernels.ptx"));
  }
  template <typename T>
  std::uint64_t upload(const std::vector<T>& values) {
    trace::Allocate memory = must(device_->allocate(trace::Allocate::Kind::device, values.size() * sizeof(T), 1));
    std::memcpy(const_cast<std::uint8_t*>(device_->peek(memory.address, memory.bytes)), values.data(),
                values.size() * sizeof(T));
    return memory.address;
  }
  const std::uint8_t* bytes(std::uint64_t address, std::uint64_t size) { return device_->peek(address, size); }
  template <typename... Arguments>
  void launch(const char* kernel, Dim3 grid, Dim3 block, Arguments... arguments) {
    trace::Launch launch;
    launch.module = module_;
    launch.kernel = kernel;
    launch.grid = grid;
    launch.block = block;
    (append(launch.arguments.inlined, arguments), ...);
    launch.arguments.size = launch.arguments.inlined.size();
    trace::Operation operation;
    operation.stream = 1;
    operation.host_thread = 1;
    operation.what = launch;
    must(device_->submit(operation));
    if (device_->wait({}) != device::Progress::done) {
      std::fprintf(stderr, "%s did not finish\n", kernel);
      std::exit(2);
    }
  }

 private:
  template <typename T>
  static void append(std::vector<std::uint8_t>& bytes, T value) {
    bytes.resize((bytes.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    std::uint8_t raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes.insert(bytes.end(), raw, raw + sizeof(T));
  }
  device::Sink* sink_;
  std::unique_ptr<device::Device> device_;
  std::uint32_t module_ = 0;
};

struct Result {
  double plain = 0, recorded = 0, host = 0, accesses = 0;
};

} // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: engine_bench kernels.ptx [kernel]\n");
    return 2;
  }
  std::ifstream in(argv[1]);
  std::stringstream text;
  text << in.rdbuf();

  std::mt19937 random(1);
  constexpr int n = 384, count = 4 << 20, blocks = 64, tokens = 4096, channels = 256, vocabulary = 1000;
  std::vector<float> a(n * n), b(n * n), c(n * n), values(count), partial(blocks), gradient(tokens * channels),
      table(vocabulary * channels);
  for (float& x : a) x = float(random() % 1000) / 1000;
  for (float& x : b) x = float(random() % 1000) / 1000;
  for (float& x : values) x = float(random() % 1000) / 1000;
  for (float& x : gradient) x = float(random() % 1000) / 1000;
  std::vector<unsigned char> letters(count);
  for (unsigned char& x : letters) x = static_cast<unsigned char>(random());
  std::vector<int> ids(tokens);
  for (int& x : ids) x = int(random() % vocabulary);
  std::vector<unsigned> bins(256);

  const char* names[] = {"sgemm", "reduce", "histogram", "embedding"};
  // Shared and global accesses of one run, counted from the source.
  double accesses[] = {double(n) * n * (n / 16) * (4 + 32) + n * n, double(count) + blocks * (256 + 255 * 3 + 2),
                       double(count) * 2 + blocks * 256 * 3, double(tokens) * channels * 3};
  Result results[4];
  results[0].host = best([&] { host::sgemm(a.data(), b.data(), c.data(), n); });
  results[1].host = best([&] { host::reduce(values.data(), partial.data(), count, blocks); });
  results[2].host = best([&] { host::histogram(letters.data(), bins.data(), count, blocks); });
  results[3].host = best([&] { host::embedding(ids.data(), gradient.data(), table.data(), tokens, channels); });

  const std::string only = argc == 3 ? argv[2] : "";
  for (bool record : {false, true}) {
    if (record && !only.empty()) break;
    std::string directory = (std::filesystem::temp_directory_path() / "engine-bench.deadheat").string();
    std::filesystem::remove_all(directory);
    std::unique_ptr<device::TraceSink> sink;
    if (record) sink = must(device::TraceSink::create(directory, trace::Process{}));
    {
      Bench bench(text.str(), sink.get());
      std::uint64_t da = bench.upload(a), db = bench.upload(b), dc = bench.upload(c), dv = bench.upload(values),
                    dp = bench.upload(partial), dl = bench.upload(letters),
                    dh = bench.upload(std::vector<unsigned>(256)), dt = bench.upload(ids), dg = bench.upload(gradient),
                    de = bench.upload(std::vector<float>(vocabulary * channels));
      auto time = [&](int which, const std::function<void()>& work) {
        if (!only.empty() && only != names[which]) return;
        work(); // compiles
        (record ? results[which].recorded : results[which].plain) = best(work);
      };
      time(0, [&] { bench.launch("sgemm", {n / 16, n / 16, 1}, {16, 16, 1}, da, db, dc, n); });
      time(1, [&] { bench.launch("reduce", {blocks, 1, 1}, {256, 1, 1}, dv, dp, count); });
      time(2, [&] { bench.launch("histogram", {blocks, 1, 1}, {256, 1, 1}, dl, dh, count); });
      time(3, [&] { bench.launch("embedding", {tokens, 1, 1}, {128, 1, 1}, dt, dg, de, channels); });
      if (!record && only.empty() && std::memcmp(bench.bytes(dp, blocks * 4), partial.data(), blocks * 4) != 0) {
        std::fprintf(stderr, "reduce: the device's sums are not the host's\n");
        return 1;
      }
    }
    std::filesystem::remove_all(directory);
  }
  std::printf("%-10s %10s %10s %8s %10s %8s %14s\n", "kernel", "host ms", "plain ms", "ratio", "record ms", "ratio",
              "M accesses/s");
  for (int i = 0; i < 4; ++i) {
    const Result& r = results[i];
    std::printf("%-10s %10.2f %10.2f %8.2f %10.2f %8.2f %14.1f\n", names[i], r.host * 1e3, r.plain * 1e3,
                r.plain / r.host, r.recorded * 1e3, r.recorded / r.host, accesses[i] / r.recorded / 1e6);
  }
}
