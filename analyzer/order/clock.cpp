#include "analyzer/order/clock.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace deadheat::order {

namespace {

// Of the groups of a block those of one kind lie together: its own, and what was made visible to the asynchronous
// proxy.
constexpr std::uint32_t kind_of(std::uint32_t group) { return group & ~4095u; }
constexpr std::uint32_t everything = 0; // the kind of what was done to any memory

bool of_thread(std::uint32_t group) { return group >= thread_group(0) && group < thread_group(1024); }

// Is it a kind of which there are entries of threads, their warps and their block?
bool of_threads(std::uint32_t kind) {
  return kind < dependency_group || kind == only_reads || kind == only_shared_reads;
}

}  // namespace

// ---- questions

const Clock* Clock::find(std::uint64_t block) const {
  const Clock* at = this;
  while (at->height_) {
    if (block < at->first_ || block > at->last()) return nullptr;
    const std::uint64_t part = at->part_of(block);
    const auto found = std::find_if(at->parts_.begin(), at->parts_.end(),
                                    [&](const ClockPointer& other) { return at->part_of(other->first_) >= part; });
    if (found == at->parts_.end()) return nullptr;
    at = found->get();
  }
  return at->first_ == block ? at : nullptr;
}

Stamp Clock::at(std::uint32_t group) const {
  if (warps_ && of_thread(group)) {
    const std::uint32_t thread = group - thread_group(0);
    const auto& lanes = (*warps_)[thread / 32];
    return lanes ? lanes->stamps[thread % 32] : 0;
  }
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), group,
                                      [](const Entry& entry, std::uint32_t g) { return entry.group < g; });
  return found != entries_.end() && found->group == group ? found->stamp : 0;
}

Stamp Clock::entry(std::uint64_t block, std::uint32_t group) const {
  const Clock* leaf = find(block);
  return leaf ? leaf->at(group) : 0;
}

Stamp Clock::seen_warp(ThreadKey thread, std::uint32_t space) const {
  const Clock* leaf = find(thread.block_bits());
  return leaf ? std::max(leaf->at(space + whole_block), leaf->at(space + warp_group(thread.warp()))) : 0;
}

Stamp Clock::seen_in(ThreadKey thread, std::uint32_t space) const {
  const Clock* leaf = find(thread.block_bits());
  if (!leaf) return 0;
  return std::max({leaf->at(space + whole_block), leaf->at(space + warp_group(thread.warp())),
                   leaf->at(space + thread_group(thread.thread()))});
}

std::optional<std::uint64_t> Clock::next_block(std::uint64_t from) const {
  if (last() < from) return std::nullopt;
  if (!height_) return first_;
  for (const ClockPointer& part : parts_)
    if (const auto found = part->next_block(from)) return found;
  return std::nullopt;
}

template <typename F>
bool Clock::any_leaf(std::uint64_t from, std::uint64_t to, F&& f) const {
  if (first_ > to || last() < from) return false;
  if (!height_) return f(*this);
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const ClockPointer& part) { return part->any_leaf(from, to, f); });
}

template <typename F>
void Clock::each_leaf(std::uint64_t from, std::uint64_t to, F&& f) const {
  any_leaf(from, to, [&](const Clock& leaf) {
    f(leaf);
    return false;
  });
}

template <typename F>
void Clock::each_entry(F&& f) const {
  for (const Entry& entry : entries_) f(entry);
  for (std::uint32_t thread = 0; warps_ && thread < 1024; ++thread) {
    const auto& lanes = (*warps_)[thread / 32];
    if (lanes && lanes->stamps[thread % 32]) f(Entry{thread_group(thread), lanes->stamps[thread % 32]});
  }
}

bool Clock::knows_operation(std::uint32_t operation, bool read) const {
  const auto tells = [&](const Entry& entry) {
    if (entry.group >= mbarrier_group(0)) return read || !(entry.group & only_reads_bulk);
    return kind_of(entry.group) == everything || (read && kind_of(entry.group) == only_reads);
  };
  const std::uint64_t first = first_block_of(operation);
  return any_leaf(first, first_block_of(std::uint64_t(operation) + 1) - 1, [&](const Clock& leaf) {
    return leaf.warps_ || std::any_of(leaf.entries_.begin(), leaf.entries_.end(), tells);
  });
}

