#include "tracer/ptx/taken.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "deadheat/memory_model.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/operands.h"

namespace deadheat::ptx {

namespace {

class Ways {
 public:
  Ways(const Function& function, const std::vector<std::uint32_t>& site_of, const SiteTable& table)
      : function_(function), site_of_(site_of), table_(table), flow_(function), values_(function.registers.size()) {}

  Ahead from(std::uint32_t statement) {
    for (const RegisterId r : register_use(*function_.body[statement].instruction()).writes) values_.insert(r);
    follow_values();
    std::vector<bool> entered(flow_.blocks().size());
    std::vector<std::uint32_t> open;
    const auto leave = [&](std::uint32_t block) {
      for (const std::uint32_t next : flow_.blocks()[block].successors)
        if (!entered[next]) open.push_back(next);
    };
    const std::uint32_t block = flow_.block_of(statement);
    if (goes_on(statement + 1, flow_.blocks()[block].last)) leave(block);
    while (!open.empty()) {
      const std::uint32_t next = open.back();
      open.pop_back();
      if (entered[next]) continue;
      entered[next] = true;
      if (goes_on(flow_.blocks()[next].first, flow_.blocks()[next].last)) leave(next);
    }
    return std::move(ahead_);
  }

 private:
  const Site* site(std::uint32_t statement) const {
    const std::uint32_t number = site_of_[statement];
    return number == SiteTable::none ? nullptr : &table_.sites[number];
  }
  bool reads_value(const Instruction& i) {
    register_use(i, use_);
    return std::any_of(use_.reads.begin(), use_.reads.end(), [&](RegisterId r) { return values_.contains(r); });
  }
  // May it show others what it reads?
  static bool shows(const Site& site) {
    return site.kind == SiteKind::warp_value || site.kind == SiteKind::barrier ||
           (site.kind == SiteKind::access && site.access != AccessKind::read);
  }
  // It may be performed without: its guard is something else, or its memory may be the thread's own.
  bool perhaps(const Instruction& i, const Site& site) const {
    const bool own = site.kind == SiteKind::access && site.space != Space::global && site.space != Space::shared;
    return own || (i.guard && !values_.contains(i.guard->reg));
  }

  void follow_values() {
    for (bool grown = true; grown;) {
      grown = false;
      for (const Statement& statement : function_.body) {
        const Instruction* i = statement.instruction();
        if (!i || !reads_value(*i)) continue;
        for (const RegisterId r : use_.writes) {
          grown |= !values_.contains(r);
          values_.insert(r);
        }
      }
    }
  }

  // Through statements of one block, until the value is taken; false: it is.
  bool goes_on(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t s = first; s < last; ++s) {
      const Instruction* i = function_.body[s].instruction();
      if (!i) continue;
      if (i->opcode == Opcode::call || (i->opcode == Opcode::ret && !function_.entry)) ahead_.anything = true;
      const Site* at = site(s);
      if (!at) continue;
      if (shows(*at) && reads_value(*i)) {
        if (perhaps(*i, *at)) continue;
        return false;
      }
      pass(*at);
    }
    return true;
  }

  void pass(const Site& at) {
    switch (at.kind) {
      case SiteKind::warp_value:
      case SiteKind::exit: return;
      case SiteKind::access:
        if (is_strong(at.ordering)) ahead_.synchronization = true;
        if (at.access != AccessKind::read && !is_strong(at.ordering)) ahead_.stores.insert(at.id);
        return;
      default: ahead_.synchronization = true;
    }
  }

  const Function& function_;
  const std::vector<std::uint32_t>& site_of_; // by statement
  const SiteTable& table_;
  const Flow flow_;
  RegisterSet values_; // that depend on the load
  RegisterUse use_;
  Ahead ahead_;
};

} // namespace

Ahead ahead_of(const Module& module, const SiteTable& table, std::uint32_t site) {
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const std::vector<std::uint32_t>& sites = table.by_function[f];
    const auto at = std::find(sites.begin(), sites.end(), site);
    if (at == sites.end()) continue;
    const auto statement = std::uint32_t(at - sites.begin());
    if (module.functions[f].body[statement].instruction()->opcode != Opcode::ld) break;
    return Ways(module.functions[f], sites, table).from(statement);
  }
  Ahead unknown;
  unknown.anything = true;
  return unknown;
}

} // namespace deadheat::ptx
