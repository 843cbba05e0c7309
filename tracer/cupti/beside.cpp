#include "tracer/cupti/beside.h"

#include <algorithm>
#include <utility>

#include "tracer/cupti/recorded_launch.h"

namespace deadheat::cupti {

void Beside::stream_made(const trace::StreamCreate& stream) {
  if (stream.kind == trace::StreamCreate::Kind::legacy) legacy_.insert(stream.stream);
}

bool Beside::takes(std::uint32_t stream, const RecordedLaunch* accesses) const {
  if (!accesses || !accesses->exchanges() || legacy_.count(stream) || open_.size() >= most || apart_) return false;
  return std::none_of(open_.begin(), open_.end(), [&](const Launch& other) {
    return other.begun || other.stream == stream || other.accesses->tickets() != accesses->tickets();
  });
}

void Beside::add(std::uint32_t operation, std::uint32_t stream, std::shared_ptr<RecordedLaunch> accesses) {
  open_.push_back({operation, stream, std::move(accesses)});
  complete_.reset();
}

bool Beside::write(trace::TraceWriter& writer, bool last_chance) {
  if (open_.empty()) return true;
  if (!apart_ && !open_.front().begun) {
    switch (came(writer, last_chance)) {
      case Came::all: write_together(writer); break;
      case Came::apart: apart_ = true; break;
      case Came::more: return false;
    }
  }
  return apart_ ? write_one_by_one(writer, last_chance) : end(writer, last_chance);
}

void Beside::look(trace::TraceWriter& writer) {
  if (open_.empty()) return;
  const bool begun = apart_ || open_.front().begun;
  const Came now = begun ? Came::all : came(writer, false);
  if (now == Came::more) return;
  const auto time = std::chrono::steady_clock::now();
  if (!complete_) complete_ = time;
  if (begun || now == Came::apart || time - *complete_ > patience) write(writer, false);
}

// Where one hangs and the others have ended, or hang too, nothing more comes.
Beside::Came Beside::came(trace::TraceWriter& writer, bool last_chance) {
  using Arrival = RecordedLaunch::Arrival;
  bool more = false, large = false;
  for (Launch& launch : open_) {
    const Arrival arrival = launch.over ? Arrival::all : launch.accesses->arrive(writer, last_chance, false);
    launch.over = arrival == Arrival::all;
    more |= arrival == Arrival::more;
    large |= launch.accesses->is_large();
  }
  return large && more ? Came::apart : more ? Came::more : Came::all;
}

void Beside::write_together(trace::TraceWriter& writer) {
  std::vector<RecordedLaunch*> all;
  for (Launch& launch : open_) {
    all.push_back(launch.accesses.get());
    writer.write(trace::OperationBegin{launch.operation});
    launch.begun = true;
  }
  RecordedLaunch::finish_together(all, writer);
}

// Those that hang have to end.
bool Beside::end(trace::TraceWriter& writer, bool last_chance) {
  for (Launch& launch : open_)
    if (!launch.over) launch.over = launch.accesses->write(writer, last_chance);
  if (!std::all_of(open_.begin(), open_.end(), [](const Launch& launch) { return launch.over; })) return false;
  for (const Launch& launch : open_) writer.write(trace::OperationEnd{launch.operation});
  open_.clear();
  return true;
}

bool Beside::write_one_by_one(trace::TraceWriter& writer, bool last_chance) {
  while (!open_.empty()) {
    Launch& launch = open_.front();
    if (!std::exchange(launch.begun, true)) writer.write(trace::OperationBegin{launch.operation});
    if (!launch.accesses->write(writer, last_chance)) return false;
    writer.write(trace::OperationEnd{launch.operation});
    open_.erase(open_.begin());
  }
  apart_ = false;
  return true;
}

} // namespace deadheat::cupti
