// See body_turns.h; members of the recorder.
#include "tracer/cupti/body_turns.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "tracer/cupti/drain.h"
#include "tracer/cupti/recorder.h"

namespace deadheat::cupti {

namespace {

bool has_any(const BodyTurns& turns, const std::vector<std::uint32_t>& controls) {
  return std::any_of(turns.kernels.begin(), turns.kernels.end(), [&](const auto& kernel) {
    return std::find(controls.begin(), controls.end(), kernel.first) != controls.end();
  });
}

} // namespace

bool Recorder::expect(const std::shared_ptr<BodyTurns>& turns) {
  std::vector<std::uint32_t> controls;
  std::lock_guard hold(lock_);
  for (const auto& [control, kernel] : turns->kernels) {
    const auto found = controls_.find(control);
    const Buffers* const buffers = found == controls_.end() ? nullptr : found->second.buffers;
    if (!buffers || buffers->dead) return false;
    if (turns->context && turns->context != buffers->rings->context()) return false;
    turns->context = buffers->rings->context();
    controls.push_back(control);
  }
  for (const std::shared_ptr<BodyTurns>& other : turning_) {
    if (!has_any(*other, controls)) continue;
    other->spoiled = turns->spoiled = true;
    leave(*other);
  }
  turns->unfinished = unfinished_.begin(turns->context);
  turning_.push_back(turns);
  for (const auto& [control, kernel] : turns->kernels) {
    kernel->unfinished = turns->unfinished;
    if (!turns->spoiled) controls_[control].turns = kernel;
  }
  wake_.notify_all();
  return true;
}

void Recorder::ends_with(const std::shared_ptr<BodyTurns>& turns, CUevent end) {
  std::lock_guard hold(lock_);
  turns->end = end;
  if (end) return;
  turns->spoiled = turns->endless = true; // it stays among those that are not over
  leave(*turns);
  unfinished_.end(turns->unfinished);
}

void Recorder::not_launched(const std::shared_ptr<BodyTurns>& turns) {
  std::lock_guard hold(lock_);
  leave(*turns);
  unfinished_.end(turns->unfinished);
  std::erase(turning_, turns);
  turns->over = true;
}

void Recorder::cut_off(const BodyTurns& turns) {
  std::lock_guard hold(lock_);
  leave(turns);
  for (const auto& [control, kernel] : turns.kernels)
    std::replace(kernel->began.begin(), kernel->began.end(), std::uint64_t(0), ~std::uint64_t(0)); // not yet seen: last
}

void Recorder::leave(const BodyTurns& turns) {
  for (const auto& [control, kernel] : turns.kernels) {
    const auto found = controls_.find(control);
    if (found == controls_.end() || found->second.turns != kernel) continue;
    found->second.turns = nullptr;
    over(control, found->second);
  }
}

bool Recorder::let_end(const std::vector<std::uint32_t>& controls) {
  const auto until = Unfinished::Clock::now() + Unfinished::while_running;
  for (;;) {
    {
      std::lock_guard hold(lock_);
      const auto found =
          std::find_if(turning_.begin(), turning_.end(), [&](const auto& turns) { return has_any(*turns, controls); });
      if (found == turning_.end()) return true;
      if ((*found)->endless) return false;
    }
    if (!running_ || finishing_ || stopping_ || Unfinished::Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// A turn's blocks of a ring have ended there before the next turn's begin: as launch_of().
std::size_t Recorder::turn_of(const Controlled& controlled, const device_log::SegmentHeader& header,
                              std::uint64_t position) {
  KernelTurns& kernel = *controlled.turns;
  const std::uint64_t rings = controlled.buffers->rings->count(), ring = header.block % rings;
  const std::uint64_t blocks = kernel.shape.blocks / rings + (ring < kernel.shape.blocks % rings);
  std::size_t turn = kernel.first_open;
  while (turn < kernel.turns.size() &&
         (kernel.turns[turn]->complete_ || kernel.turns[turn]->exited_in_[ring] >= blocks * kernel.shape.threads))
    ++turn;
  if (turn == kernel.turns.size()) {
    auto made = std::make_shared<RecordedLaunch>(session_, kernel.shape);
    made->exited_in_.resize(rings);
    made->whole_ = controlled.buffers->whole;
    made->unfinished_ = kernel.unfinished;
    kernel.turns.push_back(std::move(made));
    kernel.began.push_back(0);
  }
  if (header.block == 0 && kernel.began[turn] == 0) kernel.began[turn] = position;
  return turn;
}

bool Recorder::has_ended(BodyTurns& turns) {
  const auto found = buffers_.find(turns.context);
  if (found == buffers_.end() || !found->second || found->second->dead) return false; // it was left
  Buffers& b = *found->second;
  if (turns.reserved.empty()) {
    const InContext in(turns.context);
    const CUresult result = driver().cuEventQuery(turns.end);
    if (result == CUDA_ERROR_NOT_READY) return false;
    if (result != CUDA_SUCCESS) turns.spoiled = true;
    drain(b);
    turns.reserved = b.rings->reserved();
  }
  // Others' segments that are not finished may lie before its own.
  return std::equal(turns.reserved.begin(), turns.reserved.end(), b.rings->read().begin(), std::less_equal{});
}

void Recorder::end_turns() {
  std::vector<std::shared_ptr<BodyTurns>> launched;
  {
    std::lock_guard hold(lock_);
    for (const std::shared_ptr<BodyTurns>& turns : turning_) {
      if (turns->end) launched.push_back(turns);
    }
  }
  for (const std::shared_ptr<BodyTurns>& turns : launched) {
    if (!has_ended(*turns)) continue;
    driver().cuEventDestroy_v2(std::exchange(turns->end, nullptr));
    std::lock_guard hold(lock_);
    leave(*turns);
    unfinished_.end(turns->unfinished);
    std::erase(turning_, turns);
    for (const auto& [control, kernel] : turns->kernels) {
      const bool whole =
          kernel->all_ended() && std::find(kernel->began.begin(), kernel->began.end(), 0) == kernel->began.end();
      if (!whole) turns->spoiled = true;
    }
    turns->over = true;
  }
}

} // namespace deadheat::cupti
