// What the analysis costs: accesses a second a core, memory a byte touched, what more cores give, beside what the
// machine itself gives, how time grows, and how it compares with ThreadSanitizer on the same pattern. Every figure is
// of a process of its own.
//
//   analyzer_bench [--largest N] [--workers 2,4] [--rounds R] [--patterns A,B]
//       Of several workers: how many times as fast as one before and after them (the median of the rounds), the same of
//       the fastest run of either kind (neighbours only ever slow a run down), and what they do of what as many
//       analyses of one worker do at the same time, which share nothing and have the same neighbours
//   analyzer_bench --profile PATTERN [--largest N] [--jobs J]      one run alone, with its memory
//   analyzer_bench --memory PATTERN [--largest N]     of runs of N / 4, N / 2 and N accesses: bytes that each further
//       byte touched costs, and the constant besides ("all": of every pattern)
//   analyzer_bench --profile machine [--workers 2,4]               what the machine itself gives, and which processors
//       share no core
//   analyzer_bench --profile PATTERN [--largest N] --write TRACE   no run: the accesses as a trace for `deadheat
//   analyze`
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <boost/program_options.hpp>

#include "analyzer/detect/find.h"
#include "tests/bench/analyzer_patterns.h"
#include "tests/bench/machine_ceiling.h"
#include "tests/bench/measured_run.h"
#include "tracer/recorder/writer.h"

