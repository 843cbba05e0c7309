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

void Surroundings::describe(RaceSide& side, const std::set<std::string>& kernels) {
  if (side.opcode.empty()) return;
  const std::optional<Parsed>& code = parsed(side.name.module);
  if (!code || side.name.site >= code->table.sites.size()) return;
  const Site& site = code->table.sites[side.name.site];
  if (site.opcode != side.opcode) return; // another module's sites
  if (const ptx::Function* function = code->module.function(site.function))
    side.ways = from(kernels, ptx::ways_to(code->module, *function));
  if (side.source.empty() || code->module.debug) side.path = ptx::path_to(code->module, code->table, site.id);
}

} // namespace deadheat::detect
