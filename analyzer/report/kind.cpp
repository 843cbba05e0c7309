#include "analyzer/report/words.h"

namespace deadheat {

std::string Race::kind() const { return std::string(report::word(first.op)) + "-" + report::word(second.op); }

} // namespace deadheat
