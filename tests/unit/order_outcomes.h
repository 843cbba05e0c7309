// Outcomes of little programs: those that the axioms of the PTX memory consistency model allow (PTX ISA 9.0, section
// 8.10, said naively: every candidate execution is made and judged), and those that order::Histories shows when the
// program's operations are performed in every order with every value that a read may return.
//
// A program is a list of threads; every write and read-modify-write stores a value of its own (its number from 1, where
// a vector counts as often as it has elements), so that a value tells which write a read saw. 0 is what memory held at
// first.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "deadheat/memory_model.h"

namespace deadheat::test {

struct Op {
  enum class Kind : std::uint8_t { read, write, exchange, fence, barrier } kind = Kind::read;
  std::uint32_t variable = 0;
  Ordering ordering = Ordering::weak;
  Scope scope = Scope::none;
  std::uint32_t elements = 1; // 2: a vector, of `variable` and the next one (8.2.2)
  bool memory() const { return kind == Kind::read || kind == Kind::write || kind == Kind::exchange; }
  bool reads() const { return kind == Kind::read || kind == Kind::exchange; }
  bool writes() const { return kind == Kind::write || kind == Kind::exchange; }
};
struct LitmusThread {
  std::uint32_t block = 0, thread = 0;
  std::vector<Op> ops; // barriers: of all threads of the block that have as many of them
};
using Program = std::vector<LitmusThread>;

// What every read returned, thread by thread in program order, a vector's elements one after the other, and then the
// last value of each variable.
using Outcome = std::vector<std::uint32_t>;

std::set<Outcome> allowed(const Program& program);
// `shared`: the variables lie in the shared memory of block 0, which all threads are of. The axioms make no difference,
// Histories does.
std::set<Outcome> shown(const Program& program, bool shared = false);

} // namespace deadheat::test
