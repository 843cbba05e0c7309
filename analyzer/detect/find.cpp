#include "analyzer/detect/find.h"

namespace deadheat::detect {

Findings find_races(const Feed& feed) {
  Findings findings;
  findings.detector = std::make_unique<Detector>();
  feed(*findings.detector);
  findings.races = findings.detector->races();
  return findings;
}

} // namespace deadheat::detect
