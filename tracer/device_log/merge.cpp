#include "tracer/device_log/merge.h"

#include <algorithm>

#include "tracer/device_log/slots.h"
#include "tracer/device_log/values.h"

namespace deadheat::device_log {

namespace {
constexpr int most_depth = 64;  // of accesses that must come before others
}

void Merge::run() {
  for (auto& [index, block] : log_.blocks_) {
    for (LaunchLog::Warp& warp : block->warps) warps_.push_back(&warp);
  }
  std::sort(warps_.begin(), warps_.end(), [](const auto* a, const auto* b) {
    return a->block != b->block ? a->block < b->block : a->number < b->number;
  });
  heads_.resize(warps_.size());
  turns_.assign(warps_.size(), 0);
  for (std::size_t w = 0; w < warps_.size(); ++w) advance(w);
  while (!queue_.empty()) {
    const Entry next = queue_.top();
    queue_.pop();
    if (heads_[next.warp] && heads_[next.warp]->turn == next.turn) settle(next.warp, 0);
  }
  // Gates that not all warps reached: segments are missing. What there is, is written.
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    while (!warps_[w]->items.empty()) {
      if (!warps_[w]->items.front().gate && warps_[w]->items.front().slot &&
          warps_[w]->items.front().slot->kind == ptx::Slot::Kind::strong) {
        open(w);
        settle(w, most_depth);
      } else {
        if (!warps_[w]->items.front().gate) log_.write(*warps_[w], warps_[w]->items.front());
        warps_[w]->items.pop_front();
      }
    }
  }
}

void Merge::advance(std::size_t first) {
  std::vector<std::size_t> ready{first};
  while (!ready.empty()) {
    const std::size_t w = ready.back();
    ready.pop_back();
    LaunchLog::Warp& warp = *warps_[w];
    while (!warp.items.empty() && !heads_[w]) {
      LaunchLog::Item& item = warp.items.front();
      if (item.gate) {
        std::vector<std::size_t>& here = waiting_[item.gate.get()];
        here.push_back(w);
        if (here.size() < item.gate->missing) break;
        log_.write(warp, item);
        const std::shared_ptr<LaunchLog::Gate> gate = item.gate;  // outlives the queues' entries
        for (std::size_t other : here) {
          warps_[other]->items.pop_front();
          if (other != w) ready.push_back(other);
        }
        waiting_.erase(gate.get());
        continue;
      }
      if (item.slot && item.slot->kind == ptx::Slot::Kind::strong) {
        open(w);
        break;
      }
      log_.write(warp, item);
      warp.items.pop_front();
    }
  }
}

void Merge::open(std::size_t w) {
  LaunchLog::Warp& warp = *warps_[w];
  const LaunchLog::Item item = warp.items.front();
  warp.items.pop_front();
  const ptx::Slot& slot = *item.slot;
  const Site& site = (*log_.shape_.sites)[slot.site];
  auto head = std::make_unique<Head>();
  head->warp = &warp;
  head->turn = ++turns_[w];
  head->slot = &slot;
  head->before = u64_at(item.bytes, slot.offset, 0);
  head->after = u64_at(item.bytes, slot.offset + 8, 0);
  const bool reads = site.access != AccessKind::write, writes = site.access != AccessKind::read;
  const std::uint32_t address_at = slot.offset + 16, read_at = address_at + 256,
                      operand_at = read_at + (reads ? 256 : 0), compared_at = operand_at + 256;
  each_lane(header_of(item.bytes).mask, [&](unsigned l) {
    const std::uint64_t address = u64_at(item.bytes, address_at, l);
    if (address == ~std::uint64_t(0)) return;
    head->left |= 1u << l;
    Lane& lane = head->lanes[l];
    const bool shared = address & shared_mark;
    lane.location = {shared ? std::uint64_t(warp.block) + 1 : 0, address & ~shared_mark};
    lane.reads = reads;
    lane.writes = lane.wrote = writes;
    lane.valued = slot.valued;
    if (!slot.valued) return;
    if (reads) lane.read = u64_at(item.bytes, read_at, l);
    if (!writes) return;
    const std::uint64_t operand = u64_at(item.bytes, operand_at, l);
    if (!reads) {
      lane.written = operand;
      return;
    }
    const AtomicResult result = atomic_result(site.opcode, site.element_bytes, lane.read, operand,
                                              slot.compares ? u64_at(item.bytes, compared_at, l) : 0);
    lane.wrote = result.wrote;
    lane.written = result.written;
  });
  if (!head->left) return;  // every guard was false
  each_lane(head->left, [&](unsigned l) {
    std::vector<std::size_t>& here = at_[head->lanes[l].location];
    if (here.empty() || here.back() != w) here.push_back(w);
  });
  queue_.push({head->after, head->turn, w});
  heads_[w] = std::move(head);
}

template <typename Each>
void Merge::others(std::size_t warp, const Location& location, Each&& each) {
  auto found = at_.find(location);
  if (found == at_.end()) return;
  const std::vector<std::size_t> here = found->second;  // it changes meanwhile
  for (std::size_t other : here) {
    if (other != warp && heads_[other] && each(other)) return;
  }
}

