// What the first pass does to what is known of one unit; of Filter, whose files alone include it.
//
// Thread-safety: none.
#pragma once

#include <algorithm>

#include "analyzer/detect/filter.h"

namespace deadheat::detect {

inline bool Filter::read(Cell& cell, const StrongCell* strong, Actor& actor, unsigned lane, Level level, bool outside) {
  const std::uint8_t who = who_of(level, level == one_lane ? lane : 0);
  const bool again = cell.reads == actor.segment && !outside && !actor.asynchronous;
  if (again && cell.reads_who == who && level == one_lane) return true;
  if (!strong && !outside && level == one_lane && own_write(cell.write, cell.writer(), actor, lane)) return true;
  if (!epochs_.ordered_write(cell.write, cell.writer(), actor, lane, false) ||
      (outside && epochs_.beside(cell.write, actor))) {
    return false;
  }
  if (strong && comes_after_writes(*strong, actor) &&
      (!epochs_.ordered_write(strong->epoch, strong->who, actor, lane, false) ||
       (outside && epochs_.beside(strong->epoch, actor)))) {
    return false;
  }
  if (again && cell.reads_who >= 1 << 5) return true; // one more of those that the epoch stands for
  if ((cell.write_who & Cell::non_coherent) && epochs_.of_another_beside(cell.reads, actor) &&
      epochs_.ordered(cell.reads, cell.reads_who, actor, lane))
    return false; // its epoch would stand for that launch's
  if (outside) cell.write_who |= Cell::non_coherent;
  SegmentId reads = cell.reads;
  read_epoch(reads, cell.reads_who, actor, lane, level);
  cell.reads = reads;
  return true;
}

inline void Filter::read_epoch(SegmentId& reads, std::uint8_t& reads_who, Actor& actor, unsigned lane, Level level) {
  if (epochs_.join_apart(reads, reads_who, level, actor)) return;
  if (epochs_.ordered(reads, reads_who, actor, lane)) {
    if (actor.asynchronous) epochs_.stands_for(reads, actor, false, reads_who == lane);
    reads_who = who_of(level, level == one_lane ? lane : 0);
    reads = actor.segment;
  } else {
    unsigned wide = epochs_.widened(reads, std::max<unsigned>(reads_who >> 5, level), actor);
    if (wide == one_lane && (reads_who & 31) != lane) wide = whole_warp;
    reads_who = who_of(wide, wide == one_lane ? lane : 0);
    reads = wide < whole_operation ? actor.segment : epochs_.joint(reads, actor);
  }
}

inline bool Filter::write(Cell& cell, StrongCell* strong, Actor& actor, unsigned lane) {
  const bool strong_written = strong && (strong->flags & StrongCell::writes);
  if (!epochs_.ordered_write(cell.write, cell.writer(), actor, lane, true) ||
      !epochs_.ordered(cell.reads, cell.reads_who, actor, lane) ||
      (strong && !(strong_written ? epochs_.ordered_write(strong->epoch, strong->who, actor, lane, true)
                                  : epochs_.ordered(strong->epoch, strong->who, actor, lane)))) {
    return false;
  }
  if ((cell.write_who & Cell::non_coherent) && epochs_.beside(cell.reads, actor)) return false;
  if (actor.asynchronous) {
    epochs_.stands_for(cell.write, actor, true, cell.writer() == lane);
    epochs_.stands_for(cell.reads, actor, false, cell.reads_who == lane);
    if (strong) epochs_.stands_for(strong->epoch, actor, strong_written, strong->who == lane);
  }
  if (strong) *strong = StrongCell{};
  cell.write = actor.segment;
  cell.write_who = std::uint8_t(lane);
  cell.reads = 0;
  cell.reads_who = 0;
  return true;
}

} // namespace deadheat::detect
