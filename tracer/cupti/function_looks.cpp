#include "tracer/cupti/function_looks.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/no_signals.h"
#include "tracer/cupti/relaxed.h"
#include "tracer/cupti/session.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto patience = 50ms; // with other threads, and with the device
constexpr auto patience_with_device = 10ms;
constexpr auto step = 50us;
constexpr std::chrono::nanoseconds most_spent = 5s; // in all
constexpr std::uint32_t most_looks = 256; // at functions of one code
constexpr std::uint32_t idle_looks = 8; // after so many that showed nothing
constexpr std::uint32_t vain_looks = 16; // in a row, where it was never alone
constexpr auto soon = 5ms; // a function that is ready begins by then
constexpr auto held_longest = 100ms;
constexpr int most_held_in_vain = 64;

} // namespace

// ---- what is known of functions

bool FunctionLooks::wanted(const Known& known) const {
  return known.looks < most_looks && known.in_vain < vain_looks && (known.wrote || known.alone < idle_looks) &&
         spent_.load(std::memory_order_relaxed) < most_spent.count();
}

bool FunctionLooks::wanted(const void* code) {
  std::lock_guard hold(lock_);
  return wanted(known_[code]);
}

void FunctionLooks::learn(const void* code, bool alone, bool wrote) {
  std::lock_guard hold(lock_);
  Known& known = known_[code];
  ++known.looks;
  known.alone += alone;
  known.in_vain = alone ? 0 : known.in_vain + 1;
  known.wrote |= wrote;
  const auto due = due_by_code_.find(code);
  if (wanted(known) || due == due_by_code_.end()) return;
  due_ -= due->second;
  due_by_code_.erase(due);
}

void FunctionLooks::comes(const void* code) {
  std::lock_guard hold(lock_);
  if (!wanted(known_[code])) return;
  ++due_by_code_[code];
  ++due_;
}

void FunctionLooks::comes_no_more(const void* code) {
  std::lock_guard hold(lock_);
  const auto due = due_by_code_.find(code);
  if (due == due_by_code_.end()) return;
  --due_;
  if (--due->second == 0) due_by_code_.erase(due);
  moved_.notify_all();
}

void FunctionLooks::let_functions_run() {
  if (due_ == 0 && looking_ == 0) return;
  const auto begun = Clock::now();
  struct Spent {
    FunctionLooks& looks;
    const Clock::time_point since;
    ~Spent() { looks.spent_ += std::chrono::nanoseconds(Clock::now() - since).count(); }
  } const spent{*this, begun};
  std::unique_lock hold(lock_);
  for (;;) {
    const std::uint64_t moved = begun_ + over_;
    const bool looking = looking_ != 0 && begun_ != not_held_for_;
    if (!looking && (looking_ != 0 || due_ == 0 || held_in_vain_ >= most_held_in_vain)) return;
    const auto most = std::min(begun + held_longest, Clock::now() + (looking ? patience + patience_with_device : soon));
    const bool goes_on =
        moved_.wait_until(hold, most, [&] { return begun_ + over_ != moved || (due_ == 0 && looking_ == 0); });
    if (goes_on && Clock::now() < begun + held_longest) continue;
    if (looking) not_held_for_ = begun_; // it may wait for what this thread does next
    if (!goes_on && !looking) ++held_in_vain_;
    return;
  }
}

void FunctionLooks::say() {
  std::uint64_t busy, left_out, no_room, not_followed, no_clocks;
  {
    std::lock_guard hold(lock_);
    busy = busy_, left_out = left_out_, no_room = no_room_, not_followed = not_followed_, no_clocks = no_clocks_;
  }
  const auto note = [&](std::uint64_t functions, const char* text) {
    if (functions) session_.incident("note", std::string("what host functions write: ") + text, functions);
  };
  note(busy, "not looked for where other threads of the process run meanwhile");
  note(left_out, "not looked for where the device may write meanwhile");
  note(no_room, "64 MiB of page-locked memory are looked at");
  note(no_clocks, "not looked for, since this system does not say for how long threads have run");
  note(not_followed, "not looked for beside kernels that may tell the host something, or be told");
}

// ---- the device

// Who asks it may have to wait for a lock of the driver's, which somebody holds who waits for the function: so a thread
// of the library's own asks, and nobody waits for that for long.
class FunctionLooks::Device {
 public:
  struct Question {
    CUcontext context = nullptr;
    std::vector<std::uint32_t> streams;
    std::vector<std::uint32_t> done; // of them
    bool over = false;
  };

  // Until then. What is done.
  std::vector<std::uint32_t> ask(CUcontext context, std::vector<std::uint32_t> streams, Clock::time_point until) {
    const auto question = std::make_shared<Question>();
    question->context = context;
    question->streams = std::move(streams);
    std::unique_lock hold(lock_);
    question_ = question;
    wake_.notify_all();
    answered_.wait_until(hold, until, [&] { return question->done.size() == question->streams.size(); });
    question->over = true;
    return question->done;
  }

  void run(Session& session) {
    const OwnThread own_thread;
    const Own own;
    if (driver().cuThreadExchangeStreamCaptureMode) Relaxed::from_now_on();
    std::unique_lock hold(lock_);
    for (;;) {
      wake_.wait(hold, [&] { return question_ != nullptr; });
      const std::shared_ptr<Question> question = std::exchange(question_, nullptr);
      while (!question->over && question->done.size() < question->streams.size()) {
        std::vector<std::uint32_t> done;
        hold.unlock();
        try {
          done = look(session, *question);
        } catch (...) {
        }
        hold.lock();
        question->done = std::move(done);
        answered_.notify_all();
        if (question->done.size() < question->streams.size()) wake_.wait_for(hold, step);
      }
    }
  }