// Puts those lanes into the order that fit: their reads are what the location holds.
std::uint32_t Merge::apply(Head& head, std::uint32_t wanted) {
  std::uint64_t first[32], last[32];
  std::uint32_t applied = 0;
  for (bool any = true; any;) {
    any = false;
    each_lane(wanted & head.left, [&](unsigned l) {
      const Lane& lane = head.lanes[l];
      Value& value = values_[lane.location];
      if (lane.valued && lane.reads && value.known && value.bits != lane.read) return;
      if (lane.valued && lane.reads) value = {lane.read, true};
      if (lane.wrote) value = {lane.written.value_or(0), lane.valued && lane.written.has_value()};
      first[l] = last[l] = ++places_;
      head.left &= ~(1u << l);
      applied |= 1u << l;
      any = true;
    });
  }
  if (applied) emit(head, applied, first, last);
  return applied;
}

// Reads that overlap with this write and saw what was there before it come first.
void Merge::readers_first(std::size_t w, const Head& head, int depth) {
  if (depth >= most_depth) return;
  each_lane(head.left, [&](unsigned l) {
    const Lane lane = head.lanes[l];
    if (!lane.wrote || !lane.valued || !lane.written) return;
    others(w, lane.location, [&](std::size_t other) {
      Head& reader = *heads_[other];
      if (reader.before >= head.after) return false;
      std::uint32_t lanes = 0;
      each_lane(reader.left, [&](unsigned r) {
        const Lane& reading = reader.lanes[r];
        const auto value = values_.find(lane.location);
        const bool held = value != values_.end() && value->second.known;
        if (reading.valued && !reading.writes && reading.location == lane.location && reading.read != *lane.written &&
            (!held || value->second.bits == reading.read)) {
          lanes |= 1u << r;
        }
      });
      if (lanes) {
        apply(reader, lanes);
        if (!reader.left) done(other);
      }
      return false;
    });
  });
}

void Merge::settle(std::size_t w, int depth) {
  Head& head = *heads_[w];
  while (head.left) {
    readers_first(w, head, depth);
    if (apply(head, head.left)) continue;
    // A read that nothing explains yet: some overlapping access must come before it.
    const unsigned l = unsigned(__builtin_ctz(head.left));
    const Location location = head.lanes[l].location;
    bool moved = false;
    if (depth < most_depth) {
      others(w, location, [&](std::size_t other) {
        Head& earlier = *heads_[other];
        if (earlier.before >= head.after) return false;
        std::uint32_t writers = 0;
        each_lane(earlier.left, [&](unsigned e) {
          if (earlier.lanes[e].wrote && earlier.lanes[e].location == location) writers |= 1u << e;
        });
        // A store comes first only where it is what was read.
        const Lane& wants = head.lanes[l];
        std::uint32_t fitting = 0;
        each_lane(writers, [&](unsigned e) {
          const Lane& lane = earlier.lanes[e];
          if (lane.reads || lane.written == wants.read) fitting |= 1u << e;
        });
        if (!fitting || !apply(earlier, fitting)) return false;
        moved = true;
        if (!earlier.left) done(other);
        return true;
      });
    }
    if (moved) continue;
    // The location was written by a weak access, or what was read is old: by value alone.
    ++log_.guessed_;
    std::uint64_t first[32], last[32];
    Value& value = values_[location];
    first[l] = 1;
    last[l] = ++places_;
    if (last[l] == 1) last[l] = ++places_;  // not exact
    value = {head.lanes[l].read, true};
    if (head.lanes[l].wrote) value = {head.lanes[l].written.value_or(0), head.lanes[l].written.has_value()};
    head.left &= ~(1u << l);
    emit(head, 1u << l, first, last);
  }
  done(w);
}

void Merge::done(std::size_t w) {
  const std::unique_ptr<Head> head = std::move(heads_[w]);
  if (!head) return;
  for (const Lane& lane : head->lanes) {
    auto found = at_.find(lane.location);
    if (found == at_.end()) continue;
    std::erase(found->second, w);
    if (found->second.empty()) at_.erase(found);
  }
  advance(w);
}

void Merge::emit(Head& head, std::uint32_t lanes, const std::uint64_t (&first)[32], const std::uint64_t (&last)[32]) {
  const Site& site = (*log_.shape_.sites)[head.slot->site];
  std::uint64_t address[32] = {}, read[32] = {}, written[32] = {};
  std::uint32_t digests[32] = {};
  for (const bool shared : {false, true}) {
    trace::AccessView view;
    view.warp = {log_.shape_.launch, head.warp->block, head.warp->number};
    view.module = log_.shape_.module;
    view.site = head.slot->site;
    view.space = shared ? Space::shared : Space::global;
    view.strong = true;
    each_lane(lanes, [&](unsigned l) {
      const Lane& lane = head.lanes[l];
      if ((lane.location.block != 0) != shared) return;
      view.mask |= 1u << l;
      address[l] = lane.location.address;
      read[l] = lane.read;
      written[l] = lane.written.value_or(0);
      if (lane.wrote) {
        view.wrote |= 1u << l;
        digests[l] = digest(written[l], site.element_bytes);
      }
    });
    view.address = address;
    view.digest = digests;
    view.value_read = read;
    view.value_written = written;
    view.order_first = first;
    view.order_last = last;
    if (view.mask) log_.output_.access(view);
  }
}

}  // namespace deadheat::device_log
