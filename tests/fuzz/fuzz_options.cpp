// Fuzz target: DEADHEAT_OPTIONS. What parses must say the same when it is written out and parsed again; what does not
// must say why, in one line.
#include <cstdint>
#include <sstream>
#include <string>

#include "deadheat/options.h"

namespace {

using namespace deadheat;

void check(bool holds) {
  if (!holds) __builtin_trap();
}

std::string written(const TracerOptions& options) {
  std::ostringstream out;
#define X(type, member, key, value, description) out << ':' << key << '=' << options.member;
  DEADHEAT_OPTION_LIST(X)
#undef X
  return out.str();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Expected<TracerOptions> options = parse_options(text);
  if (!options) {
    check(!options.error().what.empty() && !options.error().where.empty());
    return 0;
  }
  const Expected<TracerOptions> again = parse_options(written(*options));
  check(bool(again) && written(*again) == written(*options));
  return 0;
}
