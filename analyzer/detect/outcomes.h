// Which tests of mbarriers' phases, and which strong reads, no thread looks at the outcome of: Site::outcome_unused,
// from the modules' PTX.
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

namespace deadheat::detect {

using ModuleText = std::function<std::string(const trace::Module&)>; // PTX; empty: not to be had

class Outcomes {
 public:
  explicit Outcomes(ModuleText text) : text_(std::move(text)) {}
  // Where the PTX is not to be had, or has other sites, none is marked.
  void mark(trace::Module& module);

 private:
  const ModuleText text_;
  std::mutex mutex_;
  std::map<trace::BlobHash, std::set<std::uint32_t>> unused_; // sites by image
};

} // namespace deadheat::detect
