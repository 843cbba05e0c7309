#include "tracer/cupti/host_writes.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "deadheat/host_waits.h"
#include "tracer/cupti/session.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

using Kind = trace::HostWait::Kind;
using StreamKind = trace::StreamCreate::Kind;

constexpr std::uint64_t everywhere = ~std::uint64_t(0);
constexpr int most_stretches = 16; // that are told of a copy

// What the host wrote: the records of it, which no other comes between.
class HostOperation final : public Awaited {
 public:
  explicit HostOperation(trace::Operation operation) : operation_(std::move(operation)) {}
  bool write(trace::TraceWriter& writer, bool) override {
    writer.write(operation_);
    writer.write(trace::OperationBegin{operation_.id});
    writer.write(trace::OperationEnd{operation_.id});
    writer.write(trace::HostWait{Kind::operation, operation_.id, 0, false, operation_.host_thread});
    return true;
  }

 private:
  const trace::Operation operation_;
};

bool is_host_visible(const trace::Allocate& memory) {
  return memory.kind == trace::Allocate::Kind::pinned || memory.kind == trace::Allocate::Kind::managed;
}

template <typename List>
void reach(List& list, std::uint32_t id, bool certain) {
  for (auto& one : list) {
    if (one.id != id) continue;
    one.certain |= certain;
    return;
  }
  list.push_back({id, certain});
}

} // namespace

// ---- entries, under lock_

template <typename Which>
void HostWrites::drop_where(Which&& which) {
  constexpr std::size_t most_rooms = 16;
  std::erase_if(entries_, [&](Entry& entry) {
    if (!which(entry)) return false;
    kept_ -= entry.kept.bytes();
    if (!entry.writes && rooms_.size() < most_rooms) rooms_.push_back(entry.kept.give_room());
    return true;
  });
  count_ = entries_.size();
}

void HostWrites::drop(std::uint64_t function) {
  drop_where([&](const Entry& entry) { return entry.function && entry.sequence == function; });
}

template <typename Which>
void HostWrites::look_where(Which&& which) {
  drop_where([&](Entry& entry) { return !entry.writes && which(entry) && look(entry); });
}

std::uint64_t HostWrites::forget(std::uint64_t address, std::uint64_t bytes) {
  const std::size_t before = entries_.size();
  drop_where([&](const Entry& entry) { return !entry.writes && entry.overlaps(address, bytes); });
  return before - entries_.size();
}

HostWrites::Entry& HostWrites::add(std::uint64_t address, std::uint64_t bytes, std::uint32_t stream) {
  Entry& made = entries_.emplace_back();
  made.sequence = next_++;
  made.address = address;
  made.bytes = bytes;
  made.streams = {{stream, true}};
  count_ = entries_.size();
  return made;
}

void HostWrites::writes(std::uint64_t address, std::uint64_t bytes, std::uint32_t stream, std::uint32_t graph) {
  if (stopped_) return;
  uncertain_ += forget(address, bytes);
  std::vector<std::uint64_t> behind;
  for (const Entry& entry : entries_) {
    const bool one_graph = graph && entry.graph == graph;
    if (entry.function && !one_graph && reached(entry, stream, true) == Covers::surely)
      behind.push_back(entry.sequence);
  }
  drop_where([&](const Entry& entry) {
    const bool same = entry.writes && !entry.function && entry.address == address && entry.bytes == bytes &&
                      entry.streams[0].id == stream;
    // The new one stands for both.
    const auto before = [&](std::uint64_t function) {
      return std::find(entry.behind.begin(), entry.behind.end(), function) == entry.behind.end();
    };
    if (same) std::erase_if(behind, before);
    return same;
  });
  if (entries_.size() < most_entries) {
    Entry& made = add(address, bytes, stream);
    made.writes = true;
    made.graph = graph;
    made.behind = std::move(behind);
    return;
  }
  anything();
}

void HostWrites::anything() {
  drop_where([](const Entry&) { return true; });
  Entry& all = add(0, everywhere, 0);
  all.writes = all.of_all_streams = true;
}

bool HostWrites::look(const Entry& entry) {
  if (untold_ > 0) return false; // that function may have written, and come behind the copy
  int stretches = 0;
  const bool there = entry.kept.compare([&](std::uint64_t address, std::span<const std::uint8_t> now) {
    wrote(entry, address, now);
    return ++stretches < most_stretches;
  });
  return !there || stretches;
}

