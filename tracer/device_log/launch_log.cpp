#include "tracer/device_log/launch_log.h"

#include <algorithm>
#include <bit>
#include <span>

#include "deadheat/address.h"
#include "tracer/device_log/merge.h"
#include "tracer/device_log/slots.h"

namespace deadheat::device_log {

using Kind = ptx::Slot::Kind;

std::uint32_t exits(const ptx::Segment& segment, const std::vector<Site>& sites, const std::uint8_t* bytes) {
  if (!segment.ends) return 0;
  std::uint32_t lanes = 0;
  for (const ptx::Slot& slot : segment.slots) {
    if (slot.kind == Kind::event && sites[slot.site].kind == SiteKind::exit) lanes |= executing(slot, bytes);
  }
  return std::uint32_t(std::popcount(lanes));
}

LaunchLog::LaunchLog(const Shape& shape, Output& output) : shape_(shape), output_(output) {}
LaunchLog::~LaunchLog() = default;

LaunchLog::Block& LaunchLog::block(std::uint32_t index) {
  std::unique_ptr<Block>& place = blocks_[index];
  if (!place) {
    place = std::make_unique<Block>();
    place->index = index;
    place->alive = shape_.threads;
    place->warps.resize((shape_.threads + 31) / 32);
    for (std::uint32_t w = 0; w < place->warps.size(); ++w) {
      const std::uint32_t lanes = std::min(32u, shape_.threads - 32 * w);
      place->warps[w].log = this;
      place->warps[w].block = index;
      place->warps[w].number = w;
      place->warps[w].alive = lanes == 32 ? ~0u : (1u << lanes) - 1;
      place->warps[w].items = WarpQueue(place->warps[w].alive);
    }
  }
  return *place;
}

void LaunchLog::segment(const std::uint8_t* bytes) {
  const SegmentHeader header = header_of(bytes);
  if (header.segment >= shape_.segments->size() || header.block >= shape_.blocks ||
      header.warp >= (shape_.threads + 31) / 32) {
    ++damaged_;
    return;
  }
  const ptx::Segment& segment = (*shape_.segments)[header.segment];
  Block& home = block(header.block);
  Warp& warp = home.warps[header.warp];
  if (shape_.strong) {  // looked at again later
    note_tickets(home, segment, bytes);
    if (kept_.empty() || kept_.back()->used + segment.bytes > kept_.back()->bytes) {
      auto more = std::make_unique<Kept>();
      more->bytes = std::max<std::size_t>(kept_bytes, segment.bytes);
      more->data = std::make_unique_for_overwrite<std::uint8_t[]>(more->bytes);
      kept_.push_back(std::move(more));
    }
    Kept& kept = *kept_.back();
    bytes = static_cast<std::uint8_t*>(std::memcpy(kept.data.get() + kept.used, bytes, segment.bytes));
    kept.used += segment.bytes;
  }
  bool last = false;
  for (const ptx::Slot& slot : segment.slots) {
    const Site& site = (*shape_.sites)[slot.site];
    if (slot.kind == Kind::barrier) {
      arrive(home, warp, slot, bytes);
    } else if (slot.kind == Kind::warp_sync) {
      meet(warp, slot, bytes);
    } else {
      push(warp, {&slot, bytes, 0, slot.kind == Kind::event ? executing(slot, bytes) : header.mask, nullptr, nullptr});
    }
    if (slot.kind == Kind::event && site.kind == SiteKind::exit) {
      const std::uint32_t gone = executing(slot, bytes) & warp.alive;
      warp.alive &= ~gone;
      home.alive -= std::uint32_t(std::popcount(gone));
      met(warp);
      complete_all(home, warp);
      last = home.alive == 0;
    }
  }
  if (last && !shape_.strong) blocks_.erase(header.block);
}

void LaunchLog::push(Warp& warp, Item item) {
  if (!shape_.strong) return write(warp, item);
  if (item.bytes) {
    item.kept = kept_.back().get();
    ++item.kept->items;
  }
  warp.items.push(std::move(item));
}

// ---- rounds

void LaunchLog::Marks::mark(std::uint32_t round) {
  if (ended.empty() || ended.back().second != latest) ended.emplace_back(round, latest);
}

std::uint64_t LaunchLog::Marks::before(std::uint32_t round) {
  while (ended.size() > 1 && ended[1].first < round) ended.pop_front();
  return ended.empty() || ended.front().first >= round ? 0 : ended.front().second;
}

void LaunchLog::note_tickets(Block& home, const ptx::Segment& segment, const std::uint8_t* bytes) {
  for (const ptx::Slot& slot : segment.slots) {
    if (!ticketed(slot)) continue;
    waits_ |= slot.kind == Kind::mbarrier && (*shape_.sites)[slot.site].wait_only;
    Marks& marks = slot.in_block ? home.tickets : tickets_;
    marks.latest = std::max(marks.latest, u64_at(bytes, slot.offset + 8, 0));
    if (slot.both_tickets) home.tickets.latest = std::max(home.tickets.latest, u64_at(bytes, slot.offset + 16, 0));
  }
}

void LaunchLog::mark(std::uint32_t round) {
  if (!shape_.strong) return;
  tickets_.mark(round);
  for (auto& [index, block] : blocks_) block->tickets.mark(round);
}

void LaunchLog::settle(std::uint32_t round) {
  if (!shape_.strong || waits_) return;
  if (!merge_) merge_ = std::make_unique<Merge>(std::vector<LaunchLog*>{this});
  settled_ += merge_->settle_before(round);
  std::erase_if(kept_, [&](const std::unique_ptr<Kept>& kept) { return !kept->items && kept != kept_.back(); });
}

// ---- barriers

void LaunchLog::arrive(Block& home, Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes) {
  const Site& site = (*shape_.sites)[slot.site];
  std::uint32_t left = executing(slot, bytes);
  const std::uint32_t threads_at = slot.offset + (slot.number_known ? (slot.guarded ? 128 : 0) : 128);
  while (left) {
    const unsigned first = unsigned(__builtin_ctz(left));
    auto number_of = [&](unsigned lane) {
      return slot.number_known ? std::uint32_t(slot.number) : u32_at(bytes, slot.offset, lane);
    };
    auto threads_of = [&](unsigned lane) {
      return slot.threads_known ? slot.threads : u32_at(bytes, threads_at, lane);
    };
    const std::uint32_t number = number_of(first) % 16, wanted = threads_of(first);
    std::uint32_t lanes = 0;
    each_lane(left, [&](unsigned lane) {
      if (number_of(lane) % 16 == number) lanes |= 1u << lane;
    });
    left &= ~lanes;
    Barrier& barrier = home.barriers[number];
    barrier.wanted = wanted;
    if (wanted) {
      count_warp(barrier, warp, lanes);
      complete(home, number, barrier);
    }
    barrier.arrivals.push_back({warp.number, slot.site, lanes, !site.arrive_only, wanted == 0});
    if (site.arrive_only) {
      auto gate = std::make_shared<Gate>();
      gate->output = &output_;
      gate->missing = 1;
      gate->records.push_back(arrival(home, number, barrier.arrivals.back()));
      if (shape_.strong) barrier.arrivals.back().gate = gate;
      push(warp, {nullptr, nullptr, 0, lanes, std::move(gate), nullptr});
    }
    if (wanted)
      count_warp(barrier, warp);
    else
      barrier.counted += std::uint32_t(std::popcount(lanes));
    complete(home, number, barrier);
  }
}

// Of a thread count: a warp counts as 32 once all its lanes that have not exited have arrived (PTX ISA 9.7.13.1: counts
// are multiples of the warp size), and had done so if lanes of it are there `again`: the device had let them go on.
void LaunchLog::count_warp(Barrier& barrier, const Warp& warp, std::uint32_t again) {
  std::uint32_t here = 0;
  for (const Arrival& a : barrier.arrivals) here |= a.warp == warp.number && !a.counts ? a.mask : 0;
  if (!here || (again ? !(here & again) : (warp.alive & ~here) != 0)) return;
  for (Arrival& a : barrier.arrivals) a.counts |= a.warp == warp.number;
  barrier.counted += 32;
}

trace::BarrierArrive LaunchLog::arrival(const Block& home, std::uint32_t number, const Arrival& a) const {
  trace::BarrierArrive record;
  record.warp = {shape_.launch, home.index, a.warp};
  record.module = shape_.module;
  record.site = a.site;
  record.mask = a.mask;
  record.barrier = number;
  record.phase = home.barriers[number].phase;
  record.sync = a.sync;
  return record;
}

void LaunchLog::complete_all(Block& home, const Warp& exited) {
  for (std::uint32_t number = 0; number < 16; ++number) {
    Barrier& barrier = home.barriers[number];
    if (barrier.arrivals.empty()) continue;
    if (barrier.wanted) count_warp(barrier, exited);
    complete(home, number, barrier);
  }
}

void LaunchLog::complete(Block& home, std::uint32_t number, Barrier& barrier) {
  const std::uint32_t wanted = barrier.wanted ? barrier.wanted : home.alive;
  if (!barrier.counted || barrier.counted < wanted) return;
  const auto rest = std::stable_partition(barrier.arrivals.begin(), barrier.arrivals.end(),
                                          [](const Arrival& a) { return a.counts; }); // of the next phase
  const std::span<const Arrival> arrivals(barrier.arrivals.begin(), rest);
  auto gate = std::make_shared<Gate>();
  gate->output = &output_;
  std::uint32_t here = 0;
  bool whole = home.alive > 0;
  for (const Arrival& a : arrivals) {
    here += std::uint32_t(std::popcount(a.mask));
    whole &= a.sync;
  }
  whole &= here >= home.alive;
  // Who has exited took no part, and its exit may still be in its warp's queue: then the arrivals say who did.
  whole &= !shape_.strong || home.alive == shape_.threads;
  if (whole) {
    gate->records.push_back(
        trace::BlockBarrier{shape_.launch, home.index, number, barrier.phase, shape_.module, arrivals.front().site});
  } else {
    for (const Arrival& a : arrivals) {
      if (a.sync) gate->records.push_back(arrival(home, number, a));
    }
    gate->records.push_back(trace::BarrierComplete{shape_.launch, home.index, number, barrier.phase});
  }
  if (shape_.strong) {
    // It stands behind all arrivals: in the queues of the warps that wait, each once, and after those that do not.
    std::map<std::uint32_t, std::uint32_t> waiting; // lanes, by warp
    for (const Arrival& a : arrivals) {
      if (a.sync) waiting[a.warp] |= a.mask;
      if (!a.gate || !a.gate->missing) continue;
      ++gate->missing;
      a.gate->completes = gate;
    }
    for (const auto& [warp, lanes] : waiting) {
      ++gate->missing;
      home.warps[warp].items.push({nullptr, nullptr, 0, lanes, gate, nullptr});
    }
    if (!gate->missing) { // nobody waits, and what they did before they arrived is written
      for (const trace::Record& record : gate->records) output_.record(record);
    }
  } else {
    for (const trace::Record& record : gate->records) output_.record(record);
  }
  barrier.arrivals.erase(barrier.arrivals.begin(), rest);
  barrier.counted = 0;
  ++barrier.phase;
}

// ---- barriers of a warp

void LaunchLog::meet(Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes) {
  each_lane(executing(slot, bytes), [&](unsigned lane) {
    const std::uint32_t mask = slot.number_known ? std::uint32_t(slot.number) : u32_at(bytes, slot.offset, lane);
    for (Warp::Meeting& m : warp.meetings) {
      if (m.mask != mask || (m.here >> lane & 1)) continue;
      m.here |= 1u << lane;
      return;
    }
    warp.meetings.push_back({mask, slot.site, 1u << lane});
  });
  met(warp);
}

void LaunchLog::met(Warp& warp) {
  for (std::size_t i = 0; i < warp.meetings.size();) {
    const Warp::Meeting m = warp.meetings[i];
    if (m.mask & warp.alive & ~m.here) {
      ++i;
      continue;
    }
    warp.meetings.erase(warp.meetings.begin() + std::ptrdiff_t(i));
    push(warp, {nullptr, nullptr, m.site, m.here, nullptr, nullptr});
  }
}

// ---- records

namespace {

// Where the lane's piece of a matrix lies, from its beginning.
std::uint32_t piece_of(const ptx::Slot& slot, const std::uint8_t* bytes, unsigned lane) {
  const ptx::MatrixPieces& p = slot.pieces;
  const std::uint32_t a_line = std::max(1u, p.line_bytes / p.piece_bytes);
  const std::uint64_t distance =
      slot.stride ? std::uint64_t(u32_at(bytes, slot.stride, lane)) * p.element_bits / 8 : p.line_bytes;
  return std::uint32_t(lane / a_line * distance + lane % a_line * p.piece_bytes);
}

constexpr std::uint32_t most_filled = 1 << 24; // bytes: more than shared memory has

} // namespace

// st.bulk: a store of 8 bytes after the other.
void LaunchLog::fill(trace::AccessView view, const ptx::Slot& slot, const std::uint8_t* bytes, std::uint64_t* address) {
  constexpr std::uint32_t word = 8;
  for (std::uint32_t at = 0; view.mask; at += word) {
    const std::uint32_t lanes = view.mask;
    each_lane(lanes, [&](unsigned lane) {
      if (at + word > std::min(u32_at(bytes, slot.size, lane), most_filled)) view.mask &= ~(1u << lane);
    });
    if (view.mask) output_.access(view);
    each_lane(view.mask, [&](unsigned lane) { address[lane] += word; });
  }
}

void LaunchLog::weak(const Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes) {
  const Site& site = (*shape_.sites)[slot.site];
  trace::AccessView view;
  view.warp = {shape_.launch, warp.block, warp.number};
  view.module = shape_.module;
  view.site = slot.site;
  std::uint64_t address[32];
  std::uint32_t digests[32];
  std::uint32_t shared = 0, global = 0, mask = header_of(bytes).mask;
  // Which bytes of a matrix come from which lane's registers nobody has said.
  const bool unread = site.opcode.rfind("stmatrix", 0) == 0 || site.opcode.rfind("wmma", 0) == 0;
  if (site.opcode.rfind("ldmatrix", 0) == 0 || site.opcode.rfind("stmatrix", 0) == 0) {
    const bool four = site.opcode.find(".x4") != std::string::npos, two = site.opcode.find(".x2") != std::string::npos;
    const bool tall = site.opcode.find(".m16n16") != std::string::npos; // 16 rows a matrix
    mask &= four || (two && tall) ? ~0u : two || tall ? 0xFFFFu : 0xFFu; // lanes beyond give no addresses
  }
  each_lane(mask, [&](unsigned lane) {
    if (slot.narrow) {
      const std::uint32_t at = u32_at(bytes, slot.address, lane);
      if (slot.guarded && at == ~0u) return;
      address[lane] = at + std::uint32_t(slot.delta);
      if (!slot.ranked) address[lane] &= cluster_offset_mask;
      shared |= 1u << lane;
    } else {
      const std::uint64_t at = u64_at(bytes, slot.address, lane);
      if (at == ~std::uint64_t(0)) return;
      address[lane] = (at & ~shared_mark) + std::uint64_t(slot.delta);
      if ((at & shared_mark) && !slot.ranked) address[lane] &= cluster_offset_mask;
      (at & shared_mark ? shared : global) |= 1u << lane;
    }
    if (slot.kind == Kind::write) digests[lane] = unread ? unknown_digest() : u32_at(bytes, slot.digest, lane);
    if (slot.pieces.piece_bytes) address[lane] += piece_of(slot, bytes, lane);
  });
  view.address = address;
  view.digest = slot.kind == Kind::write ? digests : nullptr;
  for (const bool in_shared : {false, true}) {
    view.mask = in_shared ? shared : global;
    view.space = in_shared ? Space::shared : Space::global;
    if (slot.size)
      fill(view, slot, bytes, address);
    else if (view.mask)
      output_.access(view);
  }
}

LaunchLog::Place LaunchLog::place_of(std::uint32_t block, std::uint64_t address) const {
  const std::uint64_t at = address - shared_window;
  const std::uint32_t rank = std::uint32_t(at >> cluster_shift) & 0xFF;
  const bool other = rank && rank <= shape_.cluster.count();
  return {other ? cluster_peer(block, rank - 1, shape_.grid, shape_.cluster) : block,
          std::uint32_t(at & cluster_offset_mask)};
}

void LaunchLog::write(const Warp& warp, const Item& item) {
  if (item.gate) {
    for (const trace::Record& record : item.gate->records) output_.record(record);
    return;
  }
  const trace::Warp place{shape_.launch, warp.block, warp.number};
  if (!item.slot) {
    output_.record(trace::WarpBarrier{place, shape_.module, item.site, item.lanes});
    return;
  }
  const ptx::Slot& slot = *item.slot;
  const Site& site = (*shape_.sites)[slot.site];
  if (slot.kind == Kind::read || slot.kind == Kind::write) return weak(warp, slot, item.bytes);
  if (slot.kind == Kind::copy) {
    trace::AsyncCopy record;
    record.warp = place;
    record.module = shape_.module;
    record.site = slot.site;
    record.bytes = site.element_bytes;
    each_lane(header_of(item.bytes).mask, [&](unsigned lane) {
      const std::uint64_t source = u64_at(item.bytes, slot.offset, lane);
      if (slot.guarded && source == ~std::uint64_t(0)) return;
      record.mask |= 1u << lane;
      record.source[lane] = source;
      record.destination[lane] = u32_at(item.bytes, slot.offset + 256, lane) & cluster_offset_mask;
      record.source_bytes[lane] = u32_at(item.bytes, slot.offset + 384, lane);
      // Nobody read what it copied: two copies of one place are taken to write the same, and all others not.
      record.digest[lane] = digest(source ^ std::uint64_t(record.source_bytes[lane]) << 56, 8);
    });
    if (record.mask) output_.record(record);
    return;
  }
  if (slot.kind == Kind::bulk) {
    for (const trace::BulkCopy& copy : bulk_copies(warp, slot, item.bytes)) output_.record(copy);
    return;
  }
  if (slot.kind == Kind::matrix) {
    for (const trace::BulkCopy& read : matrix_reads(warp, slot, item.bytes)) output_.record(read);
    return;
  }
  if (slot.kind == Kind::texture) return texels(warp, slot, item.bytes);
  const std::uint32_t lanes = executing(slot, item.bytes);
  if (!lanes) return;
  switch (site.kind) {
    case SiteKind::dependency:
      if (!shape_.programmatic) break; // nothing to wait for
      [[fallthrough]];
    case SiteKind::fence:
    case SiteKind::proxy_fence:
      output_.record(trace::Fence{place, shape_.module, slot.site, lanes, site.ordering, site.scope, site.proxy});
      break;
    case SiteKind::async_commit: output_.record(trace::AsyncCommit{place, shape_.module, slot.site, lanes}); break;
    case SiteKind::async_wait: {
      const bool all = site.opcode.find("wait_all") != std::string::npos;
      output_.record(trace::AsyncWait{place, shape_.module, slot.site, lanes, std::uint32_t(slot.number), all,
                                      site.opcode.find(".read") != std::string::npos});
      break;
    }
    case SiteKind::exit: output_.record(trace::ThreadExit{place, lanes}); break;
    default: break;
  }
}

void LaunchLog::put_in_order(const std::vector<LaunchLog*>& logs) {
  for (std::size_t i = 1; i < logs.size(); ++i)
    logs[i]->first_block_ = logs[i - 1]->first_block_ + logs[i - 1]->shape_.blocks;
  Merge(logs).finish();
  for (LaunchLog* log : logs) log->in_order_ = true;
}

void LaunchLog::finish(bool stalled) {
  if (shape_.strong && !in_order_) {
    if (!merge_) merge_ = std::make_unique<Merge>(std::vector<LaunchLog*>{this});
    merge_->finish();
  }
  merge_.reset();
  for (const auto& [index, home] : blocks_) {
    for (std::uint32_t number = 0; stalled && number < home->barriers.size(); ++number) {
      for (const Arrival& a : home->barriers[number].arrivals) {
        if (a.sync) output_.record(arrival(*home, number, a));
      }
    }
  }
  blocks_.clear();
  kept_.clear();
}

} // namespace deadheat::device_log
