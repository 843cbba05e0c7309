#include "tracer/cupti/recorder.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "tracer/cupti/activity.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/rings.h"
#include "tracer/cupti/session.h"
#include "tracer/cupti/window.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::cupti {

using device_log::Control;
using device_log::SegmentHeader;

namespace {

// A launch that has written something, and nothing for so long, hangs: all its threads wait at barriers, or it computes
// without touching memory. Whoever kills the job must find who waits in the trace.
constexpr std::chrono::seconds silence(10);
constexpr unsigned least_looks = 500; // in that time: else it was this process that stood still
constexpr std::size_t most_ended = 4096;
constexpr std::uint64_t round_bytes = std::uint64_t(32) << 20;
constexpr std::uint64_t most_held = std::uint64_t(128) << 20; // of a launch that is not put in order before its end

// The thread's context, for as long as this lives.
class InContext {
 public:
  explicit InContext(CUcontext context) : context_(context) {
    driver().cuCtxGetCurrent(&before_);
    good_ = before_ == context || driver().cuCtxSetCurrent(context) == CUDA_SUCCESS;
  }
  ~InContext() {
    if (good_ && before_ != context_) driver().cuCtxSetCurrent(before_);
  }
  bool good() const { return good_; }

 private:
  CUcontext context_, before_ = nullptr;
  bool good_ = false;
};

// The thread takes no signals, for as long as this lives; nor does one that begins meanwhile, ever.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// Holds a lock that the drain's thread would take again at once, if it did not know that somebody waits.
class MyTurn {
 public:
  MyTurn(std::mutex& lock, std::atomic<int>& waiting) : lock_(lock) {
    ++waiting;
    lock_.lock();
    --waiting;
  }
  ~MyTurn() { lock_.unlock(); }
  MyTurn(const MyTurn&) = delete;
  MyTurn& operator=(const MyTurn&) = delete;

 private:
  std::mutex& lock_;
};

class WriterOutput final : public device_log::Output {
 public:
  WriterOutput(trace::TraceWriter& writer, TouchedPages* touched) : writer_(writer), touched_(touched) {}
  void access(const trace::AccessView& access) override {
    if (touched_) touched_->add(access);
    writer_.write(access);
  }
  void record(const trace::Record& record) override {
    if (touched_) touched_->add(record);
    writer_.write(record);
  }

 private:
  trace::TraceWriter& writer_;
  TouchedPages* touched_;
};

} // namespace

// ---- a launch's log

struct RecordedLaunch::Writing {
  Writing(trace::TraceWriter& writer, const device_log::Shape& shape, TouchedPages* touched)
      : output(writer, touched), log(shape, output) {}
  WriterOutput output;
  device_log::LaunchLog log;
  std::uint32_t round = 0, settled = 0; // of what was given last; up to which the log has been settled
};

RecordedLaunch::RecordedLaunch(Session& session, const device_log::Shape& shape) : session_(session), shape_(shape) {
  if (Window* window = session.window()) {
    in_window_ = window->open();
    touched_ = window->touched();
  }
}

