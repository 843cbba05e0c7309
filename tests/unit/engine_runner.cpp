#include "engine_runner.h"

#include "replay/engine/region_run.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <utility>

#include "deadheat/address.h"
#include "replay/engine/shadow.h"
#include "replay/engine/tensor.h"
#include "replay/engine/tensor_shadows.h"
#include "tracer/ptx/parse.h"

namespace deadheat::engine {

namespace {
constexpr std::size_t arena_bytes = 256 << 20;
std::uint8_t* arena() {  // one for all tests of a process
  static std::uint8_t* base = [] {
    void* p = mmap(reinterpret_cast<void*>(device_arena), arena_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    return static_cast<std::uint8_t*>(p);
  }();
  return base;
}
std::size_t arena_used = 4096;
}  // namespace

struct Runner::Block {
  BlockContext context;
  LaunchContext* launch = nullptr;
  std::vector<std::uint8_t> shared;
  struct Thread {
    ThreadContext context;
    std::vector<std::uint8_t> stack;
    std::vector<LogEntry> entries;
    Step state = Step::visible;  // anything that may go on
    bool started = false, done = false, waiting = false;
  };
  std::vector<Thread> threads;
  KernelCode* code = nullptr;
};

struct RunnerServices {
  static Runner& of(ThreadContext* t) { return *static_cast<Runner*>(t->block->launch->exec->machine); }
  static void drain(ThreadContext* t, LogEntry* begin) {
    for (LogEntry* e = begin; e != t->log_cursor; ++e) of(t).log.push_back({t->linear, *e});
    t->log_cursor = begin;
  }
  static void log_full(ThreadContext* t) { drain(t, t->log_end - of(t).log_entries); }
  static void strong(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint64_t read,
                     std::uint64_t written, std::uint32_t wrote) {
    of(t).strong.push_back({t->linear, site, address, read, written, wrote != 0});
  }
  static std::uint32_t check(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint32_t bytes,
                             std::uint32_t w) {
    Runner& r = of(t);
    if (address % bytes == 0 && address >= local_window && address + bytes <= local_window + t->stack_bytes) return 1;
    if (address % bytes == 0 && !w && address >= param_window && address + bytes <= param_window + r.parameter_bytes_)
      return 1;
    r.fault = (w ? "write " : "read ") + std::to_string(bytes) + " site " + std::to_string(site);
    t->fault_kind = 0;
    t->fault_address = address;
    return 0;
  }
  static void async_copy(ThreadContext* t, std::uint32_t, std::uint64_t to, std::uint64_t from, std::uint32_t bytes,
                         std::uint32_t source) {
    std::memcpy(t->block->shared + to, reinterpret_cast<void*>(to_host(from)), source);
    std::memset(t->block->shared + to + source, 0, bytes - source);
  }
  static void async_commit(ThreadContext*, std::uint32_t) {}
  static std::uint64_t mbarrier(ThreadContext*, std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t) {
    return 0;
  }
  static void bulk_copy(ThreadContext*, std::uint32_t) {}
  static const void* at(ThreadContext* t, std::uint64_t address) {
    if (address >= local_window) return t->stack + (address - local_window);
    if (address >= shared_window) return t->block->shared + (address - shared_window);
    return reinterpret_cast<const void*>(to_host(address));
  }
  static std::int32_t print(ThreadContext* t, std::uint64_t format, std::uint64_t arguments) {
    std::string text = static_cast<const char*>(at(t, format));
    std::uint32_t first;
    std::memcpy(&first, at(t, arguments), 4);
    of(t).printed.push_back(text + ":" + std::to_string(first));
    return 1;
  }
  static std::uint64_t allocate(ThreadContext* t, std::uint32_t, std::uint64_t bytes) { return of(t).allocate(bytes); }
  static void release(ThreadContext*, std::uint32_t, std::uint64_t) {}
  static void fault(ThreadContext* t, std::uint32_t site, std::uint32_t kind, const char* text) {
    t->fault_kind = kind;
    of(t).fault_kind = kind;
    of(t).fault =
        "fault " + std::to_string(kind) + " site " + std::to_string(site) + (text ? std::string(" ") + text : "");
  }
  static std::uint64_t clock(ThreadContext* t, std::uint32_t) { return ++of(t).steps; }
  // No mode of these tests follows undefined bits.
  static void undefined(ThreadContext*, std::uint32_t, std::uint32_t, std::uint64_t, std::uint32_t) {}
};

namespace {
const Services services = {RunnerServices::log_full,
                           RunnerServices::strong,
                           RunnerServices::check,
                           RunnerServices::async_copy,
                           RunnerServices::async_commit,
                           RunnerServices::mbarrier,
                           RunnerServices::bulk_copy,
                           RunnerServices::print,
                           RunnerServices::allocate,
                           RunnerServices::release,
                           RunnerServices::fault,
                           RunnerServices::clock,
                           RunnerServices::undefined,
                           nullptr,
                           nullptr,
                           nullptr}; // tensor maps are the device's
}

CompilerOptions Runner::options() {
  CompilerOptions o;
  o.cache.clear();  // tests compile what they test
  const char* force = std::getenv("DEADHEAT_ENGINE_TEST");
  std::string what = force ? force : "";
  if (what == "minimal" || what == "both") o.full_effort = 0;
  if (what == "frame" || what == "both") o.saves_in_frame = 0;
  o.quick_for_work = what == "improving" ? 1 : 0;
  return o;
}

bool Runner::regions_by_default() {
  const char* force = std::getenv("DEADHEAT_ENGINE_TEST");
  return force && std::string(force) == "regions";
}

Runner::Runner(const std::string& ptx, const std::string& cache) {
  shadow_.assign(arena_bytes / 16, 0);
  arena();
  auto module = ptx::parse(ptx, "test");
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().message());
  if (!module) std::abort();
  CompilerOptions with = options();
  with.cache = cache;
  compiler_ = make_compiler(with);
  for (const ptx::Variable& v : module->variables)
    if (v.space != Space::shared) symbols_[v.name] = allocate(v.size ? v.size : 1);
  auto loaded = compiler_->load(std::move(*module), "test", [this](std::string_view name) {
    auto it = symbols_.find(name);
    return it == symbols_.end() ? 0 : it->second;
  });
  EXPECT_TRUE(loaded.has_value());
  module_ = std::move(*loaded);
  for (const ptx::Variable& v : module_->ptx().variables) {
    if (v.space == Space::shared) continue;
    auto bytes = module_->initial_bytes(v);
    std::memcpy(host(symbols_[v.name]), bytes.data(), bytes.size());
  }
}

Runner::~Runner() = default;

std::uint64_t Runner::allocate(std::size_t bytes) {
  std::size_t at = arena_used;
  arena_used = (arena_used + bytes + 15) / 16 * 16 + 256;
  if (arena_used > arena_bytes) std::abort();
  std::memset(arena() + at, 0xcd, bytes);
  for (std::size_t n = 0; n < bytes; n += 16)
    shadow_[(at + n) / 16] = std::uint8_t(std::min<std::size_t>(16, bytes - n));
  return to_device(device_arena + at);
}

void* Runner::host(std::uint64_t device) { return reinterpret_cast<void*>(to_host(device)); }

void Runner::launch_raw(const std::string& kernel, Dim grid, Dim block, std::vector<std::uint8_t> params) {
  log.clear();
  strong.clear();
  stops.clear();
  printed.clear();
  visible = steps = 0;
  hung = false;
  fault.clear();
  fault_kind = ~0u;
  fast_regions = slow_threads = 0;
  const KernelInfo* info = module_->kernel(kernel);
  ASSERT_TRUE(info) << kernel;
  ASSERT_EQ(params.size(), info->parameter_bytes);
  const RegionCode* by_region =
      regions && !mode.record && !mode.control && !mode.precision ? module_->regions(kernel, mode.check) : nullptr;

  parameter_bytes_ = info->parameter_bytes;
  ExecContext exec;
  exec.services = &services;
  exec.shadow = shadow_.data();
  exec.machine = this;
  exec.shadows = shadows;
  LaunchContext launch;
  launch.exec = &exec;
  launch.params = params.data();
  launch.site_stop = site_stop.data();
  std::uint32_t n[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
  std::copy(n, n + 3, launch.nctaid);
  std::copy(b, b + 3, launch.ntid);
  launch.dynamic_shared = dynamic_shared;
  launch.total_shared = info->total_shared(dynamic_shared);
  if (by_region) return run_regions(*by_region, launch, grid, block);
  auto code = module_->compile(kernel, mode);
  ASSERT_TRUE(code.has_value()) << code.error().message();
  std::uint32_t threads = block.x * block.y * block.z;
  for (std::uint32_t g = 0; g < grid.x * grid.y * grid.z && fault.empty() && !hung; ++g) {
    Block run;
    run.code = *code;
    run.launch = &launch;
    run.shared.assign(launch.total_shared + 16, 0xab);
    run.context.launch = &launch;
    run.context.shared = run.shared.data();
    run.context.linear = g;
    run.context.ctaid[0] = g % grid.x;
    run.context.ctaid[1] = g / grid.x % grid.y;
    run.context.ctaid[2] = g / grid.x / grid.y;
    run.threads.resize(threads);
    for (std::uint32_t t = 0; t < threads; ++t) {
      auto& thread = run.threads[t];
      thread.stack.resize(stack_bytes);
      thread.entries.resize(log_entries);
      ThreadContext& c = thread.context;
      c.block = &run.context;
      c.stack = thread.stack.data();
      c.stack_used = (*code)->frame_bytes;
      c.stack_bytes = stack_bytes;
      c.tid[0] = t % block.x;
      c.tid[1] = t / block.x % block.y;
      c.tid[2] = t / block.x / block.y;
      c.linear = t;
      c.lane = t % 32;
      c.warp = t / 32;
      c.log_cursor = thread.entries.data();
      c.log_end = c.log_cursor + log_entries;
    }
    run_block(run);
    visible = exec.visible;
  }
}

struct RunnerMemory final : RegionMemory {
  const std::vector<std::uint8_t>& shadow;
  std::uint32_t shared;
  RunnerMemory(const std::vector<std::uint8_t>& all, std::uint32_t bytes) : shadow(all), shared(bytes) {}
  bool legal(std::size_t, std::uint64_t low, std::uint64_t end) override {
    if (low >= shared_window) return end <= shared_window + shared;
    for (; low < end; ++low) {
      const std::uint64_t at = low - to_device(device_arena);
      if (at / 16 >= shadow.size() || at % 16 >= shadow[at / 16]) return false;
    }
    return true;
  }
};

void Runner::run_regions(const RegionCode& code, LaunchContext& launch, Dim grid, Dim block) {
  const std::uint32_t threads = block.x * block.y * block.z;
  std::vector<std::uint64_t> memory(region_memory_bytes(code, threads) / 8 + 8, 0xababababababababull);
  RunnerMemory legal(shadow_, launch.total_shared);
  for (std::uint32_t g = 0; g < grid.x * grid.y * grid.z && fault.empty(); ++g) {
    std::vector<std::uint8_t> shared(launch.total_shared + 16, 0xab);
    BlockContext context;
    context.launch = &launch;
    context.shared = shared.data();
    context.linear = g;
    context.ctaid[0] = g % grid.x;
    context.ctaid[1] = g / grid.x % grid.y;
    context.ctaid[2] = g / grid.x / grid.y;
    RegionContext c;
    c.block = &context;
    c.extent[0] = block.x, c.extent[1] = block.y, c.extent[2] = block.z;
    lay_out_regions(code, threads, reinterpret_cast<std::uint8_t*>(memory.data()), c);
    ThreadContext who;
    who.block = &context;
    RegionRun run(code, c, who, threads, &legal);
    while (run.next()) {
    }
    fast_regions += run.fast_regions();
    slow_threads += run.slow_threads();
  }
}

void Runner::run_block(Block& block) {
  ExecContext& exec = *block.launch->exec;
  while (fault.empty()) {
    bool ran = false;
    for (auto& t : block.threads) {
      if (t.done || t.waiting) continue;
      ran = true;
      exec.quantum = quantum;
      if (++steps > most_steps) {
        hung = true;
        return;
      }
      if (!t.started) std::memset(t.stack.data(), 0, 4);
      t.started = true;
      t.state = Step(block.code->entry(&t.context, t.stack.data()));
      // After a step, or two, or three…: threads go on in other code than that in which they stopped.
      if (block.code->improve && t.state != Step::exited && t.state != Step::fault && steps > improved_ % 8) {
        ++improved_;
        std::exchange(block.code->improve, {})();
      }
      switch (t.state) {
        case Step::exited: t.done = true; break;
        case Step::visible:
        case Step::spin: stops.push_back({t.state, t.context.pending_address}); break;
        case Step::fault:
          if (fault.empty()) fault = "fault without a reason";
          return;
        case Step::async_wait: break;
        default: t.waiting = true;
      }
      if (t.done) RunnerServices::drain(&t.context, t.entries.data());
    }
    if (!ran) {
      bool all = true;
      for (auto& t : block.threads) all &= t.done;
      if (all) return;
      rendezvous(block);
    }
  }
}

// Everybody waits: completes what is complete.
void Runner::rendezvous(Block& block) {
  bool progress = false;
  // Barriers by number; a count of 0 means all threads that are not done.
  std::map<std::uint64_t, std::vector<Block::Thread*>> barriers;
  std::uint32_t alive = 0;
  for (auto& t : block.threads) {
    alive += !t.done;
    if (!t.done && t.state == Step::barrier) barriers[t.context.arg[0]].push_back(&t);
  }
  for (auto& [number, waiting] : barriers) {
    std::uint64_t count = waiting[0]->context.arg[1];
    if (waiting.size() < (count ? count : alive)) continue;
    progress = true;
    std::uint64_t sum = 0;
    const Site& site = module_->sites()[waiting[0]->context.pending_site];
    for (auto* t : waiting) sum += t->context.arg[2];
    std::uint64_t answer = site.opcode.find("popc") != std::string::npos   ? sum
                           : site.opcode.find(".and") != std::string::npos ? sum == waiting.size()
                                                                           : sum != 0;
    for (auto* t : waiting) {
      t->context.result[0] = answer;
      t->waiting = false;
    }
  }
  // Warps: all lanes that are alive are at one rendezvous.
  for (std::size_t first = 0; first < block.threads.size(); first += 32) {
    std::vector<Block::Thread*> lanes;
    bool complete = true;
    for (std::size_t n = first; n < std::min(first + 32, block.threads.size()); ++n) {
      auto& t = block.threads[n];
      if (t.done) continue;
      if (t.state != Step::warp)
        complete = false;
      else
        lanes.push_back(&t);
    }
    if (lanes.empty() || (!complete && lanes[0]->context.arg[0] != std::uint64_t(WarpOp::activemask))) continue;
    progress = true;
    auto lane_value = [&](std::uint32_t lane, unsigned n) -> std::uint64_t {
      for (auto* t : lanes)
        if (t->context.lane == lane) return t->context.arg[n];
      return 0;
    };
    std::uint32_t present = 0;
    for (auto* t : lanes) present |= 1u << t->context.lane;
    if (WarpOp(lanes[0]->context.arg[0]) == WarpOp::tensor) {
      auto lane_at = [&](std::uint32_t lane) -> ThreadContext* {
        for (auto* t : lanes)
          if (t->context.lane == lane) return &t->context;
        return nullptr;
      };
      run_tensor(
          lanes[0]->context.arg[2], [&](unsigned l) { return lane_at(l) ? lane_at(l)->arg : nullptr; },
          [&](unsigned l) { return lane_at(l) ? lane_at(l)->result : nullptr; });
      std::array<ThreadContext*, tensor_lanes> there{};
      for (unsigned l = 0; l < tensor_lanes; ++l) there[l] = lane_at(l);
      if (mode.precision) run_tensor_shadows(lanes[0]->context.arg[2], there);
    }
    std::map<ThreadContext*, RegisterShadow> shuffled; // as they were before anyone goes on
    for (auto* t : lanes) {
      ThreadContext& c = t->context;
      std::uint64_t* r = c.result;
      auto each = [&](auto f) {
        for (auto* o : lanes) f(o->context);
      };
      switch (WarpOp(c.arg[0])) {
        case WarpOp::shfl_up:
        case WarpOp::shfl_down:
        case WarpOp::shfl_bfly:
        case WarpOp::shfl_idx: {
          std::uint32_t bval = c.arg[3] & 31, cval = c.arg[4] & 31, mask = c.arg[4] >> 8 & 31, lane = c.lane;
          std::uint32_t max_lane = (lane & mask) | (cval & ~mask), min_lane = lane & mask, j;
          bool p;
          switch (WarpOp(c.arg[0])) {
            case WarpOp::shfl_up:
              j = lane - bval;
              p = std::int32_t(j) >= std::int32_t(max_lane);
              break;
            case WarpOp::shfl_down:
              j = lane + bval;
              p = j <= max_lane;
              break;
            case WarpOp::shfl_bfly:
              j = lane ^ bval;
              p = j <= max_lane;
              break;
            default: j = min_lane | (bval & ~mask); p = j <= max_lane;
          }
          if (!p) j = lane;
          r[0] = lane_value(j, 2);
          r[1] = p;
          if (const std::uint64_t from = mode.precision ? lane_value(j, 6) : 0)
            shuffled[&c] = *reinterpret_cast<const RegisterShadow*>(from);
          break;
        }
        case WarpOp::vote_ballot:
          r[0] = 0;
          each([&](ThreadContext& o) { r[0] |= o.arg[2] << o.lane; });
          break;
        case WarpOp::vote_all:
          r[0] = 1;
          each([&](ThreadContext& o) { r[0] &= o.arg[2]; });
          break;
        case WarpOp::vote_any:
          r[0] = 0;
          each([&](ThreadContext& o) { r[0] |= o.arg[2]; });
          break;
        case WarpOp::match_any:
          r[0] = 0;
          each([&](ThreadContext& o) { r[0] |= std::uint64_t(o.arg[2] == c.arg[2]) << o.lane; });
          break;
        case WarpOp::redux_add:
          r[0] = 0;
          each([&](ThreadContext& o) { r[0] += o.arg[2]; });
          break;
        case WarpOp::activemask: r[0] = present; break;
        case WarpOp::elect:
          r[0] = std::uint32_t(__builtin_ctz(present));
          r[1] = r[0] == c.lane;
          break;
        default: break;
      }
    }
    for (const auto& [c, shadow] : shuffled)
      if (c->arg[7]) *reinterpret_cast<RegisterShadow*>(c->arg[7]) = shadow;
    for (auto* t : lanes) {
      t->waiting = false;
      t->state = Step::visible;
    }
  }
  if (!progress) hung = true;
  if (hung) fault = "stuck";
}

}  // namespace deadheat::engine