std::uint64_t Clock::blocks_seen(std::uint32_t operation, Stamp stamp, std::uint32_t except) const {
  std::uint64_t count = 0;
  const std::uint64_t skipped = ThreadKey(operation, except, 0).block_bits();
  each_leaf(ThreadKey(operation, 0, 0).block_bits(), ThreadKey(operation, ~0u, 0).block_bits(), [&](const Clock& leaf) {
    if (leaf.first_ != skipped && leaf.at(whole_block) >= stamp) ++count;
  });
  return count;
}

std::vector<ClockEntry> Clock::proxied(std::uint32_t space) const {
  std::vector<ClockEntry> list;
  each_leaf(0, ~std::uint64_t(0), [&](const Clock& leaf) {
    leaf.each_entry([&](const Entry& entry) {
      const std::uint32_t kind = kind_of(entry.group);
      if (kind == everything || (kind == only_shared && space == proxied_shared))
        list.push_back({leaf.first_, entry.group - kind + space, entry.stamp});
    });
  });
  return list;
}

// The clock's entries of those blocks, each moved to the group that `moved` says; 0: left out. (None of a whole block
// is moved to 0.)
template <typename F>
ClockPointer Clock::projected(const ClockPointer& clock, std::uint64_t from, std::uint64_t to, F&& moved) {
  if (!clock) return nullptr;
  std::vector<ClockEntry> list;
  clock->each_leaf(from, to, [&](const Clock& leaf) {
    leaf.each_entry([&](const Entry& entry) {
      if (const std::uint32_t group = moved(entry.group)) list.push_back({leaf.first_, group, entry.stamp});
    });
  });
  return with(nullptr, list);
}

ClockPointer Clock::of_shared(const ClockPointer& clock, std::uint32_t operation) {
  const std::uint64_t first = first_block_of(operation);
  return projected(clock, first, first_block_of(std::uint64_t(operation) + 1) - 1,
                   [](std::uint32_t group) -> std::uint32_t {
                     if (group >= mbarrier_group(0)) return group | only_shared_bulk;
                     switch (kind_of(group)) {
                       case everything: return group + only_shared;
                       case only_reads: return group - only_reads + only_shared_reads;
                       case proxied_global:
                       case dependency_group: return 0;
                       default: return group;
                     }
                   });
}

ClockPointer Clock::of_reads(const ClockPointer& clock) {
  return projected(clock, 0, ~std::uint64_t(0), [](std::uint32_t group) -> std::uint32_t {
    if (group >= mbarrier_group(0)) return group | only_reads_bulk;
    switch (kind_of(group)) {
      case everything: return group + only_reads;
      case only_shared: return group - only_shared + only_shared_reads;
      case only_reads:
      case only_shared_reads:
      case kind_of(matrix_group(0)): return group; // multiplications write no memory
      case dependency_group: return dependency_reads;
      default: return 0;
    }
  });
}

bool operator==(const Clock& a, const Clock& b) {
  if (&a == &b) return true;
  if (a.first_ != b.first_ || a.height_ != b.height_ || !Clock::same_entries(a, b)) return false;
  return std::equal(a.parts_.begin(), a.parts_.end(), b.parts_.begin(), b.parts_.end(),
                    [](const ClockPointer& x, const ClockPointer& y) { return *x == *y; });
}

// ---- new ones

// The entries of the block and of its warps that a leaf has so far, of the kind that was appended last.
class Clock::Wider {
 public:
  bool covers(const Entry& entry) {
    const std::uint32_t kind = kind_of(entry.group), group = entry.group - kind;
    if (!of_threads(kind) || (group > warp_group(31) && !of_thread(group))) return false;
    if (kind != kind_) kind_ = kind, has_ = 0, block_ = 0;
    if (group == whole_block) {
      block_ = std::max(block_, entry.stamp);
      return false;
    }
    if (block_ >= entry.stamp) return true;
    if (of_thread(group)) {
      const std::uint32_t warp = (group - thread_group(0)) / 32;
      return (has_ >> warp & 1) && stamps_[warp] >= entry.stamp;
    }
    const std::uint32_t warp = group - warp_group(0);
    stamps_[warp] = has_ >> warp & 1 ? std::max(stamps_[warp], entry.stamp) : entry.stamp;
    has_ |= 1u << warp;
    return false;
  }

 private:
  std::uint32_t kind_ = 0;
  std::uint32_t has_ = 0; // warps
  Stamp block_ = 0;
  std::array<Stamp, 32> stamps_; // of those warps
};