bool RecordedLaunch::write(trace::TraceWriter& writer, bool last_chance) {
  static std::uint64_t places = 0; // launches are written one after the other
  shape_.places = &places;
  if (!writing_) writing_ = std::make_shared<Writing>(writer, shape_, touched_.get());
  for (;;) {
    std::deque<Arrived> batch;
    bool complete = false, over = last_chance;
    const std::uint32_t whole = whole_ ? whole_->load(std::memory_order_acquire) : 0; // before what has arrived
    {
      std::lock_guard hold(lock_);
      batch.swap(arrived_);
      complete = complete_;
      over |= abandoned_;
    }
    if (stalled_ && !batch.empty())
      session_.incident("lost", "a launch was silent for long and then went on: accesses after that are missing");
    for (const auto& [round, bytes] : batch) {
      if (stalled_) break;
      if (writing_->round && round > writing_->round) writing_->log.mark(writing_->round);
      writing_->round = round;
      for (std::size_t at = 0; at + sizeof(SegmentHeader) <= bytes.size();) {
        SegmentHeader header;
        std::memcpy(&header, bytes.data() + at, sizeof header);
        // Else they are another module's: the drain has looked at them by what their launch was given.
        if (header.segment >= shape_.segments->size() || !(*shape_.segments)[header.segment].bytes) {
          session_.incident("lost", "accesses were recorded that make no sense");
          break;
        }
        writing_->log.segment(bytes.data() + at);
        at += (*shape_.segments)[header.segment].bytes;
      }
    }
    const auto now = std::chrono::steady_clock::now();
    if (!batch.empty()) {
      heard_ = now;
      looks_ = 0;
    }
    if (!stalled_ && !complete && whole > writing_->settled && writing_->log.held() > most_held) {
      writing_->log.settle(whole);
      writing_->settled = whole;
    }
    if (!complete && batch.empty() && !over) {
      if (!stalled_ && heard_ && ++looks_ > least_looks && now - *heard_ > silence) stall(writer);
      return false;
    }
    if (batch.empty()) break;
  }
  if (!stalled_) writing_->log.finish();
  if (in_window_ && (!complete_ || writing_->log.damaged()))
    session_.window()->spoil("accesses of its launches are missing");
  if (!complete_)
    session_.incident("lost", "a launch did not end, or its end was not seen: some of its accesses are missing");
  auto missing = [&](const char* what, std::uint64_t count) {
    if (!count) return;
    session_.incident("lost", what, count);
    if (in_window_) session_.window()->spoil("accesses of its launches are missing");
  };
  missing("copies by tensor maps that were not seen being made: their accesses are missing",
          writing_->log.unknown_maps());
  missing("copies by tensor maps of im2col or interleaved layouts: their accesses to global memory are missing",
          writing_->log.unplaced());
  if (writing_->log.damaged()) session_.incident("lost", "accesses were recorded that make no sense");
  writing_.reset();
  return true;
}

// All that came is written, with those who wait at barriers.
void RecordedLaunch::stall(trace::TraceWriter& writer) {
  stalled_ = true;
  writing_->log.finish(true);
  writer.write(trace::Incident{
      "stalled", 1, "a launch has not ended: nothing came from it for " + std::to_string(silence.count()) + " s"});
}

// ---- buffers

struct Recorder::Buffers {
  std::unique_ptr<Rings> rings;
  std::uint32_t round = 1;
  std::uint64_t round_bytes = 0; // that were drained in it
  std::vector<std::uint64_t> reserved; // by ring, when the round began; empty: all of that has arrived
  std::shared_ptr<std::atomic<std::uint32_t>> whole = std::make_shared<std::atomic<std::uint32_t>>(0);
  std::atomic<bool> dead{false}; // what it holds is of no use any more, or the driver does not answer
};

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

// ---- what is recorded

bool Recorder::wants(const std::string& kernel) {
  const TracerOptions& options = session_.options();
  std::lock_guard hold(lock_);
  if (!filter_made_) {
    filter_made_ = true;
    if (!options.kernel.empty()) filter_ = std::make_unique<std::regex>(options.kernel);
  }
  const bool in_range = in_range_ > 0 || options.capture_range == "none";
  if (!options.accesses || !in_range || budget_used_up_ || !running_ || stopping_) return false;
  if (filter_ && !std::regex_search(kernel, *filter_) && !std::regex_search(ptx::demangle(kernel), *filter_))
    return false;
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
  if (!found->second.again) ended(control);
}

// Its segments can still be told for a while.
void Recorder::ended(std::uint32_t control) {
  ended_.push_back(control);
  if (ended_.size() <= most_ended) return;
  controls_.erase(ended_.front());
  ended_.pop_front();
}

// ---- the drain

const ptx::Segment* Recorder::segment_of(const SegmentHeader& header) {
  auto found = controls_.find(header.control);
  if (found == controls_.end() || !found->second.code) return nullptr;
  const std::vector<ptx::Segment>& segments = found->second.code->instrumentation.segments;
  return header.segment < segments.size() ? &segments[header.segment] : nullptr;
}

// A graph may be launched again before all of its last launch has been read. Blocks keep to their rings (layout.h), and
// its launches come one after the other: in each ring, what the first one's blocks wrote comes first.
std::size_t Recorder::Controlled::launch_of(std::uint32_t block) const {
  for (std::size_t i = 0; i + 1 < launches.size(); ++i) {
    const RecordedLaunch& launch = *launches[i];
    const std::uint64_t rings = launch.exited_in_.size(), ring = rings ? block % rings : 0;
    if (!rings) return i;
    const std::uint64_t blocks = launch.shape_.blocks / rings + (ring < launch.shape_.blocks % rings);
    if (launch.exited_in_[ring] < blocks * launch.shape_.threads) return i;
  }
  return launches.size() - 1;
}

