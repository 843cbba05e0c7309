#include "replay/device/spread.h"

#include <signal.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "replay/device/default_floats.h"
#include "replay/device/device.h"
#include "replay/engine/independence.h"

namespace deadheat::device {

namespace {

using std::chrono::duration;

constexpr duration<double> least_work{0.5e-3}; // that is left of a launch, for threads to be started
constexpr duration<double> compile_for{20e-3}; // work that could have been shared, before a probe is compiled
constexpr unsigned groups_a_core = 4, most_groups = 64, most_workers = 16;
constexpr std::size_t most_settled = 8; // launches of a kernel, each with other arguments
constexpr double probes_a_block = 1.5; // more where elements interleave
constexpr std::uint64_t most_rounds = 4096; // of a block, before the machine takes over
constexpr std::uint64_t none = ~std::uint64_t(0);

std::uint32_t& axis_of(Dim3& d, unsigned axis) { return axis == 0 ? d.x : axis == 1 ? d.y : d.z; }

// SyncErrors, which a machine says of its blocks; nothing else is said where nobody watches.
class Errors final : public Sink {
 public:
  void record(const trace::Record& record) override {
    if (const auto* error = std::get_if<trace::SyncError>(&record)) said.push_back(*error);
  }
  void weak_accesses(const trace::Warp&, std::uint32_t, const LaneLogs&) override {}
  trace::Bytes keep(const void*, std::uint64_t) override { return {}; }
  trace::BlobHash keep_blob(const void*, std::uint64_t) override { return {}; }
  std::vector<trace::SyncError> said;
};

MachineOptions options_of_worker(MachineOptions options, Sink* sink) {
  options.cores = 1;
  options.sink = sink;
  options.improves_code = false; // others run it, and a Compiler is for one thread
  return options;
}

} // namespace

struct Spread::Worker {
  explicit Worker(const MachineOptions& options) : machine(options_of_worker(options, &errors)) {}
  Errors errors;
  Machine machine;
  std::uint64_t finished = 0;
  std::optional<trace::MemoryError> fault; // of the least of its blocks that faulted
  std::vector<std::unique_ptr<Block>> blocked; // cannot go on alone
};

Spread::Spread(Machine& machine) : machine_(machine) {}
Spread::~Spread() = default;

RunningCode Spread::running() const {
  for (const auto& worker : workers_)
    if (const RunningCode code = worker->machine.running(); code.thread)
      return {code.thread, code.turns, machine_.running_kernel_};
  return {};
}

bool Spread::possible(const Launch& launch) const {
  return launch.request.footprint && launch.resident.empty() && launch.early.empty() && !launch.named &&
         launch.blocks - launch.next_block > 1 && !machine_.options_.budget && !machine_.holds_ && !machine_.control_ &&
         !machine_.watch_;
}

// Probes of a launch's blocks, on all cores.
class Spread::Prober final : public engine::BlockProber {
 public:
  Prober(Spread& spread, Launch& launch, const engine::FootprintCode& code, const std::vector<Group>& groups)
      : spread_(spread), launch_(launch), code_(code), groups_(groups) {}

  void each(engine::RegionProbe probe, const engine::ProbeFold* folds, bool one_of_each,
            const std::function<void(std::size_t, const std::int64_t*)>& take) override {
    std::atomic<std::size_t> next{0};
    spread_.on_all_cores([&](Worker&) {
      One one(*this);
      one.context.folds = folds;
      for (std::size_t g; (g = next.fetch_add(1)) < groups_.size();) {
        const Group& group = groups_[g];
        for (std::uint32_t z = group.begin.z; z < group.end.z; ++z)
          for (std::uint32_t y = group.begin.y; y < group.end.y; ++y)
            for (std::uint32_t x = group.begin.x; x < group.end.x; ++x) {
              one.run(probe, {x, y, z});
              take(g, one.numbers.data());
              if (one_of_each) {
                y = group.end.y;
                z = group.end.z;
                break;
              }
            }
      }
    });
  }

