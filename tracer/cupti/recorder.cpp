#include "tracer/cupti/recorder.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tracer/cupti/activity.h"
#include "tracer/cupti/drain.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/no_signals.h"
#include "tracer/cupti/relaxed.h"
#include "tracer/cupti/session.h"
#include "tracer/cupti/waiting_threads.h"
#include "tracer/cupti/window.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::cupti {

using device_log::Control;

namespace {

constexpr std::uint32_t most_queued = 128;

constexpr std::size_t most_ended = 4096;

} // namespace

Recorder::Recorder(Session& session) : session_(session) {}
Recorder::~Recorder() = default;

Recorder::Buffers* Recorder::buffers(CUcontext context) {
  const MyTurn one(draining_, waiting_);
  auto found = buffers_.find(context);
  if (found != buffers_.end()) return found->second.get();
  std::unique_ptr<Buffers>& place = buffers_[context]; // null when that fails: not tried again
  auto made = std::make_unique<Buffers>();
  made->rings = Rings::make(context, session_.options().buffer << 20);
  if (!made->rings) {
    say_once("no memory for recording accesses: operations only");
    session_.incident("lost", "no memory for recording accesses: operations only");
    return nullptr;
  }
  place = std::move(made);
  return place.get();
}

std::uint64_t Recorder::spare_memory(CUcontext context) {
  const MyTurn one(draining_, waiting_);
  const auto found = buffers_.find(context);
  return found != buffers_.end() && found->second && !found->second->dead ? found->second->rings->spare() : 0;
}

bool Recorder::give_back_memory(CUcontext context) {
  const std::uint32_t given_back = given_back_;
  std::lock_guard one_thread(giving_back_);
  if (given_back != given_back_) return true; // another thread did, meanwhile
  if (!running_ || !spare_memory(context)) return false;
  const Relaxed relaxed;
  let_kernels_end(context, Unfinished::while_running);
  CUdeviceptr memory = 0;
  {
    const MyTurn one(draining_, waiting_);
    const auto found = buffers_.find(context);
    if (found == buffers_.end()) return false;
    Buffers& b = *found->second;
    catch_up(b);
    end_turns();
    std::lock_guard hold(lock_); // no launch is told to write
    if (b.dead || !unfinished_.none(context)) return false;
    InContext in(context);
    if (in.good()) memory = b.rings->shrink();
  }
  InContext in(context); // without a lock: it waits for kernels, which may wait for what other threads launch
  if (!memory || !in.good() || driver().cuMemFree_v2(memory) != CUDA_SUCCESS) return false;
  ++given_back_;
  say_once("the job needs the memory that accesses were recorded in: it has it back, and recording goes on with less");
  return true;
}

// ---- what is recorded

// Names may be thousands of characters long: each is looked at once, with room for the frame that std::regex takes for
// each character (some 300 bytes).
bool Recorder::matches(const std::string& kernel) {
  const std::string& wanted = session_.options().kernel;
  if (wanted.empty()) return true;
  const auto [known, fresh] = matches_.try_emplace(kernel);
  if (fresh) {
    constexpr std::size_t stack = std::size_t(64) << 20, most = 100'000;
    const auto has = [&](const std::string& name) {
      return std::regex_search(name.begin(), name.begin() + std::ptrdiff_t(std::min(name.size(), most)), *filter_);
    };
    const bool looked = on_stack_of(stack, [&] {
      if (!filter_) filter_ = std::make_unique<std::regex>(wanted);
      known->second = has(kernel) || has(ptx::demangle(kernel));
    });
    if (!looked) session_.incident("lost", "a kernel's name could not be compared with what is to be recorded");
  }
  return known->second;
}

bool Recorder::asked_for(const std::string& kernel) {
  std::lock_guard hold(lock_);
  return matches(kernel);
}

bool Recorder::is_paused() {
  std::lock_guard hold(lock_);
  return (in_range_ == 0 && session_.options().capture_range != "none") || budget_used_up_;
}

