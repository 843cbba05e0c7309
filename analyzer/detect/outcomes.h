// What threads do with the outcomes of tests of mbarriers' phases and of strong reads, from the modules' PTX:
// Site::outcome_unused and Site::polls, and which reads are flagged ones.
//
// Thread-safety: safe; each module is parsed once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "deadheat/trace.h"
#include "tracer/ptx/flagged_reads.h"

namespace deadheat::detect {

using ModuleText = std::function<std::string(const trace::Module&)>; // PTX; empty: not to be had

class Outcomes {
 public:
  explicit Outcomes(ModuleText text) : text_(std::move(text)) {}
  // Where the PTX is not to be had, or has other sites, none is marked.
  void mark(trace::Module& module);
  ptx::FlaggedReads flagged(const trace::Module& module); // of one that was marked

  struct Found { // of a module: sites
    std::set<std::uint32_t> unused;
    std::map<std::uint32_t, Polls> polls;
    ptx::FlaggedReads flagged;
  };

 private:
  const ModuleText text_;
  std::mutex mutex_;
  std::map<trace::BlobHash, Found> found_; // by image
};

// Sites of strong atomics of the module that nobody looks at the outcome of, whether it may matter or not. None where
// the PTX is not to be had, or has other sites.
std::set<std::uint32_t> unused_atomics(const ModuleText& text, const trace::Module& module);

} // namespace deadheat::detect