  void list(engine::RegionProbe probe, std::size_t group, engine::ProbeList& list) override {
    One one(*this);
    one.context.listed = list.entries.data();
    one.context.listed_room = list.entries.size();
    one.run(probe, groups_[group].begin);
    list.count = one.context.listed_count;
  }

 private:
  struct One { // block at a time
    explicit One(Prober& prober) : grid(prober.launch_.request.grid), numbers(prober.code_.numbers()) {
      const MachineOptions& options = prober.spread_.machine_.options_;
      block.launch = &prober.launch_.context;
      block.nsmid = options.profile->multiprocessors;
      context.block = &block;
      context.ranges = numbers.data();
      for (int n = 0; n < 3; ++n) context.extent[n] = prober.launch_.context.ntid[n];
    }
    void run(engine::RegionProbe probe, const Dim3& at) {
      block.ctaid[0] = at.x, block.ctaid[1] = at.y, block.ctaid[2] = at.z;
      block.linear = std::uint32_t((std::uint64_t(at.z) * grid.y + at.y) * grid.x + at.x);
      block.smid = block.linear % block.nsmid;
      probe(&context);
    }
    const Dim3 grid;
    std::vector<std::int64_t> numbers;
    engine::BlockContext block;
    engine::RegionContext context;
  };

  Spread& spread_;
  Launch& launch_;
  const engine::FootprintCode& code_;
  const std::vector<Group>& groups_;
};

bool Spread::worth(Launch& launch, Known& known, duration<double> left) {
  const bool always = machine_.options_.spread_after == 0;
  if (!always && left < least_work) return false;
  if (!always && known.skip > 0) {
    --known.skip;
    return false;
  }
  if (!known.asked) {
    known.could_gain += left;
    if (!always && known.could_gain < compile_for) return false;
    known.asked = true;
    known.code = launch.request.footprint();
  }
  if (always || !known.code) return known.code != nullptr;
  // Probes may take as long as launches could have been shorter so far.
  const std::size_t cores = std::min<std::size_t>(machine_.options_.cores, most_workers);
  const std::vector<Group> one{{coordinates(launch.next_block, launch.request.grid), launch.request.grid}};
  engine::ProbeList unlisted;
  const Clock::time_point begin = Clock::now();
  Prober(*this, launch, *known.code, one).list(known.code->probe, 0, unlisted);
  const duration<double> cost = (Clock::now() - begin) * (double(launch.blocks) * probes_a_block / double(cores));
  known.budget += left * (1 - 1 / double(cores));
  if (known.budget < cost) return false;
  known.budget -= cost;
  return true;
}

void Spread::run(Launch& launch) {
  if (!possible(launch)) return;
  const DefaultFloats floats; // of probes, and of this thread's share of the blocks
  Known& known = kernels_[{launch.request.module, launch.request.kernel}];
  if (known.asked && !known.code) return;
  if (const Settled* how = settled(launch, known)) return spread(launch, *how, {});
  const Clock::time_point begin = Clock::now();
  const std::uint64_t first = launch.next_block;
  duration<double> taken{};
  for (const auto enough = std::chrono::microseconds(machine_.options_.spread_after); taken < enough;) {
    machine_.guarded([&] { machine_.run_guarded(launch, 1); });
    if (machine_.fault_ || !possible(launch)) return;
    taken = Clock::now() - begin;
  }
  const std::uint64_t done = launch.next_block - first;
  const duration<double> left = done ? taken / double(done) * double(launch.blocks - launch.next_block) : taken;
  if (!worth(launch, known, left)) return;
  Settled how = settle(launch, *known.code);
  if (how.groups.empty())
    known.skip = 1u << std::min(++known.failures, 10u);
  else
    known.failures = 0;
  if (!known.code->lasting) return spread(launch, how, left);
  if (known.settled.size() == most_settled) known.settled.erase(known.settled.begin());
  spread(launch, known.settled.emplace_back(std::move(how)), left);
}

const Spread::Settled* Spread::settled(const Launch& launch, Known& known) const {
  const LaunchRequest& request = launch.request;
  for (Settled& s : known.settled) {
    if (s.arguments != request.params || s.grid != request.grid || s.block != request.block ||
        s.cluster != request.cluster || s.dynamic_shared != request.dynamic_shared)
      continue;
    Environment& environment = *machine_.options_.environment;
    if (const std::uint64_t now = environment.changes(); s.changes != now) {
      const auto& touched = s.independence.touched;
      auto legal = [&](const auto& range) { return environment.legal(range.first, range.second - range.first); };
      // Legality is part of the answer: of one that there are no groups it may have been the cause.
      if (s.groups.empty() || !std::all_of(touched.begin(), touched.end(), legal)) {
        known.settled.erase(known.settled.begin() + (&s - known.settled.data()));
        return nullptr;
      }
      s.changes = now;
    }
    return &s;
  }
  return nullptr;
}

// The grid, cut along an axis: the same for all launches of the grid, whatever of them is done.
std::vector<Spread::Group> Spread::cut(const Launch& launch, unsigned axis) const {
  const Group all{{0, 0, 0}, launch.request.grid};
  std::uint32_t begin = 0;
  Dim3 extent = launch.request.grid;
  const std::uint32_t end = axis_of(extent, axis);
  const std::uint32_t count = std::min({end, unsigned(workers_.size()) * groups_a_core, most_groups});
  std::vector<Group> groups;
  for (std::uint32_t n = count; n > 0; --n) {
    const std::uint32_t share = (end - begin + n - 1) / n;
    Group group = all;
    axis_of(group.begin, axis) = begin;
    axis_of(group.end, axis) = begin += share;
    groups.push_back(group);
  }
  return groups;
}

template <typename Work> void Spread::on_all_cores(const Work& work) {
  active_.store(true, std::memory_order_release);
  sigset_t every, before;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before); // the program's handlers run on the program's threads
  std::vector<std::thread> threads;
  for (std::size_t n = 1; n < workers_.size(); ++n) {
    try {
      threads.emplace_back([&work, worker = workers_[n].get()] {
        const DefaultFloats floats;
        work(*worker);
      });
    } catch (const std::system_error&) {
      break; // fewer, then
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  work(*workers_[0]);
  for (std::thread& thread : threads) thread.join();
  active_.store(false, std::memory_order_release);
}

void Spread::run_groups(Launch& launch, const std::vector<Group>& groups) {
  std::atomic<std::size_t> next{0};
  const std::uint64_t begun = launch.next_block;
  on_all_cores([&](Worker& worker) {
    Machine& machine = worker.machine;
    Launch& mine = *machine.launches_.back();
    auto run_one = [&](std::uint64_t index) {
      Block* block = machine.admit(mine, index);
      for (std::uint64_t rounds = 0;; ++rounds) {
        const std::uint64_t before = machine.progress_;
        ++machine.turns_;
        if (machine.run_block(*block)) {
          if (machine.fault_) break;
          machine.retire(mine, block);
          ++worker.finished;
          return;
        }
        if (machine.fault_) break;
        // Threads that only used up their turns go on, for a while; nobody else can.
        if (machine.progress_ == before && (!machine.can_go_on(mine) || rounds > most_rounds)) {
          worker.blocked.push_back(std::move(mine.resident.back()));
          mine.resident.pop_back();
          return;
        }
      }
      if (!worker.fault || machine.fault_->block < worker.fault->block) worker.fault = machine.fault_;
      machine.fault_.reset();
      for (std::uint64_t least = first_fault_; index < least && !first_fault_.compare_exchange_weak(least, index);) {
      }
      mine.spare.push_back(std::move(mine.resident.back()));
      mine.resident.pop_back();
    };
    for (std::size_t g; (g = next.fetch_add(1)) < groups.size();) {
      const Group& group = groups[g];
      const Dim3& grid = launch.request.grid;
      for (std::uint32_t z = group.begin.z; z < group.end.z; ++z)
        for (std::uint32_t y = group.begin.y; y < group.end.y; ++y)
          for (std::uint32_t x = group.begin.x; x < group.end.x; ++x) {
            const std::uint64_t index = (std::uint64_t(z) * grid.y + y) * grid.x + x;
            if (index >= begun && index < first_fault_) run_one(index);
          }
    }
  });
}

// What the workers did becomes the machine's.
void Spread::take_over(Launch& launch, std::vector<std::unique_ptr<Worker>>& workers) {
  std::vector<trace::SyncError> said;
  const trace::MemoryError* fault = nullptr;
  launch.next_block = launch.blocks;
  for (auto& worker : workers) {
    Machine& machine = worker->machine;
    for (trace::SyncError& error : worker->errors.said)
      if (error.block <= first_fault_) said.push_back(std::move(error));
    worker->errors.said.clear();
    launch.finished += worker->finished;
    launch.triggered += worker->finished;
    worker->finished = 0;
    machine_.turns_ += std::exchange(machine.turns_, 0);
    machine_.progress_ += std::exchange(machine.progress_, 0);
    if (worker->fault && (!fault || worker->fault->block < fault->block)) fault = &*worker->fault;
    for (auto& block : worker->blocked) {
      block->launch = &launch;
      block->context.launch = &launch.context;
      launch.resident.push_back(std::move(block));
    }
    worker->blocked.clear();
    machine.end(machine.launches_.back().get());
  }
  if (launch.triggered == launch.blocks) ++machine_.triggers_;
  std::sort(launch.resident.begin(), launch.resident.end(),
            [](const auto& a, const auto& b) { return a->index < b->index; });
  std::stable_sort(said.begin(), said.end(), [](const auto& a, const auto& b) { return a.block < b.block; });
  for (trace::SyncError& error : said) machine_.say_sync_error(std::move(error));
  if (fault) machine_.fault_ = *fault;
  for (auto& worker : workers) worker->fault.reset();
}

void Spread::begin_workers() {
  const std::size_t wanted = std::min<std::size_t>(machine_.options_.cores, most_workers);
  while (workers_.size() < wanted) workers_.push_back(std::make_unique<Worker>(machine_.options_));
}

Spread::Settled Spread::settle(Launch& launch, const engine::FootprintCode& code) {
  begin_workers();
  Environment& environment = *machine_.options_.environment;
  Settled how{.arguments = launch.request.params,
              .grid = launch.request.grid,
              .block = launch.request.block,
              .cluster = launch.request.cluster,
              .dynamic_shared = launch.request.dynamic_shared,
              .groups = {},
              .independence = {},
              .changes = environment.changes()};
  const engine::TouchableMemory memory{launch.context.total_shared, [&](std::uint64_t low, std::uint64_t end) {
                                         return environment.legal(low, end - low);
                                       }};
  for (unsigned axis : {2u, 1u, 0u}) {
    std::vector<Group> groups = cut(launch, axis);
    if (groups.size() < 2) continue;
    Prober prober(*this, launch, code, groups);
    how.independence = engine::independence(code, groups.size(), memory, prober);
    if (how.independence.by == engine::Independence::By::none) continue;
    how.groups = std::move(groups);
    break;
  }
  return how;
}

void Spread::spread(Launch& launch, const Settled& how, duration<double> left) {
  if (how.groups.empty()) {
    ++dependent_;
    return;
  }
  ++launches_;
  // Code is as good for all of the launch as it is now.
  engine::KernelCode* code = launch.request.code && launch.request.code->improve ? launch.request.code : nullptr;
  if (code && left.count() > code->quick_for) {
    code->ran(left.count());
    code = nullptr;
  }
  const Clock::time_point begin = Clock::now();
  if (how.independence.by == engine::Independence::By::residues) ++interleaved_;
  first_fault_ = none;
  for (auto& worker : workers_) {
    LaunchRequest request = launch.request;
    request.footprint = nullptr;
    worker->machine.begin(std::move(request))->context.concurrent = 1;
  }
  run_groups(launch, how.groups);
  if (code) code->ran(duration<double>(Clock::now() - begin).count() * double(workers_.size()));
  take_over(launch, workers_);
}

} // namespace deadheat::device
