#include "tracer/ptx/uses.h"

#include <algorithm>
#include <vector>

#include "tracer/ptx/flow.h"
#include "tracer/ptx/operands.h"

namespace deadheat::ptx {

namespace {

// Results depend on operands alone, and nothing else does.
bool is_pure(const Instruction& i) {
  if (i.has(Modifier::cc)) return false; // the carry flag is a result that no operand names
  switch (i.opcode) {
    case Opcode::abs:
    case Opcode::add:
    case Opcode::and_:
    case Opcode::bfe:
    case Opcode::bfi:
    case Opcode::bfind:
    case Opcode::bmsk:
    case Opcode::brev:
    case Opcode::clz:
    case Opcode::cnot:
    case Opcode::copysign:
    case Opcode::cos:
    case Opcode::cvt:
    case Opcode::cvta:
    case Opcode::div:
    case Opcode::dp2a:
    case Opcode::dp4a:
    case Opcode::ex2:
    case Opcode::fma:
    case Opcode::fns:
    case Opcode::isspacep:
    case Opcode::lg2:
    case Opcode::lop3:
    case Opcode::mad:
    case Opcode::mad24:
    case Opcode::max:
    case Opcode::min:
    case Opcode::mov:
    case Opcode::mul:
    case Opcode::mul24:
    case Opcode::neg:
    case Opcode::not_:
    case Opcode::or_:
    case Opcode::popc:
    case Opcode::prmt:
    case Opcode::rcp:
    case Opcode::rem:
    case Opcode::rsqrt:
    case Opcode::sad:
    case Opcode::selp:
    case Opcode::set:
    case Opcode::setp:
    case Opcode::shf:
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::sin:
    case Opcode::slct:
    case Opcode::sqrt:
    case Opcode::sub:
    case Opcode::szext:
    case Opcode::tanh:
    case Opcode::testp:
    case Opcode::xor_: return true;
    default: return false;
  }
}

class Flowing {
 public:
  Flowing(const Module& module, const SiteTable& table, std::size_t function)
      : function_(module.functions[function]), table_(table), number_(function), values_(function_.registers.size()) {}

  // False: of a site that is no load.
  bool begin(const std::set<std::uint32_t>& loads, std::size_t& found) {
    for (std::size_t s = 0; s < function_.body.size(); ++s) {
      if (!loads.count(table_.by_function[number_][s])) continue;
      const auto* load = std::get_if<Instruction>(&function_.body[s].node);
      if (!load || load->opcode != Opcode::ld) return false;
      ++found;
      for (const RegisterId r : register_use(*load).writes) values_.insert(r);
    }
    return true;
  }

  // To the end of all that follows from the values; false where one of them is put to another use.
  bool spread(std::set<std::uint32_t>& stores) {
    RegisterUse use;
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t s = 0; s < function_.body.size(); ++s) {
        const auto* i = std::get_if<Instruction>(&function_.body[s].node);
        if (!i) continue;
        register_use(*i, use);
        if (std::none_of(use.reads.begin(), use.reads.end(), [&](RegisterId r) { return values_.contains(r); }))
          continue;
        if (is_pure(*i)) {
          for (const RegisterId r : use.writes) {
            grown |= !values_.contains(r);
            values_.insert(r);
          }
        } else if (stores_only_data(*i, s)) {
          stores.insert(table_.by_function[number_][s]);
        } else {
          return false;
        }
      }
    }
    return true;
  }

 private:
  // A store that traces have, into memory that threads share, whose address and guard the values do not reach.
  bool stores_only_data(const Instruction& i, std::size_t statement) const {
    if (i.opcode != Opcode::st || table_.by_function[number_][statement] == SiteTable::none) return false;
    const Site& site = table_.sites[table_.by_function[number_][statement]];
    if (site.kind != SiteKind::access || (site.space != Space::global && site.space != Space::shared)) return false;
    const RegisterUse use = register_use(i);
    return std::all_of(use.reads.begin(), use.reads.end(), [&](RegisterId r) {
      return !values_.contains(r) || !(in_address(i, r) || (i.guard && i.guard->reg == r));
    });
  }
  static bool in_address(const Instruction& i, RegisterId r) {
    return std::any_of(i.operands.begin(), i.operands.end(), [&](const Operand& operand) {
      return operand.kind == Operand::Kind::address &&
             std::any_of(operand.elements.begin(), operand.elements.end(), [&](const Operand& element) {
               return element.kind == Operand::Kind::reg && element.reg == r;
             });
    });
  }

  const Function& function_;
  const SiteTable& table_;
  const std::size_t number_; // of the function
  RegisterSet values_;
};

// Does it yield what others may synchronize by?
bool yields_outcome(const Instruction& i, const Site& site) {
  if (i.opcode == Opcode::mbarrier) return i.has(Modifier::test_wait) || i.has(Modifier::try_wait);
  const bool reads = i.opcode == Opcode::ld || i.opcode == Opcode::atom;
  return reads && site.kind == SiteKind::access && is_strong(site.ordering);
}

// Registers on whose value anything depends but that of registers on which nothing does.
RegisterSet used_registers(const Function& function) {
  RegisterSet used(function.registers.size());
  for (RegisterId r = 0; r < function.registers.size(); ++r) { // what a function returns in registers
    if (std::any_of(function.results.begin(), function.results.end(), [&](const Variable& result) {
          return result.space == Space::generic && result.name == function.registers[r].name;
        }))
      used.insert(r);
  }
  RegisterUse use;
  for (bool grown = true; grown;) {
    grown = false;
    for (std::size_t s = function.body.size(); s-- > 0;) { // uses come behind definitions, mostly
      const Instruction* i = function.body[s].instruction();
      if (!i) continue;
      register_use(*i, use);
      if (is_pure(*i) &&
          std::none_of(use.writes.begin(), use.writes.end(), [&](RegisterId r) { return used.contains(r); }))
        continue;
      for (const RegisterId r : use.reads) {
        grown |= !used.contains(r);
        used.insert(r);
      }
    }
  }
  return used;
}

} // namespace

std::optional<std::set<std::uint32_t>> stores_fed_by(const Module& module, const SiteTable& table,
                                                     const std::set<std::uint32_t>& sites) {
  std::set<std::uint32_t> stores;
  std::size_t found = 0;
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    if (table.by_function[f].empty()) continue;
    Flowing values(module, table, f);
    const std::size_t before = found;
    if (!values.begin(sites, found)) return std::nullopt;
    if (found != before && !values.spread(stores)) return std::nullopt;
  }
  if (found != sites.size()) return std::nullopt;
  return stores;
}

std::set<std::uint32_t> unused_outcomes(const Module& module, const SiteTable& table) {
  std::set<std::uint32_t> sites;
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const Function& function = module.functions[f];
    std::optional<RegisterSet> used;
    for (std::size_t s = 0; s < function.body.size() && s < table.by_function[f].size(); ++s) {
      const Instruction* i = function.body[s].instruction();
      const std::uint32_t site = table.by_function[f][s];
      if (!i || site == SiteTable::none || !yields_outcome(*i, table.sites[site])) continue;
      if (!used) used = used_registers(function);
      const std::vector<RegisterId> outcome = register_use(*i).writes;
      if (std::none_of(outcome.begin(), outcome.end(), [&](RegisterId r) { return used->contains(r); }))
        sites.insert(site);
    }
  }
  return sites;
}

} // namespace deadheat::ptx
