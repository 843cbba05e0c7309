// Reports as the subcommands print them.
#include <fstream>
#include <iostream>

#include "analyzer/report/json.h"
#include "analyzer/report/suppress.h"
#include "analyzer/report/text.h"
#include "tools/command.h"

namespace deadheat::tools {

namespace po = boost::program_options;

po::options_description report_options(ReportOptions& options) {
  po::options_description description("Reporting");
  description.add_options()("json", po::value(&options.json),
                            "write the report as JSON to this file, or - for standard output")(
      "suppress", po::value(&options.suppressions), "file of findings not to count: race:, kernel:, stream: patterns")(
      "log-file", po::value(&options.log_file), "write the text report to this file")(
      "strict", po::bool_switch(&options.strict), "count possible, strong and order-dependent findings too");
  return description;
}

std::uint64_t counted(const Analysis& analysis, bool strict) {
  std::uint64_t count = 0;
  for (const Race& race : analysis.races) {
    if (race.suppressed) continue;
    if (strict || (race.race_class == RaceClass::data && race.certainty == Certainty::certain)) ++count;
  }
  return strict ? count + analysis.order_dependent.size() : count;
}

Expected<void> check_suppressions(const ReportOptions& options) {
  if (options.suppressions.empty()) return {};
  Expected<report::Suppressions> suppressions = report::Suppressions::read(options.suppressions);
  return suppressions ? Expected<void>{} : suppressions.error();
}

Expected<void> suppress(Analysis& analysis, const ReportOptions& options) {
  if (options.suppressions.empty()) return {};
  Expected<report::Suppressions> suppressions = report::Suppressions::read(options.suppressions);
  if (!suppressions) return suppressions.error();
  suppressions->apply(analysis);
  for (const std::string& line : suppressions->unused()) say("unused suppression: " + line);
  return {};
}

namespace {

Expected<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.flush();
  if (!out) return Error{"cannot write", path};
  return {};
}

} // namespace

Expected<void> report(const Analysis& analysis, const ReportOptions& options, bool text_to_error,
                      const int* program_status) {
  for (const std::string& warning : analysis.warnings) say(warning);
  if (!options.json.empty()) {
    nlohmann::json json = report::to_json(analysis);
    if (program_status) json["program_status"] = *program_status;
    std::string text = json.dump(2) + "\n";
    if (options.json == "-") {
      std::cout << text << std::flush;
    } else if (Expected<void> done = write_file(options.json, text); !done) {
      return done;
    }
  }
  std::string text = report::to_text(analysis, {});
  if (!options.log_file.empty()) return write_file(options.log_file, text);
  if (text_to_error) {
    std::cerr << text << std::flush;
  } else if (options.json != "-") {
    std::cout << text << std::flush;
  }
  return {};
}

} // namespace deadheat::tools
