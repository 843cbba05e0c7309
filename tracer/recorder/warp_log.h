// From the logs of 32 lanes to accesses a warp at a time.
//
// Recorded code appends one LogEntry for every weak access of its lane. merge_warp() groups entries of the same site
// into accesses of several lanes. Every entry becomes one lane of one access, and each lane's entries keep their order;
// between lanes there is no order to keep (weak accesses between two syncs). While the lanes took the same path, every
// row of entries is one access. Where they diverged, the lowest site goes first: sites are numbered in source order, so
// lanes that took a branch or a further turn of a loop catch up with those that wait behind it.
//
// Thread-safety: pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "deadheat/address.h"
#include "deadheat/memory_model.h"

namespace deadheat::trace {

// Same layout as the engine's log entry.
struct LogEntry {
  std::uint64_t address; // generic address (deadheat/address.h)
  std::uint32_t site;
  std::uint32_t digest; // of writes: of the bytes written; 0 for reads
};
static_assert(sizeof(LogEntry) == 16);

// One lane's entries, oldest first.
template <typename Entry = LogEntry>
struct BasicLaneLog {
  const Entry* begin = nullptr;
  const Entry* end = nullptr;
};
using LaneLog = BasicLaneLog<LogEntry>;

inline Space space_of(std::uint64_t address) {
  if (address < shared_window) return Space::global;
  if (address < local_window) return Space::shared;
  return address < param_window ? Space::local : Space::param;
}
inline std::uint64_t window_start(Space space) {
  switch (space) {
    case Space::shared: return shared_window;
    case Space::local: return local_window;
    case Space::param: return param_window;
    default: return 0;
  }
}

namespace merge_detail {

// Hands over a row whose lanes lie in more than one space: one access for each.
template <typename Sink>
void split_by_space(std::uint32_t site, std::uint32_t mask, const std::uint64_t* address, const std::uint32_t* digest,
                    Sink&& sink) {
  std::uint64_t offset[32];
  for (const Space space : {Space::global, Space::shared, Space::local, Space::param}) {
    std::uint32_t lanes = 0;
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      if (space_of(address[lane]) != space) continue;
      offset[lane] = address[lane] - window_start(space);
      lanes |= 1u << lane;
    }
    if (lanes) sink(site, lanes, space, offset, digest);
  }
}

// Hands over one row.
template <typename Sink>
void emit(std::uint32_t site, std::uint32_t mask, const std::uint64_t* address, const std::uint32_t* digest,
          bool any_digest, std::uint64_t any_address, Sink&& sink) {
  const std::uint32_t* digests = any_digest ? digest : nullptr;
  if (any_address < shared_window) { // no lane has a window's bit
    sink(site, mask, Space::global, address, digests);
    return;
  }
  std::uint64_t offset[32];
  std::uint64_t any_offset = 0;
  if (mask == 0xFFFFFFFF) {
    for (unsigned lane = 0; lane < 32; lane++) any_offset |= offset[lane] = address[lane] - shared_window;
  } else {
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      any_offset |= offset[lane] = address[lane] - shared_window;
    }
  }
  if (any_offset < local_window - shared_window) {
    sink(site, mask, Space::shared, offset, digests);
  } else {
    split_by_space(site, mask, address, digests, sink);
  }
}

} // namespace merge_detail

// Calls sink(site, mask, space, address, digest) for each access, in order; address and digest are arrays of 32 that
// hold until it returns, valid for the lanes of mask; addresses are relative to their window; digest is null when there
// is none but zero.
template <typename Entry, typename Sink>
void merge_warp(const BasicLaneLog<Entry> (&lanes)[32], Sink&& sink) {
  static_assert(sizeof(Entry) == 16 && offsetof(Entry, site) == 8 && offsetof(Entry, digest) == 12 &&
                std::endian::native == std::endian::little);
  alignas(64) std::uint64_t address[32];
  alignas(64) std::uint32_t digest[32];
  const Entry* at[32];
  std::uint32_t active = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    at[lane] = lanes[lane].begin;
    if (at[lane] != lanes[lane].end) active |= 1u << lane;
  }

  while (active) {
    // Rows of equal sites. `rows` is how many the shortest log still has.
    std::size_t rows = ~std::size_t(0);
    for (std::uint32_t rest = active; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      const std::size_t left = std::size_t(lanes[lane].end - at[lane]);
      if (left < rows) rows = left;
    }
    const unsigned first = unsigned(std::countr_zero(active));
    std::uint32_t divergent = 0;
    std::size_t row = 0;
    for (; row < rows; row++) {
      const std::uint32_t site = at[first][row].site;
      std::uint32_t digests = 0;
      std::uint64_t addresses = 0;
      if (active == 0xFFFFFFFF) {
        // An entry is two words: the address, and the digest above the site. Most rows have no digests to collect.
        std::uint64_t any = 0, differs = 0;
        for (unsigned lane = 0; lane < 32; lane++) {
          std::uint64_t words[2];
          std::memcpy(words, &at[lane][row], sizeof words);
          address[lane] = words[0];
          addresses |= words[0];
          any |= words[1];
          differs |= words[1] ^ site;
        }
        divergent = std::uint32_t(differs);
        digests = std::uint32_t(any >> 32);
        if (digests)
          for (unsigned lane = 0; lane < 32; lane++) digest[lane] = at[lane][row].digest;
      } else {
        for (std::uint32_t rest = active; rest; rest &= rest - 1) {
          const unsigned lane = unsigned(std::countr_zero(rest));
          const Entry& entry = at[lane][row];
          address[lane] = entry.address;
          digest[lane] = entry.digest;
          divergent |= entry.site ^ site;
          digests |= entry.digest;
          addresses |= entry.address;
        }
      }
      if (divergent) break;
      merge_detail::emit(site, active, address, digest, digests != 0, addresses, sink);
    }
    for (std::uint32_t rest = active; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      at[lane] += row;
      if (at[lane] == lanes[lane].end) active &= ~(1u << lane);
    }

    // Divergent rows: the lanes at the lowest site go first, until all that are left are at the same site again.
    while (divergent && active) {
      std::uint32_t lowest = 0xFFFFFFFF, highest = 0;
      for (std::uint32_t rest = active; rest; rest &= rest - 1) {
        const std::uint32_t site = at[std::countr_zero(rest)]->site;
        if (site < lowest) lowest = site;
        if (site > highest) highest = site;
      }
      if (lowest == highest) break;
      std::uint32_t mask = 0, digests = 0;
      std::uint64_t addresses = 0;
      for (std::uint32_t rest = active; rest; rest &= rest - 1) {
        const unsigned lane = unsigned(std::countr_zero(rest));
        const Entry& entry = *at[lane];
        if (entry.site != lowest) continue;
        mask |= 1u << lane;
        address[lane] = entry.address;
        digest[lane] = entry.digest;
        digests |= entry.digest;
        addresses |= entry.address;
        if (++at[lane] == lanes[lane].end) active &= ~(1u << lane);
      }
      merge_detail::emit(lowest, mask, address, digest, digests != 0, addresses, sink);
    }
  }
}

} // namespace deadheat::trace
