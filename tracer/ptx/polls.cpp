#include "tracer/ptx/polls.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tracer/ptx/flow.h"
#include "tracer/ptx/laps.h"
#include "tracer/ptx/operands.h"
#include "tracer/ptx/value_flow.h"

namespace deadheat::ptx {

namespace {

constexpr std::size_t most_steps = 1 << 22; // of a module: some seconds

bool is_strong_read(const Site& site) {
  return site.kind == SiteKind::access && site.access == AccessKind::read && is_strong(site.ordering);
}

// The strong reads of one function.
class Reads {
 public:
  Reads(const Function& function, const std::vector<std::uint32_t>& sites, const SiteTable& table, std::size_t& steps)
      : function_(function), flow_(function), values_(function), loops_(flow_.natural_loops()), steps_(steps) {
    for (std::uint32_t s = 0; s < sites.size(); ++s) {
      if (sites[s] == SiteTable::none || function.body[s].instruction()->opcode != Opcode::ld) continue;
      const Site& site = table.sites[sites[s]];
      if (is_strong_read(site)) reads_[s].plain = !is_acquire(site.ordering);
    }
  }

  // By statement.
  std::map<std::uint32_t, Polls> classify() {
    std::vector<std::uint32_t> next;
    for (const auto& [statement, read] : reads_)
      if (read.plain) next.push_back(statement);
    std::set<std::uint32_t> examined;
    while (!next.empty()) {
      const std::uint32_t statement = next.back();
      next.pop_back();
      if (!examined.insert(statement).second) continue;
      Read& read = reads_[statement];
      examine(statement, read);
      for (const std::uint32_t one : read.decides) { // those that acquire, too
        next.push_back(one);
        reads_[one].again = laps(one, nullptr).again();
      }
    }
    std::map<std::uint32_t, Polls> found;
    for (const std::uint32_t statement : polling())
      if (reads_[statement].plain) found[statement] = Polls::yes;
    for (const auto& [statement, read] : reads_)
      if (read.takes) found.try_emplace(statement, Polls::no);
    return found;
  }

 private:
  struct Read {
    bool plain = false; // no acquire
    bool takes = false; // data
    // Reads of the same location: its value decides whether one of them is next; one of them may be next.
    std::set<std::uint32_t> decides, again;
    std::optional<RegisterSet> values; // registers that may depend on its value
  };

  void examine(std::uint32_t statement, Read& read) {
    std::vector<const Flow::Loop*> loops = around(statement);
    if (loops.empty() && flow_.on_cycle(statement)) return; // of several entries
    if (steers(statement)) {
      if (loops.empty()) read.decides = laps(statement, nullptr).decided_by(values_of(statement));
      for (std::size_t n = 0; n < loops.size() && read.decides.empty(); ++n)
        read.decides = laps(statement, loops[n]).decided_by(values_of(statement));
    }
    if (!read.decides.empty() || !read.plain || loops.empty() || !function_.entry) return;
    if (decides(statement, ValueFlow::Through::thread)) return;
    const Laps all = laps(statement, nullptr);
    if (!all.complete()) return;
    if (all.same_again() && decides(statement, ValueFlow::Through::memory)) return;
    read.takes = !tried_again(statement, all.same_again() ? nullptr : loops.front());
  }

  Laps laps(std::uint32_t statement, const Flow::Loop* within) {
    const std::vector<const Flow::Loop*> loops = around(statement);
    const std::uint32_t block = loops.empty() ? flow_.block_of(statement) : loops.front()->header;
    return Laps(function_, flow_, through_same_register(statement), statement, flow_.blocks()[block].first, within,
                steps_);
  }

  // Loops that a statement is in, the innermost first.
  std::vector<const Flow::Loop*> around(std::uint32_t statement) const {
    std::vector<const Flow::Loop*> loops;
    for (const Flow::Loop& loop : loops_)
      if (contains(loop, flow_.block_of(statement))) loops.push_back(&loop);
    std::sort(loops.begin(), loops.end(),
              [](const Flow::Loop* a, const Flow::Loop* b) { return a->blocks.size() < b->blocks.size(); });
    return loops;
  }

  // Those whose value decides whether the location is read again and again: by itself, by way of others that come back
  // to it, or by one that polls, whose first look it is.
  std::set<std::uint32_t> polling() const {
    std::set<std::uint32_t> found;
    for (bool grown = true; grown;) {
      grown = false;
      for (const auto& [statement, read] : reads_) {
        const auto comes_back = [&, of = statement](std::uint32_t one) { return found.count(one) || leads(one, of); };
        if (std::any_of(read.decides.begin(), read.decides.end(), comes_back)) grown |= found.insert(statement).second;
      }
    }
    return found;
  }
  // From one read to another, by reads of the same location alone?
  bool leads(std::uint32_t from, std::uint32_t to) const {
    std::set<std::uint32_t> seen;
    std::vector<std::uint32_t> next{from};
    while (!next.empty()) {
      const std::uint32_t one = next.back();
      next.pop_back();
      if (one == to) return true;
      if (!seen.insert(one).second) continue;
      const std::set<std::uint32_t>& again = reads_.at(one).again;
      next.insert(next.end(), again.begin(), again.end());
    }
    return false;
  }

