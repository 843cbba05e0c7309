#include "tracer/device_log/merge.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "deadheat/address.h"
#include "tracer/device_log/slots.h"

namespace deadheat::device_log {

namespace {

// Bits that tell kinds in the keys of cells: no address of a device has them (bit 63 is shared_mark), nor an offset in
// a block's shared memory.
constexpr unsigned kind_shift = 57, shared_kind_shift = cluster_shift;

// Accesses of other widths, or of vectors, whose elements' values are folded, see other bits at the same address: only
// tickets put these in order. Accesses of other widths do not synchronize; of a vector the first element may.
std::uint64_t kind_of(const Site& site, const ptx::Slot& slot) {
  auto size = [](unsigned n) { return std::uint64_t(std::bit_width(n)); };
  return std::uint64_t(slot.valued) | (size(site.element_bytes) & 7) << 1 | ((size(site.elements) - 1) & 3) << 4;
}

// The last ticket of all is left to limits: what has a ticket that cannot be comes in the end.
std::uint64_t end_ticket(const Item& item, std::uint32_t offset) {
  return std::min(u64_at(item.bytes, offset, 0), ~std::uint64_t(0) - 1);
}

} // namespace

Merge::Merge(std::vector<LaunchLog*> logs)
    : logs_(std::move(logs)),
      places_(logs_.front()->shape_.places ? *logs_.front()->shape_.places : logs_.front()->own_places_) {
  keys_.assign(1024, 0);
  indices_.assign(1024, 0);
  std::size_t lanes = 0;
  for (const LaunchLog* log : logs_) lanes += std::size_t(log->shape_.blocks) * ((log->shape_.threads + 31) / 32) * 32;
  buckets_.assign(std::bit_ceil(std::clamp<std::size_t>(lanes, 1024, std::size_t(1) << 24)), none);
  // As many as overlap at one time.
  reader_buckets_.assign(std::min<std::size_t>(buckets_.size(), std::size_t(1) << 18), none);
}

void Merge::take_in() {
  for (LaunchLog* log : logs_) {
    std::vector<LaunchLog::Block*> fresh;
    for (auto& [index, block] : log->blocks_) {
      if (!block->merging) fresh.push_back(block.get());
    }
    std::sort(fresh.begin(), fresh.end(), [](const auto* a, const auto* b) { return a->index < b->index; });
    for (LaunchLog::Block* block : fresh) {
      block->merging = true;
      home_numbers_[log->first_block_ + block->index] = std::uint32_t(homes_.size());
      home_.insert(home_.end(), block->warps.size(), std::uint32_t(homes_.size()));
      homes_.push_back({block, std::uint32_t(warps_.size()), none});
      for (LaunchLog::Warp& warp : block->warps) warps_.push_back(&warp);
    }
  }
  blocks_.resize(homes_.size());
  futures_.resize(homes_.size());
}

std::uint64_t Merge::limit_of(std::uint32_t block) const {
  LaunchLog::Block* of = homes_[block].block;
  return round_ == ~0u || !of || !of->alive ? ~std::uint64_t(0) : of->tickets.before(round_);
}

std::uint64_t Merge::settle_before(std::uint32_t round) {
  const std::uint64_t before = ended_;
  round_ = round;
  // What was given in round `round` or later was reserved after the one before it began, and took its tickets then. Of
  // round `round` itself something may still wait in its warp, behind an access whose ring's ticket is the block's
  // latest.
  limit_ = logs_.front()->tickets_.before(round - 1);
  run();
  forget_ended();
  return ended_ - before;
}

void Merge::run() {
  take_in();
  for (std::uint32_t w = 0; w < warps_.size(); ++w) {
    if (warps_[w]) advance(w);
  }
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
    if (!blocks_[block].empty()) ready_.push_back(block);
  }
  for (;;) {
    if (!ready_.empty()) {
      const std::uint32_t block = ready_.back();
      ready_.pop_back();
      settle_block(block);
      continue;
    }
    if (device_.empty() || device_.top().after >= limit_) break;
    const Entry next = device_.top();
    device_.pop();
    if (current(next)) settle(next.head);
  }
}

