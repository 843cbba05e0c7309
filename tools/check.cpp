// deadheat check: record, analyze and replay in one go.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "replay/search/temporary_directory.h"
#include "tools/command.h"
#include "tools/judge.h"

namespace deadheat::tools {

namespace po = boost::program_options;
namespace fs = std::filesystem;

int run_check(const Arguments& arguments) {
  SplitCommand split = split_command(arguments);
  RecordOptions recording;
  AnalysisOptions analyzing;
  ReportOptions reporting;
  JudgeOptions judging;
  po::options_description description;
  description.add(record_options(recording))
      .add(judge_options(judging))
      .add(analysis_options(analyzing))
      .add(report_options(reporting));
  po::variables_map values;
  int status = 0;
  if (!parse(split.options,
             "usage: deadheat check [OPTIONS] -- COMMAND...\n\n"
             "Runs COMMAND, finds its races, and replays each until it is known what it does. Standard output belongs\n"
             "to COMMAND; the report goes to standard error.\n\n"
             "Exit status: 0 no race, 1 races (or --error-exitcode), 2 it could not be done, or a fault or a deadlock\n"
             "ended what the device ran, or it refused a part, before there was a race.\n",
             description, {}, values, status)) {
    return status;
  }
  if (split.command.empty()) return fail("no command to check (deadheat check [OPTIONS] -- COMMAND...)");

  if (Expected<void> usable = check_report_options(reporting, recording.output); !usable) return fail(usable.error());
  if (Expected<void> usable = check_analysis_options(analyzing); !usable) return fail(usable.error());

  if (!values["witness-dir"].defaulted()) { // no witness may be needed
    if (Expected<void> usable = check_directory(judging.directory); !usable) return fail(usable.error());
  }

  std::optional<search::TemporaryDirectory> directory; // the trace is kept only where the user asked for it
  if (recording.output.empty()) {
    Expected<search::TemporaryDirectory> made = search::TemporaryDirectory::create("deadheat-check");
    if (!made) return fail(Error{made.error().what, made.error().where, "set TMPDIR, or give -o"});
    recording.output = made->path() + "/run.deadheat";
    directory.emplace(std::move(*made));
  }

  recording.window = true; // it is replayed
  Expected<Recorded> recorded = record(recording, split.command, reporting.json == "-" || reporting.sarif == "-");
  if (!recorded) return fail(recorded.error());
  std::error_code error;
  if (!fs::exists(recorded->trace, error)) {
    const std::string ended = recorded->status ? "ended with status " + std::to_string(recorded->status) + " and " : "";
    return fail("'" + split.command[0] + "' " + ended + "made no CUDA call: there is nothing to check");
  }
  Expected<Analysis> analysis = analyze(recorded->trace, analyzing);
  if (!analysis) return fail(analysis.error());
  judging.seed = recording.seed;
  // Whatever cannot be done from here on: what was found until then is reported.
  Expected<void> all = explore(recorded->trace, *analysis, judging, analyzing);
  if (Expected<void> done = suppress(*analysis, reporting); !done) return fail(done.error());
  if (Expected<void> done = judge(recorded->trace, *analysis, judging); !done) {
    // What a GPU did cannot always be run again; its races are races all the same.
    if (recorded->on_gpu)
      analysis->warnings.push_back("races were not replayed: " + done.error().message());
    else if (all)
      all = done;
  }
  if (Expected<void> done = report(*analysis, reporting, true, &recorded->status); !done && all) all = done;
  if (!all) return fail(all.error());
  // Without a race to report it must have seen what the program would have run to say that there is none.
  auto cut = [](const std::vector<Fault>& faults) {
    return std::any_of(faults.begin(), faults.end(), [](const Fault& fault) { return fault.ends_run; });
  };
  const int found = finding_status(*analysis, reporting);
  const bool unseen = cut(analysis->memory_errors) || cut(analysis->sync_errors) || analysis->refused;
  return found == 0 && unseen ? 2 : found;
}

} // namespace deadheat::tools