namespace {

using namespace deadheat;
using namespace deadheat::bench;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<int> cpus; // to run on; none: any

// As many of them as there are workers, so that each has one.
void spread(unsigned jobs) {
  if (jobs <= cpus.size()) run_on({cpus.begin(), cpus.begin() + jobs});
}

// processors: that may be used.
MeasuredRun begin_analysis(Pattern pattern, std::uint64_t accesses, unsigned jobs, unsigned processors) {
  return MeasuredRun([=] {
    spread(processors);
    const PatternSource source(pattern, accesses);
    detect::FindOptions options;
    options.jobs = jobs;
    const detect::Findings findings = detect::find_races(source, options);
    Cost cost;
    cost.accesses = findings.detector->summary().accesses;
    cost.races = findings.races.size();
    return cost;
  });
}
Cost analysis(Pattern pattern, std::uint64_t accesses, unsigned jobs) {
  return begin_analysis(pattern, accesses, jobs, jobs).finish();
}
// Accesses a second of so many analyses at once, which have nothing to do with each other.
double rate_alone(Pattern pattern, std::uint64_t accesses, unsigned count) {
  std::vector<MeasuredRun> all;
  for (unsigned i = 0; i < count; ++i) all.push_back(begin_analysis(pattern, accesses, 1, count));
  double rate = 0;
  for (MeasuredRun& run : all) {
    const Cost cost = run.finish();
    rate += double(cost.accesses) / cost.wall;
  }
  return rate;
}

// The pattern as a trace.
int write_trace(Pattern pattern, std::uint64_t accesses, const std::string& directory) {
  auto writer = trace::TraceWriter::create(directory, {});
  if (!writer) {
    std::fprintf(stderr, "%s\n", writer.error().message().c_str());
    return 1;
  }
  class Copy final : public trace::RecordVisitor {
   public:
    explicit Copy(trace::TraceWriter& to) : to_(to) {}
    bool access(const trace::AccessView& access) override { return to_.write(access), true; }
    bool record(trace::Record& record) override { return to_.write(record), true; }

   private:
    trace::TraceWriter& to_;
  } copy(**writer);
  const PatternSource source(pattern, accesses);
  for (std::size_t chunk = 0; chunk < source.chunks(); ++chunk) source.play(chunk, copy);
  return (*writer)->finish(0) ? 0 : 1;
}

double tsan_cpu(const std::string& program, Pattern pattern, std::uint64_t accesses, unsigned threads) {
  const std::string command =
      program + " " + name_of(pattern) + " " + std::to_string(accesses) + " " + std::to_string(threads);
  FILE* out = popen(command.c_str(), "r");
  double result = 0;
  if (!out || std::fscanf(out, "%lf", &result) != 1) result = 0;
  if (out) pclose(out);
  return result;
}

// Bytes that the pattern touches in all, when it has `accesses`; of a table hit at random by n, 1 - e^(-n / size).
double touched(Pattern pattern, std::uint64_t accesses) {
  auto hit = [&](double places) { return places * (1 - std::exp(-double(accesses) / places)); };
  const double blocks = double(accesses) / double(per_block(pattern));
  switch (pattern) {
    case Pattern::tiled: return std::min(blocks * turns * 4096, double(table_bytes)) + blocks * warps * 128;
    case Pattern::scattered: return 4 * hit(double(table_bytes) / 4);
    case Pattern::bytes: return hit(double(byte_table_bytes));
    case Pattern::atomics: return 4 * hit(counters);
    case Pattern::ring:
    case Pattern::staged: return std::min(blocks * turns * 4096, double(table_bytes)) + blocks * 3 * 4096;
    case Pattern::far_turns:
    case Pattern::far_initial: return double(accesses);
    case Pattern::far_mixed:
    case Pattern::far_handed:
    case Pattern::far_permuted:
    case Pattern::handed:
    case Pattern::far_zeroed:
    case Pattern::far_counted:
    case Pattern::row_zeroed: return 2 * double(accesses);
    case Pattern::far_rows:
    case Pattern::far_short:
    case Pattern::far_atomics:
    case Pattern::far_words: return 4 * double(accesses);
    case Pattern::far_bytes: return double(accesses);
  }
  return 0;
}

// The line that is nearest to the peaks of three runs.
void print_memory(Pattern pattern, std::uint64_t largest) {
  double x = 0, y = 0, xx = 0, xy = 0;
  std::printf("%-12s", name_of(pattern));
  for (std::uint64_t accesses : {largest / 4, largest / 2, largest}) {
    const Cost cost = analysis(pattern, accesses, 1);
    const double bytes = touched(pattern, cost.accesses);
    std::printf(" %8.1f MB of %6.1f", cost.peak_bytes / 1e6, bytes / 1e6);
    x += bytes, y += cost.peak_bytes, xx += bytes * bytes, xy += bytes * cost.peak_bytes;
  }
  const double slope = (3 * xy - x * y) / (3 * xx - x * x);
  std::printf(" | %6.2f a byte and %5.1f MB\n", slope, (y - slope * x) / 3 / 1e6);
  std::fflush(stdout);
}

// "2,4": each of them by `to`; what is between two commas and is nothing of the kind throws std::invalid_argument.
template <class To>
auto listed(const std::string& text, To&& to) {
  std::vector<decltype(to(text))> result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    result.push_back(to(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return result;
}
int number(const std::string& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw std::invalid_argument("'" + text + "': no number");
  }
  return value;
}
unsigned count(const std::string& text) {
  const int value = number(text);
  if (value == 0) throw std::invalid_argument("--workers: at least 1");
  return unsigned(value);
}
Pattern pattern_named(const std::string& name) {
  for (Pattern pattern : patterns)
    if (name == name_of(pattern)) return pattern;
  throw std::invalid_argument("'" + name + "': no pattern");
}

struct Options {
  std::uint64_t largest = 0; // accesses
  unsigned jobs = 1, rounds = 3;
  std::vector<unsigned> workers;
  std::vector<Pattern> patterns;
  std::string tsan; // the program with the same patterns
};

void print_machine(const Options& options) {
  if (cpus.empty()) {
    std::printf("processors that share no core: ");
    for (const char* comma = ""; int cpu : cpus_apart()) std::printf("%s%d", std::exchange(comma, ","), cpu);
    std::printf("\n");
  }
  for (unsigned count : options.workers) {
    spread(count);
    std::printf("machine, %u workers: arithmetic %.2f, pipelines %.2f, memory %.2f times as fast\n", count,
                arithmetic_gain(count), pipelines_gain(count), memory_gain(count));
  }
}

void print_profile(Pattern pattern, const Options& options) {
  const Cost cost = analysis(pattern, options.largest, options.jobs);
  const double constant = analysis(Pattern::tiled, 1, options.jobs).peak_bytes;
  std::printf("%s: %.1f M/s of CPU, %.1f M/s, %.1f MB, %.2f bytes a byte, %ld waits\n", name_of(pattern),
              double(cost.accesses) / cost.cpu / 1e6, double(cost.accesses) / cost.wall / 1e6, cost.peak_bytes / 1e6,
              (cost.peak_bytes - constant) / touched(pattern, cost.accesses), cost.waits);
}

// What several workers gain, a round at a time.
struct Gains {
  std::vector<double> gains, of_alone;
  double fastest = INFINITY; // seconds

  void print(double fastest_of_one) const {
    std::printf(" %4.2f %4.2f %4.2f |", median(gains), fastest_of_one / fastest, median(of_alone));
  }
};

// constant: what a process takes that analyses next to nothing, in bytes.
void print_pattern(Pattern pattern, double constant, const Options& options) {
  const bool compared = pattern < Pattern::far_words; // with ThreadSanitizer
  const bool for_memory = !compared && pattern != Pattern::ring && pattern != Pattern::staged;
  const std::uint64_t accesses = std::min<std::uint64_t>(options.largest, for_memory ? 1u << 23 : 64'000'000u);
  Cost one;
  std::vector<double> cpu;
  double fastest = INFINITY; // of one worker
  std::vector<Gains> of(options.workers.size());
  for (unsigned round = 0; round < options.rounds; ++round) {
    // Between two runs of one worker, so that what a machine becomes slower by meanwhile counts for nothing.
    const auto of_one = [&] {
      one = analysis(pattern, accesses, 1);
      cpu.push_back(one.cpu);
      fastest = std::min(fastest, one.wall);
      return one.wall;
    };
    double before = round ? one.wall : of_one();
    for (std::size_t i = 0; i < of.size(); ++i) {
      const Cost several = analysis(pattern, accesses, options.workers[i]);
      of[i].of_alone.push_back(double(several.accesses) / several.wall /
                               rate_alone(pattern, accesses, options.workers[i]));
      const double after = of_one();
      of[i].gains.push_back((before + after) / 2 / several.wall);
      of[i].fastest = std::min(of[i].fastest, several.wall);
      before = after;
    }
  }
  const double n = double(one.accesses), cpu_seconds = median(std::move(cpu));
  std::printf("%-12s %5.0f %8.1f |", name_of(pattern), n / 1e6, n / cpu_seconds / 1e6);
  for (const Gains& gains : of) gains.print(fastest);
  std::printf(" %7.2f |", (one.peak_bytes - constant) / touched(pattern, one.accesses));
  const double tsan_one = compared ? tsan_cpu(options.tsan, pattern, accesses, 1) : 0;
  if (tsan_one > 0) std::printf(" %9.1f %9.2f", n / tsan_one / 1e6, cpu_seconds / tsan_one);
  std::printf("%s\n", one.races ? "  RACES FOUND" : "");
  std::fflush(stdout);
}

void print_patterns(const Options& options) {
  const double constant = analysis(Pattern::tiled, 1, 1).peak_bytes;
  auto each_worker = [&](const char* format, auto&& value) {
    for (unsigned count : options.workers) std::printf(format, value(count));
  };
  std::printf("%-12s %5s %8s |", "", "M", "M/s");
  each_worker(" %14u |", [](unsigned count) { return count; });
  std::printf(" workers: times as fast; the fastest runs; of what as many analyses do that share nothing");
  auto machine = [&](const char* what, double (*gain)(unsigned)) {
    std::printf("\n%-28s|", what);
    each_worker(" %4.2f           |", [&](unsigned count) {
      std::vector<double> gains;
      for (unsigned round = 0; round < options.rounds; ++round) gains.push_back(gain(count));
      return median(std::move(gains));
    });
  };
  machine("machine: arithmetic", arithmetic_gain);
  machine("machine: pipelines", pipelines_gain);
  machine("machine: memory", memory_gain);
  std::printf(" %7s | %9s %9s\n", "bytes", "tsan M/s", "us:tsan");
  std::printf("%-28s|", "pattern, one worker");
  each_worker("%16s|", [](unsigned) { return ""; });
  std::printf(" %7s | %9s %9s\n", "a byte", "one core", "cpu");
  for (Pattern pattern : options.patterns) print_pattern(pattern, constant, options);
}

void print_growth(std::uint64_t largest) {
  std::printf("\nhow CPU time grows (tiled, 1 core)\n");
  double sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  int points = 0;
  for (double n = 1e6; n <= double(largest) * 1.01; n *= 10) {
    const Cost cost = analysis(Pattern::tiled, std::uint64_t(n), 1);
    std::printf("  %12llu accesses %9.3f s  %7.1f MB\n", static_cast<unsigned long long>(cost.accesses), cost.cpu,
                cost.peak_bytes / 1e6);
    std::fflush(stdout);
    const double x = std::log(double(cost.accesses)), y = std::log(cost.cpu);
    sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y;
    ++points;
  }
  if (points > 1) {
    std::printf("  exponent %.2f\n", (points * sum_xy - sum_x * sum_y) / (points * sum_xx - sum_x * sum_x));
  }
}

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  double largest;
  std::string profiled, written, memory, workers, processors, names;
  const std::string folder = std::string(argv[0]).substr(0, std::string(argv[0]).rfind('/') + 1);
  po::options_description known("analyzer_bench: what the analysis costs (its source says what is printed)");
  auto add = known.add_options();
  add("largest", po::value(&largest)->default_value(1e8, "1e8")->value_name("N"), "accesses of the largest run");
  add("workers", po::value(&workers)->default_value("2")->value_name("2,4"), "the numbers to try beside one");
  add("rounds", po::value(&options.rounds)->default_value(3)->value_name("R"), "of so many the medians");
  add("patterns", po::value(&names)->value_name("A,B"), "these alone");
  add("tsan", po::value(&options.tsan)->default_value(folder + "tsan_patterns")->value_name("PATH"),
      "the program with the same patterns, watched by ThreadSanitizer");
  add("profile", po::value(&profiled)->value_name("PATTERN"), "one run alone; machine: what that itself gives");
  add("jobs", po::value(&options.jobs)->default_value(1)->value_name("J"), "the workers of --profile");
  add("write", po::value(&written)->value_name("TRACE"), "no run: the accesses of --profile as a trace");
  add("memory", po::value(&memory)->value_name("PATTERN"), "what a byte touched costs; all: of every pattern");
  add("cpus", po::value(&processors)->value_name("0,2,4"), "J workers run on the first J of these");
  add("help", "this");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, known), given);
  po::notify(given);
  if (given.count("help")) {
    std::ostringstream text;
    text << known;
    std::fputs(text.str().c_str(), stdout);
    return 0;
  }
  if (!(largest >= 1 && largest <= 1e12)) throw std::invalid_argument("--largest: 1 to 1e12");
  options.largest = std::uint64_t(largest);
  if (options.rounds == 0 || options.jobs == 0) throw std::invalid_argument("--rounds, --jobs: at least 1");
  options.workers = listed(workers, count);
  if (!processors.empty()) cpus = listed(processors, number);
  options.patterns.assign(std::begin(patterns), std::end(patterns));
  if (!names.empty()) options.patterns = listed(names, pattern_named);

  if (memory == "all") {
    for (Pattern pattern : patterns) print_memory(pattern, options.largest);
  } else if (!memory.empty()) {
    print_memory(pattern_named(memory), options.largest);
  } else if (profiled == "machine") {
    print_machine(options);
  } else if (!profiled.empty() && !written.empty()) {
    return write_trace(pattern_named(profiled), options.largest, written);
  } else if (!profiled.empty()) {
    print_profile(pattern_named(profiled), options);
  } else {
    print_patterns(options);
    print_growth(options.largest);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "analyzer_bench: %s\n", error.what());
    return 2;
  }
}
