// Reports as the subcommands print them.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>

#include "analyzer/report/json.h"
#include "analyzer/report/sarif.h"
#include "analyzer/report/suppress.h"
#include "analyzer/report/text.h"
#include "analyzer/report/words.h"
#include "tools/command.h"
#include "tools/times.h"

namespace deadheat::tools {

namespace po = boost::program_options;

// clang-format off
po::options_description report_options(ReportOptions& options) {
  po::options_description description("Reporting");
  description.add_options()
      ("json", po::value(&options.json)->value_name("FILE"), "write the report as JSON to FILE, or - for standard output")
      ("sarif", po::value(&options.sarif)->value_name("FILE"), "write it as SARIF 2.1.0 to FILE, or - for standard output")
      ("log-file", po::value(&options.log_file)->value_name("FILE"), "write the text report to FILE")
      ("print-limit", po::value(&options.print_limit)->value_name("N")->default_value(0),
       "show N races in the text report and count the others (0: all)")
      ("error-exitcode", po::value(&options.error_exitcode)->value_name("N")->default_value(1),
       "exit status when there are findings that count")
      ("strict", po::bool_switch(&options.strict), "count possible, strong and order-dependent findings too")
      ("count-errors", po::bool_switch(&options.count_errors),
       "count memory and synchronization errors too")
      ("suppress", po::value(&options.suppressions)->value_name("FILE"),
       "findings not to count: race:, kernel:, stream:, function:, repeat:, unused:, proxy:, unwritten:, within:, code: patterns, one a line")
      ("no-library-suppressions", po::bool_switch(&options.no_library_suppressions),
       "count known races inside CUDA's own libraries too (share/deadheat/libraries.suppressions)")
      ("print-suppressions", po::bool_switch(&options.print_suppressions),
       "print entries for --suppress that match the races shown");
  return description;
}
// clang-format on

namespace {

// Findings that decide the exit status.
std::uint64_t counted(const Analysis& analysis, const ReportOptions& options) {
  std::uint64_t count = 0;
  for (const Race& race : analysis.races) {
    if (race.suppressed) continue;
    if (options.strict || report::is_sure(race)) ++count;
  }
  if (options.strict) count += analysis.order_dependent.size();
  if (options.count_errors) count += analysis.memory_errors.size() + analysis.sync_errors.size();
  return count;
}

// Whether what is written to the one would replace what is written to the other: not so of pipes, terminals, /dev/null.
bool one_file(const std::string& one, const std::string& other) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (one.empty() || other.empty() || one == "-" || other == "-") return false;
  if (fs::exists(one, error)) return fs::is_regular_file(one, error) && fs::equivalent(one, other, error);
  return fs::weakly_canonical(fs::absolute(one, error), error) ==
         fs::weakly_canonical(fs::absolute(other, error), error);
}

} // namespace

int finding_status(const Analysis& analysis, const ReportOptions& options) {
  return counted(analysis, options) ? int(options.error_exitcode) : 0;
}

Expected<void> check_report_options(ReportOptions& options, const std::string& coming) {
  if (options.error_exitcode > 255) {
    return Error{"is no exit status", "--error-exitcode " + std::to_string(options.error_exitcode), "0 to 255"};
  }
  if (options.json == "-" && options.sarif == "-") {
    return Error{"standard output cannot hold both JSON and SARIF", "", "give one of them a file"};
  }
  const std::pair<const char*, const std::string*> files[] = {
      {"--json", &options.json}, {"--sarif", &options.sarif}, {"--log-file", &options.log_file}};
  for (const auto& [option, path] : files) {
    if (Expected<void> possible = check_file(*path, coming); !possible) return possible;
    for (const auto& [other, others] : files) {
      if (other == option) break;
      if (one_file(*others, *path))
        return Error{std::string("cannot hold what both ") + other + " and " + option + " write", *path,
                     "give one of them another file"};
    }
  }
  if (options.suppressions.empty()) return {};
  Expected<report::Suppressions> suppressions = report::Suppressions::read(options.suppressions);
  if (!suppressions) return suppressions.error();
  options.listed = std::make_shared<report::Suppressions>(std::move(*suppressions));
  return {};
}

Expected<void> suppress(Analysis& analysis, const ReportOptions& options) {
  if (!options.no_library_suppressions) {
    // Beside the command in a build tree and in an installation alike.
    const std::filesystem::path path =
        (own_directory() / "../share/deadheat/libraries.suppressions").lexically_normal();
    Expected<report::Suppressions> known = report::Suppressions::read(path.string());
    if (known) {
      known->apply(analysis);
      for (const std::string& line : known->used()) say("suppression: " + line);
    } else {
      say(known.error().message() + "; known races inside CUDA's own libraries count");
    }
  }
  if (!options.listed) return {};
  options.listed->apply(analysis);
  for (const std::string& line : options.listed->used()) say("suppression: " + line);
  for (const std::string& line : options.listed->unused()) say("unused suppression: " + line);
  return {};
}

namespace {

// Colors, and lines as long as the terminal's. (https://no-color.org)
void fit_terminal(report::TextOptions& options, int file) {
  constexpr unsigned narrowest = 60, widest = 180;
  if (!isatty(file)) return;
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  options.color = variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  winsize size = {};
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col) {
    options.width = std::clamp<unsigned>(size.ws_col, narrowest, widest);
  }
}

Expected<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.flush();
  if (!out) return Error{"cannot write", path};
  return {};
}

} // namespace

Expected<void> write_json(const std::string& path, const nlohmann::json& json) {
  std::string text = json.dump(2) + "\n";
  if (path != "-") return write_file(path, text);
  std::cout << text << std::flush;
  return {};
}

Expected<void> report(const Analysis& analysis, const ReportOptions& options, bool text_to_error,
                      const int* program_status, const nlohmann::json* more, const std::string& more_text) {
  std::optional<Error> failed;
  const auto look = [&failed](const Expected<void>& done) {
    if (!done && !failed) failed = done.error();
    return done.has_value();
  };
  for (const std::string& warning : analysis.warnings) say(warning);
  if (program_status && *program_status) say("the program ended with status " + std::to_string(*program_status));
  if (!options.json.empty()) {
    nlohmann::json json = report::to_json(analysis);
    if (!options.trace.empty()) add_times(json, options.trace);
    if (program_status) json["program_status"] = *program_status;
    if (more) json.update(*more);
    look(write_json(options.json, json));
  }
  if (!options.sarif.empty()) {
    nlohmann::json sarif = report::to_sarif(analysis, DEADHEAT_VERSION);
    look(write_json(options.sarif, sarif));
  }
  report::TextOptions text_options;
  text_options.limit = options.print_limit;
  if (options.log_file.empty()) fit_terminal(text_options, text_to_error ? STDERR_FILENO : STDOUT_FILENO);
  std::string text;
  if (options.print_suppressions) text = report::suppressions_for(analysis) + "\n";
  text += report::to_text(analysis, text_options) + more_text;
  if (!options.log_file.empty()) {
    if (!look(write_file(options.log_file, text))) std::cerr << text << std::flush;
  } else if (text_to_error) {
    std::cerr << text << std::flush;
  } else if (options.json != "-" && options.sarif != "-") {
    std::cout << text << std::flush;
  }
  if (failed) return *failed;
  return {};
}

} // namespace deadheat::tools