void Clock::append(const Entry& entry, Wider& wider) {
  if (wider.covers(entry)) return;
  if (!entries_.empty() && entries_.back().group == entry.group)
    entries_.back().stamp = std::max(entries_.back().stamp, entry.stamp);
  else
    entries_.push_back(entry);
}

Clock::Entry& Clock::entry_of(std::uint32_t group) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), group,
                                   [](const Entry& entry, std::uint32_t g) { return entry.group < g; });
  return at != entries_.end() && at->group == group ? *at : *entries_.insert(at, {group, 0});
}

// Of warps all of whose threads have entries.
void Clock::widen() {
  for (std::size_t i = 0; i + 31 < entries_.size();) {
    const std::uint32_t first = entries_[i].group, kind = kind_of(first), group = first - kind;
    if (!of_threads(kind) || !of_thread(group) || group % 32 || entries_[i + 31].group != first + 31) {
      ++i;
      continue;
    }
    const auto begin = entries_.begin() + std::ptrdiff_t(i), end = begin + 32;
    const Stamp least =
        std::min_element(begin, end, [](const Entry& a, const Entry& b) { return a.stamp < b.stamp; })->stamp;
    entries_.erase(std::remove_if(begin, end, [&](const Entry& entry) { return entry.stamp == least; }), end);
    entry_of(kind + warp_group((group - thread_group(0)) / 32)).stamp = least; // which lies before them
  }
}

ClockPointer Clock::join_leaves(const ClockPointer& a, const ClockPointer& b) {
  boost::container::small_vector<Entry, 2 * many_threads> both;
  both.resize(a->entries_.size() + b->entries_.size(), boost::container::default_init);
  Wider wider;
  const Entry *i = a->entries_.data(), *const end_a = i + a->entries_.size(),
              *j = b->entries_.data(), *const end_b = j + b->entries_.size();
  Entry* end = both.data();
  bool more_than_a = a->warps_ || b->warps_, more_than_b = more_than_a; // or it is to be found out
  while (i != end_a || j != end_b) {
    const bool of_a = j == end_b || (i != end_a && i->group <= j->group),
               of_b = i == end_a || (j != end_b && j->group <= i->group);
    const Stamp in_a = of_a ? i->stamp : 0, in_b = of_b ? j->stamp : 0;
    *end = {of_a ? i->group : j->group, std::max(in_a, in_b)};
    i += of_a, j += of_b;
    if (wider.covers(*end)) continue;
    more_than_a |= in_a < end->stamp, more_than_b |= in_b < end->stamp;
    ++end;
  }
  if (!more_than_a) return a;
  if (!more_than_b) return b;
  auto result = make_counted<Clock>();
  result->first_ = a->first_;
  result->entries_.assign(both.data(), end);
  result->widen();
  if (a->warps_ || b->warps_) result->join_warps(*a, *b);
  result->settle();
  if (a->warps_ || b->warps_) {
    if (same_entries(*result, *a)) return a;
    if (same_entries(*result, *b)) return b;
  }
  return result;
}

Clock::Lanes::Lanes(const std::array<Stamp, 32>& of) : stamps(of) {
  for (Stamp stamp : of) {
    count += stamp != 0;
    if (stamp) lowest = std::min(lowest, stamp);
  }
}

bool Clock::same_entries(const Clock& a, const Clock& b) {
  if (bool(a.warps_) != bool(b.warps_) || a.entries_ != b.entries_) return false;
  return !a.warps_ ||
         std::equal(a.warps_->begin(), a.warps_->end(), b.warps_->begin(),
                    [](const auto& x, const auto& y) { return x == y || (x && y && x->stamps == y->stamps); });
}

