#include "tracer/ptx/laps.h"

#include <algorithm>
#include <utility>

#include "tracer/ptx/operands.h"

namespace deadheat::ptx {

namespace {

bool ends_thread(const Instruction& i) {
  return i.opcode == Opcode::exit || i.opcode == Opcode::ret || i.opcode == Opcode::trap;
}

} // namespace

Laps::Laps(const Function& function, const Flow& flow, const std::set<std::uint32_t>& reads, std::uint32_t read,
           std::uint32_t begin, const Flow::Loop* within, std::size_t& steps)
    : function_(function), flow_(flow), reads_(reads.begin(), reads.end()), read_(read), steps_(steps) {
  spend(function.body.size() / a_scan);
  if (!complete_) return;
  if (reads.size() > most_reads) reads_ = {read};
  std::vector<std::uint32_t> blocks;
  for (const std::uint32_t r : reads_) blocks.push_back(flow.block_of(r));
  leads_ = flow.leading_to(blocks);
  for (std::uint32_t b = 0; b < leads_.size() && within; ++b)
    if (!std::binary_search(within->blocks.begin(), within->blocks.end(), b)) leads_[b] = false;
  values_.emplace(function, address_registers(begin));
  // Twice, since what a loop computes at its end has to do with what it begins with from the second time on only.
  explore(1, begin, values_->initial());
  for (PathValues::Registers registers : std::vector<PathValues::Registers>(arrivals_)) {
    values_->execute(read, 1, 0, registers);
    explore(2, read + 1, registers);
  }
  for (PathValues::Registers registers : arrivals_) {
    if (!complete_) return;
    address_ = values_->address(read, registers);
    values_->read(read, registers);
    explore(measured, read + 1, registers);
    settle();
    outcomes_ |= nodes_[0].outcomes;
    laps_.push_back(std::move(nodes_));
  }
  same_again_ = (outcomes_ & (same | depends)) != 0;
}

// Those that the reads' addresses are computed from on the ways that are walked.
std::vector<RegisterId> Laps::address_registers(std::uint32_t begin) const {
  const std::vector<bool> walked = flow_.reachable_from({flow_.block_of(begin)});
  std::map<RegisterId, std::vector<std::uint32_t>> writers;
  RegisterUse use;
  for (std::uint32_t b = 0; b < flow_.blocks().size(); ++b) {
    if (!walked[b] || !leads_[b]) continue;
    for (std::uint32_t s = flow_.blocks()[b].first; s < flow_.blocks()[b].last; ++s) {
      const Instruction* i = function_.body[s].instruction();
      if (!i) continue;
      register_use(*i, use);
      for (const RegisterId r : use.writes) writers[r].push_back(s);
    }
  }
  std::set<RegisterId> found;
  std::vector<RegisterId> next;
  for (const std::uint32_t read : reads_)
    for (const Operand& o : function_.body[read].instruction()->operands) {
      if (o.kind != Operand::Kind::address) continue;
      for (const Operand& base : o.elements)
        if (base.kind == Operand::Kind::reg) next.push_back(base.reg);
    }
  while (!next.empty()) {
    const RegisterId r = next.back();
    next.pop_back();
    const auto written = writers.find(r);
    if (written == writers.end() || !found.insert(r).second) continue;
    for (const std::uint32_t s : written->second) {
      if (std::binary_search(reads_.begin(), reads_.end(), s)) continue;
      register_use(*function_.body[s].instruction(), use);
      next.insert(next.end(), use.reads.begin(), use.reads.end());
    }
  }
  return {found.begin(), found.end()};
}

void Laps::explore(unsigned lap, std::uint32_t from, const PathValues::Registers& registers) {
  nodes_.clear();
  known_.clear();
  states_.clear();
  node_of(from, registers);
  for (std::size_t n = 0; n < nodes_.size() && complete_; ++n) {
    walk(lap, n);
    spend(a_node);
    complete_ = complete_ && nodes_.size() <= most_nodes;
  }
}

void Laps::spend(std::size_t steps) {
  complete_ = complete_ && steps_ >= steps;
  steps_ -= std::min(steps_, steps);
}

std::uint32_t Laps::node_of(std::uint32_t statement, PathValues::Registers registers) {
  std::vector<std::uint32_t>& states = states_[statement];
  if (states.size() >= most_states) values_->widen(registers, nodes_[states.front()].registers);
  const auto [at, added] = known_.try_emplace({statement, registers}, std::uint32_t(nodes_.size()));
  if (added) {
    states.push_back(at->second);
    nodes_.push_back({statement, std::move(registers), {}, {}, {}, 0});
  }
  return at->second;
}

// From a node to where ways part or meet.
void Laps::walk(unsigned lap, std::size_t node) {
  PathValues::Registers registers = nodes_[node].registers;
  const std::uint32_t begin = nodes_[node].statement;
  if (begin == end()) {
    nodes_[node].outcomes = ends;
    return;
  }
  const std::uint32_t block = flow_.block_of(begin);
  const Instruction* last = nullptr;
  for (std::uint32_t s = begin; s < flow_.blocks()[block].last; ++s) {
    const Instruction* i = function_.body[s].instruction();
    if (!i) continue;
    last = i;
    if (std::binary_search(reads_.begin(), reads_.end(), s)) {
      if (ends_at(s, lap, node, registers)) return;
      continue;
    }
    const std::vector<RegisterId> writes = register_use(*i).writes;
    if (std::none_of(writes.begin(), writes.end(), [&](RegisterId r) { return values_->follows(r); })) continue;
    const bool selects = i->opcode == Opcode::selp && i->operands.size() == 4;
    if (!i->guard && !selects) {
      values_->execute(s, lap, 0, registers);
      continue;
    }
    std::set<PathValues::Registers> ways;
    if (i->guard) ways.insert(registers);
    for (unsigned choice = 0; choice < (selects ? 2u : 1u); ++choice) {
      PathValues::Registers one = registers;
      values_->execute(s, lap, choice, one);
      ways.insert(one);
    }
    if (ways.size() == 1) {
      registers = *ways.begin();
      continue;
    }
    if (i->guard) nodes_[node].conditions.push_back(i->guard->reg);
    if (selects && i->operands[3].kind == Operand::Kind::reg) nodes_[node].conditions.push_back(i->operands[3].reg);
    for (const PathValues::Registers& way : ways) {
      const std::uint32_t to = node_of(s + 1, way);
      nodes_[node].next.push_back(to);
    }
    return;
  }
  leave(node, last, block, registers);
}

// At one of the reads: is that the end of the way?
bool Laps::ends_at(std::uint32_t statement, unsigned lap, std::size_t node, PathValues::Registers& registers) {
  if (lap != measured) {
    if (statement != read_) {
      values_->execute(statement, lap, 0, registers);
      return false;
    }
    const bool fresh = std::find(arrivals_.begin(), arrivals_.end(), registers) == arrivals_.end();
    if (fresh && arrivals_.size() < most_arrivals && values_->is_known(values_->address(statement, registers)))
      arrivals_.push_back(registers);
    return true;
  }
  const PathValues::Value address = values_->address(statement, registers);
  Node& here = nodes_[node];
  if (address == address_) {
    const auto number = std::lower_bound(reads_.begin(), reads_.end(), statement) - reads_.begin();
    here.outcomes = std::uint64_t(first_read) << number;
    return true;
  }
  if (statement == read_) {
    here.outcomes = values_->depends_on_read(address) ? depends : another;
    return true;
  }
  values_->execute(statement, lap, 0, registers);
  return false;
}

// At the end of a block.
void Laps::leave(std::size_t node, const Instruction* last, std::uint32_t block,
                 const PathValues::Registers& registers) {
  const std::vector<std::uint32_t>& successors = flow_.blocks()[block].successors;
  std::set<std::uint32_t> next;
  if (successors.empty() || (last && ends_thread(*last))) next.insert(node_of(end(), {}));
  for (const std::uint32_t to : successors)
    next.insert(leads_[to] ? node_of(flow_.blocks()[to].first, registers) : node_of(end(), {}));
  nodes_[node].next.assign(next.begin(), next.end());
  if (last && next.size() > 1) nodes_[node].conditions = register_use(*last).reads;
}

// Hands what ways end in back to where they begin.
void Laps::settle() {
  std::vector<std::uint32_t> next;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    for (const std::uint32_t to : nodes_[n].next) nodes_[to].before.push_back(n);
    if (nodes_[n].outcomes) next.push_back(n);
  }
  while (!next.empty()) {
    const std::uint32_t n = next.back();
    next.pop_back();
    for (const std::uint32_t from : nodes_[n].before) {
      const std::uint64_t all = nodes_[from].outcomes | nodes_[n].outcomes;
      if (std::exchange(nodes_[from].outcomes, all) != all) next.push_back(from);
    }
  }
}

std::set<std::uint32_t> Laps::reads_of(std::uint64_t outcomes) const {
  std::set<std::uint32_t> found;
  for (std::size_t n = 0; n < reads_.size(); ++n)
    if (outcomes & std::uint64_t(first_read) << n) found.insert(reads_[n]);
  return found;
}

std::set<std::uint32_t> Laps::decided_by(const RegisterSet& conditions) const {
  constexpr std::uint64_t gone = another | ends;
  std::uint64_t decided = 0;
  for (const std::vector<Node>& lap : laps_)
    for (const Node& node : lap) {
      if (std::none_of(node.conditions.begin(), node.conditions.end(),
                       [&](RegisterId r) { return conditions.contains(r); }))
        continue;
      for (const std::uint32_t one : node.next)
        for (const std::uint32_t other : node.next) {
          const std::uint64_t a = lap[one].outcomes, b = lap[other].outcomes;
          decided |= a & ~b & same;
          if (!(a & gone) && (b & gone)) decided |= a & same;
        }
    }
  return complete_ ? reads_of(decided) : std::set<std::uint32_t>{};
}

} // namespace deadheat::ptx
