// Who runs next, until what the host waits for is done.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "replay/device/device_impl.h"
#include "replay/device/signals.h"
#include "replay/device/standstill.h"

namespace deadheat::device {

namespace {

// When nobody can go on, threads that spin may still be counting their looks. Where nothing tells that they do not
// (standstill.h), they get this many before it is a hang.
constexpr std::uint64_t rounds_of_spinning = 1024, looks_of_spinning = std::uint64_t(1) << 20;
// Of loops whose values change and that never end. Where a program waits they may be long and right: a minute of a
// GPU's time is many here.
constexpr std::uint64_t rounds_of_turns = 65536;
constexpr std::chrono::minutes turns_of_a_program{10};
constexpr std::uint64_t looks_while_held = 4096;
constexpr std::uint64_t rounds_of_beginning = 4; // of spinning, where nobody waits for it to end

} // namespace

bool DeviceImpl::is_ready(Pending& pending) {
  std::erase_if(pending.after, [&](std::uint32_t id) { return is_done(id); });
  if (!pending.after.empty()) return false;
  auto primary = incomplete_.find(pending.primary);
  return primary == incomplete_.end() ||
         (primary->second.launch && machine_->lets_dependents_begin(*primary->second.launch));
}

Progress DeviceImpl::stop_for_fault() {
  if (!fault_ && machine_->fault()) {
    if (options_.live && options_.sink) machine_->run_beside_fault();
    fault_ = machine_->fault();
    say(*fault_);
  }
  while (!machine_->launches().empty()) machine_->end(machine_->launches().back().get());
  incomplete_.clear();
  functions_queued_.clear();
  running_on_.clear();
  return Progress::fault;
}

Progress DeviceImpl::hang(std::string why) {
  stuck_ = std::move(why);
  return Progress::hang;
}

// Nobody can go on. Where a host function runs, it is its thread that the others wait for.
Progress DeviceImpl::stuck() {
  const bool host_runs =
      std::any_of(incomplete_.begin(), incomplete_.end(), [](const auto& entry) { return entry.second.called; });
  return host_runs ? Progress::pending : hang(describe_stuck());
}

std::string DeviceImpl::describe_stuck() const {
  std::string text;
  for (const auto& launch : machine_->launches()) text += (text.empty() ? "" : "; ") + machine_->stuck(*launch);
  if (text.empty()) text = "operations wait for each other";
  return text;
}

// Gives an operation its turn. True: something happened.
bool DeviceImpl::advance_operation(std::uint32_t id, std::uint64_t& turns, bool limited) {
  Pending& pending = incomplete_.at(id);
  if (!pending.launch) {
    if (pending.called || !is_ready(pending) || (holds_ && !holds_->may_begin(id))) return false;
    begin(pending);
    if (limited && turns) --turns;
    return true;
  }
  const std::uint64_t before = machine_->progress(), taken = machine_->turns();
  const Machine::Outcome outcome = machine_->run(*pending.launch, limited ? turns : 0);
  if (limited) turns -= std::min(turns, machine_->turns() - taken);
  if (outcome == Machine::Outcome::finished) complete(id);
  return outcome != Machine::Outcome::blocked || machine_->progress() != before;
}

// The smallest detour that brings about what held ones wait for, as far as operations matter.
bool DeviceImpl::advance_wanted(std::uint64_t& turns, bool limited) {
  const std::uint64_t before = machine_->progress();
  machine_->guarded([&] { holds_->detour(*machine_); });
  if (machine_->progress() != before || machine_->faulted()) return true;
  for (const Hold& hold : holds_->unmet()) {
    std::vector<std::uint32_t> todo;
    std::set<std::uint32_t> wanted;
    for (const auto& [id, pending] : incomplete_)
      if (hold.until.launch ? pending.operation.launch == hold.until.launch : id == hold.until.operation)
        todo.push_back(id);
    const std::vector<std::uint32_t> targets = todo;
    while (!todo.empty()) {
      const std::uint32_t id = todo.back();
      todo.pop_back();
      auto pending = incomplete_.find(id);
      if (pending == incomplete_.end() || !wanted.insert(id).second) continue;
      todo.insert(todo.end(), pending->second.after.begin(), pending->second.after.end());
      if (pending->second.primary && !pending->second.launch) todo.push_back(pending->second.primary);
    }
    for (std::uint32_t id : wanted) {
      const Pending& pending = incomplete_.at(id);
      const bool target = std::count(targets.begin(), targets.end(), id) != 0;
      const bool own = hold.held.launch && pending.operation.launch == hold.held.launch;
      // A running launch that is the target is the detour's business; the held thread's own cannot end before it.
      if (pending.launch && (target || own)) continue;
      if (advance_operation(id, turns, limited)) return true;
    }
  }
  return false;
}

bool DeviceImpl::stands_still(Standstill& standstill) {
  return !options_.live && standstill.reached(*machine_, holds_ ? holds_->seen() : 0);
}

// Nobody will go on by themselves; `spins`: some look at memory again and again. Lets those go on who do what is wrong,
// after saying so; false: there are none.
bool DeviceImpl::force(bool spins) {
  if (only_begins_ || (others_may_help_ && spins)) return false; // the host may still help
  std::uint64_t forced = 0;
  for (const auto& launch : machine_->launches()) forced += machine_->force_rendezvous(*launch);
  for (const auto& launch : machine_->launches()) forced += forced ? 0 : machine_->force_barriers(*launch);
  return forced != 0;
}

Progress DeviceImpl::drive_natural(const std::function<bool()>& done, std::uint64_t turns) {
  const bool limited = turns != 0;
  std::uint64_t rounds = 0, looks = machine_->spins();
  Standstill standstill;
  auto begun = std::chrono::steady_clock::now();
  auto begin_anew = [&] {
    begun = std::chrono::steady_clock::now();
    rounds = 0;
    looks = machine_->spins();
    standstill.moved();
  };
  for (;;) {
    if (functions_running_) spinning_.reset(); // the program runs
    if (fault_ || machine_->faulted()) return stop_for_fault();
    if (done()) return Progress::done;
    if (limited && turns == 0) return Progress::pending;
    if (machine_->over_budget()) return hang("the budget of visible operations is used up");
    bool moved = end_host_function() || (holds_ && holds_->waiting() && advance_wanted(turns, limited));
    for (auto next = incomplete_.begin(); !moved && next != incomplete_.end();) {
      const std::uint32_t id = (next++)->first; // an operation that completes leaves the map
      moved = advance_operation(id, turns, limited);
    }
    if (moved) {
      spinning_.reset();
      begin_anew();
      continue;
    }
    if (fault_ || machine_->faulted()) continue;
    if (!spinning_ && !functions_running_) spinning_.emplace(*machine_);
    // Nobody can go on by what is known: let those that spin look again.
    const std::uint64_t spun_for = machine_->spins() - looks;
    bool turning = false, parked = false;
    for (const auto& launch : machine_->launches()) {
      turning |= machine_->can_go_on(*launch);
      parked |= machine_->any_parked(*launch);
    }
    if (!limited) ++rounds;
    if (only_begins_ && rounds > rounds_of_beginning) return Progress::pending;
    const bool idle = !parked && !turning;
    const bool still = idle || (!limited && !turning && stands_still(standstill));
    const bool spun = !turning && rounds >= rounds_of_spinning && spun_for >= looks_of_spinning;
    if (!limited && holds_ && holds_->waiting() &&
        (still || spun_for >= looks_while_held || rounds >= looks_while_held)) {
      machine_->guarded([&] { holds_->release_one(*machine_); });
      begin_anew();
      continue;
    }
    const bool turned =
        rounds >= rounds_of_turns && (!options_.live || std::chrono::steady_clock::now() - begun >= turns_of_a_program);
    if (!limited && (still || spun || turned)) {
      if (!force(!idle)) return stuck();
      begin_anew();
    }
    for (const auto& launch : machine_->launches()) machine_->wake_all(*launch);
    if (limited) return Progress::pending;
  }
}

bool DeviceImpl::runs_alone(std::uint32_t operation) {
  if (!machine_->launches().empty()) return false;
  return std::none_of(incomplete_.begin(), incomplete_.end(),
                      [&](auto& other) { return other.first != operation && is_ready(other.second); });
}

bool DeviceImpl::describe(std::uint32_t id, NextAccess& next) {
  constexpr std::uint64_t most_bytes = 1 << 16, most_rows = 1 << 10;
  const trace::Operation& operation = incomplete_.at(id).operation;
  std::uint64_t bytes = 0;
  bool large = false;
  auto touch = [&](const trace::MemoryRange& range, bool writes) {
    bytes += range.bytes();
    large |= bytes > most_bytes || range.rows() > most_rows;
    for (std::uint64_t r = 0; !large && r < range.rows(); ++r)
      next.touched.push_back({0, range.row(r), range.width, writes});
  };
  if (auto* copy = std::get_if<trace::Copy>(&operation.what)) {
    if (!copy->pageable_source) touch(copy->source, false);
    if (!copy->pageable_destination) touch(copy->destination, true);
  } else if (auto* set = std::get_if<trace::Set>(&operation.what)) {
    touch(set->destination, true);
    std::uint32_t value = set->value;
    bool same = set->element_bytes <= 4;
    for (unsigned b = 1; b < std::min<unsigned>(set->element_bytes, 4); ++b)
      same &= (value >> 8 * b & 0xFF) == (value & 0xFF);
    for (Touched& t : next.touched) t.fill = same ? std::int16_t(value & 0xFF) : std::int16_t(-1);
  } else {
    const bool plain = std::holds_alternative<trace::Marker>(operation.what) ||
                       (std::holds_alternative<trace::Launch>(operation.what) && !effects_.count(id));
    if (!plain && !runs_alone(id)) options_.chooser->beyond("callbacks and allocations of several streams");
    return false;
  }
  if (large && !runs_alone(id)) options_.chooser->beyond("large copies of several streams");
  return !large && !next.touched.empty();
}

Progress DeviceImpl::drive_chosen(const std::function<bool()>& done, std::uint64_t turns) {
  const bool limited = turns != 0;
  if (limited && options_.chooser) options_.chooser->beyond("how far operations are when the host asks");
  std::uint64_t rounds = 0, looks = machine_->spins(), progress = machine_->progress();
  Standstill standstill;
  std::vector<std::uint32_t> ready;
  for (;;) {
    if (functions_running_) spinning_.reset(); // the program runs
    if (fault_ || machine_->faulted()) return stop_for_fault();
    if (done()) return Progress::done;
    if (limited && turns == 0) return Progress::pending;
    if (end_host_function()) continue;
    ready.clear();
    for (auto& [id, pending] : incomplete_)
      if (!pending.launch && !pending.called && is_ready(pending)) ready.push_back(id);
    std::uint32_t chosen = 0;
    const Launch* finished = nullptr;
    const std::uint64_t triggers = machine_->triggers(); // a dependent launch may have become ready since
    if (!spinning_) spinning_.emplace(*machine_);
    machine_->guarded([&] {
      while (!machine_->faulted() && !machine_->over_budget() && !(limited && turns == 0)) {
        for (const auto& launch : machine_->launches())
          if (launch->finished == launch->blocks) finished = launch.get();
        if (finished) return;
        chosen = control_->step(*machine_, ready);
        if (limited && turns) --turns;
        if (chosen || machine_->triggers() != triggers) return;
      }
    });
    if (machine_->faulted()) continue;
    if (finished) {
      spinning_.reset();
      complete(finished->request.operation);
      continue;
    }
    if (machine_->over_budget()) return hang("the budget of visible operations is used up");
    if (chosen == 0) continue;
    if (chosen != Control::nobody) {
      standstill.moved();
      begin(incomplete_.at(chosen));
      continue;
    }
    if (machine_->progress() != progress) {
      progress = machine_->progress();
      rounds = 0;
      looks = machine_->spins();
      standstill.moved();
    }
    bool parked = false;
    for (const auto& launch : machine_->launches()) parked |= machine_->any_parked(*launch);
    if (!limited && (!parked || options_.chooser || stands_still(standstill) ||
                     (++rounds >= rounds_of_spinning && machine_->spins() - looks >= looks_of_spinning))) {
      if (!force(parked)) return stuck();
      rounds = 0;
      standstill.moved();
    }
    for (const auto& launch : machine_->launches()) machine_->wake_all(*launch);
    if (limited) return Progress::pending;
  }
}

Progress DeviceImpl::drive(const std::vector<std::uint32_t>& until, std::uint64_t turns) {
  return drive_until(
      [&] { return std::all_of(until.begin(), until.end(), [&](std::uint32_t id) { return is_done(id); }); }, turns);
}

Progress DeviceImpl::drive_until(const std::function<bool()>& done, std::uint64_t turns) {
  if (fault_) return Progress::fault;
  while (end_host_function()) continue;
  if (done()) return Progress::done;
  DEADHEAT_CHECK(!driving_);
  driving_ = true;
  const struct End { // however it ends
    DeviceImpl& device;
    ~End() {
      device.driving_ = false;
      device.spinning_.reset();
    }
  } end{*this};
  mirrors_.to_device();
  if (options_.live && options_.sink) note_host_writes(0);
  others_.reset();
  if (!machine_->launches().empty()) expect_device_writes();
  const Progress progress = control_ ? drive_chosen(done, turns) : drive_natural(done, turns);
  if (progress == Progress::fault || progress == Progress::hang) deliveries_.end();
  host_looks();
  mirrors_.to_host();
  return progress;
}

// ---- what host and device see of each other's memory

// Of kernels that reach such memory by addresses in other memory nothing is known.
void DeviceImpl::expect_device_writes() {
  if (!others_ && is_looked_at() && device_writes_there_) others_.emplace();
}

// The calling thread is in here. Where no other has run, the device itself made what changed (kernels and sets do, in
// memory that is mapped or managed), and host_looks() tells what the host sees of it.
void DeviceImpl::device_looks() {
  if (!is_looked_at() || (others_ && !others_->have_run())) return;
  host_memory_.compare([&](std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes) {
    say(trace::HostWrite{address, keep(data, bytes)});
  });
}

void DeviceImpl::host_looks() {
  if (!options_.sink || host_memory_.empty()) return;
  host_memory_.compare([&](std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes) {
    const trace::Allocate* of = find_allocation(address);
    host_saw_.insert(of ? of->address : 0);
    say(trace::HostRead{0, address, keep(data, bytes)});
  });
}

Progress DeviceImpl::finish_wait(trace::HostWait wait, Progress progress, const std::vector<std::uint32_t>& until) {
  if (progress != Progress::done) return progress;
  if (watch_) watch_->settle(); // it may tell what runs on
  if (wait.kind == trace::HostWait::Kind::event && !wait.record_operation)
    wait.record_operation = order_.event_operation(wait.id);
  if (!printed_.empty()) {
    if (options_.live) std::fwrite(printed_.data(), 1, printed_.size(), stdout);
    if (options_.sink) say(trace::HostRead{0, 0, keep(printed_.data(), printed_.size())});
    printed_.clear();
  }
  shared_memory_waited_for(wait);
  deliveries_.waited_for(until);
  say(wait);
  forget_read(wait);
  return progress;
}

void DeviceImpl::begin_wait(const trace::HostWaitBegin& begin) {
  BegunWait& begun = begun_waits_[begin.host_thread];
  begun.wait = {begin.kind, begin.id, 0, false, begin.host_thread};
  if (begin.kind == trace::HostWait::Kind::event) begun.wait.record_operation = order_.event_operation(begin.id);
  begun.until = order_.host_waits(begun.wait);
  say(begin);
}

// What there was when the wait began, or is now, where nobody said that it began.
Progress DeviceImpl::wait_since_begin(trace::HostWait wait, std::vector<std::uint32_t>& until) {
  const auto begun = begun_waits_.find(wait.host_thread);
  const bool has_begun = begun != begun_waits_.end() && !wait.query && begun->second.wait.kind == wait.kind &&
                         begun->second.wait.id == wait.id;
  if (has_begun && !wait.record_operation) wait.record_operation = begun->second.wait.record_operation;
  until = has_begun ? begun->second.until : order_.host_waits(wait);
  Progress progress = drive(until, 0);
  if (progress == Progress::done) progress = begin_host_functions();
  progress = finish_wait(wait, progress, until);
  if (has_begun && progress == Progress::done) begun_waits_.erase(wait.host_thread); // others may have come and gone
  return progress;
}

Progress DeviceImpl::wait(const trace::HostWait& wait) {
  std::vector<std::uint32_t> until;
  const Progress progress = wait_since_begin(wait, until);
  if (options_.chooser && progress == Progress::done) options_.chooser->host_waited(until);
  return progress;
}

// A host that asks about what is complete may be waiting for something else: a flag that a host function sets, or that
// a kernel writes where the host sees it. What is incomplete goes on as it does where the answer is no.
Progress DeviceImpl::query(const trace::HostWait& wait) {
  const std::uint64_t z = (options_.seed + ++queries_) * 0x9E3779B97F4A7C15u, turns = 1 + (z >> 58);
  trace::HostWait asked = wait;
  asked.query = true;
  const std::vector<std::uint32_t> until = order_.host_waits(wait);
  const bool complete =
      !fault_ && std::all_of(until.begin(), until.end(), [&](std::uint32_t id) { return is_done(id); });
  Progress progress = drive(until, turns);
  if (progress == Progress::done) progress = begin_host_functions();
  progress = finish_wait(asked, progress, until);
  if (complete) advance(turns);
  return progress;
}

Progress DeviceImpl::wait_operation(std::uint32_t operation, std::uint32_t host_thread) {
  return wait({trace::HostWait::Kind::operation, operation, 0, false, host_thread});
}

// What has changed the host may have seen, and know by it of what has an address there and is complete; and of host
// functions, which may have written it. Where nothing that was queued has one, any kernel may have it from elsewhere.
bool DeviceImpl::advance(std::uint64_t visible_operations) {
  if (incomplete_.empty()) return false;
  struct Queued {
    std::uint32_t id;
    bool on_host;
    std::vector<std::uint64_t> shared;
    bool told = false;
  };
  std::vector<Queued> queued;
  for (const auto& [id, pending] : incomplete_)
    queued.push_back({id, std::holds_alternative<trace::HostCallback>(pending.operation.what), pending.shared});
  host_saw_.clear();
  drive({incomplete_.rbegin()->first}, std::max<std::uint64_t>(visible_operations, 1));
  for (const std::uint64_t changed : host_saw_) {
    const auto is_there = [&](std::uint64_t address) {
      const trace::Allocate* of = find_allocation(address);
      return of && of->address == changed;
    };
    const auto reaches = [&](const Queued& one) { return std::any_of(one.shared.begin(), one.shared.end(), is_there); };
    const bool any = std::any_of(queued.begin(), queued.end(), reaches);
    for (Queued& one : queued) one.told |= !any || one.on_host || reaches(one);
  }
  for (const Queued& one : queued) {
    if (!one.told || !is_done(one.id)) continue;
    deliveries_.waited_for({one.id});
    say(trace::HostWait{trace::HostWait::Kind::operation, one.id, 0, false, 0});
  }
  return !host_saw_.empty();
}

Progress DeviceImpl::drain() {
  for (const std::uint32_t function : options_.end_later)
    if (const Progress ended = replay_function_end(function); ended == Progress::fault || ended == Progress::hang)
      return ended;
  std::vector<std::uint32_t> all;
  for (const auto& [id, pending] : incomplete_) all.push_back(id);
  const Progress progress = drive(all, 0);
  deliveries_.end();
  return progress;
}

} // namespace deadheat::device