void HostWrites::wrote(const Entry& entry, std::uint64_t address, std::span<const std::uint8_t> now) {
  trace::Copy written;
  written.direction = trace::Copy::Direction::h2h;
  written.destination = {address, now.size(), now.size(), 1, 1, now.size()};
  written.source = written.destination;
  written.pageable_source = true;
  written.api = host_itself;
  Window* const window = session_.window();
  const bool replayed = window && window->open();
  if (replayed) written.data = session_.writer().bytes(now);
  trace::Operation operation;
  operation.id = session_.next_operation();
  operation.stream = entry.host_stream;
  operation.host_thread = session_.host_thread();
  operation.what = std::move(written);
  session_.journal().push(Journal::Item(std::make_shared<HostOperation>(std::move(operation))));
  if (replayed) window->host_wrote(address, now.size());
}

HostWrites::Covers HostWrites::reached(const Entry& entry, std::uint32_t stream, bool next) const {
  const auto facts = [&](std::uint32_t id) {
    const auto found = streams_.find(id);
    return found == streams_.end() ? Stream() : found->second;
  };
  const Stream of = facts(stream);
  Covers covers = Covers::no;
  for (const Reached& other : entry.streams) {
    if (other.id == stream) return other.certain ? Covers::surely : Covers::perhaps;
    const Stream its = facts(other.id);
    // Runtime API, "Stream synchronization behavior".
    if (of.kind == StreamKind::non_blocking || its.kind == StreamKind::non_blocking || of.device != its.device ||
        (of.kind != StreamKind::legacy && its.kind != StreamKind::legacy)) {
      continue;
    }
    covers =
        other.certain && (next || of.kind == StreamKind::legacy) ? Covers::surely : std::max(covers, Covers::perhaps);
  }
  return covers;
}

HostWrites::Covers HostWrites::covers(const Entry& entry, Kind kind, std::uint32_t id) const {
  if (kind == Kind::device && (id == 0 || (entry.of_all_streams && !several_devices_))) return Covers::surely;
  if (kind == Kind::stream) return reached(entry, id, false);
  Covers covers = Covers::no;
  for (const Reached& other : kind == Kind::device ? entry.streams : entry.events) {
    const auto stream = kind == Kind::device ? streams_.find(other.id) : streams_.end();
    const bool is = kind == Kind::device ? stream != streams_.end() && stream->second.device == id - 1 : other.id == id;
    if (is) covers = std::max(covers, other.certain ? Covers::surely : Covers::perhaps);
  }
  return covers;
}

// ---- under the session's lock

void HostWrites::stop() {
  if (stopped_.exchange(true)) return;
  looks_.say();
  std::uint64_t in_part, slow, uncertain, too_many;
  {
    std::lock_guard hold(lock_);
    drop_where([](const Entry&) { return true; });
    rooms_.clear();
    in_part = in_part_, slow = slow_, uncertain = uncertain_, too_many = too_many_;
  }
  const auto note = [&](std::uint64_t copies, const char* text) {
    if (copies)
      session_.incident("note", std::string("what the host writes while a copy may still read it: ") + text, copies);
  };
  note(in_part, "of a large one, 256 KiB of its source are looked at");
  note(slow, "not looked for in memory that is slow to read (write-combined), of another device, or cannot be read");
  note(uncertain, "not looked for where others may write its source, or host and device may tell each other of it");
  note(too_many, "not looked for where too many copies had not been waited for");
}

void HostWrites::gap() {
  if (stopped_) return;
  std::lock_guard hold(lock_);
  anything();
}

void HostWrites::stream_made(const trace::StreamCreate& stream) {
  std::lock_guard hold(lock_);
  several_devices_ |= stream.device != 0; // that of the stream which nobody makes
  streams_[stream.stream] = {stream.kind, stream.device};
}

void HostWrites::allocated(const trace::Allocate& memory) {
  unread_.erase(memory.address);
  registered_.erase(memory.address);
  leads_there_.erase(memory.address);
  if (is_host_visible(memory)) visible_.add(memory.address, memory.bytes);
  if (memory.kind != trace::Allocate::Kind::pinned) return;
  std::lock_guard hold(lock_);
  memory_.allocated(memory.address, memory.bytes);
}

void HostWrites::not_to_be_read(std::uint64_t address) {
  unread_.insert(address);
  std::lock_guard hold(lock_);
  memory_.not_to_be_read(address);
}

