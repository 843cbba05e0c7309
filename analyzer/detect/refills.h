// Slots that are filled again too early: vectors of data beside a flag, which their reader waits for
// (ptx/flagged_reads.h), and the next write to one of them.
//
// Reads that saw an older flag race with the write that they wait for, by design, and so does the last one, which has
// its value from it. What must be ordered is that last read and the write behind it. Threads tell each other by
// volatile and relaxed accesses that a slot is free again, without fences: values pass, and no other memory does. So
// whoever feeds this has a Causality in which every strong access releases and acquires (Detector::Pass::refills).
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/shadow.h"
#include "tracer/ptx/flagged_reads.h"

namespace deadheat::detect {

class Refills {
 public:
  // A read, or a write, of a vector: `access` is its first element's.
  struct Vector {
    std::uint64_t memory = 0; // as in Shadow::access
    MemoryAccess access;
    std::uint32_t elements = 1;
    std::uint64_t value = 0; // of all elements (vector_values.h)
    std::uint64_t order_first = 0, order_last = 0;
  };
  static constexpr std::uint64_t nowhere = ~0ull;
  static constexpr std::uint64_t most_exchanges = 1 << 14; // atomic operations that can be followed: some seconds
  struct Next { // what lanes of a warp come to
    order::ThreadKey lane0;
    std::uint32_t mask = 0, module = 0, site = 0;
    std::uint64_t memory = 0, address = nowhere; // of a strong access
  };
  using Sink = std::function<void(const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap)>;

  Refills(const order::Causality& causality, Sink sink) : causality_(causality), sink_(std::move(sink)) {}

  bool waiting() const { return !warps_.empty(); } // else next() and ends() have nothing to do
  void next(const Next& next);
  void ends(order::ThreadKey lane0, std::uint32_t mask); // of threads
  void missing() { warps_.clear(); } // records, here
  // Of atomic operations, each of which hands on all that was known to the one before it, only so many can be followed.
  // False: from here on nothing is looked at.
  bool exchange(std::uint32_t lanes) {
    exchanges_ += lanes;
    if (exchanges_ > most_exchanges) warps_.clear(), slots_.clear();
    return !cut();
  }
  bool cut() const { return exchanges_ > most_exchanges; }
  // The flagged read of a site of `module`; next() has been told of it.
  void read(const Vector& vector, std::uint32_t module, const ptx::FlaggedRead& flagged);
  void write(const Vector& vector);

  void forget_range(std::uint64_t address, std::uint64_t bytes); // global memory
  // Shared memory, and who waits there.
  void forget(order::OperationIndex operation);
  void forget(order::ThreadKey block);

  std::uint64_t left_out() const { return left_out_; } // reads that there was no room for

 private:
  static constexpr std::uint64_t slot_bytes = 32; // a vector lies in one; of a damaged trace, in two
  static constexpr std::size_t most_of_slot = 1 << 12, most_of_all = 1 << 21;
  struct Waiting { // a read that may have been the last one
    Vector vector;
    std::uint32_t module = 0;
    const ptx::FlaggedRead* flagged = nullptr;
    bool behind_others = false;
    const ptx::FlaggedRead::Next& next() const { return behind_others ? flagged->behind_others : flagged->next; }
  };
  struct Taken {
    Vector vector;
    std::uint32_t data = 0; // elements
  };
  using Slots = std::unordered_map<std::uint64_t, std::vector<Taken>>; // by address / slot_bytes

  void take(const Waiting& read);
  void compare(const Taken& read, const Vector& write);

  const order::Causality& causality_;
  const Sink sink_;
  std::unordered_map<std::uint64_t, std::map<unsigned, std::vector<Waiting>>> warps_; // by the key of lane 0; by lane
  std::map<std::uint64_t, Slots> slots_; // by memory
  std::size_t taken_ = 0;
  std::uint64_t exchanges_ = 0;
  std::uint64_t left_out_ = 0;
};

} // namespace deadheat::detect