// The threads' entries of two leaves, where one has warps_. Those of the other, if that has none, are here among the
// rest.
void Clock::join_warps(const Clock& a, const Clock& b) {
  std::array<std::array<Stamp, 32>, 32> more{};
  std::uint32_t with_more = 0; // warps
  Entries others;
  for (const Entry& entry : entries_) {
    if (!of_thread(entry.group)) {
      others.push_back(entry);
      continue;
    }
    const std::uint32_t thread = entry.group - thread_group(0);
    more[thread / 32][thread % 32] = entry.stamp;
    with_more |= 1u << thread / 32;
  }
  entries_ = std::move(others);
  const Stamp of_block = at(whole_block);
  warps_ = std::make_unique<Warps>();
  for (std::uint32_t warp = 0; warp < 32; ++warp) {
    const auto& in_a = a.warps_ ? (*a.warps_)[warp] : nullptr;
    const auto& in_b = b.warps_ ? (*b.warps_)[warp] : nullptr;
    const Stamp wider = std::max(of_block, at(warp_group(warp))); // which covers what is no newer
    const auto& either = in_a ? in_a : in_b;
    if ((in_a == in_b || !in_a || !in_b) && !(with_more >> warp & 1)) {
      if (!either) continue;
      if (either->lowest > wider) {
        (*warps_)[warp] = either;
        continue;
      }
    }
    std::array<Stamp, 32> stamps = more[warp];
    for (const auto& lanes : {in_a, in_b}) {
      for (std::size_t lane = 0; lanes && lane < stamps.size(); ++lane)
        stamps[lane] = std::max(stamps[lane], lanes->stamps[lane]);
    }
    Stamp covered = wider;
    if (const Stamp least = *std::min_element(stamps.begin(), stamps.end()); least > wider)
      covered = entry_of(warp_group(warp)).stamp = least;
    for (Stamp& stamp : stamps)
      if (stamp <= covered) stamp = 0;
    if (in_a && in_a->stamps == stamps)
      (*warps_)[warp] = in_a;
    else if (in_b && in_b->stamps == stamps)
      (*warps_)[warp] = in_b;
    else if (auto lanes = make_counted<const Lanes>(stamps); lanes->count)
      (*warps_)[warp] = std::move(lanes);
  }
}

// Threads' entries go where they belong, for as many as they are.
void Clock::settle() {
  if (warps_) {
    std::size_t count = 0;
    for (const auto& lanes : *warps_) count += lanes ? lanes->count : 0;
    if (count > many_threads) return;
    Entries all;
    each_entry([&](const Entry& entry) { all.push_back(entry); });
    std::stable_sort(all.begin(), all.end(), [](const Entry& x, const Entry& y) { return x.group < y.group; });
    entries_ = std::move(all);
    warps_ = nullptr;
    return;
  }
  if (entries_.size() <= many_threads) return;
  const auto is_thread = [](const Entry& entry) { return of_thread(entry.group); };
  if (std::size_t(std::count_if(entries_.begin(), entries_.end(), is_thread)) <= many_threads) return;
  static const Clock none;
  join_warps(none, none);
}

ClockPointer Clock::join_nodes(const ClockPointer& a, const ClockPointer& b) {
  std::vector<ClockPointer> parts;
  parts.reserve(std::size_t(1) << fan);
  bool same_as_a = true, same_as_b = true;
  auto i = a->parts_.begin(), j = b->parts_.begin();
  while (i != a->parts_.end() || j != b->parts_.end()) {
    const std::uint64_t of_a = i != a->parts_.end() ? a->part_of((*i)->first_) : ~std::uint64_t(0);
    const std::uint64_t of_b = j != b->parts_.end() ? b->part_of((*j)->first_) : ~std::uint64_t(0);
    const ClockPointer none, &in_a = of_a <= of_b ? *i++ : none, &in_b = of_b <= of_a ? *j++ : none;
    parts.push_back(join(in_a, in_b));
    same_as_a &= parts.back() == in_a;
    same_as_b &= parts.back() == in_b;
  }
  if (same_as_a) return a;
  if (same_as_b) return b;
  auto result = make_counted<Clock>();
  result->first_ = a->first_;
  result->height_ = a->height_;
  result->parts_ = std::move(parts);
  return result;
}

// `part` lies within one part of `whole`.
ClockPointer Clock::join_part(const ClockPointer& whole, const ClockPointer& part) {
  const std::uint64_t number = whole->part_of(part->first_);
  const auto place = std::find_if(whole->parts_.begin(), whole->parts_.end(),
                                  [&](const ClockPointer& other) { return whole->part_of(other->first_) >= number; });
  const bool there = place != whole->parts_.end() && whole->part_of((*place)->first_) == number;
  const ClockPointer joined = there ? join(*place, part) : part;
  if (there && joined == *place) return whole;
  const auto index = place - whole->parts_.begin();
  auto result = make_counted<Clock>();
  result->first_ = whole->first_;
  result->height_ = whole->height_;
  result->parts_.reserve(whole->parts_.size() + !there);
  result->parts_ = whole->parts_;
  if (there)
    result->parts_[std::size_t(index)] = joined;
  else
    result->parts_.insert(result->parts_.begin() + index, joined);
  return result;
}