void HostWrites::may_vanish(std::uint64_t address) {
  registered_.insert(address);
  std::lock_guard hold(lock_);
  memory_.may_vanish(address);
}

void HostWrites::being_freed(const trace::Allocate& memory) {
  std::lock_guard hold(lock_);
  memory_.freed(memory.address);
  forget(memory.address, memory.bytes);
}

void HostWrites::all_gone() {
  std::lock_guard hold(lock_);
  memory_.all_gone();
  forget(0, everywhere);
}

void HostWrites::launch_failed() {
  std::lock_guard hold(lock_);
  forget(0, everywhere);
}

void HostWrites::before(const trace::MemoryRange& range) {
  if (!count_) return;
  std::lock_guard hold(lock_);
  look_where([&](const Entry& entry) { return entry.overlaps(range.address, range.extent()); });
}

void HostWrites::overwritten(const trace::MemoryRange& range) {
  if (!count_) return;
  before(range);
  std::lock_guard hold(lock_);
  uncertain_ += forget(range.address, range.extent());
}

void HostWrites::device_writes(const trace::MemoryRange& range, std::uint32_t stream, std::uint32_t graph) {
  if (stopped_ || !range.bytes()) return;
  std::lock_guard hold(lock_);
  memory_.used(range.address, next_);
  writes(range.address, range.extent(), stream, graph);
}

bool HostWrites::reaches_host(std::uint64_t address) const {
  const trace::Allocate* memory = session_.allocation_at(address);
  return memory && is_host_visible(*memory);
}

bool HostWrites::leads_to_host(std::uint64_t address) const {
  const trace::Allocate* memory = session_.allocation_at(address);
  return memory && (is_host_visible(*memory) || leads_there_.count(memory->address));
}

void HostWrites::brings(const trace::Copy& copy) {
  constexpr std::uint64_t most = std::uint64_t(64) << 10; // what is larger is data
  using Direction = trace::Copy::Direction;
  if (stopped_ || any_kernel_may_) return;
  const trace::Allocate* const to = session_.allocation_at(copy.destination.address);
  if (!to || is_host_visible(*to)) return;
  const trace::Allocate* const from = session_.allocation_at(copy.source.address);
  bool found = copy.direction == Direction::d2d && from && leads_there_.count(from->address);
  if (copy.direction == Direction::h2d && copy.source.bytes() <= most && !(from && unread_.count(from->address))) {
    for (std::uint64_t n = 0; n < copy.source.rows() && !found; ++n) {
      const auto* const row = reinterpret_cast<const std::uint8_t*>(copy.source.row(n));
      for (std::uint64_t at = 0; at + 8 <= copy.source.width && !found; at += 4) {
        std::uint64_t word;
        std::memcpy(&word, row + at, 8);
        found = visible_.maybe(word) && leads_to_host(word);
      }
    }
  }
  if (!found) return;
  if (to->kind == trace::Allocate::Kind::symbol) any_kernel_may_ = true;
  leads_there_.insert(to->address);
  visible_.add(to->address, to->bytes);
}

void HostWrites::talks(std::uint32_t stream, std::uint32_t graph) {
  if (stopped_) return;
  std::lock_guard hold(lock_);
  writes(0, everywhere, stream, graph);
}

std::uint32_t HostWrites::device_of(std::uint32_t stream) {
  std::lock_guard hold(lock_);
  return streams_[stream].device;
}

