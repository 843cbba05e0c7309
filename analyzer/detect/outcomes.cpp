#include "analyzer/detect/outcomes.h"

#include <algorithm>

#include "tracer/ptx/parse.h"
#include "tracer/ptx/polls.h"
#include "tracer/ptx/uses.h"

namespace deadheat::detect {

namespace {

// May it matter whether somebody looks at the outcomes of some? Without fences, relaxed reads order nothing.
bool has_unused(const trace::Module& module) {
  bool reads = false, fences = false;
  for (const Site& site : module.sites) {
    if (site.opcode.starts_with("mbarrier.test_wait") || site.opcode.starts_with("mbarrier.try_wait")) return true;
    fences |= site.kind == SiteKind::fence && is_acquire(site.ordering);
    if (site.kind != SiteKind::access || site.access == AccessKind::write || !is_strong(site.ordering)) continue;
    if (is_acquire(site.ordering)) return true;
    reads |= !site.opcode.starts_with("red");
  }
  return reads && fences;
}

// Are there reads that may poll?
bool has_polls(const trace::Module& module) {
  return std::any_of(module.sites.begin(), module.sites.end(), [](const Site& site) {
    return site.kind == SiteKind::access && site.access == AccessKind::read && is_strong(site.ordering) &&
           !is_acquire(site.ordering) && site.in_loop;
  });
}

// Does the text have the module's sites?
bool has_sites_of(const ptx::SiteTable& table, const trace::Module& module) {
  // Older traces have no sites of SiteKind::heap and of texels, which come last.
  const std::size_t known = std::min(module.sites.size(), table.sites.size());
  return known == module.sites.size() &&
         std::equal(module.sites.begin(), module.sites.end(), table.sites.begin(), table.sites.begin() + known,
                    [](const Site& a, const Site& b) { return a.opcode == b.opcode; }) &&
         std::all_of(table.sites.begin() + known, table.sites.end(),
                     [](const Site& s) { return s.kind == SiteKind::heap || ptx::is_texel(s); });
}

Outcomes::Found found_in(const std::string& text, const trace::Module& module) {
  const Expected<ptx::Module> parsed = ptx::parse(text, module.origin);
  if (!parsed) return {};
  const ptx::SiteTable table = ptx::site_table(*parsed);
  if (!has_sites_of(table, module)) return {};
  Outcomes::Found found;
  found.unused = ptx::unused_outcomes(*parsed, table);
  if (!has_polls(module)) return found;
  found.polls = ptx::polls(*parsed, table);
  found.flagged = ptx::flagged_reads(*parsed, table, found.polls);
  return found;
}

} // namespace

void Outcomes::mark(trace::Module& module) {
  if (module.kind != trace::Module::Kind::ptx || !(has_unused(module) || has_polls(module))) return;
  std::lock_guard lock(mutex_);
  const auto [found, fresh] = found_.try_emplace(module.image);
  if (fresh) found->second = found_in(text_(module), module);
  for (const std::uint32_t site : found->second.unused)
    if (site < module.sites.size()) module.sites[site].outcome_unused = true;
  for (const auto& [site, polls] : found->second.polls)
    if (site < module.sites.size()) module.sites[site].polls = polls;
}

ptx::FlaggedReads Outcomes::flagged(const trace::Module& module) {
  std::lock_guard lock(mutex_);
  const auto found = found_.find(module.image);
  return found == found_.end() || module.kind != trace::Module::Kind::ptx ? ptx::FlaggedReads{} : found->second.flagged;
}

bool Outcomes::taken(const trace::Module& module, const Site& read, const Site* write) {
  if (module.kind != trace::Module::Kind::ptx || !text_) return false;
  std::lock_guard lock(mutex_);
  const auto [found, fresh] = parsed_.try_emplace(module.image);
  Parsed& known = found->second;
  if (fresh) {
    if (Expected<ptx::Module> parsed = ptx::parse(text_(module), module.origin)) known.module = std::move(*parsed);
    known.table = ptx::site_table(known.module);
  }
  const auto is_there = [&](const Site& site) {
    return site.id < known.table.sites.size() && known.table.sites[site.id].opcode == site.opcode &&
           known.table.sites[site.id].ptx_line == site.ptx_line;
  };
  if (!is_there(read) || (write && !is_there(*write))) return false;
  const auto [at, asked] = known.ahead.try_emplace(read.id);
  if (asked) at->second = ptx::ahead_of(known.module, known.table, read.id);
  const ptx::Ahead& ahead = at->second;
  return !ahead.anything && !(write ? ahead.stores.contains(write->id) : ahead.synchronization);
}

std::set<std::uint32_t> unused_atomics(const ModuleText& text, const trace::Module& module) {
  const auto asked = [](const Site& site) {
    return site.kind == SiteKind::access && site.access == AccessKind::atomic && is_strong(site.ordering) &&
           !site.opcode.starts_with("red");
  };
  if (module.kind != trace::Module::Kind::ptx || !text) return {};
  if (std::none_of(module.sites.begin(), module.sites.end(), asked)) return {};
  const Expected<ptx::Module> parsed = ptx::parse(text(module), module.origin);
  if (!parsed) return {};
  const ptx::SiteTable table = ptx::site_table(*parsed);
  if (!has_sites_of(table, module)) return {};
  std::set<std::uint32_t> sites = ptx::unused_outcomes(*parsed, table);
  std::erase_if(sites, [&](std::uint32_t site) { return site >= module.sites.size() || !asked(module.sites[site]); });
  return sites;
}

} // namespace deadheat::detect
