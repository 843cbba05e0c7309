// deadheat replay: what the races of a trace do, or what a witness shows.
#include <unistd.h>

#include <iostream>

#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/hardware.h"
#include "tools/judge.h"
#ifdef DEADHEAT_HAS_REPLAY
#include "replay/search/search.h"
#endif

namespace deadheat::tools {

namespace po = boost::program_options;

po::options_description judge_options(JudgeOptions& options) {
  po::options_description description("Replaying");
  description.add_options()("schedules", po::value(&options.schedules)->default_value(40),
                            "schedules to try for each race, at most, and up to eight more with old values")(
      "seconds", po::value(&options.seconds)->default_value(20), "seconds to spend on each race, at most")(
      "systematic", po::value(&options.systematic)->value_name("N")->default_value(options.systematic),
      "run every schedule that can matter, up to N, before a race is called benign or unreached; by default of runs "
      "of at most 1024 visible operations; 0: do not")(
      "explore", po::value(&options.explore)->value_name("N")->default_value(0),
      "add the races of N explored schedules: order-dependent control flow hides some from a single run")(
      "explore-seconds", po::value(&options.exploring_seconds)->value_name("S")->default_value(0),
      "begin no schedule of --explore (or of replay --vary) after S seconds; 0: no limit")(
      "precision", po::bool_switch(&options.precision),
      "compute every floating-point value in double as well: how far outputs are from it, in every schedule or in "
      "some, and which instruction loses the precision")(
      "witness-dir", po::value(&options.directory)->default_value("deadheat-witnesses"), "directory for witnesses");
  return description;
}

#ifdef DEADHEAT_HAS_REPLAY

Expected<void> judge(const std::string& trace, Analysis& analysis, const JudgeOptions& options) {
  search::SearchOptions search;
  search.races = options.races;
  search.schedules = options.schedules;
  search.seconds = options.seconds;
  search.systematic = options.systematic;
  search.seed = options.seed;
  search.output = options.directory;
  if (isatty(STDERR_FILENO)) {
    search.progress = [](const std::string& line) { std::cerr << "\r\033[K" << line << std::flush; };
  }
  Expected<void> judged = search::judge(trace, analysis, search);
  if (judged && options.precision) judged = search::measure_precision(trace, analysis, search);
  if (search.progress) std::cerr << "\r\033[K";
  return judged;
}

namespace {

int replay_witness(const std::string& file, const ReportOptions& reporting) {
  Expected<search::WitnessRun> run = search::replay_witness(file);
  if (!run) return fail(run.error());
  Analysis analysis;
  analysis.summary.races = 1;
  analysis.races.push_back(run->race);
  if (Expected<void> done = suppress(analysis, reporting); !done) return fail(done.error());
  const nlohmann::json more = {
      {"witness", {{"digest_a", run->digest_a}, {"digest_b", run->digest_b}, {"as_recorded", run->as_recorded}}}};
  const std::string text = "outputs of schedule A: " + run->digest_a + "\noutputs of schedule B: " + run->digest_b +
                           "\n" +
                           (run->as_recorded ? "the same bits as when the witness was made\n"
                                             : "not the bits that the witness was made with\n");
  if (Expected<void> done = report(analysis, reporting, false, nullptr, &more, text); !done) return fail(done.error());
  return run->differ && !analysis.races.front().suppressed ? int(reporting.error_exitcode) : 0;
}

// Other schedules of the whole run, with store histories: how many outputs there are.
int vary(const std::string& trace, std::uint64_t count, std::uint64_t seed, double seconds,
         const ReportOptions& reporting) {
  const std::pair<const char*, bool> unknown[] = {{"--sarif", !reporting.sarif.empty()},
                                                  {"--suppress", !reporting.suppressions.empty()},
                                                  {"--log-file", !reporting.log_file.empty()},
                                                  {"--print-suppressions", reporting.print_suppressions}};
  for (const auto& [name, given] : unknown)
    if (given) return fail(std::string("--vary reports outputs and no races: ") + name + " has no meaning with it");
  const bool terminal = isatty(STDERR_FILENO);
  Expected<search::Variation> variation = search::vary(trace, count, seed, seconds, [&](std::uint64_t number) {
    if (terminal) std::cerr << "\r\033[Kschedule " << number + 1 << " of " << count << std::flush;
  });
  if (terminal) std::cerr << "\r\033[K";
  if (!variation) return fail(variation.error());
  const nlohmann::json json = {{"version", 1},
                               {"variation",
                                {{"schedules", variation->schedules},
                                 {"outputs", variation->outputs},
                                 {"old_reads", variation->old_reads},
                                 {"first", variation->first}}}};
  if (!reporting.json.empty())
    if (Expected<void> done = write_json(reporting.json, json); !done) return fail(done.error());
  if (reporting.json != "-")
    std::cout << variation->outputs << (variation->outputs == 1 ? " output" : " different outputs") << " in "
              << variation->schedules << " schedules, with " << variation->old_reads << " reads of old values"
              << (variation->first ? "; the first that differs is schedule " + std::to_string(variation->first) : "")
              << '\n';
  return variation->outputs > 1 ? int(reporting.error_exitcode) : 0;
}

} // namespace

int run_replay(const Arguments& arguments) {
  if (std::optional<int> status = replay_on_gpu(arguments)) return *status;
  std::string trace, witness, device, directory;
  std::uint64_t varied = 0;
  JudgeOptions judging;
  AnalysisOptions analyzing;
  ReportOptions reporting;
  po::options_description description, own("Replay");
  own.add_options()("race", po::value(&judging.races)->composing(),
                    "replay this race only (may be given several times)")(
      "seed", po::value(&judging.seed)->default_value(1), "seed of the random schedules")(
      "device", po::value(&device)->default_value("embedded"), "embedded or gpu")(
      "output,o", po::value(&directory), "directory for witnesses (the same as --witness-dir)")(
      "vary", po::value(&varied)->value_name("N"),
      "run N schedules of the whole trace, old values of memory included, and count the outputs")(
      "witness", po::value(&witness), "re-run a witness file instead")("trace", po::value(&trace), "trace directory");
  description.add(own).add(judge_options(judging)).add(analysis_options(analyzing)).add(report_options(reporting));
  po::positional_options_description positional;
  positional.add("trace", 1);
  po::variables_map values;
  int status = 0;
  if (!parse(arguments,
             "usage: deadheat replay [OPTIONS] TRACE\n       deadheat replay --witness FILE\n"
             "       deadheat replay --device gpu [OPTIONS] WITNESS\n\n"
             "Replays a trace under schedules that take each race both ways and compares the outputs.\n",
             description, positional, values, status)) {
    return status;
  }
  const bool asked = !directory.empty() || !values["witness-dir"].defaulted();
  if (device != "embedded") return fail("--device " + device + ": embedded or gpu");
  if (!directory.empty()) judging.directory = directory;
  if (Expected<void> usable = check_report_options(reporting); !usable) return fail(usable.error());
  if (Expected<void> usable = check_analysis_options(analyzing); !usable) return fail(usable.error());
  if (!witness.empty()) return replay_witness(witness, reporting);
  if (trace.empty()) return fail("nothing to replay (deadheat replay TRACE, or --witness FILE)");

  if (varied) return vary(trace, varied, judging.seed, judging.exploring_seconds, reporting);

  if (asked) { // else no witness may be needed
    if (Expected<void> usable = check_directory(judging.directory); !usable) return fail(usable.error());
  }
  Expected<Analysis> analysis = analyze(trace, analyzing);
  if (!analysis) return fail(analysis.error());
  if (Expected<void> done = explore(trace, *analysis, judging, analyzing); !done) return fail(done.error());
  for (std::uint32_t id : judging.races) {
    if (id == 0 || id > analysis->races.size()) {
      return fail("there is no race " + std::to_string(id) + " in " + trace + " (it has " +
                  std::to_string(analysis->races.size()) + ")");
    }
  }
  if (Expected<void> done = suppress(*analysis, reporting); !done) return fail(done.error());
  if (Expected<void> done = judge(trace, *analysis, judging); !done) return fail(done.error());
  if (Expected<void> done = report(*analysis, reporting, false, nullptr); !done) return fail(done.error());
  for (const Race& race : analysis->races) {
    if (race.verdict == Verdict::harmful) return int(reporting.error_exitcode);
  }
  return 0;
}

#else

Expected<void> judge(const std::string&, Analysis&, const JudgeOptions&) {
  return Error{"this build has no replay", "", "apt-get install llvm-19-dev, and build again"};
}
int run_replay(const Arguments& arguments) {
  if (std::optional<int> status = replay_on_gpu(arguments)) return *status;
  Analysis none;
  return fail(judge("", none, {}).error());
}

#endif

} // namespace deadheat::tools
