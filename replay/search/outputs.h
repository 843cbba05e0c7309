// What the host could see of a run, and how two runs differ.
//
// Outputs are the bytes of HostRead records: copies to the host, mapped memory, printf. Two runs are compared
// operation by operation, in submission order, up to the first operation whose bytes differ: what the host did after it
// was recorded from another history.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deadheat/race.h"
#include "deadheat/trace.h"

namespace deadheat::search {

struct Output {
  std::uint32_t operation = 0; // 0: printf and mapped memory
  std::uint64_t address = 0; // device address of the first byte
  std::vector<std::uint8_t> bytes;
  trace::MemoryRange rows = {}; // that the bytes come from, one after another; width 0: they lie together

  std::uint64_t address_at(std::uint64_t offset) const;
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const; // in `bytes`; none: it is not among them
  std::uint64_t row_bytes() const { return rows.width ? rows.width : bytes.size(); }
};

enum class Ending : std::uint8_t { finished, fault, hang };

struct Outputs {
  std::vector<Output> outputs; // sorted by operation, then by delivery
  Ending ending = Ending::finished;
  std::string ending_text; // of a fault or hang: one line

  // 32 hexadecimal digits over the outputs up to operation `last` (inclusive) and the ending.
  std::string digest(std::uint32_t last = ~0u) const;
  void sort(); // they came in the order in which they were delivered
};

// What kind of values lie where, from the instructions that wrote them.
class ValueTypes {
 public:
  void allocated(const trace::Allocate& allocation);
  void wrote(std::uint64_t address, std::uint64_t bytes, const std::string& type);
  void copied(const trace::Copy& copy);
  // What is known, an allocation each; and the same told by somebody who knew.
  std::vector<std::pair<std::uint32_t, std::string>> known() const;
  void tell(std::uint32_t allocation, const std::string& type);
  // Element type at an address; "u8" when nobody is known to have written there.
  std::string at(std::uint64_t address) const;
  struct Place {
    std::uint32_t allocation = 0;
    std::uint64_t offset = 0;
  };
  Place place(std::uint64_t address) const;
  bool is_condition(std::uint64_t address) const; // of a graph: deadheat/conditions.h

 private:
  struct Allocation {
    trace::Allocate record;
    std::vector<std::pair<std::string, std::uint64_t>> types; // type, how often written
  };
  Allocation* find(std::uint64_t address);
  std::vector<Allocation> allocations_; // in order of allocation: later ones win where addresses were reused
};

struct Comparison {
  bool differ = false;
  std::uint32_t operation = 0; // the first operation whose outputs differ; 0: printf, a fault or a hang
  std::vector<Difference> differences;
};
// `types` may be null: differences are then left empty.
Comparison compare(const Outputs& a, const Outputs& b, const ValueTypes* types);

} // namespace deadheat::search