// Blocks whose threads have ended and whose items are written.
void Merge::forget_ended() {
  for (Home& home : homes_) {
    if (!home.block || home.block->alive) continue;
    bool written = true;
    for (const LaunchLog::Warp& warp : home.block->warps) written &= warp.items.empty();
    if (!written) continue;
    LaunchLog& log = *home.block->warps.front().log;
    const std::uint32_t index = home.block->index, count = std::uint32_t(home.block->warps.size());
    for (std::uint32_t w = 0; w < count; ++w) warps_[home.first_warp + w] = nullptr;
    Queue().swap(blocks_[home_[home.first_warp]]);
    Queue().swap(futures_[home_[home.first_warp]]);
    // Where there are clusters, other blocks may have been there.
    for (std::uint32_t cell = home.cells; cell != none && log.shape_.cluster.count() == 1;) {
      const std::uint32_t next = cells_[cell].of_block;
      forget_cell(cell);
      cell = next;
    }
    home_numbers_.erase(log.first_block_ + index);
    home.block = nullptr;
    log.blocks_.erase(index);
  }
}

void Merge::finish() {
  round_ = ~0u;
  limit_ = ~std::uint64_t(0);
  run();
  // What waits for threads of a cluster that did not come: segments are missing. What there is, is written.
  while (pass_stuck_cluster()) run();
  for (const LaunchLog::Warp* warp : warps_)
    if (warp && !warp->items.empty()) ++warp->log->damaged_;
}

// In the order of the ring's tickets, up to an access of global memory: that one must wait for the device's.
void Merge::settle_block(std::uint32_t block) {
  Queue& queue = blocks_[block];
  const std::uint64_t limit = limit_of(block);
  while (!queue.empty()) {
    const Entry next = queue.top();
    if (next.after >= limit || (current(next) && !heads_[next.head]->slot->in_block)) return;
    queue.pop();
    if (current(next)) settle(next.head);
  }
}

void Merge::advance(std::uint32_t first) {
  std::vector<std::uint32_t> ready{first};
  advance_all(ready);
}

void Merge::advance_all(std::vector<std::uint32_t>& ready) {
  while (!ready.empty()) {
    const std::uint32_t w = ready.back();
    ready.pop_back();
    WarpQueue& queue = warps_[w]->items;
    for (std::uint32_t item = queue.next(); item != WarpQueue::none; item = queue.next()) {
      if (begin(w, item, ready)) queue.done(item);
    }
  }
}

bool Merge::begin(std::uint32_t w, std::uint32_t number, std::vector<std::uint32_t>& ready) {
  LaunchLog::Warp& warp = *warps_[w];
  const Item& item = warp.items.item(number);
  if (item.gate) {
    item.gate->here.emplace_back(w, number);
    reached(std::shared_ptr(item.gate), ready);
    return false;
  }
  if (item.slot && ticketed(*item.slot)) return !open(w, number);
  if (item.slot && item.slot->kind == ptx::Slot::Kind::event) {
    const Site& site = (*warp.log->shape_.sites)[item.slot->site];
    if (site.kind == SiteKind::cluster_barrier) {
      Cluster& cluster = cluster_of(warp);
      if (site.wait_only && waits(cluster, {w, number})) {
        cluster.waiting.emplace_back(w, number);
        return false;
      }
      at_cluster(w, item, ready);
      return true;
    }
    if (site.kind == SiteKind::exit) {
      left_cluster(w, item.lanes, ready);
      warp.items.left(item.lanes);
    }
  }
  warp.log->write(warp, item);
  return true;
}

// One more of those that the gate stands for.
void Merge::reached(const std::shared_ptr<Gate>& gate, std::vector<std::uint32_t>& ready) {
  if (--gate->missing) return;
  for (const trace::Record& record : gate->records) gate->output->record(record);
  for (const auto& [w, item] : gate->here) {
    warps_[w]->items.done(item);
    ready.push_back(w);
  }
  if (gate->completes) reached(gate->completes, ready);
}

const Merge::What& Merge::what_of(const LaunchLog& log, const ptx::Slot& slot) {
  auto [at, fresh] = whats_.try_emplace(&slot);
  if (fresh) {
    const Site& site = (*log.shape_.sites)[slot.site];
    What& what = at->second;
    what.reads = site.access != AccessKind::write;
    what.writes = site.access != AccessKind::read;
    what.valued = slot.valued;
    what.whole = slot.after_only;
    what.bytes = site.element_bytes;
    what.kind = kind_of(site, slot);
    what.operation = atomic_operation(site.opcode, site.element_bytes);
  }
  return at->second;
}

