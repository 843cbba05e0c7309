// Replay as the subcommands use it: options and the call.
#pragma once

#include "tools/command.h"

namespace deadheat::tools {

struct JudgeOptions {
  std::vector<std::uint32_t> races;
  std::uint64_t schedules = 40;
  double seconds = 20;
  std::uint64_t seed = 1;
  std::string directory; // for witnesses
};
// --schedules, --seconds, --witness-dir: what check and replay share.
boost::program_options::options_description judge_options(JudgeOptions& options);
Expected<void> judge(const std::string& trace, Analysis& analysis, const JudgeOptions& options);

} // namespace deadheat::tools