void Recorder::segment(const SegmentHeader& header, std::uint64_t bytes, const std::uint8_t* at, std::uint32_t round) {
  const auto found = controls_.find(header.control);
  if (found == controls_.end() || found->second.launches.empty()) return;
  Controlled& controlled = found->second;
  const std::size_t number = controlled.launch_of(header.block);
  RecordedLaunch& launch = *controlled.launches[number];
  const bool within = kept_bytes_ < session_.options().budget << 20;
  const std::uint32_t exited = device_log::exits(*segment_of(header), controlled.code->sites, at);
  bool complete = false;
  {
    std::lock_guard hold(launch.lock_);
    if (within) {
      std::deque<RecordedLaunch::Arrived>& arrived = launch.arrived_;
      if (arrived.empty() || arrived.back().round != round || arrived.back().bytes.size() + bytes > (1u << 20)) {
        arrived.push_back({round, {}});
      }
      arrived.back().bytes.insert(arrived.back().bytes.end(), at, at + bytes);
    }
    launch.exited_ += exited;
    if (!launch.exited_in_.empty()) launch.exited_in_[header.block % launch.exited_in_.size()] += exited;
    complete = launch.complete_ = launch.exited_ >= std::uint64_t(launch.shape_.blocks) * launch.shape_.threads;
  }
  kept_bytes_ += bytes;
  budget_used_up_ |= !within;
  launch.unfinished_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (complete) {
    unfinished_.end(launch.unfinished_);
    controlled.launches.erase(controlled.launches.begin() + std::ptrdiff_t(number));
    if (!controlled.again) ended(header.control);
  }
}

// The segments of a stretch of a ring, up to one that is not finished. Returns where that is.
std::uint64_t Recorder::take(Buffers& b, std::uint64_t position, const std::uint8_t* bytes, std::uint64_t size) {
  const std::uint64_t end = position + size;
  std::lock_guard hold(lock_);
  while (!b.dead && position + sizeof(SegmentHeader) <= end) {
    SegmentHeader header;
    std::memcpy(&header, bytes, sizeof header);
    if (header.tag != (position ^ device_log::tag_key)) break;
    const ptx::Segment* known = segment_of(header);
    if (!known) b.dead = true; // nothing that follows can be read
    if (!known || position + known->bytes > end) break;
    segment(header, known->bytes, bytes, b.round);
    b.round_bytes += known->bytes;
    position += known->bytes;
    bytes += known->bytes;
  }
  return position;
}

void Recorder::begin_round(Buffers& b) {
  if (!b.reserved.empty() || b.round_bytes <= round_bytes) return;
  ++b.round;
  b.round_bytes = 0;
  b.reserved = b.rings->reserved();
}

void Recorder::end_round(Buffers& b) {
  if (b.reserved.empty() ||
      !std::equal(b.reserved.begin(), b.reserved.end(), b.rings->read().begin(), std::less_equal{})) {
    return;
  }
  b.reserved.clear();
  b.whole->store(b.round, std::memory_order_release);
}

// Reads what there is, and makes room for more. False: nothing came, and nothing will where it is dead.
bool Recorder::drain(Buffers& b) {
  if (b.dead) return false;
  Rings& rings = *b.rings;
  InContext in(rings.context());
  const std::vector<std::uint64_t> before = rings.read();
  const auto begun = std::chrono::steady_clock::now();
  bool good = in.good() && rings.refresh();
  const std::chrono::duration<double> refreshed = std::chrono::steady_clock::now() - begun;
  try {
    if (good && rings.gave_up() > 0) {
      abandon(b, "warps found no room in the buffer in time: from then on accesses are missing");
      const std::string why = refreshed > std::chrono::seconds(10)
                                  ? "the driver let nobody read for " + std::to_string(int(refreshed.count())) + " s"
                                  : "was the process stopped?";
      say_once("nobody read the buffer of accesses for long (" + why + "): later ones are not recorded");
    } else if (good) {
      begin_round(b);
      good = rings.fetch([&](std::uint64_t position, const std::uint8_t* bytes, std::uint64_t size) {
        return take(b, position, bytes, size);
      });
      if (b.dead) abandon(b, "accesses were recorded that make no sense");
      if (good) end_round(b);
    }
  } catch (...) { // where it stands nobody knows
    abandon(b, "there was no memory for accesses: from then on they are missing");
  }
  say_budget();
  if (!b.dead && !(good && rings.make_room()))
    abandon(b, "the driver failed while accesses were fetched: some are missing");
  return rings.read() != before;
}