bool Merge::open(std::uint32_t w, std::uint32_t number) {
  LaunchLog::Warp& warp = *warps_[w];
  const Item& item = warp.items.item(number);
  const ptx::Slot& slot = *item.slot;
  const What& what = what_of(*warp.log, slot);
  std::uint32_t place = std::uint32_t(heads_.size());
  if (spare_.empty()) {
    heads_.push_back(std::make_unique<Head>());
  } else {
    place = spare_.back();
    spare_.pop_back();
  }
  Head& head = *heads_[place];
  head.slot = &slot;
  head.what = &what;
  head.warp = &warp;
  head.number = place;
  head.of_warp = w;
  head.item = number;
  head.turn = ++turns_;
  head.before = slot.after_only || slot.kind == ptx::Slot::Kind::heap ? 0 : u64_at(item.bytes, slot.offset, 0);
  head.after = end_ticket(item, slot.offset + 8);
  head.lanes = head.left = head.shared = head.wrote = head.known = 0;
  head.readers = head.waiting = head.leading = head.vague = head.at_first = head.future = head.walked = 0;
  if (slot.kind == ptx::Slot::Kind::strong) {
    open_lanes(head, item);
    each_lane(head.left, [&](unsigned l) { link(head, l); });
    if (head.future) (slot.in_block ? futures_[home_[w]] : future_).push({head.before, head.turn, w, place});
  } else if (slot.kind == ptx::Slot::Kind::heap) {
    each_lane(header_of(item.bytes).mask, [&](unsigned l) { // malloc that failed gives no memory, free takes none
      head.address[l] = u64_at(item.bytes, slot.address, l);
      if (head.address[l]) head.lanes |= 1u << l;
      if (slot.size) head.written[l] = u64_at(item.bytes, slot.size, l);
    });
    head.left = head.lanes;
  } else {
    open_steps(head, item);
  }
  if (head.left) {
    await(head, slot, item);
    return true;
  }
  head.turn = 0; // every guard was false
  spare_.push_back(place);
  return false;
}

void Merge::open_lanes(Head& head, const Item& item) {
  const ptx::Slot& slot = *head.slot;
  const What& what = *head.what;
  const LaunchLog::Warp& warp = *head.warp;
  auto value_at = [&](std::uint32_t offset, unsigned lane) {
    return slot.short_values ? u32_at(item.bytes, offset, lane) : u64_at(item.bytes, offset, lane);
  };
  each_lane(header_of(item.bytes).mask, [&](unsigned l) {
    std::uint64_t address;
    bool shared = slot.narrow;
    if (slot.narrow) {
      address = u32_at(item.bytes, slot.address, l);
      if (slot.guarded && address == ~0u) return;
    } else {
      address = u64_at(item.bytes, slot.address, l);
      if (address == ~std::uint64_t(0)) return;
      shared = address & shared_mark;
      address &= ~shared_mark;
    }
    if (shared && !slot.ranked) address &= cluster_offset_mask;
    const std::uint32_t bit = 1u << l;
    head.lanes |= bit;
    if (shared) head.shared |= bit;
    head.address[l] = address;
    head.read[l] = head.written[l] = 0;
    if (shared) {
      const Place at = warp.log->place_of(warp.block, shared_window + address);
      head.cell[l] = cell_of(shared_mark | std::uint64_t(warp.log->first_block_ + at.block) << 32 |
                             what.kind << shared_kind_shift | at.offset);
    } else {
      head.cell[l] = cell_of(what.kind << kind_shift | address);
    }
    if (what.writes) head.wrote |= bit;
    if (!what.valued) { // as if all values were the same: no others are compared with them
      head.known |= bit;
      return;
    }
    if (what.reads) head.read[l] = value_at(slot.value_read, l);
    if (!what.writes) return;
    const std::uint64_t operand = slot.operand_known ? slot.number : value_at(slot.operand, l);
    if (slot.digest) head.digest[l] = u32_at(item.bytes, slot.digest, l);
    if (!what.reads) {
      head.written[l] = operand;
      head.known |= bit;
      return;
    }
    const AtomicResult result =
        atomic_result(what.operation, head.read[l], operand, slot.compares ? value_at(slot.compared, l) : 0);
    if (!result.wrote) head.wrote &= ~bit;
    if (result.written) {
      head.written[l] = *result.written;
      head.known |= bit;
    }
  });
  head.left = head.lanes;
}