void HostWrites::copied(const trace::Copy& copy, std::uint32_t stream, std::uint32_t graph) {
  using Direction = trace::Copy::Direction;
  if (stopped_) return;
  if (copy.direction == Direction::d2h && !copy.pageable_destination)
    return device_writes(copy.destination, stream, graph);
  if (copy.direction != Direction::h2d || copy.pageable_source) return;
  const std::uint64_t address = copy.source.address, bytes = copy.source.extent();
  const trace::Allocate* const memory = session_.allocation_at(address);
  if (!memory || memory->kind != trace::Allocate::Kind::pinned || bytes > memory->bytes - (address - memory->address)) {
    return;
  }
  const bool unread = unread_.count(memory->address), registered = registered_.count(memory->address);
  const std::uint32_t host_stream = session_.host_stream(device_of(stream));
  std::lock_guard hold(lock_);
  if (stopped_) return;
  memory_.used(address, next_);
  if (unread) {
    ++slow_;
    return;
  }
  const auto writes_there = [&](const Entry& entry) { return entry.writes && entry.overlaps(address, bytes); };
  if (functions_ > 0 || std::any_of(entries_.begin(), entries_.end(), writes_there)) {
    ++uncertain_;
    return;
  }
  // An earlier one of the same bytes in the same stream is complete when this one is.
  drop_where([&](const Entry& entry) {
    return !entry.writes && entry.address == address && entry.bytes == bytes && entry.streams[0].id == stream;
  });
  KeptBytes kept;
  std::vector<std::uint8_t> room;
  if (!rooms_.empty()) {
    room = std::move(rooms_.back());
    rooms_.pop_back();
  }
  if (!kept.take(copy.source, registered, std::move(room))) {
    ++slow_;
    return;
  }
  while (!entries_.empty() && (entries_.size() >= most_entries || kept_ + kept.bytes() > most_kept)) {
    const auto oldest = std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return !e.writes; });
    if (oldest == entries_.end()) return;
    const std::uint64_t sequence = oldest->sequence;
    look_where([&](const Entry& entry) { return entry.sequence == sequence; });
    drop_where([&](const Entry& entry) { return entry.sequence == sequence; });
    ++too_many_;
  }
  in_part_ += !kept.whole();
  kept_ += kept.bytes();
  Entry& made = add(address, bytes, stream);
  made.host_stream = host_stream;
  made.kept = std::move(kept);
}

// ---- what comes after what

void HostWrites::event_recorded(std::uint32_t event, std::uint32_t stream) {
  if (!count_) return;
  std::lock_guard hold(lock_);
  for (Entry& entry : entries_) {
    std::erase_if(entry.events, [&](const Reached& other) { return other.id == event; });
    const Covers covers = reached(entry, stream, true);
    if (covers == Covers::no) continue;
    reach(entry.streams, stream, covers == Covers::surely);
    reach(entry.events, event, covers == Covers::surely);
  }
}

void HostWrites::stream_waits(std::uint32_t stream, std::uint32_t event, bool for_last_record) {
  if (!count_) return;
  std::lock_guard hold(lock_);
  for (Entry& entry : entries_) {
    for (const Reached& other : entry.events) {
      if (other.id == event) reach(entry.streams, stream, other.certain && for_last_record);
    }
  }
}

void HostWrites::before_wait(Kind kind, std::uint32_t id) {
  if (!count_) return;
  std::lock_guard hold(lock_);
  begun_[session_.host_thread()] = next_;
  look_where([&](Entry& entry) {
    const Covers covered = covers(entry, kind, id);
    return covered == Covers::surely || (covered == Covers::perhaps && entry.looks++ < most_looks);
  });
}

bool HostWrites::is_over(const Entry& entry, Kind kind, std::uint32_t id) const {
  const auto begun = begun_.find(session_.host_thread());
  return begun != begun_.end() && entry.sequence < begun->second && covers(entry, kind, id) == Covers::surely;
}

void HostWrites::wait_ends(Kind kind, std::uint32_t id) {
  if (!count_) return;
  std::lock_guard hold(lock_);
  look_where([&](const Entry& entry) { return is_over(entry, kind, id); });
}

void HostWrites::waited(Kind kind, std::uint32_t id) {
  if (!count_) return;
  std::lock_guard hold(lock_);
  drop_where([&](const Entry& entry) { return is_over(entry, kind, id); });
}

// ---- without it

void HostWrites::launched(std::span<const std::uint64_t> words, std::uint32_t stream) {
  if (stopped_) return;
  std::lock_guard live(session_.lock);
  if (any_kernel_may_ || std::any_of(words.begin(), words.end(), [&](std::uint64_t at) { return leads_to_host(at); }))
    talks(stream);
}

std::uint64_t HostWrites::entries() {
  std::lock_guard hold(lock_);
  return next_;
}

void HostWrites::told(std::uint32_t stream, std::uint64_t entries) {
  if (!count_) return;
  std::lock_guard hold(lock_);
  drop_where(
      [&](const Entry& entry) { return entry.sequence < entries && reached(entry, stream, true) == Covers::surely; });
}

// What it comes behind is complete, and it may tell any thread.
void HostWrites::function_begins() {
  if (!count_) return;
  std::lock_guard hold(lock_);
  look_where([&](Entry& entry) { return entry.looks++ < most_looks; });
}

} // namespace deadheat::cupti
