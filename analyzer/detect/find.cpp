#include "analyzer/detect/find.h"

namespace deadheat::detect {

Findings find_races(const Feed& feed) {
  Findings findings;
  Suspects suspects;
  findings.detector = std::make_unique<Detector>(suspects, Detector::Pass::filter);
  feed(*findings.detector);
  findings.unchecked = findings.detector->unchecked();
  findings.suspect_words = suspects.words();
  if (suspects.empty()) return findings;
  const std::map<PlaceId, std::uint64_t> order_dependent = findings.detector->order_dependent();
  findings.detector = std::make_unique<Detector>(suspects, Detector::Pass::pairs);
  feed(*findings.detector);
  findings.detector->add_order_dependent(order_dependent);
  findings.races = findings.detector->races();
  return findings;
}

}  // namespace deadheat::detect
