#include "replay/hardware/hardware.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "replay/hardware/capsule.h"
#include "replay/hardware/driver.h"
#include "replay/hardware/exchange.h"
#include "replay/search/temporary_directory.h"

extern char** environ;

namespace deadheat::hardware {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double seconds_to_start = 60; // the driver compiles the PTX
constexpr unsigned most_hangs = 3;
constexpr std::uint32_t delayed_runs = 4; // for each run of an order

Expected<pid_t> start_worker(const std::string& witness, const std::string& directory) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const std::string out = directory + "/stdout", err = directory + "/stderr";
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<std::string> words{"deadheat",          "replay",  "--device",  "gpu",
                                 "--hardware-worker", directory, "--witness", witness};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = 0;
  const int failed = posix_spawn(&process, "/proc/self/exe", &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed) return Error{"cannot start the worker process"};
  return process;
}

class Runs {
 public:
  Runs(const std::string& witness, const HardwareOptions& options, std::uint32_t last_operation, HardwareReport& report)
      : witness_(witness), options_(options), last_operation_(last_operation), report_(report) {}

  // Runs numbers [0, count) of `kinds`, with as many workers as it takes.
  Expected<void> phase(const std::vector<Kind>& kinds, std::uint64_t count) {
    Expected<search::TemporaryDirectory> directory = search::TemporaryDirectory::create();
    if (!directory) return directory.error();
    std::uint64_t next = 0;
    for (unsigned hangs = 0; next < count;) {
      const std::uint64_t before = next;
      if (Expected<void> ok = write_request(directory->path(), {options_.driver, kinds, next, count}); !ok) return ok;
      std::error_code ignored;
      std::filesystem::remove(directory->path() + "/runs", ignored);
      Expected<pid_t> worker = start_worker(witness_, directory->path());
      if (!worker) return worker.error();
      const int status = watch(*worker, directory->path());
      for (const RunLine& line : read_lines(directory->path())) {
        if (!line.error.empty()) return Error{line.error};
        if (!line.device.empty()) report_.device = line.device;
        if (!line.note.empty() && std::count(report_.notes.begin(), report_.notes.end(), line.note) == 0)
          report_.notes.push_back(line.note);
        if (!line.is_run) continue;
        next = line.number + 1;
        if (Expected<void> ok = count_run(line, directory->path()); !ok) return ok;
      }
      if (next == count || (status == 0 && next != before)) continue;
      RunLine line; // the one that did not end
      line.is_run = true;
      line.number = next;
      line.kind = kinds[next % kinds.size()];
      line.ending = status == timed_out ? search::Ending::hang : search::Ending::fault;
      line.ending_text =
          status == timed_out ? "no end within " + seconds(options_.seconds) : last_words(directory->path());
      search::Outputs none;
      none.ending = line.ending;
      none.ending_text = line.ending_text;
      line.digest = none.digest(last_operation_);
      if (Expected<void> ok = keep_outputs(directory->path(), line.digest, none); !ok) return ok;
      if (Expected<void> ok = count_run(line, directory->path()); !ok) return ok;
      ++next;
      if (++hangs == most_hangs) {
        report_.notes.push_back("stopped after " + std::to_string(hangs) + " runs that did not end");
        break;
      }
    }
    return {};
  }

  // What both orders gave most often: for the comparison. Null: that order was never had.
  const search::Outputs* most_frequent(Order order) const {
    auto seen = by_order_.find(order);
    if (seen == by_order_.end()) return nullptr;
    const std::string* best = nullptr;
    std::uint64_t most = 0;
    for (const auto& [digest, runs] : seen->second) {
      if (runs <= most) continue;
      most = runs;
      best = &digest;
    }
    return best ? &outputs_.at(*best) : nullptr;
  }

  // The order decides: something is the same in all runs of one order, and never so in the other's. What differs from
  // run to run anyhow (other races, memory that nobody wrote) does not count.
  bool order_decides() const {
    auto first = by_order_.find(Order::first_then_second), second = by_order_.find(Order::second_then_first);
    if (first == by_order_.end() || second == by_order_.end()) return false;
    const std::vector<const search::Outputs*> a = outputs_of(first->second), b = outputs_of(second->second);
    return set_apart(a, b) || set_apart(b, a);
  }

