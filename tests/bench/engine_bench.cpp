// What the embedded device costs: kernels as plain C++ -O2, as OpenCL on POCL, and on the embedded device with
// nobody watching, recorded, and under controlled schedules. All in one run, best of several rounds, as ratios to plain
// C++ of the same algorithm and tiling on one thread.
//
// Usage: engine_bench kernels.ptx [kernel [columns]]
//   columns: of h (host), o (OpenCL), t (nothing recorded, a thread at a time: without replay/engine/regions.h), p
//   (nothing recorded, addresses not checked), k (nothing recorded, addresses checked), 1 (recorded on one core), r
//   (recorded on all), c (controlled: randomised priorities of depth 3), e (a switch at every visible operation), w (as
//   c, with store histories and old values read at times); all of them when left out
// Controlled runs of sgemm are of some of its blocks: their time is given as that of all.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <sstream>

#include "kernels_host.h"
#include "kernels_opencl.h"
#include "replay/device/device.h"
#include "replay/device/trace_sink.h"

using namespace deadheat;

namespace {

constexpr int rounds = 5;
constexpr double controlled_accesses = 16e6; // about as many as a controlled run has at most
constexpr int n = 384, count = 4 << 20, blocks = 64, tokens = 4096, channels = 256, vocabulary = 1000, side = 1024;

double seconds(const std::function<void()>& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double best(const std::function<void()>& work, int times = rounds) {
  double least = 1e9;
  for (int round = 0; round < times; ++round) least = std::min(least, seconds(work));
  return least;
}

template <typename T> T must(Expected<T> value) {
  if (!value) {
    std::fprintf(stderr, "%s\n", value.error().message().c_str());
    std::exit(2);
  }
  return *std::move(value);
}

struct Data {
  std::vector<float> a, b, c, values, partial, gradient, table, grid, next, x, y;
  std::vector<unsigned char> letters;
  std::vector<int> ids;
  std::vector<unsigned> bins;
  Data() {
    std::mt19937 random(1);
    auto floats = [&](std::vector<float>& v, std::size_t size) {
      v.resize(size);
      for (float& f : v) f = float(random() % 1000) / 1000;
    };
    floats(a, n * n);
    floats(b, n * n);
    c.resize(n * n);
    floats(values, count);
    partial.resize(blocks);
    floats(gradient, tokens * channels);
    table.resize(vocabulary * channels);
    floats(grid, side * side);
    next = grid;
    floats(x, count);
    floats(y, count);
    letters.resize(count);
    for (unsigned char& l : letters) l = static_cast<unsigned char>(random());
    ids.resize(tokens);
    for (int& id : ids) id = int(random() % vocabulary);
    bins.resize(256);
  }
};

// An argument: a buffer of Data, by its address, or a value.
struct Argument {
  const void* bytes;
  std::size_t size;
  bool buffer;
};
template <typename T> Argument buffer(const std::vector<T>& v) { return {v.data(), v.size() * sizeof(T), true}; }
template <typename T> Argument value(const T& v) { return {&v, sizeof(T), false}; }

struct Kernel {
  const char* name;
  std::function<void()> host;
  Dim3 grid, block;
  std::vector<Argument> arguments;
  double accesses; // shared and global ones of one run, counted from the source
};

// A device with the module loaded; launches run to completion.
class Bench {
 public:
  Bench(const std::string& ptx, device::Sink* sink, Schedule schedule, bool regions, bool check) {
    device::DeviceOptions options;
    engine::CompilerOptions code;
    code.regions = regions;
    code.quick_for_work = 0;
    code.cache.clear();
    options.modules = device::make_module_cache(engine::make_compiler(code));
    options.check = check;
    options.live = !schedule.weak; // histories are of replays
    options.record_accesses = sink != nullptr;
    options.sink = sink;
    options.schedule = std::move(schedule);
    device_ = must(device::Device::create(options));
    module_ = must(device_->load_module(ptx, "kernels.ptx"));
  }
  std::uint64_t visible() const { return device_->choices().visible; }
  const std::uint8_t* bytes(const void* host, std::size_t size) { return device_->peek(uploaded_.at(host), size); }

  void launch(const Kernel& kernel, const Dim3& grid) {
    trace::Launch launch;
    launch.module = module_;
    launch.kernel = kernel.name;
    launch.grid = grid;
    launch.block = kernel.block;
    for (const Argument& a : kernel.arguments) {
      if (a.buffer) {
        const std::uint64_t address = upload(a);
        append(launch.arguments.inlined, &address, sizeof address);
      } else {
        append(launch.arguments.inlined, a.bytes, a.size);
      }
    }
    launch.arguments.size = launch.arguments.inlined.size();
    trace::Operation operation;
    operation.stream = 1;
    operation.host_thread = 1;
    operation.what = launch;
    must(device_->submit(operation));
    if (device_->wait({}) != device::Progress::done) {
      std::fprintf(stderr, "%s did not finish\n", kernel.name);
      std::exit(2);
    }
  }

 private:
  static void append(std::vector<std::uint8_t>& to, const void* value, std::size_t size) {
    to.resize((to.size() + size - 1) / size * size);
    const auto* raw = static_cast<const std::uint8_t*>(value);
    to.insert(to.end(), raw, raw + size);
  }
  std::uint64_t upload(const Argument& a) {
    auto [at, fresh] = uploaded_.emplace(a.bytes, 0);
    if (fresh) {
      at->second = must(device_->allocate(trace::Allocate::Kind::device, a.size, 1)).address;
      std::memcpy(const_cast<std::uint8_t*>(device_->peek(at->second, a.size)), a.bytes, a.size);
    }
    return at->second;
  }
  std::unique_ptr<device::Device> device_;
  std::map<const void*, std::uint64_t> uploaded_;
  std::uint32_t module_ = 0;
};

// How a kernel runs.
struct Way {
  bool record = false, check = false, regions = true;
  unsigned cores = 0;
  std::optional<Schedule> schedule = {};
};

struct Measured {
  double time = 0;
  double visible = 0; // operations of a run, under a schedule
};

Measured on_device(const std::string& ptx, const Kernel& kernel, const Way& way) {
  const std::string directory = (std::filesystem::temp_directory_path() / "engine-bench.deadheat").string();
  std::filesystem::remove_all(directory);
  std::unique_ptr<device::TraceSink> sink;
  if (way.record) sink = must(device::TraceSink::create(directory, trace::Process{}, {}, way.cores));
  Measured measured;
  {
    Bench bench(ptx, sink.get(), way.schedule.value_or(Schedule{}), way.regions, way.check);
    Dim3 grid = kernel.grid;
    if (way.schedule) grid.y = std::max(1u, unsigned(grid.y * std::min(1.0, controlled_accesses / kernel.accesses)));
    bench.launch(kernel, grid); // compiles
    const std::uint64_t before = bench.visible();
    int times = 0;
    auto once = [&] {
      bench.launch(kernel, grid);
      if (sink) sink->flush();
      ++times;
    };
    const double part = double(grid.y) / kernel.grid.y;
    measured.time = best(once, way.schedule ? 2 : rounds) / part;
    measured.visible = double(bench.visible() - before) / times / part;
  }
  sink.reset();
  std::filesystem::remove_all(directory);
  return measured;
}

double opencl_time(const Kernel& kernel) {
#ifdef DEADHEAT_BENCH_OPENCL
  static const std::unique_ptr<OpenClDevice> device = OpenClDevice::create(DEADHEAT_BENCH_OPENCL);
  if (!device) return 0;
  for (unsigned k = 0; k < kernel.arguments.size(); ++k) {
    const Argument& a = kernel.arguments[k];
    if (a.buffer)
      device->buffer_argument(kernel.name, k, device->upload(a.bytes, a.size));
    else
      device->value_argument(kernel.name, k, a.bytes, a.size);
  }
  auto launch = [&] { device->launch(kernel.name, {kernel.grid.x, kernel.grid.y}, {kernel.block.x, kernel.block.y}); };
  launch(); // compiles
  return best(launch);
#else
  (void)kernel;
  return 0;
#endif
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: engine_bench kernels.ptx [kernel [columns of hotpk1rcew]]\n");
    return 2;
  }
  std::ifstream in(argv[1]);
  std::stringstream text;
  text << in.rdbuf();
  const std::string only = argc > 2 ? argv[2] : "", columns = argc > 3 ? argv[3] : "hotpk1rcew";
  auto wants = [&](char column) { return columns.find(column) != std::string::npos; };

  Data d;
  const int size = n, all = count, width = channels, edge = side;
  const float factor = 0.5f;
  const unsigned tiles = n / 16, cells = side / 16;
  const Kernel kernels[] = {
      {"sgemm",
       [&] { host::sgemm(d.a.data(), d.b.data(), d.c.data(), n); },
       {tiles, tiles, 1},
       {16, 16, 1},
       {buffer(d.a), buffer(d.b), buffer(d.c), value(size)},
       double(n) * n * (n / 16) * (4 + 32) + n * n},
      {"reduce",
       [&] { host::reduce(d.values.data(), d.partial.data(), count, blocks); },
       {blocks, 1, 1},
       {256, 1, 1},
       {buffer(d.values), buffer(d.partial), value(all)},
       double(count) + blocks * (256 + 255 * 3 + 2)},
      {"histogram",
       [&] { host::histogram(d.letters.data(), d.bins.data(), count, blocks); },
       {blocks, 1, 1},
       {256, 1, 1},
       {buffer(d.letters), buffer(d.bins), value(all)},
       double(count) * 2 + blocks * 256 * 3},
      {"embedding",
       [&] { host::embedding(d.ids.data(), d.gradient.data(), d.table.data(), tokens, channels); },
       {tokens, 1, 1},
       {128, 1, 1},
       {buffer(d.ids), buffer(d.gradient), buffer(d.table), value(width)},
       double(tokens) * (channels * 2 + 128)},
      {"jacobi",
       [&] { host::jacobi(d.grid.data(), d.next.data(), side); },
       {cells, cells, 1},
       {16, 16, 1},
       {buffer(d.grid), buffer(d.next), value(edge)},
       double(side) * side * 7 + double(side) * side / 16 * 8},
      {"saxpy",
       [&] { host::saxpy(count, factor, d.x.data(), d.y.data()); },
       {count / 256, 1, 1},
       {256, 1, 1},
       {value(all), value(factor), buffer(d.x), buffer(d.y)},
       double(count) * 3},
      {"strided",
       [&] { host::saxpy(count, factor, d.x.data(), d.y.data()); },
       {4 * blocks, 1, 1},
       {256, 1, 1},
       {value(all), value(factor), buffer(d.x), buffer(d.y)},
       double(count) * 3},
  };

  Schedule priorities, every, histories;
  priorities.kind = Schedule::Kind::priorities;
  priorities.depth = 3;
  priorities.steps = 1 << 20;
  every.kind = Schedule::Kind::random;
  every.quantum = 0;
  histories = priorities;
  histories.weak = true;
  histories.old_rate = 32;
  const struct {
    char letter;
    const char* title;
    Way way;
  } ways[] = {{'t', "thread", {.check = true, .regions = false}},
              {'p', "plain", {}},
              {'k', "checked", {.check = true}},
              {'1', "record, 1", {.record = true, .check = true, .cores = 1}},
              {'r', "record", {.record = true, .check = true}},
              {'c', "PCT 3", {.schedule = priorities}},
              {'e', "each", {.schedule = every}},
              {'w', "histories", {.schedule = histories}}};
  std::printf("%-10s %9s %9s %6s", "kernel", "host ms", "POCL ms", "ratio");
  for (const auto& w : ways) {
    std::printf(" %9s %6s", w.title, "ratio");
    if (w.way.record || w.way.schedule) std::printf(" %6s", "M/s");
  }
  std::printf("\n");
  for (const Kernel& kernel : kernels) {
    if (!only.empty() && only != kernel.name) continue;
    const double host = wants('h') ? best(kernel.host) : 0, opencl = wants('o') ? opencl_time(kernel) : 0;
    auto ratio = [&](double time) { return host > 0 ? time / host : 0; };
    std::printf("%-10s %9.2f %9.2f %6.2f", kernel.name, host * 1e3, opencl * 1e3, ratio(opencl));
    for (const auto& w : ways) {
      const Measured m = wants(w.letter) ? on_device(text.str(), kernel, w.way) : Measured{};
      std::printf(" %9.2f %6.2f", m.time * 1e3, ratio(m.time));
      if (!w.way.record && !w.way.schedule) continue;
      std::printf(" %6.1f", m.time > 0 ? (w.way.schedule ? m.visible : kernel.accesses) / m.time / 1e6 : 0);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}
