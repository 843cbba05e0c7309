// What the subcommands share: their table, the shape of a subcommand, how errors reach the user.
#pragma once

#include <boost/program_options.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/race.h"

namespace deadheat::report {
class Suppressions;
}

namespace deadheat::tools {

using Arguments = std::vector<std::string>; // after the subcommand's name

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&); // the exit status
};

int run_record(const Arguments&);
int run_analyze(const Arguments&);
int run_replay(const Arguments&);
int run_check(const Arguments&);
int run_info(const Arguments&);

inline constexpr int could_not = 2; // exit status: the command could not do what it was asked

// "deadheat: <message>" on standard error; returns could_not.
int fail(const Error& error);
int fail(const std::string& message);
void say(const std::string& line); // "deadheat: <line>" on standard error

// The words before and after "--".
struct SplitCommand {
  Arguments options, command;
  bool separated = false;
};
SplitCommand split_command(const Arguments& arguments);

// Parses `arguments`; on "--help" prints `usage` and the options, on a wrong option one line. Sets `status` when the
// subcommand is to return at once.
bool parse(const Arguments& arguments, const std::string& usage,
           const boost::program_options::options_description& options,
           const boost::program_options::positional_options_description& positional,
           boost::program_options::variables_map& values, int& status);

// Where the command itself lies: what comes with it lies beside.
std::filesystem::path own_directory();

// ---- recording, used by record and check
struct RecordOptions {
  std::string output;          // trace directory; empty: the first free of run.deadheat, run-2.deadheat …
  std::string device = "auto"; // auto, gpu, embedded
  std::string kernel;          // regular expression
  std::uint64_t launch_skip = 0, launch_count = 0; // count 0: all
  bool accesses = true;        // false: operations only
  std::string capture_range = "none"; // or cudaProfilerApi
  std::uint64_t assemble = 60; // GPU: seconds, for a module
  std::uint64_t budget = 0;    // MiB of accesses; 0: the default
  bool window = false;         // GPU: keep what it takes to replay
  bool timestamps = false;     // GPU: of operations on the device
  bool host_writes = true;     // GPU: look for them
  std::uint64_t seed = 1;
  bool leak_check = false;
  std::string capability; // of the embedded device; empty: 9.0
};
boost::program_options::options_description record_options(RecordOptions& options);
struct Recorded {
  std::string trace;
  int status = 0;              // the command's exit status; 128 + signal when it was killed
  bool on_gpu = false;
};
Expected<Recorded> record(const RecordOptions& options, const Arguments& command, bool standard_output_to_error);

// ---- analysis, used by analyze, replay and check
struct AnalysisOptions {
  unsigned jobs = 0;        // 0: as many as there are cores
  std::string memory_limit; // "4G"; empty: the analysis's own
};
boost::program_options::options_description analysis_options(AnalysisOptions& options);
Expected<void> check_analysis_options(const AnalysisOptions& options);
// With a progress bar where standard error is a terminal.
Expected<Analysis> analyze(const std::string& trace, const AnalysisOptions& options);

// ---- what is written, asked before a long run: that it is not clear already that it cannot be
// None and "-" (standard output) are fine, and what lies in a directory that will be made (`coming`).
Expected<void> check_file(const std::string& path, const std::string& coming);
Expected<void> check_directory(const std::string& path); // is made where it is missing

// ---- reports, used by analyze, replay and check
struct ReportOptions {
  std::string json;            // file, or "-"
  std::string suppressions;    // file
  bool no_library_suppressions = false; // those that come with deadheat are left out
  std::string log_file;        // text report goes there instead of standard output or error
  bool strict = false;         // possible, strong and order-dependent findings count
  bool count_errors = false;   // memory and synchronization errors count
  std::string sarif;           // file, or "-"
  unsigned print_limit = 0;    // races in the text report; 0: all
  unsigned error_exitcode = 1; // exit status when findings count
  bool print_suppressions = false;
  std::string trace;           // whose times of operations the JSON tells; set by the subcommand, no option
  std::shared_ptr<report::Suppressions> listed; // what `suppressions` holds; set by check_report_options()
};
boost::program_options::options_description report_options(ReportOptions& options);
// The exit status: 0, or that of --error-exitcode when findings count.
int finding_status(const Analysis& analysis, const ReportOptions& options);
// Whether the options can be followed: asked before a long run. Reads the file of suppressions, once: it may be a pipe.
// `coming`: a directory that will be made before the report is written.
Expected<void> check_report_options(ReportOptions& options, const std::string& coming = "");
Expected<void> suppress(Analysis& analysis, const ReportOptions& options);
// Writes JSON and SARIF (if asked for) and the text report, and of these all that can be written: the error is of the
// first that could not be; a text report for a file goes to standard error then. `text_to_error`: standard output
// belongs to a program. `more`: further keys of the JSON; `more_text`: further lines behind the text.
Expected<void> report(const Analysis& analysis, const ReportOptions& options, bool text_to_error,
                      const int* program_status, const nlohmann::json* more = nullptr,
                      const std::string& more_text = "");
Expected<void> write_json(const std::string& path, const nlohmann::json& json); // path: "-" is standard output

} // namespace deadheat::tools