  void finish() {
    for (OrderRuns& order : report_.orders) {
      std::stable_sort(order.outputs.begin(), order.outputs.end(),
                       [](const SeenOutputs& a, const SeenOutputs& b) { return a.runs > b.runs; });
    }
  }

 private:
  static constexpr int timed_out = -1;

  static std::string seconds(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g s", value);
    return text;
  }

  static std::string last_words(const std::string& directory) {
    std::ifstream in(directory + "/stderr");
    std::string last;
    for (std::string line; std::getline(in, line);) {
      if (!line.empty()) last = line;
    }
    return last.empty() ? "the worker process died" : "the worker process died: " + last;
  }

  // Waits for the worker's end; ends it when it makes no progress. Its exit status, or timed_out.
  int watch(pid_t worker, const std::string& directory) const {
    std::size_t lines = 0;
    Clock::time_point since = Clock::now();
    double allowed = seconds_to_start + options_.seconds;
    for (;;) {
      int status = 0;
      if (waitpid(worker, &status, WNOHANG) == worker) return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
      std::error_code none;
      const std::size_t size = std::filesystem::file_size(directory + "/runs", none);
      if (!none && size != lines) {
        lines = size;
        since = Clock::now();
        allowed = options_.seconds;
      }
      if (std::chrono::duration<double>(Clock::now() - since).count() > allowed) {
        kill(worker, SIGKILL);
        waitpid(worker, &status, 0);
        return timed_out;
      }
      usleep(2000);
    }
  }

  std::vector<const search::Outputs*> outputs_of(const std::map<std::string, std::uint64_t>& digests) const {
    std::vector<const search::Outputs*> all;
    for (const auto& [digest, runs] : digests) all.push_back(&outputs_.at(digest));
    return all;
  }

  static bool same_shape(const search::Outputs& a, const search::Outputs& b) {
    if (a.ending != b.ending || a.outputs.size() != b.outputs.size()) return false;
    for (std::size_t n = 0; n < a.outputs.size(); ++n) {
      if (a.outputs[n].operation != b.outputs[n].operation || a.outputs[n].bytes.size() != b.outputs[n].bytes.size())
        return false;
    }
    return true;
  }

  // Whether something that all of `steady` share is in none of `others`.
  static bool set_apart(const std::vector<const search::Outputs*>& steady,
                        const std::vector<const search::Outputs*>& others) {
    const search::Outputs& one = *steady.front();
    for (const search::Outputs* outputs : steady) {
      if (!same_shape(one, *outputs)) return false;
    }
    std::vector<const search::Outputs*> alike; // the others that bytes can be compared with
    for (const search::Outputs* outputs : others) {
      if (same_shape(one, *outputs)) alike.push_back(outputs);
    }
    if (alike.empty()) return true;
    for (std::size_t n = 0; n < one.outputs.size(); ++n) {
      const std::vector<std::uint8_t>& bytes = one.outputs[n].bytes;
      for (std::size_t at = 0; at < bytes.size(); ++at) {
        auto has = [&](const search::Outputs* outputs) { return outputs->outputs[n].bytes[at] == bytes[at]; };
        if (std::all_of(steady.begin(), steady.end(), has) && std::none_of(alike.begin(), alike.end(), has))
          return true;
      }
    }
    return false;
  }

  Expected<void> count_run(const RunLine& line, const std::string& directory) {
    auto order = std::find_if(report_.orders.begin(), report_.orders.end(),
                              [&](const OrderRuns& known) { return known.kind == line.kind; });
    if (order == report_.orders.end()) {
      report_.orders.push_back({});
      order = std::prev(report_.orders.end());
      order->kind = line.kind;
    }
    ++order->runs;
    Order had = line.had;
    // Of a run that did not end well the turnstiles cannot be read: it was held as asked.
    if (line.ending != search::Ending::finished) {
      if (line.kind == Kind::first_then_second) had = Order::first_then_second;
      if (line.kind == Kind::second_then_first) had = Order::second_then_first;
    } else {
      order->unreached += !line.reached;
    }
    order->had_first += had == Order::first_then_second;
    order->had_second += had == Order::second_then_first;
    order->gave_up += line.gave_up;
    auto seen = std::find_if(order->outputs.begin(), order->outputs.end(),
                             [&](const SeenOutputs& known) { return known.digest == line.digest; });
    if (seen == order->outputs.end()) {
      SeenOutputs outputs{line.digest, 0, 0, {}};
      if (line.digest == report_.digest_a) outputs.like = 'a';
      if (line.digest == report_.digest_b) outputs.like = 'b';
      if (line.ending != search::Ending::finished) outputs.ending = line.ending_text;
      order->outputs.push_back(outputs);
      seen = std::prev(order->outputs.end());
    }
    ++seen->runs;
    if (!outputs_.count(line.digest)) {
      Expected<search::Outputs> outputs = kept_outputs(directory, line.digest);
      if (!outputs) return outputs.error();
      std::erase_if(outputs->outputs, [&](const search::Output& o) { return o.operation > last_operation_; });
      outputs_.emplace(line.digest, *std::move(outputs));
    }
    ++by_order_[had][line.digest];
    return {};
  }