  static bool contains(const Flow::Loop& loop, std::uint32_t block) {
    return std::binary_search(loop.blocks.begin(), loop.blocks.end(), block);
  }
  std::vector<RegisterId> results(std::uint32_t statement) const {
    return register_use(*function_.body[statement].instruction()).writes;
  }
  const RegisterSet& values_of(std::uint32_t statement) {
    std::optional<RegisterSet>& values = reads_[statement].values;
    if (!values) values = values_.from(results(statement), ValueFlow::Through::registers).registers;
    return *values;
  }
  // What decides where a block is left to: registers that its last instruction reads, where that is a branch.
  std::vector<RegisterId> deciding(std::uint32_t block) const {
    for (std::uint32_t s = flow_.blocks()[block].last; s > flow_.blocks()[block].first; --s) {
      const Instruction* i = function_.body[s - 1].instruction();
      if (!i) continue;
      switch (i->opcode) {
        case Opcode::bra:
        case Opcode::brx:
        case Opcode::exit:
        case Opcode::ret:
        case Opcode::trap: return register_use(*i).reads;
        default: return {};
      }
    }
    return {};
  }
  static bool any_in(const std::vector<RegisterId>& registers, const RegisterSet& set) {
    return std::any_of(registers.begin(), registers.end(), [&](RegisterId r) { return set.contains(r); });
  }

  // May where threads go from blocks on cycles through the read depend on its value?
  bool decides(std::uint32_t statement, ValueFlow::Through through) const {
    const ValueFlow::Reach reach = values_.from(results(statement), through);
    if (reach.elsewhere) return true;
    const std::uint32_t block = flow_.block_of(statement);
    const std::vector<bool> from = flow_.reachable_from({block}), to = flow_.leading_to({block});
    for (std::uint32_t b = 0; b < flow_.blocks().size(); ++b)
      if (from[b] && to[b] && any_in(deciding(b), reach.registers)) return true;
    return false;
  }

  // Does anything at all depend on conditions that its value flows into?
  bool steers(std::uint32_t statement) {
    const RegisterSet& values = values_of(statement);
    return std::any_of(function_.body.begin(), function_.body.end(), [&](const Statement& s) {
      const Instruction* i = s.instruction();
      return i && ((i->guard && values.contains(i->guard->reg)) ||
                   ((i->opcode == Opcode::selp || i->opcode == Opcode::brx) && any_in(register_use(*i).reads, values)));
    });
  }

  // Is it in a loop, other than `but`, that another strong read ends?
  bool tried_again(std::uint32_t statement, const Flow::Loop* but) {
    for (const Flow::Loop* const loop : around(statement)) {
      if (loop == but) continue;
      std::vector<RegisterId> ending;
      for (const std::uint32_t b : loop->blocks) {
        const std::vector<std::uint32_t>& to = flow_.blocks()[b].successors;
        if (std::all_of(to.begin(), to.end(), [&](std::uint32_t next) { return contains(*loop, next); })) continue;
        const std::vector<RegisterId> here = deciding(b);
        ending.insert(ending.end(), here.begin(), here.end());
      }
      for (const auto& [other, read] : reads_)
        if (other != statement && contains(*loop, flow_.block_of(other)) && any_in(ending, values_of(other)))
          return true;
    }
    return false;
  }

  // Those that read through the register, or variable, and at the offset that this does.
  std::set<std::uint32_t> through_same_register(std::uint32_t statement) const {
    const auto base = [&](std::uint32_t s) {
      for (const Operand& o : function_.body[s].instruction()->operands)
        if (o.kind == Operand::Kind::address && !o.elements.empty())
          return std::tuple(o.elements[0].kind, o.elements[0].reg, o.elements[0].text, o.offset);
      return std::tuple(Operand::Kind::tokens, RegisterId(0), std::string_view(), std::int64_t(0));
    };
    std::set<std::uint32_t> same{statement};
    for (const auto& [other, read] : reads_)
      if (base(other) == base(statement)) same.insert(other);
    return same;
  }

  const Function& function_;
  const Flow flow_;
  const ValueFlow values_;
  const std::vector<Flow::Loop> loops_;
  std::map<std::uint32_t, Read> reads_; // by statement
  std::size_t& steps_;
};

} // namespace

std::map<std::uint32_t, Polls> polls(const Module& module, const SiteTable& table) {
  std::map<std::uint32_t, Polls> found;
  std::size_t steps = most_steps;
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const std::vector<std::uint32_t>& sites = table.by_function[f];
    const bool any = std::any_of(sites.begin(), sites.end(), [&](std::uint32_t s) {
      return s != SiteTable::none && is_strong_read(table.sites[s]) && !is_acquire(table.sites[s].ordering);
    });
    if (!any) continue;
    for (const auto& [statement, kind] : Reads(module.functions[f], sites, table, steps).classify())
      found[sites[statement]] = kind;
  }
  return found;
}

} // namespace deadheat::ptx
