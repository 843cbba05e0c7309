#include "analyzer/detect/shadow.h"

#include <algorithm>
#include <bit>

namespace deadheat::detect {

namespace {

constexpr std::size_t crowded = 24;  // entries of a word from which covered ones of other sides are dropped too
// Entries of a word at most: beyond, a new one takes the place of another, of its own side if there is one near.
constexpr std::size_t most_entries = 128;

}  // namespace

Shadow::Page& Shadow::page(std::uint64_t memory, std::uint64_t address) {
  PageKey key{memory, address / page_bytes};
  if (key == last_key_) return *last_page_;
  std::unique_ptr<Page>& page = pages_[key];
  if (!page) {
    page = std::make_unique<Page>();
    if (memory) shared_pages_[order::OperationIndex((memory - 1) >> 32)][memory - 1].push_back(key);
  }
  last_key_ = key;
  last_page_ = page.get();
  return *page;
}

void Shadow::forget_shared(order::OperationIndex operation) {
  auto found = shared_pages_.find(operation);
  if (found == shared_pages_.end()) return;
  for (const auto& [block, keys] : found->second) {
    for (const PageKey& key : keys) pages_.erase(key);
  }
  shared_pages_.erase(found);
  last_key_ = {~0ull, ~0ull};
}

void Shadow::forget_shared(order::ThreadKey block) {
  auto found = shared_pages_.find(block.operation());
  if (found == shared_pages_.end()) return;
  auto pages = found->second.find(block.block_bits());
  if (pages == found->second.end()) return;
  for (const PageKey& key : pages->second) pages_.erase(key);
  found->second.erase(pages);
  last_key_ = {~0ull, ~0ull};
}

void Shadow::forget_range(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes, first = address / page_bytes, last = (end + page_bytes - 1) / page_bytes;
  auto forget = [&](auto at) {
    const std::uint64_t base = at->first.number * page_bytes;
    if (address <= base && base + page_bytes <= end) return pages_.erase(at);
    for (std::uint64_t word = 0; word < at->second->words.size(); ++word) {
      if (address <= base + 4 * word && base + 4 * word + 4 <= end) at->second->words[word].clear();
    }
    return std::next(at);
  };
  last_key_ = {~0ull, ~0ull};
  if (last - first <= pages_.size()) {
    for (std::uint64_t number = first; number < last; ++number) {
      if (auto at = pages_.find({0, number}); at != pages_.end()) forget(at);
    }
    return;
  }
  for (auto at = pages_.begin(); at != pages_.end();) {
    bool inside = at->first.memory == 0 && first <= at->first.number && at->first.number < last;
    at = inside ? forget(at) : std::next(at);
  }
}

// A read outside the memory model (8.1): whatever its launch writes may or may not be seen, synchronized or not.
bool Shadow::outside_model(const MemoryAccess& first, const MemoryAccess& second) const {
  return first.thread.operation() == second.thread.operation() &&
         ((first.ordering == Ordering::nc && second.writes()) || (second.ordering == Ordering::nc && first.writes()));
}

bool Shadow::morally_strong(const MemoryAccess& first, const MemoryAccess& second) const {
  return is_strong(first.ordering) && is_strong(second.ordering) && first.address == second.address &&
         first.bytes == second.bytes && !first.group && !second.group &&
         causality_.mutual(first.thread, first.scope, second.thread, second.scope);
}

// Is every lane of `first` ordered before every lane of `second`? Else says which lane of `first` is not.
bool Shadow::ordered(const MemoryAccess& first, const MemoryAccess& second, order::ThreadKey* unordered) const {
  auto lanes = [](const MemoryAccess& access, auto&& each) {
    std::uint32_t base = access.thread.thread() & ~31u;
    if (access.lanes == 1) return each(access.thread);
    for (std::uint32_t rest = access.lanes; rest; rest &= rest - 1) {
      order::ThreadKey key(access.thread.operation(), access.thread.block(),
                           base + std::uint32_t(std::countr_zero(rest)));
      if (!each(key)) return false;
    }
    return true;
  };
  return lanes(second, [&](order::ThreadKey to) {
    return lanes(first, [&](order::ThreadKey from) {
      if (causality_.ordered(from, first.stamp, first.group, to)) return true;
      *unordered = from;
      return false;
    });
  });
}

// True when `older` is ordered before `entry`; reports the conflict when it is not.
bool Shadow::check(std::uint64_t memory, const Entry& older, const Entry& entry, std::uint64_t address) {
  const MemoryAccess &first = older.access, &second = entry.access;
  order::ThreadKey unordered = first.thread;
  bool before = ordered(first, second, &unordered);
  if (before && !outside_model(first, second)) return true;
  if (!first.writes() && !second.writes()) return false;
  if (first.writes() && first.stored && is_strong(first.ordering) &&
      causality_.observed({memory, first.address}, first.stamp, second.thread, second.stamp)) {
    return true;
  }
  Conflict conflict = Conflict::data;
  if (morally_strong(first, second)) {
    conflict = first.atomic_operation() && second.atomic_operation() ? Conflict::atomics : Conflict::strong;
  }
  // An element of several words is reported at the first that both touch.
  std::uint64_t begin = std::max(first.address, second.address);
  if (begin / 4 == address / 4 || first.bytes > 16 || second.bytes > 16) {
    std::uint64_t end = std::min(first.address + first.bytes, second.address + second.bytes);
    MemoryAccess named = first;
    named.thread = unordered;
    named.lanes = 1;
    begin = std::max(begin, address);
    sink_(conflict, named, second, {memory, begin, end > begin ? std::uint32_t(end - begin) : 4});
  }
  return before;
}

void Shadow::word(std::uint64_t memory, std::vector<Entry>& entries, const Entry& entry, std::uint64_t address) {
  const MemoryAccess& access = entry.access;
  SideId side = sides_.place(access.place).side;
  bool full = entries.size() >= crowded;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry& older = entries[i];
    bool drop = false;
    if (older.mask & entry.mask) {
      bool same_side = sides_.place(older.access.place).side == side;
      bool conflict = older.access.writes() || access.writes();
      if (conflict || same_side || full) {
        bool before = check(memory, older, entry, address);
        bool covered = (older.mask & ~entry.mask) == 0;
        // Would a later access be morally strong with the one if it is with the other?
        bool alike =
            !is_strong(access.ordering) ||
            (is_strong(older.access.ordering) && access.thread.block_bits() == older.access.thread.block_bits() &&
             access.scope == older.access.scope && access.address == older.access.address &&
             access.bytes == older.access.bytes);
        // Of read-modify-writes that link to each other the last stands for all (they are in observation order).
        bool linked = alike && access.atomic_operation() && older.access.atomic_operation() && older.access.stored &&
                      access.continues && older.access.stamp >= access.continues;
        // A strong write may be ordered by having been observed, which says nothing about what came before it.
        bool observable = is_strong(access.ordering) && access.writes() && older.access.writes();
        bool stands_for = linked || (before && alike && (!observable || full));
        bool overwrites =
            before && full && access.kind == AccessKind::write && !is_strong(access.ordering) && !access.group;
        drop = covered && ((same_side && stands_for) || overwrites);
      }
    }
    if (!drop) {
      if (kept != i) entries[kept] = std::move(entries[i]);
      ++kept;
    }
  }
  entries.resize(kept);
  if (kept < most_entries) {
    entries.push_back(entry);
    return;
  }
  const std::size_t start = std::size_t(access.stamp * 0x9e3779b97f4a7c15u >> 32) % kept;
  std::size_t victim = start;
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t at = (start + i) % kept;
    if (sides_.place(entries[at].access.place).side != side) continue;
    victim = at;
    break;
  }
  entries[victim] = entry;
}

