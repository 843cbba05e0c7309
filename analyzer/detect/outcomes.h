// What threads do with the outcomes of tests of mbarriers' phases and of strong reads, from the modules' PTX:
// Site::outcome_unused and Site::polls, which reads are flagged ones, and which non-coherent ones are taken in time.
//
// Thread-safety: safe; each module is parsed once, and once more where it has non-coherent reads that are asked about.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "deadheat/trace.h"
#include "tracer/ptx/flagged_reads.h"
#include "tracer/ptx/taken.h"

namespace deadheat::detect {

using ModuleText = std::function<std::string(const trace::Module&)>; // PTX; empty: not to be had

class Outcomes {
 public:
  explicit Outcomes(ModuleText text) : text_(std::move(text)) {}
  // Where the PTX is not to be had, or has other sites, none is marked.
  void mark(trace::Module& module);
  ptx::FlaggedReads flagged(const trace::Module& module); // of one that was marked

  // Of a read through the non-coherent cache: does its thread need the value before it performs `write`, a plain store,
  // or, null, before it orders anything? Where the PTX is not to be had, or has other sites, it may not.
  bool taken(const trace::Module& module, const Site& read, const Site* write);

  struct Found { // of a module: sites
    std::set<std::uint32_t> unused;
    std::map<std::uint32_t, Polls> polls;
    ptx::FlaggedReads flagged;
  };

 private:
  struct Parsed {
    ptx::Module module;
    ptx::SiteTable table;
    std::map<std::uint32_t, ptx::Ahead> ahead; // by site
  };
  const ModuleText text_;
  std::mutex mutex_;
  std::map<trace::BlobHash, Parsed> parsed_; // of taken(), by image
  std::map<trace::BlobHash, Found> found_; // by image
};

// Sites of strong atomics of the module that nobody looks at the outcome of, whether it may matter or not. None where
// the PTX is not to be had, or has other sites.
std::set<std::uint32_t> unused_atomics(const ModuleText& text, const trace::Module& module);

} // namespace deadheat::detect
