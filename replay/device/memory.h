// The device's address space: where allocations lie, which bytes are valid, and what they hold before they are written.
//
// Two arenas at fixed host addresses (deadheat/address.h): device memory, and memory that host and device share
// (pinned, managed). Placement is a pure function of the requests made so far: best fit, lowest address first, a guard
// gap behind every allocation, so that a replay of the same requests finds the same addresses. Device memory of more
// than 1 MiB begins at a multiple of 2 MiB (but for parts of what a pool hands on), as on a GPU, which has pages of
// that size: programs lay their own pieces out in it and trust in that. Fresh memory holds a pattern made from the seed
// and the address, never zeros by luck. Large allocations get it by mapping, page by page as they are touched.
//
// The shadow has one byte for each 16 bytes of the device arena: 16 when all are valid, n < 16 when the first n are.
// It says what the device may touch at this moment of its time; placement runs ahead of it (stream-ordered frees hand
// memory out again when they are submitted).
//
// Invariants: every valid byte lies in committed (readable and writable) pages; free, pending and placed ranges never
// overlap, and a range begins and ends at multiples of `granularity`.
//
// Thread-safety: none. One Memory exists in a process at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "deadheat/address.h"
#include "deadheat/expected.h"

namespace deadheat::device {

// Disjoint ranges [low, high), coalesced.
class FreeRanges {
 public:
  void insert(std::uint64_t low, std::uint64_t high);
  // Removes what lies in [low, high); returns how many bytes that were.
  std::uint64_t carve(std::uint64_t low, std::uint64_t high);
  // Where `bytes` lie in the smallest range that has them from a multiple of `alignment` on, of equal ones the lowest;
  // 0 when there is none.
  std::uint64_t best_fit(std::uint64_t bytes, std::uint64_t alignment = 1) const;

 private:
  void add(std::uint64_t low, std::uint64_t high);
  void erase(std::map<std::uint64_t, std::uint64_t>::iterator range);
  std::map<std::uint64_t, std::uint64_t> by_address_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_; // (bytes, low)
};

class Memory {
 public:
  static constexpr std::uint64_t granularity = 512, segment_bytes = std::uint64_t(2) << 20;
  // Says whether memory whose stream-ordered free is `operation` of `stream` may be handed out again.
  using Reusable = std::function<bool(std::uint32_t stream, std::uint32_t operation)>;

  static Expected<std::unique_ptr<Memory>> create(std::uint64_t seed, std::uint64_t capacity);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Finds a place and commits its pages; contents and validity are as they were (fill, validate). Returns the host
  // address of the first byte. `at`: that very address, when nonzero.
  Expected<std::uint64_t> place(bool shared_with_host, std::uint64_t bytes, std::uint64_t at = 0,
                                const Reusable& reusable = {});
  // Gives a place back: at once, or when complete_release(operation) is called.
  void release(std::uint64_t host, std::uint64_t bytes);
  void release_later(std::uint64_t host, std::uint64_t bytes, std::uint32_t stream, std::uint32_t operation);
  void complete_release(std::uint32_t operation);

  // Bytes that a place of `bytes` takes, guard gap included.
  static std::uint64_t reserved(std::uint64_t bytes) {
    return (bytes + granularity / 2 + granularity - 1) / granularity * granularity;
  }

  // What fresh memory holds, one segment's worth: the pattern of every address is the byte at its offset in a segment.
  static void make_pattern(std::uint64_t seed, std::uint8_t* segment);
  // ---- Which bytes were ever written (engine/written.h). Host addresses; those outside the device arena are ignored,
  // as destinations, and count as written, as sources.
  bool track_written(); // from now on; false: there is no room for it
  void forget_written() { tracking_ = false; } // somebody wrote unseen
  bool tracks_written() const { return tracking_; }
  void written(std::uint64_t host, std::uint64_t bytes);
  void unwritten(std::uint64_t host, std::uint64_t bytes);
  void copy_written(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  bool any_written(std::uint64_t host, std::uint64_t bytes) const;

  // Gives fresh memory its pattern: nobody has written it.
  void fill(std::uint64_t host, std::uint64_t bytes);
  void validate(std::uint64_t host, std::uint64_t bytes); // device arena only; other addresses are ignored
  void invalidate(std::uint64_t host, std::uint64_t bytes);
  // All bytes valid at this moment. Device arena only.
  bool valid(std::uint64_t host, std::uint64_t bytes) const;
  std::uint64_t changes() const { return changes_; } // of validity, so far

  const std::uint8_t* shadow() const { return shadow_; }
  std::uint64_t in_use() const { return in_use_; }
  // Bytes of the pattern from a place that `salt` chooses; at most pattern_bytes / 2 from there on.
  const std::uint8_t* garbage(std::uint64_t salt) const;

  static bool in_device_arena(std::uint64_t host) { return host - device_arena < device_arena_bytes; }
  static bool in_shared_arena(std::uint64_t host) { return host - pinned_arena < pinned_arena_bytes; }

 private:
  Memory() = default;
  struct Pending {
    std::uint64_t low, high;
    std::uint32_t stream, operation;
  };
  struct Pattern;
  struct Arena {
    std::uint64_t base = 0, bytes = 0;
    FreeRanges free;
    std::vector<std::uint32_t> users; // placed ranges a segment
  };
  Arena& arena_of(std::uint64_t host) { return in_shared_arena(host) ? shared_ : device_; }
  Expected<void> commit(Arena& arena, std::uint64_t low, std::uint64_t high);
  void decommit(Arena& arena, std::uint64_t low, std::uint64_t high);
  bool take_exactly(Arena& arena, std::uint64_t low, std::uint64_t high);
  std::uint64_t take_pending(std::uint64_t bytes, const Reusable& reusable);

  Arena device_, shared_;
  std::vector<Pending> pending_; // freed by stream-ordered frees that have not run, and not handed out again
  std::vector<Pending> unfinished_; // places of such frees, whole: their pages stay committed
  std::shared_ptr<Pattern> pattern_;
  std::uint8_t* shadow_ = nullptr;
  std::uint64_t capacity_ = 0, in_use_ = 0, changes_ = 0;
  bool tracking_ = false;
};

} // namespace deadheat::device
