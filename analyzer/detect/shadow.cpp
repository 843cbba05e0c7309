#include "analyzer/detect/shadow.h"

#include <algorithm>
#include <bit>

#include "tracer/ptx/sites.h"

namespace deadheat::detect {

namespace {

bool same_threads(const MemoryAccess& a, const MemoryAccess& b) { return a.thread == b.thread && a.lanes == b.lanes; }

} // namespace

Shadow::Page& Shadow::page(std::uint64_t memory, std::uint64_t address) {
  PageKey key{memory, address / page_bytes};
  if (key == last_key_) return *last_page_;
  std::unique_ptr<Page>& page = pages_[key];
  if (!page) {
    page = std::make_unique<Page>();
    if (memory) shared_pages_[order::operation_of_block(memory - 1)][memory - 1].push_back(key);
  }
  last_key_ = key;
  last_page_ = page.get();
  return *page;
}

void Shadow::count_out(const Word& word) {
  entries_ -= word.live;
  if (word.index) indexed_ -= word.entries.size();
}

// Counts out what a page holds that is about to go.
void Shadow::forget(const Page& page) {
  count_out(page.whole);
  for (const std::unique_ptr<Word>& word : page.words) {
    if (!word) continue;
    count_out(*word);
    --words_;
  }
}

void Shadow::erase(const PageKey& key) {
  auto found = pages_.find(key);
  if (found == pages_.end()) return;
  forget(*found->second);
  pages_.erase(found);
}

void Shadow::forget_shared(order::OperationIndex operation) {
  auto found = shared_pages_.find(operation);
  if (found == shared_pages_.end()) return;
  for (const auto& [block, keys] : found->second) {
    for (const PageKey& key : keys) erase(key);
  }
  shared_pages_.erase(found);
  last_key_ = {~0ull, ~0ull};
}

void Shadow::forget_shared(order::ThreadKey block) {
  auto found = shared_pages_.find(block.operation());
  if (found == shared_pages_.end()) return;
  auto pages = found->second.find(block.block_bits());
  if (pages == found->second.end()) return;
  for (const PageKey& key : pages->second) erase(key);
  found->second.erase(pages);
  last_key_ = {~0ull, ~0ull};
}

void Shadow::forget_inactive() {
  std::vector<PageKey> inactive;
  for (const auto& [key, page] : pages_) {
    if (!share_.has_page(key.memory, key.number)) inactive.push_back(key);
  }
  for (const PageKey& key : inactive) erase(key);
  last_key_ = {~0ull, ~0ull};
}

Shadow::Halves Shadow::halves() const {
  constexpr std::size_t few_pages = 64; // of which one may have most
  std::uint64_t of_runs = runs_.bytes();
  runs_.each([&](const Word& whole) { of_runs += whole.live * sizeof(Entry); });
  if (2 * of_runs > bytes()) return Halves::neither;
  if (pages_.size() >= few_pages && share_.slice.page_bits < Slice::most_page_bits) return Halves::pages;
  return share_.slice.granule_bits < Slice::most_granule_bits ? Halves::granules : Halves::neither;
}

// The pages of global memory, in order, of which there is something.
template <typename Each>
void Shadow::each_page(std::uint64_t first, std::uint64_t end, Each&& each) {
  std::vector<std::pair<std::uint64_t, Page*>> found;
  if (end - first <= pages_.size()) {
    for (std::uint64_t number = first; number < end; ++number)
      if (const auto at = pages_.find({0, number}); at != pages_.end()) found.emplace_back(number, at->second.get());
  } else {
    for (const auto& [key, page] : pages_)
      if (!key.memory && first <= key.number && key.number < end) found.emplace_back(key.number, page.get());
    std::sort(found.begin(), found.end());
  }
  for (const auto& [number, page] : found) each(number, *page);
}

void Shadow::forget_range(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes, first = (address + page_bytes - 1) / page_bytes, last = end / page_bytes;
  last_key_ = {~0ull, ~0ull};
  if (first < last) {
    for (const std::uint64_t page : {first, last})
      if (const Word* const copied = runs_.cut(page)) entries_ += copied->live;
    runs_.erase(first, last, [&](const Word& whole) { count_out(whole); });
  }
  each_page(address / page_bytes, (end + page_bytes - 1) / page_bytes, [&](std::uint64_t number, Page& page) {
    if (first <= number && number < last) return erase({0, number});
    const std::uint64_t base = number * page_bytes;
    for (std::uint64_t word = 0; word < page.words.size(); ++word) {
      if (address > base + 4 * word || base + 4 * word + 4 > end || !page.words[word]) continue;
      count_out(*page.words[word]);
      --words_;
      page.words[word].reset();
    }
  });
}

// Was the value of the non-coherent read needed before the write of its launch, which it is ordered with, could come?
// Kernels that work in place read so where their parameters are said to be of different memory (const __restrict__).
bool Shadow::read_in_time(const MemoryAccess& read, const MemoryAccess& write) {
  if (!taken_ || read.writes() || read.thread.operation() != write.thread.operation()) return false;
  const Place &here = sides_.place(read.place), &there = sides_.place(write.place);
  if (!here.site || !there.site) return false;
  const bool own = read.thread == write.thread && read.lanes == 1 && write.lanes == 1 && !write.group &&
                   there.module == here.module && !is_strong(write.ordering);
  const auto [known, fresh] = in_time_.try_emplace({read.place, own ? write.place : 0});
  if (fresh) known->second = taken_(here.module, *here.site, own ? there.site : nullptr);
  return known->second;
}

// A read outside the memory model (8.1): whatever is written while its launch runs may or may not be seen, synchronized
// or not.
bool Shadow::outside_model(const MemoryAccess& first, const MemoryAccess& second) {
  if (!(first.ordering == Ordering::nc && second.writes()) && !(second.ordering == Ordering::nc && first.writes()))
    return false;
  // Through textures and surfaces a launch may read, and then write (CUDA C++ Programming Guide, "Read/Write Coherency"
  // of texture and surface memory): that is a matter of order.
  const Site* const site = sides_.place(first.place).site;
  if (!first.writes() && site && ptx::is_texel(*site)) return false;
  if (read_in_time(first, second)) return false;
  const order::OperationIndex one = first.thread.operation();
  return one == second.thread.operation() || !causality_.operation_ordered(one, first.stamp, second.thread);
}

bool Shadow::morally_strong(const MemoryAccess& first, const MemoryAccess& second) const {
  return is_strong(first.ordering) && is_strong(second.ordering) && first.address == second.address &&
         first.bytes == second.bytes && first.proxy == second.proxy &&
         causality_.mutual(first.thread, first.scope, second.thread, second.scope);
}

// Does it matter in which order they come, and whether anything orders them? Of synchronizing accesses it does not: not
// when both are morally strong, but for sums of floating-point numbers.
bool Shadow::conflicting(const MemoryAccess& first, const MemoryAccess& second) const {
  if (!first.writes() && !second.writes()) return false;
  if (plain_strong(first) && plain_strong(second)) return true;
  if (!morally_strong(first, second)) return true;
  return first.atomic_operation() && second.atomic_operation() &&
         (sides_.place(first.place).float_add || sides_.place(second.place).float_add);
}

// A write through the generic proxy and an access through the asynchronous one must have a proxy fence between (8.9.5).
template <typename Each>
bool Shadow::each_pair(std::uint64_t memory, const MemoryAccess& first, const MemoryAccess& second, Each&& each) const {
  const bool across = second.proxy == Proxy::async && first.proxy == Proxy::generic && first.writes();
  const order::Restriction what = !memory             ? order::Restriction::none
                                  : first.initializes ? order::Restriction::mbarrier_init
                                                      : order::Restriction::shared;
  auto lanes = [](const MemoryAccess& access, auto&& of_lane) {
    std::uint32_t base = access.thread.thread() & ~31u;
    if (access.lanes == 1) return of_lane(access.thread);
    for (std::uint32_t rest = access.lanes; rest; rest &= rest - 1) {
      order::ThreadKey key(access.thread.operation(), access.thread.block(),
                           base + std::uint32_t(std::countr_zero(rest)));
      if (!of_lane(key)) return false;
    }
    return true;
  };
  return lanes(second, [&](order::ThreadKey to) {
    return lanes(first, [&](order::ThreadKey from) {
      return each(from, to,
                  across ? causality_.ordered_across_proxies(from, first.stamp, first.group, to, memory != 0)
                         : causality_.ordered(from, first.stamp, first.group, to, what, !first.writes()));
    });
  });
}

// Is every lane of `first` ordered before every lane of `second`? Else says which two are not.
bool Shadow::ordered(std::uint64_t memory, const MemoryAccess& first, const MemoryAccess& second,
                     Lanes* unordered) const {
  return each_pair(memory, first, second, [&](order::ThreadKey from, order::ThreadKey to, bool before) {
    if (!before) *unordered = {from, to};
    return before;
  });
}

// So many pairs of lanes are not ordered; where all are, which then is not what counts, all of different threads. As
// many where the part of memory has been looked at too often to ask for each.
std::uint64_t Shadow::unordered_lanes(std::uint64_t memory, const MemoryAccess& first, const MemoryAccess& second,
                                      std::uint32_t& looks) const {
  if (first.lanes == 1 && second.lanes == 1) return 1;
  const auto lanes_of = [](const MemoryAccess& access) {
    return access.lanes == 1 ? 1u << access.thread.thread() % 32 : access.lanes;
  };
  const std::uint32_t of_first = lanes_of(first), of_second = lanes_of(second);
  const bool same_warp = first.thread.warp() == second.thread.warp();
  const std::uint32_t all = std::uint32_t(std::popcount(of_first) * std::popcount(of_second) -
                                          (same_warp ? std::popcount(of_first & of_second) : 0));
  if (looks >= bounds_.many_looks) return std::max(all, 1u);
  looks += all;
  std::uint32_t count = 0;
  const bool may_be_observed = observable(first, second);
  each_pair(memory, first, second, [&](order::ThreadKey, order::ThreadKey to, bool before) {
    count += !before && !(may_be_observed && causality_.observed({memory, first.address}, first.stamp, to,
                                                                 second.stamp) != order::Causality::Observed::no);
    return true;
  });
  return std::max(count ? count : all, 1u);
}

bool Shadow::observable(const MemoryAccess& first, const MemoryAccess& second) {
  return first.writes() && first.stored && is_strong(first.ordering) && !first.group && first.proxy == second.proxy;
}

// Does each lane of `second` that `first` is not ordered before come after a read that observed that write (8.9.5)?
// Else says which does not. `outside`: outside the model, where order does not count.
bool Shadow::observed(std::uint64_t memory, const MemoryAccess& first, const MemoryAccess& second, bool outside,
                      Lanes* unordered) {
  if (!observable(first, second)) return false;
  using Observed = order::Causality::Observed;
  bool certain = true;
  MemoryAccess one = second;
  const order::ThreadKey lane0(second.thread.operation(), second.thread.block(), second.thread.thread() & ~31u);
  for (std::uint32_t rest = second.lanes; rest; rest &= rest - 1) {
    if (second.lanes != 1) {
      one.thread.bits = lane0.bits + std::uint64_t(std::countr_zero(rest));
      one.lanes = 1;
      Lanes pair;
      if (!outside && ordered(memory, first, one, &pair)) continue;
    }
    const Observed seen = causality_.observed({memory, first.address}, first.stamp, one.thread, second.stamp);
    if (seen == Observed::no) {
      *unordered = {first.thread, one.thread};
      return false;
    }
    certain &= seen == Observed::yes;
  }
  if (!certain) uncertain_.insert(std::minmax(sides_.place(first.place).side, sides_.place(second.place).side));
  return true;
}

// Is `older` ordered before `entry`, and how? Reports the conflict when it is not.
Shadow::Order Shadow::check(std::uint64_t memory, const Entry& older, const Entry& entry, std::uint64_t address) {
  MemoryAccess of_page[2];
  const auto access = [&](const Entry& of, MemoryAccess& here) -> const MemoryAccess& {
    if (!of.whole_page) return of.access;
    here = of.access;
    here.address = address / page_bytes * page_bytes;
    here.bytes = page_bytes;
    return here;
  };
  const MemoryAccess &first = access(older, of_page[0]), &second = access(entry, of_page[1]);
  Lanes unordered{first.thread, second.thread};
  const bool before = ordered(memory, first, second, &unordered);
  const Order order = before ? Order::before : Order::none;
  if (before && !outside_model(first, second)) return order;
  if (!conflicting(first, second)) return order;
  if (observed(memory, first, second, before, &unordered)) return before ? order : Order::observed;
  Conflict conflict = Conflict::data;
  if (morally_strong(first, second)) {
    conflict = first.atomic_operation() && second.atomic_operation() ? Conflict::atomics : Conflict::strong;
  }
  // An element of several words is reported at the first that both touch.
  std::uint64_t begin = std::max(first.address, second.address);
  if (times_ && (begin / 4 == address / 4 || first.bytes > 16 || second.bytes > 16)) {
    std::uint64_t end = std::min(first.address + first.bytes, second.address + second.bytes);
    MemoryAccess named = first, other = second;
    named.thread = unordered.of_first;
    other.thread = unordered.of_second;
    named.lanes = other.lanes = 1;
    begin = std::max(begin, address);
    sink_(conflict, named, other,
          {memory, begin, end > begin ? std::uint32_t(end - begin) : 4,
           times_ * unordered_lanes(memory, first, second, looks_[partition_of(memory, address / page_bytes)])});
  }
  return order;
}

Shadow::OfSide& Shadow::of_side(Word& word, SideId side) {
  for (OfSide& known : word.sides) {
    if (known.side == side) return known;
  }
  word.sides.push_back({});
  word.sides.back().side = side;
  return word.sides.back();
}

Shadow::Word& Shadow::word_at(Page& page, std::uint64_t address) {
  std::unique_ptr<Word>& word = page.words[address % page_bytes / 4];
  if (!word) {
    word = std::make_unique<Word>();
    ++words_;
  }
  return *word;
}

void Shadow::drop(Word& word, Entry& entry, OfSide& side) {
  entry.mask = 0;
  --side.live;
  --word.live;
  --entries_;
}

// Drops the oldest entry of the side, and remembers that there was one.
void Shadow::make_room(Word& word, OfSide& side) {
  auto oldest = std::find_if(word.entries.begin() + side.oldest, word.entries.end(), [&](const Entry& entry) {
    return entry.mask && sides_.place(entry.access.place).side == side.side;
  });
  if (oldest == word.entries.end()) return;
  side.oldest = std::uint32_t(oldest - word.entries.begin()) + 1;
  side.lost.add(oldest->access);
  drop(word, *oldest, side);
}

void Shadow::Lost::add(const MemoryAccess& access) {
  several_operations |= any && thread.operation() != access.thread.operation();
  alike &= is_strong(access.ordering) && access.proxy == Proxy::generic &&
           (!any || (address == access.address && bytes == access.bytes && scope == access.scope));
  any = true;
  writes |= access.writes();
  thread = access.thread;
  stamp = std::max(stamp, access.stamp);
  address = access.address;
  bytes = access.bytes;
  scope = access.scope;
}

bool Shadow::may_race(const Lost& lost, const MemoryAccess& later) const {
  return lost.any && (lost.writes || later.writes()) &&
         (lost.several_operations || !causality_.operation_ordered(lost.thread.operation(), lost.stamp, later.thread));
}

// With whichever of them?
bool Shadow::morally_strong(const Lost& all, const MemoryAccess& later) const {
  return all.alike && is_strong(later.ordering) && later.proxy == Proxy::generic && all.address == later.address &&
         all.bytes == later.bytes &&
         std::min(all.scope, later.scope) >= (all.several_operations ? Scope::sys : Scope::gpu) &&
         causality_.mutual(all.thread, all.scope, later.thread, later.scope);
}

// ---- words with very many entries

std::uint64_t Shadow::key_of(const MemoryAccess& access) const {
  return access.thread.bits ^
         (std::uint64_t(sides_.place(access.place).side) << 32 | access.lanes) * 0x9e3779b97f4a7c15u;
}

void Shadow::enter(Word& word, std::uint32_t number) {
  Entry& entry = word.entries[number];
  if (entry.access.writes()) word.index->writes.push_back(number);
  std::uint32_t& last = word.index->last[key_of(entry.access)];
  entry.before = std::exchange(last, number + 1);
}

void Shadow::make_index(Word& word) {
  word.index = std::make_unique<Index>();
  for (std::uint32_t number = 0; number < word.entries.size(); ++number) enter(word, number);
  indexed_ += word.entries.size();
}

void Shadow::drop_index(Word& word) {
  if (!word.index) return;
  indexed_ -= word.entries.size();
  word.index.reset();
}

template <typename Each>
void Shadow::each_before_read(const Word& word, const MemoryAccess& read, Each&& each) {
  of_threads_.clear(); // the last one first
  const auto last = word.index->last.find(key_of(read));
  for (std::uint32_t at = last == word.index->last.end() ? 0 : last->second; at; at = word.entries[at - 1].before) {
    if (!word.entries[at - 1].access.writes()) of_threads_.push_back(at - 1);
  }
  for (std::uint32_t write : word.index->writes) {
    for (; !of_threads_.empty() && of_threads_.back() < write; of_threads_.pop_back()) each(of_threads_.back());
    each(write);
  }
  for (; !of_threads_.empty(); of_threads_.pop_back()) each(of_threads_.back());
}

void Shadow::word(std::uint64_t memory, Word& word, const Entry& entry, std::uint64_t address) {
  const MemoryAccess& access = entry.access;
  const SideId side = sides_.place(access.place).side;
  const unsigned part = partition_of(memory, address / page_bytes);
  std::uint32_t& looks = looks_[part];
  const std::uint64_t few = bounds_.few_looks + bounds_.few_looks_an_access * ++looking_[part];
  const bool full = word.live >= (looks < few ? bounds_.crowded : bounds_.crowded_soon);
  const std::uint32_t enough = looks < bounds_.many_looks ? bounds_.most_conflicts : bounds_.fewer_conflicts;
  // Of very many that do not conflict it is looked only now and then which of them later ones of other threads stand
  // for.
  const bool sweeps = word.live < bounds_.many_entries || word.live >= 2 * word.swept;
  std::uint32_t left = 0; // entries that are still to be looked at
  for (OfSide& of : word.sides) {
    of.left = of.live;
    of.conflicts = 0;
    of.races = of.only_observed = false;
    left += of.live;
  }
  OfSide* of = nullptr;
  bool ahead = false;
  const auto look = [&](Entry& older) {
    if (!older.mask) return;
    const SideId older_side = sides_.place(older.access.place).side;
    if (!of || of->side != older_side) of = &of_side(word, older_side);
    if (of->conflicts >= enough) return;
    --of->left;
    --left;
    if (!(older.mask & entry.mask)) return;
    const bool same_side = older_side == side;
    const bool conflict = conflicting(older.access, access);
    if (!conflict && (!same_side || !(sweeps || same_threads(older.access, access)))) return;
    ++looks;
    const Order order = check(memory, older, entry, address);
    const bool before = order != Order::none;
    of->only_observed |= order == Order::observed;
    if (conflict && !before) {
      of->races |= !morally_strong(older.access, access);
      if (++of->conflicts >= enough) left -= of->left;
    }
    const bool covered = (older.mask & ~entry.mask) == 0;
    // Would a later access be morally strong with the one if it is with the other?
    const bool alike =
        !is_strong(access.ordering) ||
        (is_strong(older.access.ordering) && access.thread.block_bits() == older.access.thread.block_bits() &&
         access.scope == older.access.scope && access.address == older.access.address &&
         access.bytes == older.access.bytes);
    // Of read-modify-writes that link to each other the last stands for all (they are in observation order).
    const bool linked = alike && access.atomic_operation() && older.access.atomic_operation() && older.access.stored &&
                        access.continues && older.access.stamp >= access.continues;
    // A strong write may be ordered by having been observed, which says nothing about what came before it.
    const bool observable = is_strong(access.ordering) && access.writes() && older.access.writes();
    // Who knows a copy to be complete knows the one before it only if that completes by the same (8.9.1.1).
    const bool completes = !access.group || causality_.complete_alike(access.group, older.access.group,
                                                                      access.thread == older.access.thread);
    const bool stands_behind = !linked && observable && full;
    const bool stands_for = linked || (before && alike && completes && (!observable || full));
    const bool overwrites =
        before && full && access.kind == AccessKind::write && !is_strong(access.ordering) && !access.group;
    // What may not have happened hides nothing that did.
    if (access.possible && !older.access.possible) return;
    if (!covered || !((same_side && stands_for) || overwrites)) return;
    if (!same_side)
      of->hidden.add(older.access);
    else if (stands_behind)
      of->behind.add(older.access);
    ahead |= same_side && (stands_behind || older.ahead);
    of->behind_gone |= older.ahead && order != Order::before;
    drop(word, older, *of);
  };
  if (!access.writes() && !sweeps && word.entries.size() >= bounds_.indexed_from) {
    if (!word.index) make_index(word);
    each_before_read(word, access, [&](std::uint32_t number) { look(word.entries[number]); });
  } else {
    for (std::size_t i = 0; i < word.entries.size() && left; ++i) look(word.entries[i]);
  }
  if (sweeps) word.swept = word.live;
  const bool races = std::any_of(word.sides.begin(), word.sides.end(), [](const OfSide& at) { return at.conflicts; });
  for (const OfSide& other : word.sides) {
    if (other.races || (other.conflicts && morally_strong(other.all, access))) continue;
    if (may_race(other.lost, access) || (races && may_race(other.hidden, access)) ||
        ((other.only_observed || other.behind_gone) && may_race(other.behind, access)) ||
        (other.conflicts >= enough && other.left))
      uncertain_.insert(std::minmax(other.side, side));
  }
  if (word.entries.size() > 2 * word.live + 16) {
    drop_index(word);
    std::erase_if(word.entries, [](const Entry& at) { return !at.mask; });
    for (OfSide& known : word.sides) known.oldest = 0;
  }
  OfSide& own = of_side(word, side);
  if (own.live >= bounds_.most_entries) make_room(word, own);
  word.entries.push_back(entry);
  word.entries.back().ahead = ahead;
  if (word.index) {
    enter(word, std::uint32_t(word.entries.size() - 1));
    ++indexed_;
  }
  own.all.add(access);
  ++own.live;
  ++word.live;
  ++entries_;
}

void Shadow::access(std::uint64_t memory, const MemoryAccess& access) {
  if (!access.bytes || access.address >= address_limit || !suspects_.touches(memory, access.address, access.bytes))
    return;
  std::uint64_t end = access.address + access.bytes;
  for (std::uint64_t at = access.address & ~3ull; at < end; at += 4) {
    if (!share_.has_page(memory, at / page_bytes) || !share_.slice.has_granule(at)) continue;
    Page& page = this->page(memory, at);
    Entry entry{access, 15};
    if (at < access.address) entry.mask &= std::uint8_t(15 << (access.address - at));
    if (at + 4 > end) entry.mask &= std::uint8_t(15 >> (at + 4 - end));
    for (const Entry& older : whole(memory, page, at).entries) {
      if (older.mask && (older.access.writes() || access.writes())) check(memory, older, entry, at);
    }
    word(memory, word_at(page, at), entry, at);
  }
}

// What touched the address's page as a whole.
const Shadow::Word& Shadow::whole(std::uint64_t memory, const Page& page, std::uint64_t address) {
  const Word* const run = memory ? nullptr : runs_.find(address / page_bytes);
  return run ? *run : page.whole;
}

void Shadow::range(std::uint64_t memory, const MemoryAccess& access, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes, first = (address + page_bytes - 1) / page_bytes, last = end / page_bytes;
  if (first > last) return range_part(memory, access, address, end);
  range_part(memory, access, address, first * page_bytes);
  if (memory) {
    for (std::uint64_t number = first; number < last; ++number)
      if (suspects_.page(memory, number * page_bytes)) range_page(memory, access, number);
  } else {
    suspects_.each_range(first, last, [&](std::uint64_t from, std::uint64_t to) { range_run(access, from, to); });
    suspects_.each_page(first, last, [&](std::uint64_t number) { range_page(0, access, number); });
  }
  range_part(memory, access, last * page_bytes, end);
}

void Shadow::range_part(std::uint64_t memory, const MemoryAccess& access, std::uint64_t address, std::uint64_t end) {
  if (address == end || !share_.has_page(memory, address / page_bytes) || !suspects_.page(memory, address)) return;
  Entry entry{access};
  entry.access.address = address;
  entry.access.bytes = std::uint32_t(end - address);
  Page& page = this->page(memory, address);
  times_ = share_.slice.has_whole_pages();
  for (const Entry& older : whole(memory, page, address).entries) {
    if (older.mask && (older.access.writes() || access.writes())) check(memory, older, entry, address & ~3ull);
  }
  times_ = 1;
  for (std::uint64_t at = address & ~3ull; at < end; at += 4) {
    if (!share_.slice.has_granule(at) || !suspects_.touches(memory, at, 4)) continue;
    entry.mask = 15;
    if (at < address) entry.mask &= std::uint8_t(15 << (address - at));
    if (at + 4 > end) entry.mask &= std::uint8_t(15 >> (at + 4 - end));
    word(memory, word_at(page, at), entry, at);
  }
}

void Shadow::range_page(std::uint64_t memory, const MemoryAccess& access, std::uint64_t number) {
  if (!share_.has_page(memory, number)) return;
  const Entry entry{access, 15, true};
  Page& page = this->page(memory, number * page_bytes);
  words_below(memory, page, entry, number * page_bytes);
  times_ = share_.slice.has_whole_pages();
  word(memory, page.whole, entry, number * page_bytes);
  times_ = 1;
}

// What it is in no order with that touched the run, too, all workers find; it counts as a finding of the run's first
// page.
void Shadow::range_run(const MemoryAccess& access, std::uint64_t first, std::uint64_t end) {
  const Entry entry{access, 15, true};
  for (const std::uint64_t page : {first, end})
    if (const Word* const copied = runs_.cut(page)) entries_ += copied->live;
  runs_.over(first, end, [&](std::uint64_t from, std::uint64_t to, Word& whole) {
    each_page(from, to, [&](std::uint64_t number, Page& page) { words_below(0, page, entry, number * page_bytes); });
    times_ = share_.has_page(0, from) && share_.slice.has_whole_pages() ? to - from : 0;
    word(0, whole, entry, from * page_bytes);
    times_ = 1;
  });
}

void Shadow::words_below(std::uint64_t memory, Page& page, const Entry& entry, std::uint64_t address) {
  const MemoryAccess& access = entry.access;
  for (std::size_t i = 0; i < page.words.size(); ++i) {
    if (!page.words[i]) continue;
    Word& at = *page.words[i];
    for (Entry& older : at.entries) {
      if (!older.mask) continue;
      if (older.access.writes() || access.writes()) check(memory, older, entry, address + 4 * i);
      // What this operation comes after is covered by it, where it is of the same side: others are told of, too.
      Lanes unordered;
      const SideId side = sides_.place(older.access.place).side;
      if (side == sides_.place(access.place).side && access.kind == AccessKind::write && !access.group &&
          (!access.possible || older.access.possible) && ordered(memory, older.access, access, &unordered)) {
        drop(at, older, of_side(at, side));
      }
    }
  }
}

} // namespace deadheat::detect