// Nothing more is read: kernels do not wait for a reader, and what waits for accesses is written without them. In this
// order: what follows may find no memory.
void Recorder::abandon(Buffers& b, const char* why) {
  b.dead = true;
  InContext in(b.rings->context());
  if (in.good()) b.rings->release();
  end_launches(b);
  session_.incident("lost", why);
}

bool Recorder::end_launches(const Buffers& b) {
  bool any = false;
  std::lock_guard hold(lock_);
  for (auto& [number, controlled] : controls_) {
    if (controlled.buffers != &b) continue;
    any |= !controlled.launches.empty();
    for (const std::shared_ptr<RecordedLaunch>& launch : controlled.launches) {
      unfinished_.end(launch->unfinished_);
      std::lock_guard hold_launch(launch->lock_);
      launch->abandoned_ = true;
    }
    controlled.launches.clear();
  }
  return any;
}

void Recorder::context_gone(CUcontext context) {
  const MyTurn one(draining_, waiting_);
  auto of = buffers_.extract(context);
  if (of.empty() || !of.mapped()) return;
  of.mapped()->dead = true;
  if (end_launches(*of.mapped())) session_.incident("lost", "a context was destroyed while its kernels ran");
  gone_.push_back(std::move(of.mapped())); // launches know it
}

// Not under lock_: whoever submits takes the session's lock first.
void Recorder::say_budget() {
  {
    std::lock_guard hold(lock_);
    if (!budget_used_up_ || budget_said_) return;
    budget_said_ = true;
  }
  say("the budget of " + std::to_string(session_.options().budget) +
      " MiB is used up: accesses from here on are not recorded");
  session_.incident("budget", "the budget was used up: later accesses are missing");
  if (Window* window = session_.window()) window->spoil("the budget for accesses was used up");
}

// What had been reserved when this began is enough: other kernels may go on writing for ever, and wait for the host.
void Recorder::catch_up(Buffers& b) {
  const std::vector<std::uint64_t>& read = b.rings->read();
  std::vector<std::uint64_t> before = read;
  if (!drain(b)) return;
  const std::vector<std::uint64_t> wanted = b.rings->reserved();
  auto nearer = [&] {
    for (std::size_t ring = 0; ring < wanted.size(); ++ring) {
      if (read[ring] > before[ring] && read[ring] < wanted[ring]) return true;
    }
    return false;
  };
  while (nearer()) {
    before = read;
    drain(b);
  }
}

void Recorder::caught_up() {
  if (unfinished_.none()) return;
  const MyTurn one(draining_, waiting_);
  for (auto& [context, b] : buffers_) {
    if (b) catch_up(*b);
  }
}

void Recorder::let_kernels_end(CUcontext context, std::chrono::seconds most) {
  if (unfinished_.none()) return;
  Unfinished::Wait wait(unfinished_, context, most, Unfinished::Clock::now());
  while (running_ && !finishing_ && !stopping_ && !wait.over(Unfinished::Clock::now()))
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void Recorder::release() {
  if (unfinished_.none()) return; // a call of the driver that there is no need for: it may not answer any more
  const MyTurn one(draining_, waiting_);
  for (auto& [context, b] : buffers_) {
    if (!b || b->dead) continue;
    b->dead = true;
    InContext in(context);
    if (in.good()) b->rings->release();
  }
}

void Recorder::run() {
  Own own;
  thread_ = pthread_self();
  session_.works_here();
  // Nobody waits for this thread where only operations are recorded: it need not drive one of the program's from its
  // core.
  const bool alone = !session_.options().accesses;
  const auto idle = std::chrono::milliseconds(alone ? 50 : 20);
  const sched_param none{};
  if (alone) sched_setscheduler(0, SCHED_BATCH, &none);
  auto flushed = std::chrono::steady_clock::now();
  while (!stopping_) {
    if (finishing_) return session_.finish(status_, true);
    try {
      bool any = false;
      if (!unfinished_.none()) {
        std::lock_guard one(draining_);
        for (auto& [context, b] : buffers_) any |= b && drain(*b);
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
