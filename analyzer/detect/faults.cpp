#include "analyzer/detect/faults.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace deadheat::detect {

namespace {

// Which blocks, threads and counts the text names differs from one to the next.
std::string key_of(const Fault& fault) {
  std::string key = fault.kind + "|" + fault.side.opcode;
  for (const SourceFrame& frame : fault.side.source) key += "|" + frame.file + ":" + std::to_string(frame.line);
  key += "|";
  std::copy_if(fault.text.begin(), fault.text.end(), std::back_inserter(key),
               [](char c) { return c < '0' || c > '9'; });
  return key;
}

} // namespace

void join_lines(std::vector<Fault>& faults, std::size_t from) {
  std::map<std::string, std::size_t> first; // index in `kept`
  std::vector<Fault> kept;
  for (std::size_t i = from; i < faults.size(); ++i) {
    Fault& fault = faults[i];
    if (!fault.ends_run && !fault.side.source.empty()) {
      const auto [at, fresh] = first.try_emplace(key_of(fault), kept.size());
      if (!fresh) {
        kept[at->second].occurrences += fault.occurrences;
        continue;
      }
    }
    kept.push_back(std::move(fault));
  }
  for (Fault& fault : kept) {
    if (fault.occurrences > 1 && !fault.ends_run)
      fault.text += "; likewise " + std::to_string(fault.occurrences - 1) + " more";
  }
  faults.erase(faults.begin() + std::ptrdiff_t(from), faults.end());
  std::move(kept.begin(), kept.end(), std::back_inserter(faults));
}

} // namespace deadheat::detect
