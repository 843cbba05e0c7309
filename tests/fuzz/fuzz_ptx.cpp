// Fuzz target: PTX text. Whatever parses must print back byte for byte and go through flow, liveness, sites, polls and
// flagged reads.
#include <cstdint>
#include <string>

#include "tests/fuzz/ptx_fuzz_targets.h"
#include "tracer/ptx/flagged_reads.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/polls.h"
#include "tracer/ptx/sites.h"

namespace deadheat {

int fuzz_ptx(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  Expected<ptx::Module> module = ptx::parse(text, "fuzz");
  if (!module) {
    DEADHEAT_CHECK(!module.error().what.empty() && !module.error().where.empty());
    return 0;
  }
  DEADHEAT_CHECK(ptx::print(*module) == text);
  for (const ptx::Function& function : module->functions) {
    if (!function.has_body) continue;
    ptx::Flow flow(function);
    ptx::Liveness live(function, flow);
    std::size_t total = 0;
    live.sweep([&](std::uint32_t, const ptx::RegisterSet& set) { total += set.size(); });
    total += flow.natural_loops().size();
    for (const ptx::Statement& statement : function.body) {
      if (const ptx::Instruction* i = statement.instruction()) total += ptx::print(*i, function).size();
    }
    DEADHEAT_CHECK(total != ~std::size_t(0));  // the work is not to be optimized away
  }
  ptx::SiteTable table = ptx::site_table(*module);
  for (std::size_t i = 0; i < table.sites.size(); ++i) DEADHEAT_CHECK(table.sites[i].id == i);
  const std::map<std::uint32_t, Polls> polls = ptx::polls(*module, table);
  for (const auto& [site, kind] : polls) DEADHEAT_CHECK(site < table.sites.size() && kind != Polls::unknown);
  for (const auto& [site, read] : ptx::flagged_reads(*module, table, polls))
    DEADHEAT_CHECK(site < table.sites.size() && read.data && !(read.data >> table.sites[site].elements));
  return 0;
}

}  // namespace deadheat

#ifdef DEADHEAT_FUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return deadheat::fuzz_ptx(data, size);
}
#endif
