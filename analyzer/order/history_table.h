// Where store histories keep what was written: for each granule of eight aligned bytes, in global memory or in the
// shared memory of a block, its last writes and the bytes from before them.
//
// Nothing is allocated a write. Granules and rings lie in chunks that clear() keeps; a granule holds two writes itself,
// a ring of eight where there are more. They are found through pages of 128 granules, and the pages found last without
// a hash table.
//
// Invariants: what find() and make() return stays where it is until clear(); forget() leaves it as if nothing had been
// written there. Writes of a granule have stamps that do not decrease from the oldest to the newest.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "analyzer/order/clock.h"
#include "deadheat/memory_model.h"

namespace deadheat::order {

// A write, as far as one granule has it.
struct Version {
  Stamp stamp = 0;
  ThreadKey writer;
  std::uint64_t value = 0; // in the granule's bytes
  std::uint32_t tag = 0;
  std::uint8_t mask = 0; // bytes of the granule
  std::int8_t offset = 0; // of strong writes: where the element begins, from the granule's first byte
  std::uint8_t element_bytes = 0; // of strong writes
  std::uint8_t strength : 3; // a Scope; none: weak
  std::uint8_t observed : 1; // somebody's strong read of it is remembered
  std::uint8_t seen_by_all : 1;
  std::uint8_t asynchronous : 1; // a copy's, in no order with what its writer did
  Version() : strength(0), observed(0), seen_by_all(0), asynchronous(0) {}
  Scope scope() const { return Scope(strength); }
};
static_assert(sizeof(Version) == 32);

struct Granule {
  static constexpr std::uint32_t bytes = 8, inside = 2;
  std::uint64_t base = 0; // bytes before the oldest version
  std::uint8_t base_mask = 0; // which of them are known
  std::uint8_t settled = 0; // and which come from versions that settle() took in
  std::uint8_t count = 0, first = 0; // of versions; where the oldest is in the ring
  bool returned = false; // somebody's reads of it are remembered
  bool strong = false; // some write was
  bool asynchronous = false; // some write was a copy's
  std::uint32_t ring = 0; // 0: the versions are here
  std::array<Version, inside> own;
};

// Values that are never moved, numbered from 1.
template <typename T> class Chunks {
 public:
  T& operator[](std::uint32_t number) { return chunks_[number / chunk][number % chunk]; }
  std::uint32_t add() {
    if (++used_ / chunk == chunks_.size()) chunks_.push_back(std::make_unique<T[]>(chunk));
    (*this)[used_] = T();
    return used_;
  }
  void clear() { used_ = 0; }

 private:
  static constexpr std::uint32_t chunk = 512;
  std::uint32_t used_ = 0;
  std::vector<std::unique_ptr<T[]>> chunks_;
};

class HistoryTable {
 public:
  static constexpr std::uint32_t longest = 8; // writes of a granule that are remembered
  using Stamps = std::array<Stamp, Granule::bytes>;

  // `block` as in Location; `granule`: the address over eight. find() returns null where nothing was written.
  Granule* find(std::uint64_t block, std::uint64_t granule) {
    const std::uint32_t number = number_of(block, granule);
    return number ? &granules_[number] : nullptr;
  }
  Granule& make(std::uint64_t block, std::uint64_t granule);
  std::uint32_t number_of(std::uint64_t block, std::uint64_t granule) { // one that no other has before clear(); 0: none
    const Page* page = find_page(block, granule / page_granules);
    return page ? page->granules[granule % page_granules] : 0;
  }
  void forget(std::uint64_t block, std::uint64_t granule);
  void clear();

  Version& newest(Granule& granule, std::uint32_t nth) { // 0: the newest
    if (!granule.ring) return granule.own[granule.count - 1 - nth];
    return rings_[granule.ring].versions[(granule.first + granule.count - 1 - nth) % longest];
  }
  // The newest version that was forgotten, a byte each; null: none was.
  const Stamps* forgotten(const Granule& granule) { return granule.ring ? &rings_[granule.ring].forgotten : nullptr; }
  // Room for a version behind the newest; the caller fills it in.
  Version& push(Granule& granule);
  // All versions become part of what was there before.
  void settle(Granule& granule);

  static std::uint64_t wide(std::uint8_t mask) { // 0xff for each byte
    std::uint64_t bits = mask * 0x0101010101010101u & 0x8040201008040201u; // bit n of byte n
    return (((bits + 0x7f7f7f7f7f7f7f7fu) | bits) >> 7 & 0x0101010101010101u) * 0xff;
  }

 private:
  static constexpr std::uint32_t page_granules = 128;
  struct Page {
    std::uint64_t block = 0, number = 0;
    std::array<std::uint32_t, page_granules> granules{}; // 0: none
  };
  struct Ring {
    Stamps forgotten{};
    std::array<Version, longest> versions;
  };
  struct Recent {
    std::uint64_t block = 0, number = ~std::uint64_t(0);
    Page* page = nullptr; // null: there is none
  };
  static std::uint64_t hash(std::uint64_t block, std::uint64_t number) {
    return (number ^ block * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u;
  }
  Page* find_page(std::uint64_t block, std::uint64_t number) {
    Recent& recent = recent_[hash(block, number) >> 56];
    if (recent.number != number || recent.block != block) recent = {block, number, look_up(block, number)};
    return recent.page;
  }
  Page* look_up(std::uint64_t block, std::uint64_t number);
  Page& make_page(std::uint64_t block, std::uint64_t number);
  void place(std::uint32_t page);

  Chunks<Granule> granules_;
  Chunks<Ring> rings_;
  Chunks<Page> pages_;
  std::uint32_t pages_count_ = 0;
  std::vector<std::uint32_t> slots_; // numbers of pages, by hash; open addressing, a power of two
  std::array<Recent, 256> recent_;
};

} // namespace deadheat::order
