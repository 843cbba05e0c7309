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
  std::uint64_t systematic = 1000; // runs, of every schedule of a small run (search::SearchOptions)
  bool precision = false;    // measure how far outputs are from the same computation in double
  double exploring_seconds = 0; // for all schedules of --explore, or of --vary, at most; 0: no limit
  std::uint64_t explore = 0; // schedules whose races are added to those of the recorded run
};
// --schedules, --seconds, --explore, --explore-seconds, --precision, --witness-dir: what check and replay share.
boost::program_options::options_description judge_options(JudgeOptions& options);
// Adds what the explored schedules expose. Before judging: ids go on from the recorded run's.
Expected<void> explore(const std::string& trace, Analysis& analysis, const JudgeOptions& options,
                       const AnalysisOptions& analyzing);
Expected<void> judge(const std::string& trace, Analysis& analysis, const JudgeOptions& options);

} // namespace deadheat::tools
