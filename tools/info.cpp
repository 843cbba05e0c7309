// deadheat info: says what a trace holds.
#include <algorithm>
#include <iostream>
#include <map>
#include <utility>

#include "analyzer/report/names.h"
#include "tools/command.h"
#include "tracer/ptx/demangle.h"
#include "tracer/recorder/describe.h"

namespace deadheat::tools {

namespace po = boost::program_options;

namespace {

// A record's line with its mangled names as the source writes them.
std::string with_names(const std::string& line) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = std::min(line.find(' ', at), line.size());
    std::string word = line.substr(at, end - at);
    out += word.starts_with("_Z") ? report::printable(ptx::demangle(word)) : word;
    if (end < line.size()) out += ' ';
    at = end + 1;
  }
  return out;
}

} // namespace

int run_info(const Arguments& arguments) {
  std::string trace;
  bool records = false;
  po::options_description description("Info");
  description.add_options()("records", po::bool_switch(&records), "print every record, one a line")(
      "trace", po::value(&trace), "trace directory");
  po::positional_options_description positional;
  positional.add("trace", 1);
  po::variables_map values;
  int status = 0;
  if (!parse(arguments, "usage: deadheat info [OPTIONS] TRACE\n\nSays what a trace holds.\n", description, positional,
             values, status)) {
    return status;
  }
  if (trace.empty()) return fail("no trace to describe (deadheat info TRACE)");
  if (records) {
    Expected<void> done =
        trace::describe_records(trace, [](const std::string& line) { std::cout << with_names(line) << '\n'; });
    return done ? 0 : fail(done.error());
  }
  Expected<trace::TraceSummary> summary = trace::summarize(trace);
  if (!summary) return fail(summary.error());
  std::map<std::string, std::uint64_t> kernels;
  for (const auto& [kernel, launches] : summary->kernels) kernels[report::printable(ptx::demangle(kernel))] += launches;
  summary->kernels = std::move(kernels);
  std::map<std::string, std::uint64_t> times;
  for (const auto& [kernel, time] : summary->kernel_nanoseconds)
    times[report::printable(ptx::demangle(kernel))] += time;
  summary->kernel_nanoseconds = std::move(times);
  std::cout << trace::to_text(*summary);
  for (const std::string& warning : summary->warnings) say(warning);
  return 0;
}

} // namespace deadheat::tools
