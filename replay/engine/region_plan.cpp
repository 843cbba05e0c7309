#include "replay/engine/region_plan.h"

#include <algorithm>

#include "replay/engine/lower.h"
#include "replay/engine/lower_tensor.h"
#include "replay/engine/lower_texture.h"
#include "replay/engine/regions.h"
#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;

namespace {

constexpr std::size_t max_statements = 4000;      // of a kernel: there is a copy of the code behind every stop
constexpr std::size_t max_loop = 200;             // statements of a loop whose header becomes a stop
constexpr std::size_t max_carried = 16;           // registers such a loop may carry from one turn to the next
constexpr std::uint32_t max_recomputed = 12;      // instructions to recompute one register

// Integer arithmetic and moves, cheap and without side effects.
bool is_cheap(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::mov:
    case Opcode::cvta:
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::not_: return true;
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul:
    case Opcode::mad:
    case Opcode::cvt:
    case Opcode::neg:
      return !i.has(Modifier::cc) && std::none_of(i.types.begin(), i.types.end(), [](ptx::Type t) {
        return is_float(t) || is_half(t) || t == ptx::Type::none;
      });
    default: return false;
  }
}

bool is_index(std::string_view special) {
  for (std::string_view name : {"%tid.", "%ntid.", "%ctaid.", "%nctaid.", "%laneid", "%warpid", "WARP_SZ"})
    if (special.starts_with(name)) return true;
  return false;
}

class Planner {
 public:
  Planner(const ModuleTables& tables, const KernelTables& kernel)
      : tables_(tables), f_(tables.functions[kernel.kernel]), body_(f_.function->body), flow_(*f_.function) {
    const std::size_t n = f_.function->registers.size();
    definitions_.resize(n);
    read_.resize(n, false);
    ptx::RegisterUse use;
    for (std::uint32_t s = 0; s < body_.size(); ++s)
      if (const Instruction* i = body_[s].instruction()) {
        ptx::register_use(*i, use);
        for (auto r : use.reads) read_[r] = true;
        for (auto r : use.writes) definitions_[r].push_back(s);
      }
  }

  std::optional<RegionPlan> plan() {
    if (body_.size() > max_statements) return std::nullopt;
    for (const ptx::Variable& v : f_.function->variables)
      plan_.needs_frame |= v.space == Space::local || v.space == Space::param;
    for (std::uint32_t s = 0; s < body_.size(); ++s)
      if (const Instruction* i = body_[s].instruction(); i && !accepts(*i, s)) return std::nullopt;
    if (has_endless_loop()) return std::nullopt;
    guess_strides();
    find_recomputed();
    find_virtual_stops();
    std::sort(plan_.stops.begin(), plan_.stops.end(),
              [](const RegionPlan::Stop& a, const RegionPlan::Stop& b) { return a.statement < b.statement; });
    if (plan_.stops.size() > max_region_stops) return std::nullopt;
    return std::move(plan_);
  }

 private:
  const Site* site(std::uint32_t s) const { return f_.site[s] == no_site ? nullptr : &tables_.sites[f_.site[s]]; }

  // Whether threads can run through an instruction one after another, region by region.
  bool accepts(const Instruction& i, std::uint32_t s) {
    if (i.has(Modifier::cc) || i.opcode == Opcode::addc || i.opcode == Opcode::subc || i.opcode == Opcode::madc)
      plan_.needs_frame = true;
    if (i.opcode == Opcode::call || i.opcode == Opcode::nanosleep || i.opcode == Opcode::trap) return false;
    if (is_matrix_access(i) || (i.opcode == Opcode::st && i.has(Modifier::bulk))) return false;
    if (is_texture_access(i) || i.opcode == Opcode::txq || i.opcode == Opcode::suq) return false;
    if (i.opcode == Opcode::mapa || i.has(Modifier::shared_cluster)) return false; // blocks of a cluster run together
    const Site* at = site(s);
    if (!at) return true;
    switch (at->kind) {
      case SiteKind::exit: return true;
      case SiteKind::fence: return !at->in_loop;
      case SiteKind::barrier: {
        // The barrier of the whole block alone: number 0, no count.
        if (i.guard || i.has(Modifier::red) || at->arrive_only || i.operands.size() != 1) return false;
        const Operand& number = i.operands[0];
        if (number.kind != Operand::Kind::integer || number.bits != 0) return false;
        plan_.stops.push_back({.statement = s});
        return true;
      }
      case SiteKind::access: {
        // Whoever waits for another thread's value must be able to stop.
        if (!at->in_loop || at->space == Space::local) return true;
        if (at->access == AccessKind::atomic) return !uses_result(i);
        return !is_strong(at->ordering);
      }
      default: return false;
    }
  }