// In the order of the tickets: a free took its before it was called, malloc when it had returned.
void Merge::settle_heap(Head& head) {
  LaunchLog& log = *head.warp->log;
  const trace::Warp warp{log.shape_.launch, head.warp->block, head.warp->number};
  each_lane(std::exchange(head.left, 0), [&](unsigned l) {
    const std::uint32_t thread = warp.warp * 32 + l;
    if (head.slot->size) {
      const std::uint64_t bytes = std::max<std::uint64_t>((head.written[l] + 15) / 16, 1) * 16;
      log.output_.record(trace::HeapBlock{warp.launch, warp.block, thread, head.address[l], bytes});
    } else {
      log.output_.record(
          trace::HeapFree{warp.launch, warp.block, thread, log.shape_.module, head.slot->site, head.address[l], 0});
    }
  });
  close(head);
}

void Merge::close(Head& head) {
  const std::uint32_t w = head.of_warp;
  if (head.slot->both_tickets) ready_.push_back(home_[w]);
  head.turn = 0;
  spare_.push_back(head.number);
  ++ended_;
  warps_[w]->items.done(head.item);
  advance(w);
}

// The head's turn comes with the ticket after it.
void Merge::await(const Head& head, const ptx::Slot& slot, const Item& item) {
  const std::uint32_t w = head.of_warp, block = home_[w];
  if (slot.in_block || slot.both_tickets) {
    const std::uint64_t after = slot.in_block ? head.after : end_ticket(item, slot.offset + 16);
    blocks_[block].push({after, head.turn, w, head.number});
    if (ready_.empty() || ready_.back() != block) ready_.push_back(block);
  }
  if (!slot.in_block) device_.push({head.after, head.turn, w, head.number});
}

// ---- locations

