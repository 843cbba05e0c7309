// Fuzz target: the instrumenter. Whatever PTX it takes, what it makes of it parses, and its segments fit their slots.
#include <cstdint>
#include <string>

#include "tracer/ptx/instrument.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/sites.h"

namespace {

void check(bool holds) {
  if (!holds) __builtin_trap();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace deadheat;
  const Expected<ptx::Module> module = ptx::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!module) return 0;
  const ptx::SiteTable sites = ptx::site_table(*module);
  const Expected<ptx::Instrumentation> made = ptx::instrument(*module, sites);
  if (!made) {
    check(!made.error().what.empty());
    return 0;
  }
  check(bool(ptx::parse(made->text, "instrumented")));
  for (const ptx::Segment& segment : made->segments) {
    for (const ptx::Slot& slot : segment.slots) check(slot.site < sites.sites.size() && slot.offset <= segment.bytes);
  }
  return 0;
}