bool Recorder::wants(const std::string& kernel) {
  const TracerOptions& options = session_.options();
  std::lock_guard hold(lock_);
  const bool in_range = in_range_ > 0 || options.capture_range == "none";
  if (!options.accesses || !in_range || budget_used_up_ || !running_ || stopping_) return false;
  if (!matches(kernel)) return false;
  const std::uint64_t number = matched_++;
  return number >= options.launch_skip &&
         (options.launch_count == 0 || number - options.launch_skip < options.launch_count);
}

void Recorder::capture_range(const std::string& name, bool begins) {
  if (session_.options().capture_range != name) return;
  Window* window = session_.window();
  if (begins && window) window->begin();
  bool over = false;
  {
    std::lock_guard hold(lock_);
    if (begins)
      ++in_range_;
    else if (in_range_ > 0)
      over = --in_range_ == 0;
  }
  if (over && window) window->end();
}

bool Recorder::control(CUcontext context, const Kernel& kernel, Control& parameter, bool again) {
  Buffers* b = buffers(context);
  if (!b || b->dead) return false;
  std::lock_guard hold(lock_);
  parameter = Control{};
  parameter.rings = b->rings->head();
  parameter.control = next_control_++;
  parameter.ring_mask = b->rings->count() - 1;
  Controlled& controlled = controls_[parameter.control];
  controlled.code = kernel.code;
  controlled.again = again;
  controlled.buffers = b;
  return true;
}

std::shared_ptr<RecordedLaunch> Recorder::expect(std::uint32_t control, const device_log::Shape& shape) {
  auto launch = std::make_shared<RecordedLaunch>(session_, shape);
  std::lock_guard hold(lock_);
  Controlled& controlled = controls_[control];
  if (controlled.buffers) launch->whole_ = controlled.buffers->whole;
  launch->tickets_ = controlled.buffers;
  if (!controlled.buffers || controlled.buffers->dead) {
    launch->abandoned_ = true;
    return launch;
  }
  if (controlled.again) launch->exited_in_.resize(controlled.buffers->rings->count());
  launch->unfinished_ = unfinished_.begin(controlled.buffers->rings->context());
  controlled.launches.push_back(launch);
  wake_.notify_all();
  return launch;
}

void Recorder::cancel(std::uint32_t control, const std::shared_ptr<RecordedLaunch>& launch) {
  {
    std::lock_guard hold(launch->lock_);
    launch->abandoned_ = true;
  }
  std::lock_guard hold(lock_);
  auto found = controls_.find(control);
  if (found == controls_.end()) return;
  if (std::erase(found->second.launches, launch)) unfinished_.end(launch->unfinished_);
  over(control, found->second);
}

void Recorder::over(std::uint32_t control, const Controlled& controlled) {
  const bool goes_on = controlled.holders > 0 || !controlled.launches.empty() || controlled.turns;
  if (!controlled.again || !goes_on) ended(control);
}

void Recorder::also_has(std::uint32_t control) {
  std::lock_guard hold(lock_);
  const auto found = controls_.find(control);
  if (found != controls_.end() && found->second.holders > 0) ++found->second.holders;
}

void Recorder::keeps(std::uint32_t control) { also_has(control); } // and nobody gives it back

void Recorder::no_longer_has(std::uint32_t control) {
  std::lock_guard hold(lock_);
  const auto found = controls_.find(control);
  if (found == controls_.end() || !found->second.again || found->second.holders == 0) return;
  if (--found->second.holders == 0) over(control, found->second);
}

// Its segments can still be told for a while.
void Recorder::ended(std::uint32_t control) {
  ended_.push_back(control);
  if (ended_.size() <= most_ended) return;
  controls_.erase(ended_.front());
  ended_.pop_front();
}

void Recorder::context_gone(CUcontext context) {
  const MyTurn one(draining_, waiting_);
  auto of = buffers_.extract(context);
  if (of.empty() || !of.mapped()) return;
  of.mapped()->dead = true;
  if (end_launches(*of.mapped())) session_.incident("lost", "a context was destroyed while its kernels ran");
  gone_.push_back(std::move(of.mapped())); // launches know it
}