  // A loop that nothing leaves: whoever runs a thread alone notices.
  bool has_endless_loop() const {
    for (const ptx::Flow::Loop& loop : flow_.natural_loops()) {
      bool left = false;
      for (std::uint32_t b : loop.blocks)
        for (std::uint32_t next : flow_.blocks()[b].successors)
          left |= !std::binary_search(loop.blocks.begin(), loop.blocks.end(), next);
      if (!left) return true;
    }
    return false;
  }

  bool uses_result(const Instruction& i) const {
    ptx::RegisterUse use = ptx::register_use(i);
    return std::any_of(use.writes.begin(), use.writes.end(), [&](auto r) { return read_[r]; });
  }

  // ---- strides: a constant, or unknown (any); `open` until something is known

  struct Stride {
    enum class Kind : std::uint8_t { open, constant, unknown } kind = Kind::open;
    std::int64_t value = 0;
    static Stride of(std::int64_t v) { return {Kind::constant, v}; }
    static Stride any() { return {Kind::unknown, 0}; }
    bool is(std::int64_t v) const { return kind == Kind::constant && value == v; }
    friend bool operator==(const Stride&, const Stride&) = default;
  };
  static Stride meet(Stride a, Stride b) {
    if (a.kind == Stride::Kind::open) return b;
    if (b.kind == Stride::Kind::open) return a;
    return a == b ? a : Stride::any();
  }
  static Stride sum(Stride a, Stride b, std::int64_t sign = 1) {
    if (a.kind == Stride::Kind::unknown || b.kind == Stride::Kind::unknown) return Stride::any();
    if (a.kind == Stride::Kind::open || b.kind == Stride::Kind::open) return {};
    return Stride::of(a.value + sign * b.value);
  }
  static Stride times(Stride a, std::int64_t factor) {
    return a.kind == Stride::Kind::constant ? Stride::of(std::int64_t(std::uint64_t(a.value) * std::uint64_t(factor)))
                                            : a;
  }

