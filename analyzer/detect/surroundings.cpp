#include "analyzer/detect/surroundings.h"

#include <utility>

#include "tracer/ptx/parse.h"
#include "tracer/ptx/surroundings.h"

namespace deadheat::detect {

namespace {

using Ways = std::vector<std::vector<std::string>>;

Ways from(const std::set<std::string>& kernels, Ways ways) { // each ends with its kernel
  Ways those;
  for (const auto& way : ways)
    if (!way.empty() && kernels.contains(way.back())) those.push_back(way);
  return those.empty() ? ways : those;
}

} // namespace

const std::optional<Surroundings::Parsed>& Surroundings::parsed(std::uint32_t id) {
  const auto [at, fresh] = parsed_.try_emplace(id);
  const auto record = modules_.find(id);
  if (!fresh || record == modules_.end() || record->second.kind != trace::Module::Kind::ptx) return at->second;
  Expected<ptx::Module> module = ptx::parse(text_(record->second), record->second.origin);
  if (!module) return at->second;
  ptx::SiteTable table = ptx::site_table(*module);
  at->second = {std::move(*module), std::move(table)};
  return at->second;
}

std::pair<const Surroundings::Parsed*, const Site*> Surroundings::found(const RaceSide& side) {
  if (side.opcode.empty()) return {};
  const std::optional<Parsed>& code = parsed(side.name.module);
  if (!code || side.name.site >= code->table.sites.size()) return {};
  const Site& site = code->table.sites[side.name.site];
  if (site.opcode != side.opcode) return {}; // another module's sites
  return {&*code, &site};
}

void Surroundings::describe(RaceSide& side, const std::set<std::string>& kernels) {
  const auto [code, site] = found(side);
  if (!code) return;
  if (const ptx::Function* function = code->module.function(site->function))
    side.ways = from(kernels, ptx::ways_to(code->module, *function));
  if (side.source.empty() || code->module.debug) side.path = ptx::path_to(code->module, code->table, site->id);
}

void Surroundings::locate(RaceSide& side) {
  const auto [code, site] = found(side);
  if (!code || !code->module.debug || side.source.size() != 1) return;
  const auto [at, fresh] = located_.try_emplace(side.name.module);
  if (fresh) {
    const trace::Module& module = modules_.at(side.name.module);
    if (Expected<ptx::Module> all = ptx::parse(text_(module), module.origin, {.locate_stack_accesses = true}))
      at->second = std::move(*all);
  }
  const ptx::Function* const function = at->second ? at->second->function(site->function) : nullptr;
  const ptx::Instruction* const i = function ? function->body[site->instruction].instruction() : nullptr;
  if (i) side.source = ptx::source_frames(*at->second, i->location, site->function);
}

} // namespace deadheat::detect