void Recorder::let_kernels_end(CUcontext context, std::chrono::seconds most) {
  if (unfinished_.none()) return;
  Unfinished::Wait wait(unfinished_, context, most, Unfinished::Clock::now());
  while (running_ && !finishing_ && !stopping_ && !wait.over(Unfinished::Clock::now()))
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void Recorder::queued(CUcontext context) {
  if (queued_.fetch_add(1, std::memory_order_relaxed) < most_queued || unfinished_.none()) return;
  let_kernels_end(context, Unfinished::while_running);
  queued_ = 0;
}

// What lies before the launch in its stream: it would wait for it in any case. But that may wait for what the host does
// next: once it was waited for in vain, later launches wait less long.
void Recorder::before_launch(CUcontext context, CUstream stream) {
  if (queued_ < most_queued || session_.captures() > 0 || !driver().cuStreamQuery) return;
  if (!unfinished_.none()) return queued(context);
  const auto most = queue_stood_still_ ? Unfinished::while_loading : Unfinished::while_running;
  const auto begun = Unfinished::Clock::now();
  while (driver().cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
    if (Unfinished::Clock::now() - begun > most) {
      queue_stood_still_ = true;
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  queued_ = 0;
}

void Recorder::let_write() {
  constexpr int most_idle = 10'000; // milliseconds
  Session::Headway headway(session_);
  for (int idle = 0; session_.journal().is_full() && !finishing_ && !stopping_;) {
    if (!running_ || idle == most_idle) {
      session_.cut_off("too much is to be written, and nobody gets on with it: nothing more is recorded");
      std::lock_guard hold(lock_);
      budget_used_up_ = true;
      return;
    }
    wake_.notify_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    idle = headway.made() ? 0 : idle + 1;
  }
}

// ---- its thread

void Recorder::run() {
  const Own own;
  const OwnThread own_thread;
  thread_ = pthread_self();
  session_.works_here();
  // Nobody waits for this thread where only operations are recorded: it need not drive one of the program's from its
  // core.
  const bool alone = !session_.options().accesses;
  const auto idle = std::chrono::milliseconds(alone ? 50 : 20);
  const sched_param none{};
  if (alone) sched_setscheduler(0, SCHED_BATCH, &none);
  auto flushed = std::chrono::steady_clock::now();
  bool relaxed = false;
  while (!stopping_) {
    if (finishing_) return session_.finish(status_, true);
    try {
      bool any = false;
      if (!unfinished_.none()) {
        if (!std::exchange(relaxed, true)) Relaxed::from_now_on(); // the program may capture meanwhile
        std::lock_guard one(draining_);
        for (auto& [context, b] : buffers_) any |= b && drain(*b);
        end_turns();
      }
      session_.journal().pump(session_.writer());
      const auto now = std::chrono::steady_clock::now();
      if (now - flushed > std::chrono::milliseconds(500)) {
        if (Activity* activity = session_.activity()) activity->write(session_.writer(), false);
        session_.writer().flush();
        flushed = now;
      }
      if (any && waiting_ == 0) continue;
    } catch (...) {
    }
    std::unique_lock hold(wake_lock_);
    wake_.wait_for(hold, !unfinished_.none() ? std::chrono::milliseconds(1) : idle);
  }
}

// The thread takes none of the program's signals, which may be blocked in all of the program's own threads.
void Recorder::start() {
  const NoSignals blocked;
  running_ = true;
  try {
    std::thread([this] {
      run();
      running_ = false;
    }).detach();
  } catch (...) {
    running_ = false;
    say("accesses are not recorded: there is no room for another thread");
    session_.incident("lost", "accesses were not recorded: there was no room for another thread");
  }
}

bool Recorder::finish_there(int status) {
  if (!running_ || stopping_) return false;
  status_ = status;
  session_.journal().haste();
  finishing_ = true; // seen soon: waking it takes a lock
  return true;
}

void Recorder::stop() {
  caught_up();
  release(); // kernels that still run, or that the program's last functions launch, find no reader
  stopping_ = true;
  wake_.notify_all();
  if (thread_ == pthread_self()) return;
  // The driver may go away as soon as this returns: the thread must be out of it.
  for (int i = 0; i < 2000 && running_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace deadheat::cupti