  const std::string& witness_;
  const HardwareOptions& options_;
  std::uint32_t last_operation_;
  HardwareReport& report_;
  std::map<std::string, search::Outputs> outputs_; // by digest
  std::map<Order, std::map<std::string, std::uint64_t>> by_order_; // runs by digest
};

} // namespace

namespace {

// Why the hardware did not show what the embedded device did.
std::string why_not(const HardwareReport& report) {
  std::uint64_t first = 0, second = 0, gave_up = 0, unreached = 0;
  for (const OrderRuns& order : report.orders) {
    first += order.had_first;
    second += order.had_second;
    gave_up += order.gave_up;
    unreached += order.unreached;
  }
  if (first && second) return "both orders were had, and nothing in the outputs tells them apart";
  const char* missing = first ? "the second access never came first" : "the first access never came first";
  if (!first && !second) missing = "neither order was had for certain";
  std::string why = missing;
  if (gave_up) {
    why +=
        ": while one access was held back the other was not reached, something that follows the held one in its "
        "thread or warp comes before it; where the witness shows a write late (weak memory), no order can";
  } else if (unreached) {
    why += ": an access was not executed";
  }
  return why;
}

} // namespace

const char* name(Kind kind) {
  static constexpr const char* names[] = {"free", "first-then-second", "second-then-first", "delayed"};
  return names[std::size_t(kind)];
}

Expected<HardwareReport> replay_on_gpu(const std::string& file, const HardwareOptions& options) {
  Expected<Capsule> capsule = Capsule::open(file);
  if (!capsule) return capsule.error();
  const search::Witness& witness = capsule->witness();
  if (Expected<Driver> driver = Driver::open(options.driver); !driver) return driver.error();

  HardwareReport report;
  report.witness = file;
  report.driver = options.driver;
  report.race = witness.race;
  const Plan plan = make_plan(*capsule);
  report.means = plan.means;
  report.out_of_reach = plan.out_of_reach;
  report.digest_a = witness.digest_a;
  report.digest_b = witness.digest_b;
  if (!report.out_of_reach.empty()) return report;

  Runs runs(file, options, witness.last_operation, report);
  if (plan.means != Means::delays) {
    const std::vector<Kind> kinds{Kind::free, Kind::first_then_second, Kind::second_then_first};
    if (Expected<void> ok = runs.phase(kinds, kinds.size() * options.runs); !ok) return ok.error();
  }
  if (plan.means != Means::gates && !runs.order_decides()) {
    if (Expected<void> ok = runs.phase({Kind::delayed}, std::uint64_t(delayed_runs) * options.runs); !ok)
      return ok.error();
    report.means = Means::delays;
  }
  runs.finish();
  report.shown = runs.order_decides();
  if (!report.shown) report.why_not = why_not(report);
  if (report.shown) {
    search::ValueTypes types;
    for (const trace::Record& command : capsule->commands()) {
      if (auto* allocation = std::get_if<trace::Allocate>(&command)) types.allocated(*allocation);
    }
    for (const auto& [allocation, type] : witness.value_types) types.tell(allocation, type);
    report.differences = search::compare(*runs.most_frequent(Order::first_then_second),
                                         *runs.most_frequent(Order::second_then_first), &types)
                             .differences;
  }
  return report;
}

} // namespace deadheat::hardware
