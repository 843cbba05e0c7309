// Bytes of page-locked memory as they were, to be compared with what is there later.
//
// Up to 256 KiB are kept whole; of more, pieces of up to 4 KiB that lie evenly in it, the first and the last among
// them: always the same ones, for the same range.
//
// Memory may be gone when it is looked at again: what the driver allocated goes with the driver when the process ends,
// all of an allocation at once; what the program registered whenever it likes. The former is asked for first (mincore),
// the latter read by a call that fails where nothing is (process_vm_readv; of memory that the driver maps it cannot
// read).
//
// Thread-safety: none. The memory itself is read while the program may write it: what is torn is the program's race.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "deadheat/trace.h"

namespace deadheat::cupti {

class KeptBytes {
 public:
  static constexpr std::uint64_t most_bytes = std::uint64_t(256) << 10, piece_bytes = 4096, most_pieces = 1024;
  static constexpr std::uint64_t gap = 16; // unchanged bytes that are told along, rather than in two stretches

  // Keeps them, in `room`, whose memory is used again. False: they cannot be read. `registered`: the program's own
  // memory, which it may give back at any time; else it is there.
  bool take(const trace::MemoryRange& range, bool registered, std::vector<std::uint8_t> room);
  std::vector<std::uint8_t> give_room() { return std::move(before_); }

  // Of a stretch that differs: where it lies, and what is there now. False ends the search.
  using Differs = std::function<bool(std::uint64_t address, std::span<const std::uint8_t> now)>;
  // False: the memory is gone.
  bool compare(const Differs& differs) const;
  void take_in(std::uint64_t address, std::uint64_t bytes); // as they are now: what wrote them is known

  const trace::MemoryRange& range() const { return range_; }
  std::uint64_t bytes() const { return before_.size(); }
  bool whole() const { return before_.size() == range_.bytes(); }

 private:
  struct Piece {
    std::uint64_t address = 0, bytes = 0;
  };
  Piece piece(std::uint64_t number) const; // of those that are kept
  bool read(std::vector<std::uint8_t>& to) const; // all pieces; of registered memory

  trace::MemoryRange range_; // rows without gaps are one
  bool registered_ = false;
  std::uint64_t pieces_ = 0; // that are kept
  std::vector<std::uint8_t> before_; // of one piece after the other
};

} // namespace deadheat::cupti
