#include "analyzer/detect/filter_lines.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace deadheat::detect {

namespace {

constexpr unsigned full_percent = 91; // of places
constexpr double growth = 1.09; // so that a table is full to 87 % on average
// A small table of which most entries name arrays, and stand for many units each, may be emptier: what a look at those
// reads is where it begins, then, and a processor seldom guesses wrong that it is.
constexpr std::uint32_t small_lines = 256;
constexpr unsigned full_percent_of_arrays = 60;
std::uint32_t fitting(std::uint32_t used, unsigned percent) { // lines
  return used * 100 / percent / EntryLine::slots + 1;
}

} // namespace

// From a beginning that is the table's own, and to where a piece ends.
std::uint32_t LineTable::larger(std::uint32_t count, unsigned number) {
  double size = 1 + (growth - 1) * number / of_region;
  while (size < count + 1) size *= growth;
  const std::uint32_t wanted = std::uint32_t(size), rest = wanted % EntryArrays::piece_lines;
  return wanted + (rest ? EntryArrays::lines[EntryArrays::size_for(rest)] - rest : 0);
}

void LineTable::add_piece(EntryArrays& arrays, std::uint32_t number) {
  const std::uint32_t wanted = std::min(count_ - number * EntryArrays::piece_lines, EntryArrays::piece_lines);
  Piece& piece = pieces_[number];
  piece.size = EntryArrays::size_for(wanted);
  piece.id = arrays.allocate(piece.size);
  piece.lines = arrays.at<EntryLine>(piece.id);
  std::memset(static_cast<void*>(piece.lines), 0, sizeof(EntryLine) * wanted);
}

bool LineTable::try_insert(EntryArrays& arrays, std::uint32_t key, std::uint32_t segment, std::uint8_t who) {
  if (!count_) return false;
  const std::uint32_t home = this->home(key, count_), step = this->step(key, count_);
  std::uint32_t number = home;
  for (unsigned depth = 0; depth <= most_depth; ++depth) {
    EntryLine& at = line_or_new(arrays, number);
    if (const unsigned empty = at.empty()) {
      const unsigned place = unsigned(std::countr_zero(empty));
      at.key[place] = key;
      at.segment[place] = segment;
      at.who[place] = who;
      ++used_;
      named_arrays_ += is_array(key);
      if (depth) {
        std::uint8_t& deepest = line(home).depth;
        deepest = std::max(deepest, std::uint8_t(depth));
      }
      return true;
    }
    number += step;
    if (number >= count_) number -= count_;
  }
  return false;
}

bool LineTable::insert(EntryArrays& arrays, unsigned number, std::uint32_t key, std::uint32_t segment,
                       std::uint8_t who) {
  // With room for some more than there are, few are far from where they begin.
  const unsigned percent = of_arrays() && count_ < small_lines ? full_percent_of_arrays : full_percent;
  bool grow = 100ull * (used_ + 1) > std::uint64_t(percent) * slots * count_, grown = false;
  while (grow || !try_insert(arrays, key, segment, who)) {
    resize(arrays, larger(count_, number));
    grow = false;
    grown = true;
  }
  return grown;
}

std::uint32_t LineTable::fitting_lines(unsigned percent) const {
  const std::uint32_t lines = fitting(used_, percent);
  return of_arrays() && lines < small_lines ? std::min(fitting(used_, full_percent_of_arrays * 5 / 6), small_lines)
                                            : lines;
}

bool LineTable::shrink(EntryArrays& arrays) {
  const std::uint32_t wanted = fitting_lines(82);
  if (count_ <= 8 || 100ull * wanted >= 85ull * count_) return false;
  resize(arrays, wanted);
  return true;
}

void LineTable::fit(EntryArrays& arrays) {
  const std::uint32_t wanted = used_ ? fitting_lines(88) : 0;
  if (wanted < count_) resize(arrays, wanted);
}

// The pieces of the old table are free for the new one as soon as they were copied. What is in a new line fills it from
// its first place on, so that how many there are says where the next one goes.
void LineTable::resize(EntryArrays& arrays, std::uint32_t count) {
  struct Left {
    std::uint32_t key, segment;
    std::uint8_t who;
  };
  std::vector<Left> left; // for which there was no room
  const LineTable old = std::exchange(*this, {});
  count_ = count;
  pieces_.resize((count + EntryArrays::piece_lines - 1) / EntryArrays::piece_lines);
  std::vector<std::uint8_t> taken(count); // places of each new line
  auto move = [&](const EntryLine& from, unsigned place) {
    const std::uint32_t key = from.key[place], home = this->home(key, count);
    std::uint32_t number = home;
    unsigned depth = 0;
    if (taken[number] == slots) [[unlikely]] {
      const std::uint32_t step = this->step(key, count);
      do {
        if (++depth > most_depth) return left.push_back({key, from.segment[place], from.who[place]});
        number += step;
        if (number >= count) number -= count;
      } while (taken[number] == slots);
      std::uint8_t& deepest = line_or_new(arrays, home).depth;
      deepest = std::max(deepest, std::uint8_t(depth));
    }
    EntryLine& to = line_or_new(arrays, number);
    const unsigned next = taken[number]++;
    named_arrays_ += is_array(key);
    to.key[next] = key;
    to.segment[next] = from.segment[place];
    to.who[next] = from.who[place];
  };
  for (std::uint32_t first = 0; first < old.count_; first += EntryArrays::piece_lines) {
    const Piece& copied = old.pieces_[first / EntryArrays::piece_lines];
    const std::uint32_t lines = std::min(old.count_ - first, EntryArrays::piece_lines);
    for (std::uint32_t i = 0; i < lines; ++i) {
      const EntryLine& from = copied.lines[i];
      for (unsigned full = ~from.empty() & ((1u << slots) - 1); full; full &= full - 1) {
        move(from, unsigned(std::countr_zero(full)));
      }
    }
    arrays.free(copied.size, copied.id);
  }
  used_ = old.used_ - std::uint32_t(left.size());
  for (std::uint32_t i = 0; i < count; i += EntryArrays::piece_lines) line_or_new(arrays, i);
  for (const Left& one : left) insert(arrays, 0, one.key, one.segment, one.who);
}

} // namespace deadheat::detect
