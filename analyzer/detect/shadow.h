// Shadow memory: who touched each byte, as far as it can still matter.
//
// A page covers 4096 bytes of global memory or of one block's shared memory. It holds, for each 4-byte word, the
// accesses that a later one may race with, each with a mask of the bytes of the word; accesses that cover the whole
// page (copies, sets) are kept once. Only suspect words are looked at (filter.h). Of accesses of one side, those that a
// later one of that side comes after are dropped: whatever races with the older races with the newer, or is ordered by
// it.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/sides.h"
#include "analyzer/detect/suspects.h"
#include "analyzer/order/causality.h"
#include "deadheat/memory_model.h"

namespace deadheat::detect {

struct MemoryAccess {
  order::ThreadKey thread; // the first of `lanes`
  std::uint32_t lanes = 1; // lanes of the thread's warp that did the same (a broadcast read)
  PlaceId place = 0;
  order::Stamp stamp = 0;
  std::uint64_t address = 0; // of the element
  std::uint32_t bytes = 0; // of the element; of a range access: clipped to the page
  std::uint32_t digest = 0;
  std::uint32_t record_bytes = 0; // bytes that the digest covers
  order::AsyncGroup group = 0;
  AccessKind kind = AccessKind::read;
  Ordering ordering = Ordering::weak;
  Scope scope = Scope::none;
  order::Stamp continues = 0; // as Causality::strong_access returns it
  bool possible = false; // an opaque kernel's footprint: it may not touch this at all
  bool stored = true; // false: an atomic that left memory as it was (a failed cas)
  bool atomic_operation() const { return kind == AccessKind::atomic; }
  bool writes() const { return kind != AccessKind::read; }
};

// How two conflicting, unordered accesses stand to each other.
enum class Conflict : std::uint8_t { data, strong, atomics };
struct Overlap {
  std::uint64_t memory = 0, address = 0; // memory as in Shadow::access
  std::uint32_t bytes = 0;
};
using ConflictSink =
    std::function<void(Conflict, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap)>;

class Shadow {
 public:
  Shadow(const order::Causality& causality, const Sides& sides, const Suspects& suspects, ConflictSink sink)
      : causality_(causality), sides_(sides), suspects_(suspects), sink_(std::move(sink)) {}

  // `memory`: 0 for global memory, else ThreadKey::block_bits + 1 of the block whose shared memory it is. Reports the
  // conflicts of `access` with what is there, then adds it.
  void access(std::uint64_t memory, const MemoryAccess& access);
  // The same for a range of any length.
  void range(std::uint64_t memory, MemoryAccess access, std::uint64_t address, std::uint64_t bytes);
  // Forgets global memory that is allocated anew: what was there before cannot be touched without touching freed
  // memory.
  void forget_range(std::uint64_t address, std::uint64_t bytes);
  // Forgets the shared memory of an operation's blocks, or of one block.
  void forget_shared(order::OperationIndex operation);
  void forget_shared(order::ThreadKey block);

 private:
  struct Entry {
    MemoryAccess access;
    std::uint8_t mask = 15; // bytes of the word
  };
  struct Page {
    std::vector<Entry> whole;
    std::array<std::vector<Entry>, page_bytes / 4> words;
  };
  Page& page(std::uint64_t memory, std::uint64_t address);
  void word(std::uint64_t memory, std::vector<Entry>& entries, const Entry& entry, std::uint64_t address);
  bool ordered(const MemoryAccess& first, const MemoryAccess& second, order::ThreadKey* unordered) const;
  bool morally_strong(const MemoryAccess& first, const MemoryAccess& second) const;
  bool outside_model(const MemoryAccess& first, const MemoryAccess& second) const;
  bool check(std::uint64_t memory, const Entry& older, const Entry& entry, std::uint64_t address);

  const order::Causality& causality_;
  const Sides& sides_;
  const Suspects& suspects_;
  ConflictSink sink_;
  std::unordered_map<PageKey, std::unique_ptr<Page>, PageHash> pages_;
  // operation → block bits → its pages
  std::unordered_map<order::OperationIndex, std::unordered_map<std::uint64_t, std::vector<PageKey>>> shared_pages_;
  PageKey last_key_{~0ull, ~0ull};
  Page* last_page_ = nullptr;
};

} // namespace deadheat::detect
