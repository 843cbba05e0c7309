#include "tracer/cupti/recorded_launch.h"

#include <cstring>

#include "tracer/cupti/session.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

using device_log::SegmentHeader;

namespace {

// A launch that has written something, and nothing for so long, hangs: all its threads wait at barriers, or it computes
// without touching memory. Whoever kills the job must find who waits in the trace.
constexpr std::chrono::seconds silence(10);
constexpr unsigned least_looks = 500; // in that time: else it was this process that stood still
constexpr std::uint64_t most_held = std::uint64_t(128) << 20; // of a launch that is not put in order before its end

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
    if (in_window_ && shape.uses_textures)
      window->spoil("a kernel that uses textures or surfaces was launched, whose objects are not kept");
  }
}

bool RecordedLaunch::write(trace::TraceWriter& writer, bool last_chance) {
  switch (arrive(writer, last_chance, true)) {
    case Arrival::all: break;
    case Arrival::silent: stall(writer); return false;
    case Arrival::more: return false;
  }
  if (!stalled_) writing_->log.finish();
  end();
  return true;
}

RecordedLaunch::Arrival RecordedLaunch::arrive(trace::TraceWriter& writer, bool last_chance, bool settle) {
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
      over |= abandoned_ || over_;
    }
    if (stalled_ && !batch.empty())
      session_.incident("lost", "a launch was silent for long and then went on: accesses after that are missing");
    for (const auto& [round, bytes] : batch)
      if (!stalled_) take_in(round, bytes);
    const auto now = std::chrono::steady_clock::now();
    if (!batch.empty()) {
      heard_ = now;
      looks_ = 0;
    }
    if (settle && !stalled_ && !complete && whole > writing_->settled && is_large()) {
      writing_->log.settle(whole);
      writing_->settled = whole;
    }
    if (!complete && batch.empty() && !over) {
      const bool silent = !stalled_ && heard_ && ++looks_ > least_looks && now - *heard_ > silence;
      return silent ? Arrival::silent : Arrival::more;
    }
    if (batch.empty()) break;
  }
  std::lock_guard hold(lock_);
  over_ = true;
  arrived_.clear();
  return Arrival::all;
}

void RecordedLaunch::take_in(std::uint32_t round, const std::vector<std::uint8_t>& bytes) {
  if (writing_->round && round > writing_->round) writing_->log.mark(writing_->round);
  writing_->round = round;
  for (std::size_t at = 0; at + sizeof(SegmentHeader) <= bytes.size();) {
    SegmentHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    // Else they are another module's: the drain has looked at them by what their launch was given.
    if (header.segment >= shape_.segments->size() || !(*shape_.segments)[header.segment].bytes) {
      session_.incident("lost", "accesses were recorded that make no sense");
      return;
    }
    writing_->log.segment(bytes.data() + at);
    at += (*shape_.segments)[header.segment].bytes;
  }
}

bool RecordedLaunch::is_large() const { return writing_ && writing_->log.held() > most_held; }

void RecordedLaunch::finish_together(const std::vector<RecordedLaunch*>& launches, trace::TraceWriter& writer) {
  std::vector<device_log::LaunchLog*> logs;
  for (const RecordedLaunch* launch : launches) logs.push_back(&launch->writing_->log);
  device_log::LaunchLog::put_in_order(logs);
  for (RecordedLaunch* launch : launches) {
    if (!launch->over_) {
      launch->stall(writer);
      continue;
    }
    launch->writing_->log.finish();
    launch->end();
  }
}

void RecordedLaunch::end() {
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
  missing(
      "accesses by texture or surface objects that were not seen being made, or of formats not followed, are missing",
      writing_->log.unknown_objects());
  missing("copies by tensor maps of interleaved layouts: their accesses to global memory are missing",
          writing_->log.unplaced());
  if (writing_->log.damaged()) session_.incident("lost", "accesses were recorded that make no sense");
  writing_.reset();
}

// All that came is written, with those who wait at barriers.
void RecordedLaunch::stall(trace::TraceWriter& writer) {
  stalled_ = true;
  writing_->log.finish(true);
  writer.write(trace::Incident{
      "stalled", 1, "a launch has not ended: nothing came from it for " + std::to_string(silence.count()) + " s"});
}

} // namespace deadheat::cupti
