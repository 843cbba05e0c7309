// Fills in where the instructions of a report's sides stand in their modules' code, for suppressions of code that lines
// do not tell: RaceSide::ways and RaceSide::path; and RaceSide::source where the trace has no more than a line.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

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
  // Of an error at an access to a thread's stack frame, of whose inlined functions sites say nothing.
  void locate(RaceSide& side);

 private:
  struct Parsed {
    ptx::Module module;
    ptx::SiteTable table;
  };
  const std::optional<Parsed>& parsed(std::uint32_t module);
  // The code and the site of a side; null: its module's PTX is not to be had.
  std::pair<const Parsed*, const Site*> found(const RaceSide& side);

  const std::map<std::uint32_t, trace::Module> modules_;
  const ModuleText text_;
  std::map<std::uint32_t, std::optional<Parsed>> parsed_;
  std::map<std::uint32_t, std::optional<ptx::Module>> located_; // with all that was inlined
};

} // namespace deadheat::detect