  Stride of(const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::reg: return strides_[o.reg];
      case Operand::Kind::special:
        if (o.text == "%tid.x") return Stride::of(1);
        return is_index(o.text) && o.text != "%laneid" && o.text != "%warpid" ? Stride::of(0) : Stride::any();
      case Operand::Kind::integer:
      case Operand::Kind::f32:
      case Operand::Kind::f64:
      case Operand::Kind::symbol: return Stride::of(0);
      case Operand::Kind::address:
      case Operand::Kind::vector:
      case Operand::Kind::pair:
      case Operand::Kind::list: {
        Stride all;
        for (const Operand& e : o.elements) all = all.kind == Stride::Kind::open ? of(e) : sum(all, of(e));
        return all;
      }
      case Operand::Kind::sink: return Stride::of(0);
      default: return Stride::any();
    }
  }
  static bool is_constant(const Operand& o) { return o.kind == Operand::Kind::integer; }

  Stride product(const Operand& a, const Operand& b) const {
    if (is_constant(b)) return times(of(a), std::int64_t(b.bits));
    if (is_constant(a)) return times(of(b), std::int64_t(a.bits));
    return of(a).is(0) && of(b).is(0) ? Stride::of(0) : worst(of(a), of(b));
  }
  static Stride worst(Stride a, Stride b) {  // of operations that only keep what is the same for all
    if (a.kind == Stride::Kind::open || b.kind == Stride::Kind::open) return {};
    return a.is(0) && b.is(0) ? Stride::of(0) : Stride::any();
  }

  Stride result(const Instruction& i) const {
    const auto& o = i.operands;
    const bool integers = is_cheap(i);
    switch (i.opcode) {
      case Opcode::mov:
      case Opcode::cvta:
        if (o.size() == 2 && o[0].kind == Operand::Kind::reg && o[1].kind != Operand::Kind::vector) return of(o[1]);
        break;
      case Opcode::cvt:
        if (integers && o.size() == 2) return of(o[1]);
        break;
      case Opcode::add:
        if (integers) return sum(of(o[1]), of(o[2]));
        break;
      case Opcode::sub:
        if (integers) return sum(of(o[1]), of(o[2]), -1);
        break;
      case Opcode::mul:
        if (integers && !i.has(Modifier::hi)) return product(o[1], o[2]);
        break;
      case Opcode::mad:
        if (integers && !i.has(Modifier::hi)) return sum(product(o[1], o[2]), of(o[3]));
        break;
      case Opcode::shl:
        if (is_constant(o[2]) && o[2].bits < 32) return times(of(o[1]), std::int64_t(1) << o[2].bits);
        break;
      case Opcode::or_:  // puts low bits where there were none
        if (is_constant(o[2]) && i.type() != ptx::Type::pred) return of(o[1]);
        break;
      case Opcode::ld:
        return of(o[1]).kind == Stride::Kind::open ? Stride{} : of(o[1]).is(0) ? Stride::of(0) : Stride::any();
      case Opcode::atom: return Stride::any();
      default: break;
    }
    Stride all = Stride::of(0);
    for (std::size_t n = ptx::destination_count(i); n < o.size(); ++n) all = worst(all, of(o[n]));
    if (i.guard) all = worst(all, strides_[i.guard->reg]);
    return all;
  }

  void guess_strides() {
    strides_.resize(definitions_.size());
    ptx::RegisterUse use;
    for (bool changed = true; changed;) {
      changed = false;
      for (const ptx::Statement& s : body_) {
        const Instruction* i = s.instruction();
        if (!i) continue;
        ptx::register_use(*i, use);
        if (use.writes.empty()) continue;
        const Stride made = result(*i);
        for (auto r : use.writes) {
          const Stride now = meet(strides_[r], made);
          changed |= !(now == strides_[r]);
          strides_[r] = now;
        }
      }
    }
    plan_.stride.resize(strides_.size());
    for (std::size_t r = 0; r < strides_.size(); ++r)
      if (strides_[r].kind == Stride::Kind::constant) plan_.stride[r] = strides_[r].value;
  }

  // ---- registers to recompute

  void find_recomputed() {
    plan_.recompute.assign(definitions_.size(), -1);
    cost_.assign(definitions_.size(), unknown_cost);
    for (ptx::RegisterId r = 0; r < definitions_.size(); ++r)
      if (cost_of(r) <= max_recomputed) plan_.recompute[r] = std::int32_t(definitions_[r][0]);
  }

  std::uint32_t cost_of(ptx::RegisterId r) {
    if (cost_[r] != unknown_cost) return cost_[r];
    cost_[r] = too_much;  // cycles, and what follows
    if (definitions_[r].size() != 1) return too_much;
    const Instruction& i = *body_[definitions_[r][0]].instruction();
    const bool parameter = i.opcode == Opcode::ld && i.has(Modifier::param) && i.operands.size() == 2 &&
                           i.operands[1].kind == Operand::Kind::address && !i.operands[1].elements.empty() &&
                           i.operands[1].elements[0].kind == Operand::Kind::symbol;
    if (i.guard || (!is_cheap(i) && !parameter)) return too_much;
    if (f_.function->registers[r].type == ptx::Type::pred || i.operands[0].kind != Operand::Kind::reg) return too_much;
    std::uint32_t cost = 1;
    for (std::size_t n = 1; n < i.operands.size() && !parameter; ++n) {
      const Operand& o = i.operands[n];
      if (o.kind == Operand::Kind::reg) {
        cost += cost_of(o.reg);
      } else if (o.kind == Operand::Kind::special) {
        if (!is_index(o.text)) return too_much;
      } else if (o.kind == Operand::Kind::symbol) {
        if (o.variable >= 0 && f_.function->variables[std::size_t(o.variable)].space != Space::shared) return too_much;
      } else if (o.kind != Operand::Kind::integer) {
        return too_much;
      }
      if (cost > max_recomputed) return too_much;
    }
    return cost_[r] = cost;
  }

  // ---- loops

  void find_virtual_stops() {
    const ptx::Liveness liveness(*f_.function, flow_);
    const auto loops = flow_.natural_loops();
    for (const ptx::Flow::Loop& loop : loops) {
      const bool innermost = std::none_of(loops.begin(), loops.end(), [&](const ptx::Flow::Loop& other) {
        return &other != &loop && std::binary_search(loop.blocks.begin(), loop.blocks.end(), other.header);
      });
      if (innermost) consider(loop, liveness);
    }
  }

  void consider(const ptx::Flow::Loop& loop, const ptx::Liveness& liveness) {
    std::size_t statements = 0, accesses = 0;
    for (std::uint32_t b : loop.blocks) {
      const ptx::Block& block = flow_.blocks()[b];
      for (std::uint32_t s = block.first; s < block.last; ++s) {
        const Instruction* i = body_[s].instruction();
        if (!i) continue;
        ++statements;
        const Site* at = site(s);
        if (!at) {
          if (i->opcode == Opcode::ld || i->opcode == Opcode::st) return;  // local memory
          continue;
        }
        if (at->kind != SiteKind::access || at->space == Space::local || at->elements > 1) return;
        const Operand* address = nullptr;
        for (const Operand& o : i->operands)
          if (o.kind == Operand::Kind::address) address = &o;
        const Stride stride = address ? of(*address) : Stride::any();
        if (!stride.is(0) && !stride.is(at->element_bytes)) return;
        if (stride.is(0) && at->access != AccessKind::read) return;
        if (at->element_bytes < 4 && at->access != AccessKind::read) return;
        ++accesses;
      }
    }
    if (statements > max_loop || accesses == 0) return;
    const ptx::Block& header = flow_.blocks()[loop.header];
    for (std::uint32_t s = header.first; s < header.last; ++s) {
      if (!body_[s].instruction()) continue;
      std::size_t carried = 0;
      for (auto r : liveness.live_after(s).list()) carried += plan_.recompute[r] < 0;
      if (carried <= max_carried) plan_.stops.push_back(virtual_stop(s, loop));
      return;
    }
  }

  RegionPlan::Stop virtual_stop(std::uint32_t statement, const ptx::Flow::Loop& loop) const {
    RegionPlan::Stop stop{.statement = statement, .is_virtual = true};
    stop.written = ptx::RegisterSet(definitions_.size());
    for (std::size_t r = 0; r < definitions_.size(); ++r)
      for (std::uint32_t s : definitions_[r])
        if (std::binary_search(loop.blocks.begin(), loop.blocks.end(), flow_.block_of(s)))
          stop.written.insert(ptx::RegisterId(r));
    const auto& blocks = flow_.blocks();
    std::vector<std::uint32_t> todo;
    for (std::uint32_t b : loop.blocks)
      for (std::uint32_t next : blocks[b].successors)
        if (!std::binary_search(loop.blocks.begin(), loop.blocks.end(), next)) {
          todo.push_back(next);
        }
    for (std::uint32_t b : blocks[loop.header].predecessors) {
      if (!std::binary_search(loop.blocks.begin(), loop.blocks.end(), b)) continue;
      const Instruction* last = body_[blocks[b].last - 1].instruction();
      if (last && last->opcode == Opcode::bra)
        stop.back.push_back(blocks[b].last - 1);
      else
        stop.reentered = true;  // its registers are saved as on entry
    }
    std::vector<bool> seen(blocks.size(), false);
    while (!todo.empty()) {
      const std::uint32_t b = todo.back();
      todo.pop_back();
      if (seen[b]) continue;
      seen[b] = true;
      stop.reentered |= b == loop.header;
      todo.insert(todo.end(), blocks[b].successors.begin(), blocks[b].successors.end());
    }
    return stop;
  }

  static constexpr std::uint32_t unknown_cost = ~0u, too_much = 1000;
  const ModuleTables& tables_;
  const FunctionTables& f_;
  const std::vector<ptx::Statement>& body_;
  ptx::Flow flow_;
  std::vector<std::vector<std::uint32_t>> definitions_;  // by register: statements
  std::vector<bool> read_;
  std::vector<Stride> strides_;
  std::vector<std::uint32_t> cost_;
  RegionPlan plan_;
};

}  // namespace

std::optional<RegionPlan> plan_regions(const ModuleTables& tables, const KernelTables& kernel) {
  if (kernel.reached.size() != 1) return std::nullopt;
  return Planner(tables, kernel).plan();
}

}  // namespace deadheat::engine
