// What host functions write: what of the device's writes may be beside one, and what becomes of what was found.
#include <algorithm>
#include <utility>

#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/session.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

constexpr std::uint64_t everywhere = ~std::uint64_t(0);
constexpr std::ptrdiff_t most_functions = 64; // whose order with what the device writes is followed

} // namespace

std::uint64_t HostWrites::function_submitted(std::uint32_t stream, std::uint32_t graph, const void* code) {
  std::lock_guard hold(lock_);
  const auto known = std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.function; });
  if (stopped_ || known >= most_functions || entries_.size() >= most_entries || !looks_.wanted(code)) return next_++;
  Entry& made = add(0, 0, stream);
  made.function = made.writes = true;
  made.graph = graph;
  return made.sequence;
}

void HostWrites::function_over(std::uint64_t function) {
  --functions_;
  if (!function || !count_) return;
  std::lock_guard hold(lock_);
  drop(function);
}

HostWrites::MayWrite HostWrites::may_write_beside(std::uint64_t function) {
  MayWrite may;
  std::lock_guard hold(lock_);
  for (const auto& [thread, span] : now_) may.there.push_back({0, span});
  for (const Entry& entry : entries_) {
    const bool behind = std::find(entry.behind.begin(), entry.behind.end(), function) != entry.behind.end();
    if (!entry.writes || entry.function || behind) continue;
    may.anything |= entry.bytes == everywhere;
    may.there.push_back({entry.streams[0].id, {entry.address, entry.bytes}});
  }
  return may;
}

void HostWrites::writes_now(const trace::MemoryRange& range) {
  std::lock_guard hold(lock_);
  now_[session_.host_thread()] = {range.address, range.extent()};
}

void HostWrites::writes_no_more() {
  std::lock_guard hold(lock_);
  now_.erase(session_.host_thread());
}

bool HostWrites::keep_memory(std::uint64_t& left_out) {
  std::lock_guard hold(lock_);
  if (stopped_) return false;
  std::vector<trace::Span> used; // by what may not be complete
  for (const Entry& entry : entries_) {
    if (!entry.function) used.push_back({entry.address, entry.bytes});
  }
  return memory_.keep(used, left_out);
}

std::vector<trace::Effects::Change> HostWrites::memory_changed(const std::vector<trace::Span>& without) {
  std::vector<trace::Effects::Change> changes;
  Window* const window = session_.window();
  const bool replayed = window && window->open();
  std::lock_guard hold(lock_);
  if (stopped_) return changes;
  const bool all = memory_.compare(without, [&](std::uint64_t address, std::vector<std::uint8_t> now) {
    trace::Bytes bytes;
    if (replayed)
      bytes = session_.writer().bytes(now);
    else
      bytes.size = now.size();
    changes.push_back({address, std::move(bytes)});
  });
  if (!all) changes.clear();
  return changes;
}

void HostWrites::forget_memory() {
  std::lock_guard hold(lock_);
  memory_.forget();
}

// Of copies that had the bytes kept as they were: it is not the host itself that wrote them.
void HostWrites::function_wrote(const std::vector<trace::Effects::Change>& changes) {
  {
    std::lock_guard hold(lock_);
    for (Entry& entry : entries_) {
      if (entry.writes) continue;
      for (const trace::Effects::Change& change : changes) {
        if (entry.overlaps(change.address, change.data.size)) entry.kept.take_in(change.address, change.data.size);
      }
    }
  }
  Window* const window = session_.window();
  if (!window || !window->open()) return;
  for (const trace::Effects::Change& change : changes) window->host_wrote(change.address, change.data.size);
}

} // namespace deadheat::cupti
