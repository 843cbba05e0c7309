// Which strong access of a location comes after which: by the tickets, and by values where tickets overlap.
//
// Writes have their place when their turn comes, or when a later one needs what they left: an atomic operation follows
// the write whose value it read, so before a store that overlaps with it come those that saw what it replaces. Reads
// that do not write are settled in their turn, when all that they can have seen is open or has its place; a write that
// replaces what an open read saw notes for it where it may stand. Of several writes that a read can have seen, it is
// given the newest: that orders most. Where the value was there before, too, its place is an interval.
#include <algorithm>
#include <utility>

#include "tracer/device_log/merge.h"
#include "tracer/device_log/slots.h"

namespace deadheat::device_log {

bool Merge::fits(const Head& head, unsigned l) const {
  const Cell& cell = cells_[head.cell[l]];
  return !head.what->reads || !cell.known || cell.bits == head.read[l];
}

// The lane comes next. `first`: where its interval begins; 0: the place is exact, if that of the write before it is.
void Merge::place(Head& head, unsigned l, std::uint64_t first) {
  const std::uint32_t bit = 1u << l;
  Cell& cell = cells_[head.cell[l]];
  if ((head.wrote & bit) || cell.bits != head.read[l]) note_reads(head.cell[l]);
  if (head.what->reads) {
    if (cell.guessed && !first) first = 1;
    cell.bits = head.read[l];
    cell.known = true;
  }
  if (head.wrote & bit) {
    cell.bits = head.written[l];
    cell.known = head.known & bit;
    cell.guessed = false;
  }
  head.last[l] = ++places_;
  head.first[l] = first ? first : head.last[l];
  head.left &= ~bit;
  unlink(head, l);
}

// Open reads that can have seen what the write replaces may stand here, before it. Where nobody knows what that is, it
// is what the location held at first.
void Merge::note_reads(std::uint32_t of) {
  const Cell& cell = cells_[of];
  if (cell.first == none) return;
  auto note = [&](Head& reader, unsigned r) {
    if (reader.before >= now_) return;
    reader.stands[r] = ++places_;
    const std::uint32_t bit = 1u << r;
    reader.vague = cell.guessed ? reader.vague | bit : reader.vague & ~bit;
    reader.at_first = cell.known ? reader.at_first & ~bit : reader.at_first | bit;
  };
  if (cell.known) {
    for (std::uint32_t entry = readers_of(of, cell.bits); entry != none;) {
      Head& reader = *heads_[entry / 64];
      const unsigned r = entry % 64 / 2;
      if (reader.cell[r] == of && reader.read[r] == cell.bits) note(reader, r);
      entry = reader.chain_next[entry % 64];
    }
    return;
  }
  for (std::uint32_t node = cell.first; node != none;) {
    Head& reader = *heads_[node / 32];
    note(reader, node % 32);
    node = reader.next[node % 32];
  }
}

// A lane of an open head, before what is settled; or of that itself.
void Merge::place_now(std::uint32_t node) {
  Head& head = *heads_[node / 32];
  const unsigned l = node % 32;
  if (!head.what->reads) atomics_first(head, l);
  if (head.number == settling_) {
    place(head, l, 0);
    settled_lanes_ |= 1u << l;
    return;
  }
  // Its lanes that have their place are written first: this one may have seen what they left.
  Head& settled = *heads_[settling_];
  if (settled_lanes_ && settled.left) placed(settled, std::exchange(settled_lanes_, 0));
  place(head, l, 0);
  placed(head, 1u << l);
}

// A store is about to replace what open atomic operations have read: these come first, and what read what they left.
void Merge::atomics_first(const Head& store, unsigned l) {
  const std::uint32_t cell = store.cell[l];
  while (cells_[cell].known && cells_[cell].bits != store.written[l]) {
    const std::uint32_t node = find_before(now_, store.number, cell, cells_[cell].bits, 0, false);
    if (node == none) return;
    place_now(node);
  }
}

// An open atomic operation of the location that overlaps with `head` and left `value`, that this walk (until end_walk)
// has not come to yet.
std::uint32_t Merge::walk_back(const Head& head, std::uint32_t cell, std::uint64_t value) {
  const std::uint32_t node = find(head, cell, value, 1, false);
  return node != none && walk_to(node) ? node : none;
}

bool Merge::walk_to(std::uint32_t node) {
  std::uint32_t& walked = heads_[node / 32]->walked;
  const std::uint32_t bit = 1u << node % 32;
  if (walked & bit) return false;
  walked |= bit;
  walk_.push_back(node);
  return true;
}

void Merge::end_walk() {
  for (std::uint32_t node : walk_) heads_[node / 32]->walked = 0;
  walk_.clear();
}

// Places open heads that can come before `head` so that the last of them leaves `value`. False: they cannot. `guess`:
// what the first of them saw, the location may have held.
bool Merge::produce(const Head& head, std::uint32_t cell, std::uint64_t value, bool guess) {
  bool explained = false;
  for (;;) {
    if (cells_[cell].known && cells_[cell].bits == value) {
      explained = true;
      break;
    }
    std::uint32_t node = find(head, cell, value, 0, true);
    if (node != none) {
      explained = true;
      place_now(node);
      break;
    }
    node = find(head, cell, value, 1, false);
    if (node == none || node / 32 == head.number || !walk_to(node)) break;
    value = heads_[node / 32]->read[node % 32];
  }
  const std::vector<std::uint32_t> chain = walk_; // atomic operations, the last one first
  end_walk();
  if (!explained) {
    if (!guess || chain.empty()) return false;
    note_reads(cell);
    cells_[cell].bits = value;
    cells_[cell].known = cells_[cell].guessed = true;
  }
  for (auto node = chain.rbegin(); node != chain.rend(); ++node) {
    const Head& other = *heads_[*node / 32];
    const unsigned l = *node % 32;
    if (!(other.left >> l & 1) || other.cell[l] != cell || other.before >= now_ || !fits(other, l)) return false;
    place_now(*node);
  }
  return true;
}

// Nobody has seen the location yet. What overlaps and left what this one read came before it, and so on. Where that
// ends at a store, the store came first: the same bits may have been there before it, but who relies on the store is
// right only if they were not. Where they go round (a counter that wraps, a lock), nothing tells where it began: with
// zero, if one of them read that, as memory of such use is cleared.
void Merge::find_beginning(const Head& head, unsigned l) {
  const std::uint32_t cell = head.cell[l];
  std::uint64_t value = head.read[l];
  bool any_zero = value == 0;
  for (std::uint32_t node = walk_back(head, cell, value); node != none; node = walk_back(head, cell, value)) {
    value = heads_[node / 32]->read[node % 32];
    any_zero |= value == 0;
  }
  end_walk();
  const bool round = find(head, cell, value, 1, false) != none;
  if (round && any_zero) value = 0;
  if (const std::uint32_t node = find(head, cell, value, 0, true); node != none) {
    place_now(node);
    return;
  }
  cells_[cell].bits = value;
  cells_[cell].known = true;
}

// A read that does not write, in its turn. False: nothing explains it, yet.
bool Merge::settle_read(Head& head, unsigned l) {
  const std::uint32_t cell = head.cell[l];
  const std::uint64_t value = head.read[l];
  const bool there = cells_[cell].known && cells_[cell].bits == value;
  std::uint64_t first = head.at_first >> l & 1 ? 0 : head.stands[l];
  std::uint32_t node = find(head, cell, value, 0, true);
  if (node != none && there && !first) first = ++places_;
  for (; node != none; node = find(head, cell, value, 0, true)) place_now(node);
  if (!cells_[cell].known && !head.stands[l]) find_beginning(head, l);
  if (fits(head, l) || produce(head, cell, value, false)) {
    place(head, l, first);
    return true;
  }
  if (!head.stands[l]) return false;
  if ((head.at_first >> l & 1) && produce(head, cell, value, true)) { // what that saw was there at first, then
    place(head, l, 1);
    return true;
  }
  head.last[l] = head.stands[l];
  head.first[l] = head.vague >> l & 1 ? 1 : head.stands[l];
  head.left &= ~(1u << l);
  unlink(head, l);
  return true;
}

// An atomic operation that nothing explains yet: some overlapping access must come before it.
bool Merge::place_earlier(const Head& head, unsigned l) {
  const std::uint32_t cell = head.cell[l];
  const std::uint32_t node = cells_[cell].known ? find(head, cell, cells_[cell].bits, 0, false) : none;
  if (node == none) return produce(head, cell, head.read[l], false);
  place_now(node);
  return true;
}

void Merge::settle(std::uint32_t number) {
  Head& head = *heads_[number];
  if (head.slot->kind == ptx::Slot::Kind::heap) return settle_heap(head);
  if (!head.steps.empty()) return settle_steps(head);
  now_ = head.after;
  settling_ = number;
  begin_reads(head);
  while (head.left) {
    settled_lanes_ = 0;
    for (std::uint32_t before = 0; before != head.left;) { // what writes first: reads take the newest
      before = head.left;
      each_lane(before & ~head.readers, [&](unsigned l) {
        if ((head.left >> l & 1) && try_write(head, l)) settled_lanes_ |= 1u << l;
      });
    }
    if (!(head.left & ~head.readers)) {
      each_lane(head.left, [&](unsigned l) {
        if (settle_read(head, l)) settled_lanes_ |= 1u << l;
      });
    }
    if (!settled_lanes_) {
      bool found = false;
      for (std::uint32_t left = head.left & ~head.readers; left && !found; left &= left - 1) {
        found = place_earlier(head, unsigned(__builtin_ctz(left)));
      }
      if (!found) guess(head);
    }
    if (const std::uint32_t now = std::exchange(settled_lanes_, 0); now && placed(head, now)) return;
  }
}

// The location was written by a weak access, or what was read is old: by value alone.
void Merge::guess(Head& head) {
  const std::uint32_t writers = head.left & ~head.readers;
  unsigned l = unsigned(__builtin_ctz(writers ? writers : head.left));
  ++head.warp->log->guessed_;
  if (!places_) ++places_;
  // Of lanes that saw what others of them left, by other heads' operations too, the first.
  const std::uint32_t cell = head.cell[l];
  walk_to(head.number * 32 + l);
  for (std::uint32_t node = walk_back(head, cell, head.read[l]); node != none;
       node = walk_back(head, cell, heads_[node / 32]->read[node % 32])) {
    if (node / 32 == head.number) l = node % 32;
  }
  end_walk();
  produce(head, cell, head.read[l], true);
  place(head, l, 1); // not exact
  if (!(head.wrote >> l & 1)) cells_[cell].guessed = true;
  settled_lanes_ |= 1u << l;
}

bool Merge::try_write(Head& head, unsigned l) {
  if (!cells_[head.cell[l]].known && (head.leading >> l & 1)) find_beginning(head, l);
  if (!fits(head, l)) return false;
  if (!head.what->reads) atomics_first(head, l);
  place(head, l, 0);
  return true;
}

bool Merge::placed(Head& head, std::uint32_t lanes) {
  if (!head.what->whole) emit(head, lanes);
  if (head.left) return false;
  if (head.what->whole) emit(head, head.lanes);
  close(head);
  return true;
}

void Merge::emit(Head& head, std::uint32_t lanes) {
  std::uint32_t digests[32] = {};
  each_lane(lanes & head.wrote, [&](unsigned l) {
    digests[l] = head.slot->digest ? head.digest[l] : digest(head.written[l], head.what->bytes);
  });
  LaunchLog& log = *head.warp->log;
  trace::AccessView view;
  view.warp = {log.shape_.launch, head.warp->block, head.warp->number};
  view.module = log.shape_.module;
  view.site = head.slot->site;
  view.strong = true;
  view.address = head.address;
  view.digest = digests;
  view.value_read = head.read;
  view.value_written = head.written;
  view.order_first = head.first;
  view.order_last = head.last;
  for (const bool shared : {false, true}) {
    view.space = shared ? Space::shared : Space::global;
    view.mask = lanes & (shared ? head.shared : ~head.shared);
    view.wrote = view.mask & head.wrote;
    if (view.mask) log.output_.access(view);
  }
}

} // namespace deadheat::device_log
