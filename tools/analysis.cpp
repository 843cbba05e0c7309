// The analysis as the subcommands run it: its options, and a progress bar on a terminal.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string>

#include "analyzer/detect/analyze.h"
#include "tools/command.h"
#include "tools/progress.h"

namespace deadheat::tools {

namespace po = boost::program_options;

namespace {

constexpr std::uint64_t least_memory = std::uint64_t(64) << 20; // with less, much of a trace is not checked

// "512M", "4G", plain bytes; 0 for what is no size.
std::uint64_t parse_size(const std::string& text) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return 0;
  std::string unit(end, text.data() + text.size());
  if (unit.size() == 2 && unit[1] == 'B') unit.pop_back();
  const unsigned shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : unit == "T" ? 40 : 0;
  if ((shift == 0 && !unit.empty()) || value > (~0ull >> shift)) return 0;
  return value << shift;
}

} // namespace

po::options_description analysis_options(AnalysisOptions& options) {
  po::options_description description("Analysis");
  description.add_options()("jobs,j", po::value(&options.jobs),
                            "threads to analyze with (0: as many as there are cores); the result is the same")(
      "memory-limit", po::value(&options.memory_limit),
      "memory that the analysis may take beside the process itself, as 512M or 4G (half of the machine's memory); "
      "beyond, it reads the trace more often. At least 64M");
  return description;
}

Expected<void> check_analysis_options(const AnalysisOptions& options) {
  constexpr unsigned most_jobs = 1024;
  if (options.jobs > most_jobs) {
    return Error{"is more than any machine has", "--jobs " + std::to_string(options.jobs),
                 "0 to " + std::to_string(most_jobs)};
  }
  if (options.memory_limit.empty()) return {};
  const std::uint64_t limit = parse_size(options.memory_limit);
  const std::string given = "--memory-limit " + options.memory_limit;
  if (!limit) return Error{"is not a size of memory", given, "write it as 512M or 4G"};
  if (limit < least_memory) return Error{"is too little to analyze with", given, "64M or more"};
  return {};
}

Expected<Analysis> analyze(const std::string& trace, const AnalysisOptions& options) {
  ProgressBar bar(stderr, isatty(STDERR_FILENO) != 0);
  detect::AnalyzeOptions settings;
  settings.jobs = options.jobs;
  if (!options.memory_limit.empty()) settings.memory_limit = parse_size(options.memory_limit);
  settings.progress = [&](const std::string& what, double share) { bar.show(what, share); };
  return detect::analyze(trace, settings);
}

} // namespace deadheat::tools
