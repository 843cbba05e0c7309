// Probes: what makes fast region code safe where addresses are checked.
//
// A probe is the code of a region without its effects. It stores nothing and loads only what steers: values from which
// addresses, guards or branches are made. All that is left is the computation of addresses; of each group of accesses
// (the same base register in one straight line of code) it keeps the least and greatest base of all threads of the
// block, and whether any address was misaligned. Whoever runs the region looks whether these ranges are legal as a
// whole; only then fast code, which checks nothing, runs. Else each thread goes alone, by code that checks every access
// and says which one was wrong.
//
// That is sound although the probe sees memory from before the region: ranges that steering loads read must be apart
// from all that the region writes. Take the first steering load that finds another value than the probe did. Whoever
// wrote that value did so at an address that rests on steering loads before it, which the probe computed too: it lies
// in a range of writes, and the load in one of steering loads, and these would not be apart.
//
// Thread-safety: as builder.h.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "replay/engine/access.h"
#include "replay/engine/builder.h"
#include "replay/engine/footprint.h"
#include "replay/engine/regions.h"

namespace deadheat::engine {

std::string probe_name(std::size_t resume);

// What a probe keeps of its accesses' bases.
enum class ProbeKind : std::uint8_t {
  bounds,
  residues, // folded (ProbeFold)
  list // bounds, and each in RegionContext::listed
};

class ProbeNotes {
 public:
  ProbeNotes(const FunctionTables& tables, const std::vector<Site>& sites);
  // Of a whole kernel: of what the slice keeps (footprint.h).
  ProbeNotes(const FunctionTables& tables, FootprintSlice slice, ProbeKind kind);

  // Statements that the probe does without.
  bool skips(std::uint32_t statement) const { return !kept_.empty() && !kept_[statement]; }
  // False: the kernel's accesses cannot be told without running it (its addresses rest on what atomics read), or not
  // for less than that (loops that load addresses).
  bool possible() const { return possible_; }
  const std::vector<RegionRange>& ranges() const { return ranges_; }
  // The numbers that a probe keeps: of each range least and greatest base, then the union of misaligned bits.
  std::size_t numbers() const { return 2 * ranges_.size() + 1; }

  // While the builder makes the code of one thread: an access, in place of its check.
  void note(Builder& b, const Access& access);
  // A load's value: from memory if it steers and its address can be read, else zero.
  llvm::Value* load(Builder& b, llvm::Type* type, llvm::Value* pointer);
  // Once the code is made: at its ends the thread's numbers join those that the function's last argument points to.
  void finish(llvm::Function& of_thread);

  // Numbers of no thread; stores to ptr[0..numbers()).
  void clear(llvm::IRBuilder<>& ir, llvm::Value* numbers) const;

 private:
  struct Group {
    const llvm::BasicBlock* block = nullptr;
    std::uint32_t statement = 0; // of its last access
    std::int32_t base = -1; // register
    std::size_t range = 0;
    std::set<std::pair<unsigned, unsigned>> aligned; // (alignment, offset from it) that were looked at
  };
  bool same_base(const Builder& b, const Group& group) const;
  Group& group_of(Builder& b, const Access& access, RegionRange::Kind kind, std::uint8_t operation);
  llvm::AllocaInst* slot(Builder& b, std::int64_t initial);
  llvm::Value* fold(Builder& b, llvm::Value* base);
  void list(Builder& b, llvm::Value* base);

  const FunctionTables& tables_;
  ProbeKind kind_ = ProbeKind::bounds;
  bool possible_ = true;
  std::vector<bool> steers_; // by statement: a load
  std::vector<bool> kept_; // by statement; empty: all
  std::vector<RegionRange> ranges_;
  std::vector<Group> groups_;
  std::vector<llvm::AllocaInst*> slots_; // by number
  llvm::AllocaInst* misaligned_ = nullptr;
  llvm::AllocaInst* nothing_ = nullptr; // zeros, where a load's address cannot be read
};

} // namespace deadheat::engine