void Shadow::access(std::uint64_t memory, const MemoryAccess& access) {
  if (!access.bytes || access.address >= address_limit || !suspects_.touches(memory, access.address, access.bytes))
    return;
  std::uint64_t end = access.address + access.bytes;
  for (std::uint64_t at = access.address & ~3ull; at < end; at += 4) {
    Page& page = this->page(memory, at);
    Entry entry{access, 15};
    if (at < access.address) entry.mask &= std::uint8_t(15 << (access.address - at));
    if (at + 4 > end) entry.mask &= std::uint8_t(15 >> (at + 4 - end));
    for (const Entry& older : page.whole) {
      if (older.access.writes() || access.writes()) check(memory, older, entry, at);
    }
    word(memory, page.words[at % page_bytes / 4], entry, at);
  }
}

void Shadow::range(std::uint64_t memory, MemoryAccess access, std::uint64_t address, std::uint64_t bytes) {
  access.record_bytes = 0;
  for (std::uint64_t end = address + bytes; address < end;) {
    std::uint64_t page_end = std::min(end, (address / page_bytes + 1) * page_bytes);
    access.address = address;
    access.bytes = std::uint32_t(page_end - address);
    if (!suspects_.page(memory, address)) {
      address = page_end;
      continue;
    }
    Page& page = this->page(memory, address);
    if (access.bytes == page_bytes) {
      Entry entry{access, 15};
      for (std::size_t i = 0; i < page.words.size(); ++i) {
        if (!page.words[i].empty()) {
          for (const Entry& older : page.words[i]) {
            if (older.access.writes() || access.writes()) check(memory, older, entry, address + 4 * i);
          }
          // What this operation comes after is covered by it.
          if (access.kind == AccessKind::write) {
            std::erase_if(page.words[i], [&](const Entry& older) {
              order::ThreadKey unordered;
              return ordered(older.access, access, &unordered);
            });
          }
        }
      }
      word(memory, page.whole, entry, address);
    } else {
      for (const Entry& older : page.whole) {
        if (older.access.writes() || access.writes()) check(memory, older, {access, 15}, address & ~3ull);
      }
      for (std::uint64_t at = address & ~3ull; at < page_end; at += 4) {
        Entry entry{access, 15};
        if (at < address) entry.mask &= std::uint8_t(15 << (address - at));
        if (at + 4 > page_end) entry.mask &= std::uint8_t(15 >> (at + 4 - page_end));
        word(memory, page.words[at % page_bytes / 4], entry, at);
      }
    }
    address = page_end;
  }
}

} // namespace deadheat::detect