// A node over two that have no block in common.
ClockPointer Clock::above(const ClockPointer& a, const ClockPointer& b) {
  auto result = make_counted<Clock>();
  for (result->first_ = a->first_; result->first_ != b->first_ >> fan * result->height_ << fan * result->height_;) {
    ++result->height_;
    result->first_ = a->first_ >> fan * result->height_ << fan * result->height_;
  }
  result->parts_ = a->first_ < b->first_ ? std::vector{a, b} : std::vector{b, a};
  return result;
}

// Unique without a word between threads: a thread's number, and a count of its own.
std::uint64_t Clock::new_name() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local std::uint64_t next = ++threads << 44;
  return ++next;
}

namespace {

// Joins that added nothing: of the clocks with these names.
struct Nothing {
  std::uint64_t a = 0, b = 0;
  bool to_a = false; // else to b
};
constexpr std::size_t remembered = 1 << 13;

Nothing& added_nothing(std::uint64_t a, std::uint64_t b) {
  thread_local const std::unique_ptr<Nothing[]> last = std::make_unique<Nothing[]>(remembered);
  return last[(a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu) >> 40 & (remembered - 1)];
}

} // namespace

ClockPointer Clock::join(const ClockPointer& a, const ClockPointer& b) {
  if (!a || a == b) return b;
  if (!b) return a;
  const auto holds = [](const ClockPointer& whole, const ClockPointer& part) {
    return whole->first_ <= part->first_ && part->first_ <= whole->last();
  };
  if (a->height_ > b->height_) return holds(a, b) ? join_part(a, b) : above(a, b);
  if (a->height_ < b->height_) return holds(b, a) ? join_part(b, a) : above(a, b);
  if (a->first_ != b->first_) return above(a, b);
  if (!a->height_ && !a->warps_ && !b->warps_) return join_leaves(a, b);
  Nothing& last = added_nothing(a->name_, b->name_);
  if (last.a == a->name_ && last.b == b->name_) return last.to_a ? a : b;
  ClockPointer both = a->height_ ? join_nodes(a, b) : join_leaves(a, b);
  if (both == a || both == b) last = {a->name_, b->name_, both == a};
  return both;
}

Stamp Clock::seen_of(std::uint32_t group) const {
  const std::uint32_t kind = kind_of(group), in_kind = group - kind;
  const bool thread = of_thread(in_kind), warp = in_kind >= warp_group(0) && in_kind <= warp_group(31);
  Stamp stamp = at(group);
  if (!of_threads(kind) || (!thread && !warp)) return stamp;
  if (thread) stamp = std::max(stamp, at(kind + warp_group((in_kind - thread_group(0)) / 32)));
  return std::max(stamp, at(kind + whole_block));
}

ClockPointer Clock::meet(const ClockPointer& a, const ClockPointer& b) {
  if (!a || !b) return nullptr;
  std::vector<ClockEntry> list;
  const auto add = [&](const Clock& of, const Clock& other) {
    of.each_leaf(0, ~std::uint64_t(0), [&](const Clock& leaf) {
      const Clock* there = other.find(leaf.first_);
      if (!there) return;
      leaf.each_entry([&](const Entry& entry) {
        list.push_back({leaf.first_, entry.group, std::min(entry.stamp, there->seen_of(entry.group))});
      });
    });
  };
  add(*a, *b); // of two entries that stand for some thread the narrower one tells
  add(*b, *a);
  return with(nullptr, list);
}

ClockPointer Clock::with(const ClockPointer& clock, std::span<ClockEntry> more) {
  std::sort(more.begin(), more.end(), [](const ClockEntry& a, const ClockEntry& b) {
    return a.block != b.block ? a.block < b.block : a.group < b.group;
  });
  ClockPointer result = clock;
  for (auto at = more.begin(); at != more.end();) {
    const std::uint64_t block = at->block;
    const auto end = std::find_if(at, more.end(), [&](const ClockEntry& entry) { return entry.block != block; });
    auto leaf = make_counted<Clock>();
    Wider wider;
    leaf->first_ = block;
    leaf->entries_.reserve(std::size_t(end - at));
    for (; at != end; ++at) {
      if (at->stamp) leaf->append({at->group, at->stamp}, wider);
    }
    leaf->widen();
    leaf->settle();
    if (!leaf->entries_.empty() || leaf->warps_) result = join(result, leaf);
  }
  return result;
}

}  // namespace deadheat::order
