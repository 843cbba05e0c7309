#include "tracer/cupti/recorder.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>

#include "tracer/cupti/activity.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/session.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

using device_log::Control;
using device_log::Head;
using device_log::RingState;
using device_log::SegmentHeader;

namespace {

constexpr std::uint32_t most_rings = 128;
constexpr std::uint64_t staging_bytes = std::uint64_t(64) << 20;
// A launch that has written something, and nothing for so long, hangs: all its threads wait at barriers, or it computes
// without touching memory. Whoever kills the job must find who waits in the trace.
constexpr std::chrono::seconds silence(10);
constexpr unsigned least_looks = 500; // in that time: else it was this process that stood still
constexpr std::size_t most_ended = 4096;
constexpr std::uint64_t round_bytes = std::uint64_t(32) << 20;
constexpr std::uint64_t most_held = std::uint64_t(128) << 20; // of a launch that is not put in order before its end

// Makes allocation possible while a stream of the thread is being captured.
class Relaxed {
 public:
  Relaxed() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
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
    bool complete = false;
    const std::uint32_t whole = whole_ ? whole_->load(std::memory_order_acquire) : 0; // before what has arrived
    {
      std::lock_guard hold(lock_);
      batch.swap(arrived_);
      complete = complete_;
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
    if (!complete && batch.empty() && !last_chance) {
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
  CUcontext context = nullptr;
  CUdeviceptr head = 0; // Head, then the states
  std::uint32_t rings = 0;
  std::uint64_t ring_bytes = 0;
  CUstream stream = nullptr;
  std::vector<std::uint8_t> states; // as last read
  std::uint8_t* pinned_states = nullptr;
  std::uint8_t* staging = nullptr;
  std::vector<std::uint64_t> read; // position of each ring up to which it was read
  std::uint64_t gave_up = 0;
  std::uint32_t round = 1;
  std::uint64_t round_bytes = 0; // that were drained in it
  std::vector<std::uint64_t> reserved; // by ring, when the round began; empty: all of that has arrived
  std::shared_ptr<std::atomic<std::uint32_t>> whole = std::make_shared<std::atomic<std::uint32_t>>(0);
  bool dead = false; // the driver does not answer any more
};

Recorder::Recorder(Session& session) : session_(session) {}
Recorder::~Recorder() = default;

Recorder::Buffers* Recorder::buffers(CUcontext context) {
  std::lock_guard one(draining_);
  auto found = buffers_.find(context);
  if (found != buffers_.end()) return found->second.get();
  std::unique_ptr<Buffers>& place = buffers_[context]; // null when that fails: not tried again
  Relaxed relaxed;
  const Driver& d = driver();
  auto made = std::make_unique<Buffers>();
  made->context = context;
  int multiprocessors = 0;
  CUdevice device = 0;
  d.cuCtxGetDevice(&device);
  d.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  made->rings = std::min<std::uint32_t>(most_rings, std::bit_floor(std::uint32_t(std::max(multiprocessors, 1))));
  std::uint64_t total = std::max<std::uint64_t>(session_.options().buffer, 64) << 20;
  void *states = nullptr, *staging = nullptr;
  CUdeviceptr data = 0;
  const std::uint64_t head_bytes = sizeof(Head) + made->rings * sizeof(RingState);
  while (total >= std::uint64_t(64) << 20) {
    made->ring_bytes = std::bit_floor(total / made->rings);
    if (d.cuMemAlloc_v2(&data, made->rings * (made->ring_bytes + device_log::slack_bytes)) == CUDA_SUCCESS) break;
    data = 0;
    total /= 2;
  }
  if (!data || d.cuMemAlloc_v2(&made->head, head_bytes) != CUDA_SUCCESS ||
      d.cuMemHostAlloc(&states, head_bytes, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS ||
      d.cuMemHostAlloc(&staging, staging_bytes, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS ||
      d.cuStreamCreateWithPriority(&made->stream, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
    say_once("no memory for recording accesses: operations only");
    session_.incident("lost", "no memory for recording accesses: operations only");
    return nullptr;
  }
  made->pinned_states = static_cast<std::uint8_t*>(states);
  made->staging = static_cast<std::uint8_t*>(staging);
  Head head;
  std::memcpy(made->pinned_states, &head, sizeof head);
  for (std::uint32_t i = 0; i < made->rings; ++i) {
    RingState state;
    state.reserved = device_log::first_position;
    state.limit = device_log::first_position + made->ring_bytes;
    state.base = data + i * (made->ring_bytes + device_log::slack_bytes);
    state.mask = made->ring_bytes - 1;
    std::memcpy(made->pinned_states + sizeof head + i * sizeof state, &state, sizeof state);
  }
  made->read.assign(made->rings, device_log::first_position);
  if (d.cuMemcpyHtoDAsync_v2(made->head, states, head_bytes, made->stream) != CUDA_SUCCESS ||
      d.cuStreamSynchronize(made->stream) != CUDA_SUCCESS) {
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
  if (!options.accesses || !in_range || budget_said_) return false;
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
  parameter.rings = b->head;
  parameter.control = next_control_++;
  parameter.ring_mask = b->rings - 1;
  Controlled& controlled = controls_[parameter.control];
  controlled.code = kernel.code;
  controlled.again = again;
  controlled.whole = b->whole;
  return true;
}

std::shared_ptr<RecordedLaunch> Recorder::expect(std::uint32_t control, const device_log::Shape& shape) {
  auto launch = std::make_shared<RecordedLaunch>(session_, shape);
  std::lock_guard hold(lock_);
  Controlled& controlled = controls_[control];
  launch->whole_ = controlled.whole;
  controlled.launches.push_back(launch);
  ++outstanding_;
  wake_.notify_all();
  return launch;
}

void Recorder::cancel(std::uint32_t control, const std::shared_ptr<RecordedLaunch>& launch) {
  std::lock_guard hold(lock_);
  auto found = controls_.find(control);
  if (found == controls_.end()) return;
  std::erase(found->second.launches, launch);
  if (!found->second.again) ended(control);
  --outstanding_;
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

void Recorder::segment(const SegmentHeader& header, std::uint64_t bytes, const std::uint8_t* at, std::uint32_t round) {
  const auto found = controls_.find(header.control);
  if (found == controls_.end() || found->second.launches.empty()) return;
  Controlled& controlled = found->second;
  RecordedLaunch& launch = *controlled.launches.front();
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
    complete = launch.complete_ = launch.exited_ >= std::uint64_t(launch.shape_.blocks) * launch.shape_.threads;
  }
  kept_bytes_ += bytes;
  if (!within && !budget_said_) {
    budget_said_ = true;
    say("the budget of " + std::to_string(session_.options().budget) +
        " MiB is used up: accesses from here on are not recorded");
    session_.incident("budget", "the budget was used up: later accesses are missing");
    if (Window* window = session_.window()) window->spoil("the budget for accesses was used up");
  }
  if (complete) {
    controlled.launches.erase(controlled.launches.begin());
    if (!controlled.again) ended(header.control);
    --outstanding_;
  }
}

bool Recorder::drain(Buffers& b) {
  const Driver& d = driver();
  if (b.dead) return false;
  CUcontext before = nullptr;
  d.cuCtxGetCurrent(&before);
  if (before != b.context && d.cuCtxSetCurrent(b.context) != CUDA_SUCCESS) {
    b.dead = true;
    return false;
  }
  const std::uint64_t head_bytes = sizeof(Head) + b.rings * sizeof(RingState);
  bool any = false;
  auto copy = [&](void* to, CUdeviceptr from, std::uint64_t bytes) {
    return d.cuMemcpyDtoHAsync_v2(to, from, bytes, b.stream) == CUDA_SUCCESS;
  };
  bool good = copy(b.pinned_states, b.head, head_bytes) && d.cuStreamSynchronize(b.stream) == CUDA_SUCCESS;
  std::uint64_t used = 0;
  struct Part {
    std::uint32_t ring;
    std::uint64_t from, bytes, at;
  };
  std::vector<Part> parts;
  auto take = [&] {
    if (parts.empty()) return;
    good = good && d.cuStreamSynchronize(b.stream) == CUDA_SUCCESS;
    for (const Part& part : parts) {
      if (!good) break;
      std::uint64_t position = part.from, at = part.at;
      std::lock_guard hold(lock_);
      while (position + sizeof(SegmentHeader) <= part.from + part.bytes) {
        SegmentHeader header;
        std::memcpy(&header, b.staging + at, sizeof header);
        if (header.tag != (position ^ device_log::tag_key)) break;
        const ptx::Segment* known = segment_of(header);
        if (!known) {
          b.dead = true; // nothing that follows can be read
          session_.incident("lost", "accesses were recorded that make no sense");
          break;
        }
        if (position + known->bytes > part.from + part.bytes) break;
        const std::uint64_t bytes = known->bytes;
        segment(header, bytes, b.staging + at, b.round);
        b.round_bytes += bytes;
        position += bytes;
        at += bytes;
        any = true;
      }
      b.read[part.ring] = position;
    }
    parts.clear();
    used = 0;
  };
  if (good) {
    Head head;
    std::memcpy(&head, b.pinned_states, sizeof head);
    if (head.gave_up > b.gave_up) {
      b.gave_up = head.gave_up;
      session_.incident("lost", "warps found no room in the buffer in time: their accesses are missing");
    }
  }
  if (good && b.reserved.empty() && b.round_bytes > round_bytes) {
    ++b.round;
    b.round_bytes = 0;
    for (std::uint32_t ring = 0; ring < b.rings; ++ring) {
      RingState state;
      std::memcpy(&state, b.pinned_states + sizeof(Head) + ring * sizeof state, sizeof state);
      b.reserved.push_back(state.reserved);
    }
  }
  std::vector<std::uint32_t> moved;
  for (std::uint32_t ring = 0; good && ring < b.rings; ++ring) {
    RingState state;
    std::memcpy(&state, b.pinned_states + sizeof(Head) + ring * sizeof state, sizeof state);
    const std::uint64_t end = std::min(state.reserved, b.read[ring] + b.ring_bytes);
    const std::uint64_t before_read = b.read[ring];
    while (good && b.read[ring] < end) {
      const std::uint64_t from = b.read[ring], in_ring = from & state.mask;
      // A segment that begins before the ring's end may reach beyond it.
      const std::uint64_t to_end = b.ring_bytes - in_ring;
      std::uint64_t bytes = std::min(end - from, to_end);
      if (bytes == to_end) bytes = std::min<std::uint64_t>(end - from, to_end + device_log::slack_bytes);
      bytes = std::min(bytes, staging_bytes);
      if (used + bytes > staging_bytes) take();
      good = copy(b.staging + used, state.base + in_ring, bytes);
      parts.push_back({ring, from, bytes, used});
      used += (bytes + 63) & ~std::uint64_t(63);
      if (bytes == end - from) break; // the last part of this ring
      take();
      if (b.read[ring] == from) break; // the segment there is not finished
    }
    if (b.read[ring] != before_read || (!parts.empty() && parts.back().ring == ring)) moved.push_back(ring);
  }
  take();
  if (good && !b.reserved.empty() &&
      std::equal(b.reserved.begin(), b.reserved.end(), b.read.begin(), std::less_equal{})) {
    b.reserved.clear();
    b.whole->store(b.round, std::memory_order_release);
  }
  if (good && !moved.empty()) {
    auto* limits = reinterpret_cast<std::uint64_t*>(b.staging);
    for (std::uint32_t ring : moved) {
      limits[ring] = b.read[ring] + b.ring_bytes;
      good =
          good && d.cuMemcpyHtoDAsync_v2(b.head + sizeof(Head) + ring * sizeof(RingState) + offsetof(RingState, limit),
                                         limits + ring, 8, b.stream) == CUDA_SUCCESS;
    }
    good = good && d.cuStreamSynchronize(b.stream) == CUDA_SUCCESS;
  }
  if (!good && !b.dead) {
    b.dead = true;
    session_.incident("lost", "the driver failed while accesses were fetched: some are missing");
  }
  if (before != b.context) d.cuCtxSetCurrent(before);
  return any;
}

void Recorder::caught_up() {
  if (outstanding_.load() == 0) return;
  std::lock_guard one(draining_);
  for (auto& [context, b] : buffers_) {
    while (b && drain(*b)) {
    }
  }
}

void Recorder::run() {
  Own own;
  auto flushed = std::chrono::steady_clock::now();
  while (!stopping_) {
    try {
      bool any = false;
      if (outstanding_.load() > 0) {
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
      if (any) continue;
    } catch (...) {
    }
    std::unique_lock hold(wake_lock_);
    wake_.wait_for(hold, std::chrono::milliseconds(outstanding_.load() > 0 ? 1 : 20));
  }
}

void Recorder::start() {
  running_ = true;
  std::thread([this] {
    run();
    running_ = false;
  }).detach();
}

void Recorder::stop() {
  caught_up();
  stopping_ = true;
  wake_.notify_all();
  // The driver may go away as soon as this returns: the thread must be out of it.
  for (int i = 0; i < 2000 && running_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace deadheat::cupti