std::uint32_t Merge::cell_of(std::uint64_t key) {
  if (2 * (cells_.size() - free_cells_.size() + 1) > keys_.size()) {
    std::vector<std::uint64_t> keys(2 * keys_.size(), 0);
    std::vector<std::uint32_t> indices(keys.size());
    const std::size_t mask = keys.size() - 1;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (!indices_[i]) continue;
      std::size_t at = slot_of_key(keys_[i], mask);
      while (indices[at]) at = (at + 1) & mask;
      keys[at] = keys_[i];
      indices[at] = indices_[i];
    }
    keys_.swap(keys);
    indices_.swap(indices);
  }
  const std::size_t mask = keys_.size() - 1;
  std::size_t at = slot_of_key(key, mask);
  for (; indices_[at]; at = (at + 1) & mask) {
    if (keys_[at] == key) return indices_[at] - 1;
  }
  std::uint32_t made = std::uint32_t(cells_.size());
  if (free_cells_.empty()) {
    cells_.emplace_back();
  } else {
    made = free_cells_.back();
    free_cells_.pop_back();
    cells_[made] = {};
  }
  cells_[made].key = keys_[at] = key;
  indices_[at] = made + 1;
  if (key & shared_mark) {
    if (auto home = home_numbers_.find(std::uint32_t(key >> 32 & 0x7FFF'FFFF)); home != home_numbers_.end()) {
      cells_[made].of_block = homes_[home->second].cells;
      homes_[home->second].cells = made;
    }
  }
  return made;
}

// What follows in the table moves up (Knuth, TAOCP 3, 6.4, algorithm R).
void Merge::forget_cell(std::uint32_t cell) {
  const std::size_t mask = keys_.size() - 1;
  std::size_t hole = slot_of_key(cells_[cell].key, mask);
  while (indices_[hole] != cell + 1) hole = (hole + 1) & mask;
  for (std::size_t at = (hole + 1) & mask; indices_[at]; at = (at + 1) & mask) {
    if (((at - slot_of_key(keys_[at], mask)) & mask) < ((at - hole) & mask)) continue;
    keys_[hole] = keys_[at];
    indices_[hole] = indices_[at];
    hole = at;
  }
  indices_[hole] = 0;
  free_cells_.push_back(cell);
}

// A lane that stores waits among those of its cell that write, one that does not (a failed cas too) among its readers.
void Merge::link(Head& head, unsigned l) {
  const std::uint32_t bit = 1u << l;
  Cell& cell = cells_[head.cell[l]];
  if (head.wrote & bit) {
    enter(head, l, 0);
    head.waiting |= bit;
    // Where there is nothing but atomic operations, each follows the one before, once the first is known.
    if (head.what->reads && (head.known & bit) && (!cell.known || !head.slot->after_only)) {
      enter(head, l, 1);
      head.leading |= bit;
    }
    return;
  }
  head.readers |= bit;
  head.stands[l] = 0;
  if (head.before >= now_)
    head.future |= bit;
  else
    join(head, l);
}

void Merge::join(Head& head, unsigned l) {
  Cell& cell = cells_[head.cell[l]];
  const std::uint32_t node = head.number * 32 + l;
  head.next[l] = none;
  head.previous[l] = cell.last;
  if (cell.last == none)
    cell.first = node;
  else
    heads_[cell.last / 32]->next[cell.last % 32] = node;
  cell.last = node;
  put_in(readers_of(head.cell[l], head.read[l]), head, 2 * l);
}

void Merge::begin_reads(const Head& settled) {
  Queue& queue = settled.slot->in_block ? futures_[home_[settled.of_warp]] : future_;
  while (!queue.empty() && queue.top().after < now_) {
    const Entry next = queue.top();
    queue.pop();
    if (!current(next)) continue;
    Head& head = *heads_[next.head];
    each_lane(std::exchange(head.future, 0), [&](unsigned l) { join(head, l); });
  }
}

void Merge::unlink(Head& head, unsigned l) {
  const std::uint32_t bit = 1u << l;
  if (head.waiting & bit) leave(head, l, 0);
  if (head.leading & bit) leave(head, l, 1);
  if (!(head.readers & bit)) return;
  if (head.future & bit) {
    head.future &= ~bit;
    return;
  }
  Cell& cell = cells_[head.cell[l]];
  const std::uint32_t next = head.next[l], previous = head.previous[l];
  if (previous == none)
    cell.first = next;
  else
    heads_[previous / 32]->next[previous % 32] = next;
  if (next == none)
    cell.last = previous;
  else
    heads_[next / 32]->previous[next % 32] = previous;
  take_out(readers_of(head.cell[l], head.read[l]), head, 2 * l);
}

namespace {

std::uint64_t mixed(std::uint32_t cell, std::uint64_t value) {
  return (value + std::uint64_t(cell) * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u >> 24;
}

} // namespace

std::uint32_t& Merge::bucket_of(std::uint32_t cell, std::uint64_t value, unsigned side) {
  return buckets_[mixed(cell, value * 2 + side) & (buckets_.size() - 1)];
}

std::uint32_t& Merge::readers_of(std::uint32_t cell, std::uint64_t value) {
  return reader_buckets_[mixed(cell, value) & (reader_buckets_.size() - 1)];
}

std::uint64_t Merge::value_of(const Head& head, unsigned l, unsigned side) const {
  return side == 0 && head.what->reads ? head.read[l] : head.written[l];
}

void Merge::enter(Head& head, unsigned l, unsigned side) {
  put_in(bucket_of(head.cell[l], value_of(head, l, side), side), head, 2 * l + side);
}

void Merge::put_in(std::uint32_t& bucket, Head& head, std::uint32_t at) {
  head.chain_next[at] = bucket;
  head.chain_previous[at] = none;
  const std::uint32_t entry = head.number * 64 + at;
  if (bucket != none) heads_[bucket / 64]->chain_previous[bucket % 64] = entry;
  bucket = entry;
}

void Merge::leave(Head& head, unsigned l, unsigned side) {
  take_out(bucket_of(head.cell[l], value_of(head, l, side), side), head, 2 * l + side);
}

void Merge::take_out(std::uint32_t& bucket, Head& head, std::uint32_t at) {
  const std::uint32_t next = head.chain_next[at], previous = head.chain_previous[at];
  if (previous == none)
    bucket = next;
  else
    heads_[previous / 64]->chain_next[previous % 64] = next;
  if (next != none) heads_[next / 64]->chain_previous[next % 64] = previous;
}

std::uint32_t Merge::find_before(std::uint64_t after, std::uint32_t own, std::uint32_t cell, std::uint64_t value,
                                 unsigned side, bool stores) const {
  std::uint32_t best = none;
  std::uint64_t least = 0;
  std::uint32_t entry = const_cast<Merge*>(this)->bucket_of(cell, value, side);
  for (int steps = 0; entry != none && steps < 256; ++steps) {
    const Head& other = *heads_[entry / 64];
    const unsigned at = entry % 64, l = at / 2;
    const std::uint32_t node = entry / 2;
    entry = other.chain_next[at];
    if (at % 2 != side || other.cell[l] != cell || other.what->reads == stores || value_of(other, l, side) != value ||
        other.before >= after || (side == 0 && other.number == own)) {
      continue;
    }
    if (best != none && other.after >= least) continue;
    best = node;
    least = other.after;
  }
  return best;
}

} // namespace deadheat::device_log
