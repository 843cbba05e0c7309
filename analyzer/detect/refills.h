// Slots that are filled again too early: vectors of data beside a flag, which their reader waits for
// (ptx/flagged_reads.h), and the next write to one of them.
//
// Reads that saw an older flag race with the write that they wait for, by design, and so does the last one, which has
// its value from it. What must be ordered is that last read and the writes behind it. Threads tell each other by
// volatile and relaxed accesses that a slot is free again, without fences: values pass, and no other memory does. So
// whoever feeds this has a Causality in which every strong access releases and acquires, and the flagged reads are
// marked (order::Rules::only_marked).
//
// Which read was the last one shows only when its thread goes on: writes that come until then are kept beside it.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/partition.h"
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
  struct Next { // what lanes of a warp come to
    order::ThreadKey lane0;
    std::uint32_t mask = 0, module = 0, site = 0;
    std::uint64_t memory = 0, address = nowhere; // of a strong access
  };
  using Sink = std::function<void(const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap)>;

  // Looks at slots in memory of `share` only.
  Refills(const order::Causality& causality, const Share& share, Sink sink)
      : causality_(causality), share_(share), sink_(std::move(sink)) {}

  bool waiting() const { return !warps_.empty(); } // else next() and ends() have nothing to do
  void next(const Next& next);
  void ends(order::ThreadKey lane0, std::uint32_t mask); // of threads
  void missing() { warps_.clear(); } // records, here
  // The flagged read of a site of `module`; next() has been told of it.
  void read(const Vector& vector, std::uint32_t module, const ptx::FlaggedRead& flagged);
  void write(const Vector& vector);

  void forget_range(std::uint64_t address, std::uint64_t bytes); // global memory
  // Shared memory, and who waits there.
  void forget(order::OperationIndex operation);
  void forget(order::ThreadKey block);
  void forget_inactive(); // memory that is no longer in the share

  std::uint64_t left_out() const { return left_out_; } // reads, and writes beside them, that there was no room for
  std::uint64_t bytes() const { return taken_ * sizeof(Taken) + looked_ * sizeof(Waiting) + places_ * sizeof(Slot); }

 private:
  static constexpr std::uint64_t slot_bytes = 32; // a vector lies in one; of a damaged trace, in two
  static constexpr std::size_t most_of_slot = 1 << 12, most_of_all = 1 << 21;
  static constexpr std::size_t most_beside = 16; // writes, of a read
  struct Taken {
    Vector vector;
    std::uint32_t data = 0; // elements
  };
  struct Race {
    MemoryAccess first, second;
    Overlap overlap;
  };
  struct Waiting { // a read that may have been the last one
    Vector vector;
    std::uint32_t module = 0;
    const ptx::FlaggedRead* flagged = nullptr;
    bool behind_others = false;
    std::vector<Race> beside; // with what was written since, if it was
    const ptx::FlaggedRead::Next& next() const { return behind_others ? flagged->behind_others : flagged->next; }
  };
  using Lanes = std::map<unsigned, std::vector<Waiting>>;
  struct Slot {
    std::vector<Taken> taken;
    std::set<std::uint64_t> looked; // keys of the threads that wait for it, and of some that do not any more
  };
  using Slots = std::unordered_map<std::uint64_t, Slot>; // by address / slot_bytes

  bool looks_at(std::uint64_t memory, std::uint64_t address) const {
    return share_.has_page(memory, address / page_bytes);
  }
  void take(const Waiting& read);
  std::optional<Race> compare(const Vector& read, std::uint32_t data, const Vector& write) const;
  void write_beside(std::uint64_t number, Slot& slot, const Vector& write);
  void forget(const Slot& slot) { taken_ -= slot.taken.size(), looked_ -= slot.looked.size(), --places_; }

  const order::Causality& causality_;
  const Share& share_;
  const Sink sink_;
  std::unordered_map<std::uint64_t, Lanes> warps_; // that wait: by the key of lane 0; by lane
  std::map<std::uint64_t, Slots> slots_; // by memory
  std::size_t places_ = 0, taken_ = 0, looked_ = 0; // of all slots
  std::uint64_t left_out_ = 0;
};

} // namespace deadheat::detect
