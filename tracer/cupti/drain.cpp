// What kernels have written, fetched and given to the launches that it belongs to.
#include "tracer/cupti/drain.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "tracer/cupti/session.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

using device_log::SegmentHeader;

namespace {

constexpr std::uint64_t round_bytes = std::uint64_t(32) << 20;

} // namespace

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

bool Recorder::keep(RecordedLaunch& launch, const SegmentHeader& header, const Code& code, std::uint64_t bytes,
                    const std::uint8_t* at, std::uint32_t round) {
  const bool within = kept_bytes_ < session_.options().budget << 20;
  const std::uint32_t exited = device_log::exits(*segment_of(header), code.sites, at);
  kept_bytes_ += bytes;
  budget_used_up_ |= !within;
  launch.unfinished_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  std::lock_guard hold(launch.lock_);
  if (within && !launch.over_) {
    std::deque<RecordedLaunch::Arrived>& arrived = launch.arrived_;
    if (arrived.empty() || arrived.back().round != round || arrived.back().bytes.size() + bytes > (1u << 20)) {
      arrived.push_back({round, {}});
    }
    arrived.back().bytes.insert(arrived.back().bytes.end(), at, at + bytes);
  }
  launch.exited_ += exited;
  if (!launch.exited_in_.empty()) launch.exited_in_[header.block % launch.exited_in_.size()] += exited;
  launch.complete_ = launch.exited_ >= std::uint64_t(launch.shape_.blocks) * launch.shape_.threads;
  return launch.complete_;
}

void Recorder::segment(const SegmentHeader& header, std::uint64_t bytes, const std::uint8_t* at, std::uint32_t round,
                       std::uint64_t position) {
  const auto found = controls_.find(header.control);
  if (found == controls_.end()) return;
  Controlled& controlled = found->second;
  if (controlled.turns) {
    KernelTurns& kernel = *controlled.turns;
    const std::size_t turn = turn_of(controlled, header, position);
    if (!keep(*kernel.turns[turn], header, *controlled.code, bytes, at, round)) return;
    kernel.turns[turn]->exited_in_ = {}; // there may be very many turns
    while (kernel.first_open < kernel.turns.size() && kernel.turns[kernel.first_open]->complete_) ++kernel.first_open;
    return;
  }
  if (controlled.launches.empty()) return;
  const std::size_t number = controlled.launch_of(header.block);
  const std::shared_ptr<RecordedLaunch> launch = controlled.launches[number];
  if (!keep(*launch, header, *controlled.code, bytes, at, round)) return;
  unfinished_.end(launch->unfinished_);
  controlled.launches.erase(controlled.launches.begin() + std::ptrdiff_t(number));
  over(header.control, controlled);
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
    segment(header, known->bytes, bytes, b.round, position);
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
    any |= controlled.turns != nullptr;
  }
  for (const std::shared_ptr<BodyTurns>& turns : turning_) {
    if (turns->context != b.rings->context()) continue;
    leave(*turns);
    unfinished_.end(turns->unfinished);
    turns->spoiled = true;
    turns->over = true;
  }
  std::erase_if(turning_, [](const std::shared_ptr<BodyTurns>& turns) { return turns->over.load(); });
  return any;
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
  end_turns();
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

} // namespace deadheat::cupti
