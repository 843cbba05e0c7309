// Runs compiled kernels in unit tests: a plain loop over threads, with none of the device's machinery. Blocks run one
// after the other; threads in order until they stop; barriers and rendezvous complete when everyone is there.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "replay/engine/compiler.h"

namespace deadheat::engine {

struct StrongEvent {
  std::uint32_t thread, site;
  std::uint64_t address, read, written;
  bool wrote;
};

class Runner {
 public:
  explicit Runner(const std::string& ptx, const std::string& cache = "");
  // For compilers that are made from now on: DEADHEAT_ENGINE_TEST=minimal, frame or both forces the code that large
  // kernels get on all kernels; with `improving` a kernel begins with quick code, which gets better while it runs.
  static CompilerOptions options();
  ~Runner();

  LoadedModule& module() { return *module_; }
  // Device memory from the arena; every byte of it valid, what lies between allocations is not.
  std::uint64_t allocate(std::size_t bytes);
  template <typename T>
  std::uint64_t upload(const std::vector<T>& v) {
    std::uint64_t a = allocate(v.size() * sizeof(T));
    std::memcpy(host(a), v.data(), v.size() * sizeof(T));
    return a;
  }
  template <typename T>
  std::vector<T> download(std::uint64_t a, std::size_t n) {
    std::vector<T> v(n);
    std::memcpy(v.data(), host(a), n * sizeof(T));
    return v;
  }
  void* host(std::uint64_t device);

  struct Dim {
    std::uint32_t x = 1, y = 1, z = 1;
  };
  template <typename... T>
  void launch(const std::string& kernel, Dim grid, Dim block, T... args) {
    std::vector<std::uint8_t> params;
    (push(params, args), ...);
    launch_raw(kernel, grid, block, params);
  }
  void launch_raw(const std::string& kernel, Dim grid, Dim block, std::vector<std::uint8_t> params);

  // Settings of launches.
  Mode mode;
  Shadows* shadows = nullptr; // Mode::precision
  std::uint32_t dynamic_shared = 0;
  std::int64_t quantum = 1 << 30;  // given anew each time a thread goes on
  std::vector<std::uint8_t> site_stop = std::vector<std::uint8_t>(4096, 0);
  std::size_t log_entries = 64;        // of a lane's log
  std::uint64_t most_steps = 1 << 24;  // then it counts as hanging
  std::uint32_t stack_bytes = 1 << 16;
  bool regions = regions_by_default();  // blocks run region by region where nothing watches and the kernel can

  // What happened in the last launch.
  std::vector<std::pair<std::uint32_t, LogEntry>> log;  // thread, entry
  std::vector<StrongEvent> strong;
  std::vector<std::pair<Step, std::uint64_t>> stops;  // visible and spin stops: pending_address
  std::uint64_t visible = 0, steps = 0;
  bool hung = false;
  std::string fault;  // "kind site address"
  std::uint32_t fault_kind = ~0u;
  std::vector<std::string> printed;
  std::uint64_t fast_regions = 0, slow_threads = 0;  // of launches that ran region by region

 private:
  static bool regions_by_default();
  template <typename T>
  static void push(std::vector<std::uint8_t>& to, T v) {
    to.resize((to.size() + alignof(T) - 1) / alignof(T) * alignof(T));
    to.insert(to.end(), reinterpret_cast<std::uint8_t*>(&v), reinterpret_cast<std::uint8_t*>(&v) + sizeof(T));
  }
  struct Block;
  void run_block(Block& block);
  void run_regions(const RegionCode& code, LaunchContext& launch, Dim grid, Dim block);
  void rendezvous(Block& block);

  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<LoadedModule> module_;
  std::map<std::string, std::uint64_t, std::less<>> symbols_;
  std::vector<std::uint8_t> shadow_;
  std::uint32_t parameter_bytes_ = 0;
  inline static unsigned improved_ = 0; // kernels, of all runners
  friend struct RunnerServices;
};

}  // namespace deadheat::engine
