// deadheat replay --device gpu.
#include "tools/hardware.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "analyzer/report/json.h"
#include "analyzer/report/text.h"
#include "analyzer/report/words.h"
#ifdef DEADHEAT_HAS_HARDWARE
#include "replay/hardware/hardware.h"
#endif

namespace deadheat::tools {

namespace po = boost::program_options;

namespace {

struct GpuOptions {
  std::string device, witness;
  unsigned runs = 10;
  double seconds = 20;
  std::string driver; // library; empty: DEADHEAT_DRIVER, or the system's
  std::string worker; // directory: this process is the worker that plays the runs
};

bool asks_for_gpu(const Arguments& arguments) {
  for (std::size_t n = 0; n < arguments.size(); ++n) {
    if (arguments[n] == "--device=gpu") return true;
    if (arguments[n] == "--device" && n + 1 < arguments.size() && arguments[n + 1] == "gpu") return true;
  }
  return false;
}

} // namespace

#ifdef DEADHEAT_HAS_HARDWARE

namespace {

using hardware::HardwareReport;
using hardware::Kind;
using hardware::OrderRuns;
using nlohmann::json;

json to_json(const HardwareReport& report) {
  json orders = json::array();
  for (const OrderRuns& order : report.orders) {
    json outputs = json::array();
    for (const hardware::SeenOutputs& seen : order.outputs) {
      json one = {{"digest", seen.digest}, {"runs", seen.runs}};
      one["like"] = seen.like ? json(std::string(1, seen.like)) : json(nullptr);
      if (!seen.ending.empty()) one["ending"] = seen.ending;
      outputs.push_back(one);
    }
    orders.push_back({{"order", hardware::name(order.kind)},
                      {"runs", order.runs},
                      {"had_first_then_second", order.had_first},
                      {"had_second_then_first", order.had_second},
                      {"gave_up", order.gave_up},
                      {"unreached", order.unreached},
                      {"outputs", outputs}});
  }
  Race race = report.race; // its differences on the hardware, in the words of a race's
  race.verdict = Verdict::harmful;
  race.differences = report.differences;
  return {{"witness", report.witness},
          {"race", report.race.id},
          {"device", report.device},
          {"driver", report.driver},
          {"means", hardware::name(report.means)},
          {"out_of_reach", report.out_of_reach.empty() ? json(nullptr) : json(report.out_of_reach)},
          {"notes", report.notes},
          {"digest_a", report.digest_a},
          {"digest_b", report.digest_b},
          {"orders", orders},
          {"shown", report.shown},
          {"why_not", report.why_not.empty() ? json(nullptr) : json(report.why_not)},
          {"differences", report::to_json(race).value("differences", json::array())}};
}

void print_text(const HardwareReport& report) {
  Analysis analysis;
  analysis.summary.races = 1;
  analysis.races.push_back(report.race);
  analysis.races[0].verdict_why.clear();
  std::cout << report::to_text(analysis, {});
  if (!report.out_of_reach.empty()) {
    std::cout << "out of reach on a GPU: " << report.out_of_reach << '\n';
    return;
  }
  std::cout << "on " << report.device << ", with " << hardware::name(report.means) << ":\n";
  for (const OrderRuns& order : report.orders) {
    char head[64];
    std::snprintf(head, sizeof head, "  %-18s ", hardware::name(order.kind));
    std::cout << head << report::counted(order.runs, "run", "runs");
    if (report.means != hardware::Means::gates || order.kind != Kind::free) {
      std::cout << ", first came first in " << order.had_first << ", second in " << order.had_second;
    }
    if (order.gave_up) std::cout << ", a wait reached its bound in " << order.gave_up;
    if (order.unreached) std::cout << ", an access was not reached in " << order.unreached;
    std::cout << '\n';
    for (const hardware::SeenOutputs& seen : order.outputs) {
      std::cout << "    " << report::counted(seen.runs, "time", "times") << " outputs " << seen.digest;
      if (seen.like) std::cout << ", as schedule " << (seen.like == 'a' ? "A" : "B") << " of the witness";
      if (!seen.ending.empty()) std::cout << ", " << seen.ending;
      std::cout << '\n';
    }
  }
  for (const std::string& note : report.notes) std::cout << "note: " << note << '\n';
  if (!report.shown) {
    std::cout << "the two orders did not show different outputs on this GPU: " << report.why_not << '\n';
    return;
  }
  std::cout << "the two orders give different outputs on this GPU";
  for (const Difference& difference : report.differences) {
    std::cout << "; ";
    if (difference.elements)
      std::cout << report::counted(difference.elements, "element", "elements") << " of " << difference.type;
    if (!difference.note.empty()) std::cout << (difference.elements ? ", " : "") << difference.note;
  }
  std::cout << '\n';
}

} // namespace

namespace {

int replay(const GpuOptions& options, const ReportOptions& reporting) {
  hardware::HardwareOptions hardware;
  hardware.runs = options.runs;
  hardware.seconds = options.seconds;
  const char* named = std::getenv("DEADHEAT_DRIVER");
  if (!options.driver.empty()) {
    hardware.driver = options.driver;
  } else if (named && *named) {
    hardware.driver = named;
  }
  Expected<HardwareReport> report = hardware::replay_on_gpu(options.witness, hardware);
  if (!report) return fail(report.error());
  if (reporting.json != "-") print_text(*report);
  if (!reporting.json.empty()) {
    Analysis analysis;
    analysis.summary.races = 1;
    analysis.races.push_back(report->race);
    json whole = report::to_json(analysis);
    whole["hardware"] = json::array({to_json(*report)});
    if (Expected<void> done = write_json(reporting.json, whole); !done) return fail(done.error());
  }
  if (!report->out_of_reach.empty()) return could_not;
  return report->shown ? int(reporting.error_exitcode) : 0;
}

} // namespace

std::optional<int> replay_on_gpu(const Arguments& arguments) {
  if (!asks_for_gpu(arguments)) return std::nullopt;
  GpuOptions options;
  ReportOptions reporting;
  po::options_description description, own("Replay on a GPU");
  own.add_options()("device", po::value(&options.device), "gpu")("witness", po::value(&options.witness),
                                                                 "the witness file (or give it without an option)")(
      "runs", po::value(&options.runs)->value_name("N")->default_value(10), "runs of each order")(
      "run-seconds", po::value(&options.seconds)->value_name("S")->default_value(20),
      "seconds after which a run counts as hanging")(
      "driver", po::value(&options.driver)->value_name("LIB"),
      "the CUDA driver's library (default: DEADHEAT_DRIVER, or libcuda.so.1)")(
      "json", po::value(&reporting.json)->value_name("FILE"),
      "write the report as JSON to FILE, or - for standard output")(
      "error-exitcode", po::value(&reporting.error_exitcode)->value_name("N")->default_value(1),
      "exit status when the two orders give different outputs")(
      "hardware-worker", po::value(&options.worker)->value_name("DIR"), "used by this command itself");
  description.add(own);
  po::positional_options_description positional;
  positional.add("witness", 1);
  po::variables_map values;
  int status = 0;
  if (!parse(
          arguments,
          "usage: deadheat replay --device gpu [OPTIONS] WITNESS\n\n"
          "Runs a witness on the GPU of this machine with its two accesses in either order, and tells which outputs\n"
          "that gave.\n",
          description, positional, values, status)) {
    return status;
  }
  if (options.witness.empty()) return fail("nothing to replay (deadheat replay --device gpu WITNESS)");
  if (std::filesystem::is_directory(options.witness)) {
    return fail(options.witness +
                ": is a directory: on a GPU witnesses are replayed (deadheat replay TRACE makes them)");
  }
  if (!options.worker.empty()) return hardware::work_on_gpu(options.witness, options.worker);
  if (options.runs == 0 || options.runs > 10000) return fail("--runs " + std::to_string(options.runs) + ": 1 to 10000");
  if (!(options.seconds > 0)) return fail("--run-seconds: must be more than 0");
  if (Expected<void> usable = check_report_options(reporting); !usable) return fail(usable.error());
  return replay(options, reporting);
}

#else

std::optional<int> replay_on_gpu(const Arguments& arguments) {
  if (!asks_for_gpu(arguments)) return std::nullopt;
  return fail(
      "replaying on a GPU is not part of this build (apt-get install the CUDA toolkit's headers, and build again)");
}

#endif

} // namespace deadheat::tools
