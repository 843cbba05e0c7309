// Fills in where the instructions of a report's sides stand in their modules' code, for suppressions of code that lines
// do not tell: RaceSide::ways and RaceSide::path.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "analyzer/detect/outcomes.h"
#include "deadheat/race.h"
#include "tracer/ptx/sites.h"

namespace deadheat::detect {

class Surroundings {
 public:
  // `modules`: by id.
  Surroundings(std::map<std::uint32_t, trace::Module> modules, ModuleText text)
      : modules_(std::move(modules)), text_(std::move(text)) {}
  // `kernels`: demangled; only these performed the instruction. Empty: any may have. Nothing changes where the side is
  // no instruction, or its module's PTX is not to be had.
  void describe(RaceSide& side, const std::set<std::string>& kernels);

 private:
  struct Parsed {
    ptx::Module module;
    ptx::SiteTable table;
  };
  const std::optional<Parsed>& parsed(std::uint32_t module);

  const std::map<std::uint32_t, trace::Module> modules_;
  const ModuleText text_;
  std::map<std::uint32_t, std::optional<Parsed>> parsed_;
};

} // namespace deadheat::detect
