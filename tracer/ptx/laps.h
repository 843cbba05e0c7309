// The ways from one read to the next: does the address keep its value on them, and what decides?
//
// Thread-safety: one object, one thread. What it is made of must outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "deadheat/ptx.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/path_values.h"

namespace deadheat::ptx {

class Laps {
 public:
  // `reads`: statements of ld through one register, of which `read` is one. `begin`: where the ways to it begin, so
  // that it is known what registers have to do with each other: its innermost loop's head, or its block's. `within`:
  // what leaves this loop is no way back; null: any way in the function. `steps`: what may be spent; less afterwards.
  Laps(const Function& function, const Flow& flow, const std::set<std::uint32_t>& reads, std::uint32_t read,
       std::uint32_t begin, const Flow::Loop* within, std::size_t& steps);

  bool complete() const { return complete_; } // else there are too many ways
  bool same_again() const { return same_again_; } // the location may be read again before another, by any of `reads`
  std::set<std::uint32_t> again() const { return reads_of(outcomes_); } // by which
  // Those that read it again on a way that a branch or guard takes whose condition is in `conditions`. None where there
  // are too many ways.
  std::set<std::uint32_t> decided_by(const RegisterSet& conditions) const;

 private:
  static constexpr std::size_t most_nodes = 1 << 12, most_arrivals = 4, most_reads = 60;
  static constexpr std::size_t a_node = 4, a_scan = 8; // steps: of a node; statements that are looked through in one
  static constexpr unsigned most_states = 6; // of registers at one statement; more are taken together
  static constexpr unsigned measured = 3; // the lap behind those that lead to the read
  // What ways end in: bits. From first_read on: one of the reads, of the same location.
  enum Outcome : std::uint64_t { another = 1, ends = 2, depends = 4, first_read = 16 };
  static constexpr std::uint64_t same = ~std::uint64_t(first_read - 1);

  struct Node { // a place on a way, with what registers hold there
    std::uint32_t statement = 0;
    PathValues::Registers registers;
    std::vector<std::uint32_t> next, before;
    std::vector<RegisterId> conditions; // of the fork at its end
    std::uint64_t outcomes = 0; // of itself, then of all ways from it
  };

  std::set<std::uint32_t> reads_of(std::uint64_t outcomes) const;
  std::vector<RegisterId> address_registers(std::uint32_t begin) const;
  void explore(unsigned lap, std::uint32_t from, const PathValues::Registers& registers);
  void spend(std::size_t steps);
  void walk(unsigned lap, std::size_t node);
  std::uint32_t node_of(std::uint32_t statement, PathValues::Registers registers);
  void leave(std::size_t node, const Instruction* last, std::uint32_t block, const PathValues::Registers& registers);
  bool ends_at(std::uint32_t statement, unsigned lap, std::size_t node, PathValues::Registers& registers);
  void settle();
  std::uint32_t end() const { return std::uint32_t(function_.body.size()); } // the node of ways that lead to no read

  const Function& function_;
  const Flow& flow_;
  std::vector<std::uint32_t> reads_; // ascending
  const std::uint32_t read_;
  std::size_t& steps_;
  std::optional<PathValues> values_;
  std::vector<bool> leads_; // blocks within, from which a read can be reached
  PathValues::Value address_ = 0; // of the lap
  std::vector<Node> nodes_; // of the lap
  std::map<std::pair<std::uint32_t, PathValues::Registers>, std::uint32_t> known_; // nodes
  std::map<std::uint32_t, std::vector<std::uint32_t>> states_; // nodes, by statement
  std::vector<PathValues::Registers> arrivals_; // at the read: what registers hold there
  std::vector<std::vector<Node>> laps_;
  bool complete_ = true, same_again_ = false;
  std::uint64_t outcomes_ = 0;
};

} // namespace deadheat::ptx
