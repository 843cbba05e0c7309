#include "analyzer/detect/filter_pairs.h"

#include <algorithm>

namespace deadheat::detect {

void EpochPairs::get(Entry entry, Cell& cell) const {
  const Pair& pair = *pool_.at(entry.segment);
  const unsigned lane = lane_of(entry.who);
  cell.write = pair.write;
  if (pair.write) {
    cell.write_who |= pair.write_who >> 5 == one_lane ? std::uint8_t((lane + pair.write_who) & 31)
                                                      : std::uint8_t(Cell::wide | pair.write_who >> 5);
  }
  cell.reads = pair.reads;
  if (!pair.reads) return;
  cell.reads_who = pair.reads_who >> 5 == one_lane ? std::uint8_t(lane) : std::uint8_t(pair.reads_who & 0xE0);
  if (pair.reads_who & non_coherent) cell.write_who |= Cell::non_coherent;
}

SegmentId EpochPairs::add(const Pair& pair) {
  const SegmentId id = pool_.allocate();
  *pool_.at(id) = pair;
  pool_.at(id)->users = 1;
  ++count_;
  return id;
}

Entry EpochPairs::put(const Cell& cell) {
  const std::uint8_t writer = cell.writer();
  const bool reader = cell.reads && cell.reads_who >> 5 == one_lane;
  const unsigned lane = reader ? cell.reads_who & 31u : writer >> 5 == one_lane ? writer & 31u : 0;
  Pair wanted;
  wanted.write = cell.write;
  wanted.reads = cell.reads;
  wanted.write_who = writer >> 5 == one_lane ? std::uint8_t((writer - lane) & 31) : writer;
  wanted.reads_who = std::uint8_t((cell.reads_who & 0xE0) | (cell.write_who & Cell::non_coherent ? non_coherent : 0));
  ++total_users_;
  const std::uint64_t whom = std::uint64_t(wanted.write_who) << 8 | wanted.reads_who;
  SegmentId& recent = recent_[place(std::uint64_t(wanted.write) << 32 | wanted.reads, whom)];
  if (recent) {
    Pair& known = *pool_.at(recent);
    if (known.write == wanted.write && known.reads == wanted.reads && known.write_who == wanted.write_who &&
        known.reads_who == wanted.reads_who && known.users && known.users < most_users) {
      ++known.users;
      return {recent, who_of_lane(lane)};
    }
  }
  if (crowded()) {
    if (const SegmentId wide = widened(wanted)) return {wide, who_of_lane(lane)};
  }
  recent = add(wanted);
  return {recent, who_of_lane(lane)};
}

Entry EpochPairs::put_wide(const Cell& cell, SegmentId with) {
  auto level = [&](SegmentId segment, unsigned least) {
    return segment == 0 ? 0u
           : epochs_->of_copy(segment)
               ? std::max<unsigned>(least, complete_operation)
               : std::max({least, std::min<unsigned>(epochs_->common_level(segment, with), whole_operation)});
  };
  Pair wanted;
  wanted.write = cell.write;
  wanted.reads = cell.reads;
  wanted.write_who = who_of(level(cell.write, cell.writer() >> 5), 0);
  wanted.reads_who = std::uint8_t(who_of(level(cell.reads, cell.reads_who >> 5), 0) |
                                  (cell.write_who & Cell::non_coherent ? non_coherent : 0));
  ++total_users_;
  return {joined(wanted, true), who_of_lane(0)};
}

// 0: it is not to be, since nothing would come of it.
SegmentId EpochPairs::widened(Pair& wanted) {
  const bool reads_wide = wanted.reads_who >> 5 >= whole_operation;
  const unsigned common = wanted.reads ? epochs_->common_level(wanted.write, wanted.reads) : unsigned(whole_operation);
  if (common == whole_warp && wanted.write_who == 0 && !reads_wide) return 0; // a lane's own: it may well write again
  const unsigned level = epochs_->of_copy(wanted.write)
                             ? unsigned(complete_operation)
                             : std::max<unsigned>(wanted.write_who >> 5, std::min<unsigned>(common, whole_operation));
  wanted.write_who = who_of(level, 0);
  return joined(wanted, reads_wide);
}

// One that stands for all of the group that its write is of, and its reads where they are joined.
SegmentId EpochPairs::joined(const Pair& wanted, bool join_reads) {
  const unsigned level = wanted.write_who >> 5, reads_level = wanted.reads_who >> 5;
  const std::size_t most = join_reads && reads_level >= whole_operation ? most_joined : most_users;
  const std::uint64_t from = epochs_->group_of(wanted.write, level);
  const std::uint64_t to = join_reads ? epochs_->group_of(wanted.reads, reads_level) : wanted.reads;
  SegmentId& recent = recent_wide_[place(from, to << 16 | level << 8 | wanted.reads_who)];
  if (recent) {
    Pair& known = *pool_.at(recent);
    const bool alike = known.users && known.users < most && known.write_who == wanted.write_who &&
                       known.reads_who == wanted.reads_who && !known.write == !wanted.write &&
                       !known.reads == !wanted.reads && epochs_->group_of(known.write, level) == from &&
                       (join_reads ? epochs_->group_of(known.reads, reads_level) == to : known.reads == wanted.reads);
    if (alike) {
      ++known.users;
      known.write = epochs_->later(wanted.write, known.write);
      if (join_reads) known.reads = epochs_->later(wanted.reads, known.reads);
      return recent;
    }
  }
  return recent = add(wanted);
}

void EpochPairs::drop(SegmentId id) {
  Pair& pair = *pool_.at(id);
  --total_users_;
  if (--pair.users) return;
  pair = {};
  pool_.free(id);
  --count_;
}

void EpochPairs::trim() {
  if (count_) return;
  pool_.trim();
  recent_.fill(0);
  recent_wide_.fill(0);
}

} // namespace deadheat::detect
