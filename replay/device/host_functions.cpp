// Host functions: when they begin, and what they change.
//
// What changes while one runs is its own doing where no other thread has run meanwhile: its operation's Effects, which
// are accesses like those of other operations. What orders them is what comes before the function in its stream, and
// what the host had waited for when it submitted it. Later waits of the host order nothing with it, unless host threads
// tell the function of them, which is not seen. So a function that may write begins before a wait is over by which the
// host learns of operations that it could meet: when it ends by itself, it was told nothing of them; when it does not,
// it may be told, runs on beside the host, and nothing is said of what it writes.
//
// To begin early costs something: what comes before the function in its stream is complete then, and the host counts as
// knowing it. Hence only functions that are known to have written, or not known at all.
#include <algorithm>
#include <optional>
#include <utility>

#include "replay/device/device_impl.h"
#include "replay/device/other_threads.h"

namespace deadheat::device {

// Of a host function that is about to run: will it be known to have written what changes meanwhile, and to be in no
// order but what streams and waits give? Kernels that reach memory of the host may tell it, and be told.
bool DeviceImpl::looks_at_host_functions() const { return is_looked_at() && !kernels_reach_host_; }

bool DeviceImpl::run_on_host(Pending& pending) {
  const std::uint32_t id = pending.operation.id;
  // Other host threads may drive the device while it runs, even to a fault, which forgets what is queued.
  const HostFunction function = std::exchange(pending.callback, {});
  pending.called = true;
  functions_queued_.erase(id);
  // What comes before it is complete when it begins, and it can tell any host thread, in ways that are not seen.
  deliveries_.begun(id);
  say(trace::HostWait{trace::HostWait::Kind::operation, id, 0, false, pending.operation.host_thread});
  const bool looks = looks_at_host_functions() && functions_running_ == 0;
  device_looks();
  std::vector<HostMemory::Run> by_device;
  if (others_) by_device = host_memory_.set_aside(); // else there is nothing that was not looked at
  const std::uint64_t begun = ++functions_begun_;
  ++functions_running_;
  driving_ = false;
  const bool only_begins = std::exchange(only_begins_, false);
  mirrors_.to_host();
  const std::optional<OtherThreads> others = looks ? std::optional<OtherThreads>(std::in_place) : std::nullopt;
  const RunsOn runs_on = function.run();
  const bool alone = others && !runs_on && functions_begun_ == begun && !others->have_run();
  mirrors_.to_device();
  driving_ = true;
  only_begins_ = only_begins;
  others_.reset();
  const bool wrote = alone && host_function_wrote(id);
  if (looks) learn_of(function, runs_on != nullptr, alone, wrote);
  if (!fault_ && !runs_on && !alone) {
    callbacks_until_ = next_operation_;
    device_looks();
  }
  host_memory_.put_back(by_device);
  expect_device_writes();
  if (fault_) return false;
  if (runs_on) {
    running_on_[id] = runs_on;
    return true;
  }
  --functions_running_;
  complete(id);
  return true;
}

// A function that is never alone is not looked at, however early it begins. One that ran on has to begin early again:
// else it would not be seen that it waits.
void DeviceImpl::learn_of(const HostFunction& function, bool runs_on, bool alone, bool wrote) {
  bool& writes = functions_write_.try_emplace(function.code, false).first->second;
  writes |= runs_on || (alone && wrote);
}

bool DeviceImpl::host_function_wrote(std::uint32_t operation) {
  trace::Effects effects{operation, {}};
  host_memory_.compare([&](std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes) {
    effects.changes.push_back({address, keep(data, bytes)});
    deliveries_.wrote(operation, {address, bytes, bytes},
                      [&] { return std::vector<std::uint8_t>(data, data + bytes); });
  });
  if (effects.changes.empty()) return false;
  say(effects);
  return true;
}

bool DeviceImpl::end_host_function() {
  const auto over = std::find_if(running_on_.begin(), running_on_.end(),
                                 [](const auto& function) { return function.second->load(std::memory_order_acquire); });
  if (over == running_on_.end()) return false;
  const std::uint32_t id = over->first;
  running_on_.erase(over);
  --functions_running_;
  callbacks_until_ = next_operation_;
  mirrors_.to_device();
  device_looks();
  // For the second time: it may have been told what the host knows by now (order/operation_clocks.h).
  say(trace::HostWait{trace::HostWait::Kind::operation, id, 0, false, 0});
  complete(id);
  return true;
}

// ---- in a replay

// Where the recorded run says that a function began, or that one ended that the host may have told something.
Progress DeviceImpl::replay_function_wait(const trace::HostWait& wait) {
  const bool begins = !std::exchange(functions_told_.at(wait.id), true);
  const auto has_begun = [&] {
    const auto function = incomplete_.find(wait.id);
    return function == incomplete_.end() || function->second.called;
  };
  const Progress progress = drive_until(has_begun, 0);
  if (begins && progress == Progress::done) deliveries_.begun(wait.id);
  return finish_wait(wait, progress,
                     begins || !is_done(wait.id) ? std::vector<std::uint32_t>() : std::vector<std::uint32_t>{wait.id});
}

Progress DeviceImpl::replay_function_end(std::uint32_t operation) {
  const auto function = incomplete_.find(operation);
  if (function == incomplete_.end()) return Progress::done;
  const Progress progress = drive_until([&] { return is_done(operation) || function->second.called; }, 0);
  if (progress == Progress::done && !is_done(operation)) complete(operation);
  return progress;
}

// ---- beginning early

void DeviceImpl::uses_shared_memory(const trace::Operation& operation) {
  if (!options_.live) return;
  bool uses = false;
  if (const auto* copy = std::get_if<trace::Copy>(&operation.what))
    uses = (!copy->pageable_source && Memory::in_shared_arena(copy->source.address)) ||
           (!copy->pageable_destination && Memory::in_shared_arena(copy->destination.address));
  else if (const auto* set = std::get_if<trace::Set>(&operation.what))
    uses = Memory::in_shared_arena(set->destination.address);
  if (uses) shared_users_[operation.stream] |= operation.graph_launch != 0;
}

void DeviceImpl::shared_memory_waited_for(const trace::HostWait& wait) {
  if (wait.kind == trace::HostWait::Kind::device) shared_users_.clear();
  if (wait.kind == trace::HostWait::Kind::stream) shared_users_.erase(wait.id);
}

// Is there an operation that its stream need not order with the function?
bool DeviceImpl::may_meet(const trace::Operation& function) const {
  return std::any_of(shared_users_.begin(), shared_users_.end(), [&](const auto& user) {
    return user.first != function.stream || (user.second && function.graph_launch);
  });
}

std::vector<std::uint32_t> DeviceImpl::functions_to_begin() const {
  std::vector<std::uint32_t> functions;
  for (const std::uint32_t id : functions_queued_) {
    const Pending& pending = incomplete_.at(id);
    const auto writes = functions_write_.find(pending.callback.code);
    if (writes != functions_write_.end() && !writes->second) continue;
    if (!may_meet(pending.operation)) continue;
    const bool in_vain = std::any_of(not_early_.begin(), not_early_.end(),
                                     [&](std::uint32_t launch) { return ordered_before(launch, {id}); });
    if (!in_vain) functions.push_back(id);
  }
  return functions;
}

// A wait is over, and the host is not told yet.
Progress DeviceImpl::begin_host_functions() {
  if (functions_queued_.empty() || !looks_at_host_functions()) return Progress::done;
  std::erase_if(not_early_, [&](std::uint32_t launch) { return is_done(launch); });
  const std::vector<std::uint32_t> functions = functions_to_begin();
  if (functions.empty()) return Progress::done;
  only_begins_ = true;
  const Progress progress = drive_until(
      [&] {
        return std::none_of(functions.begin(), functions.end(),
                            [&](std::uint32_t id) { return functions_queued_.count(id); });
      },
      0);
  only_begins_ = false;
  if (progress == Progress::fault) return progress;
  if (progress != Progress::done)
    for (const auto& [id, pending] : incomplete_)
      if (pending.launch) not_early_.insert(id);
  return Progress::done;
}

} // namespace deadheat::device