 private:
  // A question of a stream that is being captured would end the capture (cuStreamQuery).
  static std::vector<std::uint32_t> look(Session& session, const Question& question) {
    std::vector<std::uint32_t> done;
    const Driver& d = driver();
    const bool asks = d.cuStreamQuery && d.cuCtxSetCurrent && question.context;
    if (!asks || d.cuCtxSetCurrent(question.context) != CUDA_SUCCESS) return done;
    std::lock_guard live(session.lock);
    for (const std::uint32_t stream : question.streams) {
      CUstream handle = nullptr;
      if (session.captures() == 0 && session.handle_of(stream, handle) && d.cuStreamQuery(handle) == CUDA_SUCCESS)
        done.push_back(stream);
    }
    return done;
  }

  std::mutex lock_;
  std::condition_variable wake_, answered_;
  std::shared_ptr<Question> question_;
};

std::shared_ptr<FunctionLooks::Device> FunctionLooks::device() {
  std::lock_guard hold(lock_);
  if (device_) return device_;
  auto made = std::make_shared<Device>();
  const NoSignals blocked;
  std::thread([made, &session = session_] { made->run(session); }).detach();
  return device_ = made;
}

// ---- one run

FunctionLooks::Look::Look(FunctionLooks& looks, const void* code, CUcontext context,
                          const std::atomic<std::uint64_t>& function)
    : looks_(looks), code_(code), context_(context), function_(function) {
  ++looks_.running_;
  looks_at_it_ = looks_.wanted(code) && !looks_.writes_.stopped();
  if (looks_at_it_) ++looks_.looking_;
  begun_ = ++looks_.begun_;
  looks_.comes_no_more(code);
  if (!looks_at_it_) return;
  const auto now = Clock::now(), until = now + patience;
  bool alone = false;
  while (can_be_told() && wait_until_quiet(until) && looks_.running_ == 1 &&
         device_is_done(Clock::now() + patience_with_device) && !(alone = is_quiet() && run_.none_is_ready(waits_))) {
  }
  if (alone) {
    std::uint64_t left_out = 0;
    keeps_ = looks_.writes_.keep_memory(left_out);
    std::lock_guard hold(looks_.lock_);
    looks_.no_room_ += left_out != 0;
    looks_.left_out_ += !without_.empty();
  }
  looks_.spent_ += std::chrono::nanoseconds(Clock::now() - now).count();
}

FunctionLooks::Look::~Look() {
  --looks_.running_;
  std::lock_guard hold(looks_.lock_);
  if (looks_at_it_) --looks_.looking_;
  ++looks_.over_;
  looks_.moved_.notify_all();
}

// Else there is no use in waiting.
bool FunctionLooks::Look::can_be_told() {
  const bool clocks = RunTimes::can_tell(), talk = clocks && looks_.writes_.may_write_beside(function_).anything;
  if (clocks && !talk) return true;
  std::lock_guard hold(looks_.lock_);
  ++(talk ? looks_.not_followed_ : looks_.no_clocks_);
  return false;
}

bool FunctionLooks::Look::is_quiet() {
  const RunTimes before = std::move(run_);
  const WaitingThreads::Waits waited = std::exchange(waits_, looks_.waiting.now());
  return run_.take() && run_.alike(before, waits_, waited);
}

bool FunctionLooks::Look::wait_until_quiet(Clock::time_point until) {
  waits_ = looks_.waiting.now();
  if (!run_.take()) return false;
  for (;;) {
    std::this_thread::sleep_for(step);
    if (is_quiet() && function_ != 0) return true;
    if (Clock::now() < until) continue;
    std::lock_guard hold(looks_.lock_);
    ++looks_.busy_;
    return false;
  }
}

bool FunctionLooks::Look::device_is_done(Clock::time_point until) {
  const HostWrites::MayWrite may = looks_.writes_.may_write_beside(function_);
  without_.clear();
  if (may.anything) return false;
  if (may.there.empty()) return true;
  std::vector<std::uint32_t> streams;
  for (const auto& [stream, span] : may.there) {
    if (stream && std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  }
  std::vector<std::uint32_t> done;
  if (!streams.empty()) done = looks_.device()->ask(context_, streams, until);
  for (const auto& [stream, span] : may.there) {
    if (!stream || std::find(done.begin(), done.end(), stream) == done.end()) without_.push_back(span);
  }
  return true;
}

std::vector<trace::Effects::Change> FunctionLooks::Look::over(bool told) {
  if (!looks_at_it_) return {};
  const auto now = Clock::now();
  std::vector<trace::Effects::Change> changes;
  const bool alone = keeps_ && !told && looks_.begun_ == begun_;
  if (alone) changes = looks_.writes_.memory_changed(without_);
  const bool quiet = alone && is_quiet(); // as long as the memory was looked at
  if (keeps_) looks_.writes_.forget_memory();
  if (alone && !quiet) {
    changes.clear();
    std::lock_guard hold(looks_.lock_);
    ++looks_.busy_;
  }
  looks_.learn(code_, quiet || told, !changes.empty());
  if (!changes.empty()) looks_.writes_.function_wrote(changes);
  looks_.spent_ += std::chrono::nanoseconds(Clock::now() - now).count();
  return changes;
}

} // namespace deadheat::cupti
