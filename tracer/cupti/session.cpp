#include "tracer/cupti/session.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>

#include "tracer/cupti/activity.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/layers.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/process.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/rings.h"
#include "tracer/cupti/thread.h"
#include "tracer/cupti/window.h"
#include "tracer/recorder/standard_error.h"
#include "tracer/recorder/this_process.h"

namespace deadheat::cupti {

void say(const std::string& line) { trace::say(line); }

void say_once(const std::string& line) {
  static std::mutex lock;
  static std::set<std::string>& said = *new std::set<std::string>;
  {
    std::lock_guard hold(lock);
    if (said.size() > 100 || !said.insert(line).second) return;
  }
  say(line);
}

Session::~Session() = default;
Session::Session(TracerOptions options)
    : options_(std::move(options)),
      modules_(std::make_unique<Modules>(*this)),
      recorder_(std::make_unique<Recorder>(*this)) {}

bool Session::start() {
  constexpr const char* not_named = "*"; // what the options' text says stands behind it, and wins
  const char* text = std::getenv("DEADHEAT_OPTIONS");
  Expected<TracerOptions> options = parse_options(std::string("output=") + not_named + ":" + (text ? text : ""));
  if (!options) {
    say("nothing is recorded: " + options.error().message());
    return false;
  }
  if (options->output.empty()) return false;
  const bool named = options->output != not_named;
  const std::string chosen = named ? std::string() : chosen_output();
  if (!named) options->output = literal_name(chosen);
  if (options->capture_range != "none" && options->capture_range != "cudaProfilerApi" &&
      options->capture_range.rfind("nvtx=", 0) != 0) {
    say("nothing is recorded: unknown capture range '" + options->capture_range +
        "' (none, cudaProfilerApi or nvtx=NAME)");
    return false;
  }
  std::string why;
  if (!load_driver(why) || !load_cupti(options->cupti, why)) {
    say("nothing is recorded: " + why);
    return false;
  }
  // A child has none of the threads that may hold locks of the session: nothing here is to be called in it.
  pthread_atfork(nullptr, nullptr, [] {
    hot.layers = unsigned(Layer::nothing);
    hot.session.store(nullptr);
  });
  auto* session = new Session(std::move(*options));  // never destroyed
  session->process_ = int(getpid());
  if (session->options_.window && session->options_.accesses) session->window_ = std::make_unique<Window>(*session);
  // Without these, nothing tells what kernels are given that host and device reach.
  const bool tells = driver().cuFuncGetParamInfo && driver().cuKernelGetParamInfo; // drivers from 12.4 on
  if (session->options_.host_writes && tells) session->host_writes_ = std::make_unique<HostWrites>(*session);
  if (Expected<void> opened = session->open(); !opened) {
    say("nothing is recorded: " + opened.error().message());
    return false;
  }
  hot.session.store(session, std::memory_order_release);
  if (!subscribe(session->options_.timestamps, why)) {
    hot.session.store(nullptr, std::memory_order_release);
    say("nothing is recorded: " + why);
    session->incident("untraced", why);
    session->finish(0, false);
    return false;
  }
  if (session->window_) session->window_->start();
  if (session->options_.timestamps) {
    session->activity_ = std::make_unique<Activity>();
    if (!session->activity_->start()) {
      say("CUPTI gives no timestamps");
      session->incident("timestamps", "CUPTI gave no timestamps");
      session->activity_.release();  // it may have been told of already
    }
  }
  session->recorder_->start();
  if (!named) say("records to " + chosen + " (DEADHEAT_OPTIONS=output=NAME for another)");
  return true;
}

Expected<void> Session::open() {
  Expected<std::string> output = expand_name(options_.output);
  if (!output) return output.error();
  trace::Process process = trace::this_process("gpu");
  process.seed = options_.seed;
  trace::WriterOptions settings;
  settings.on_error = [this](const Error& error) {
    if (!said_error_.exchange(true)) say(error.message());
  };
  Expected<std::unique_ptr<trace::TraceWriter>> writer =
      trace::TraceWriter::create(*output, std::move(process), std::move(settings));
  if (!writer) return writer.error();
  writer_ = std::move(*writer);
  journal_.may_hold(std::clamp<std::uint64_t>(options_.budget, 1, 1024) << 20);
  return {};
}

void Session::finish(int status, bool clean) noexcept {
  if (process_ != int(getpid()) || finished_.exchange(true)) return;
  finishing_ = int(syscall(SYS_gettid));
  works_here();
  finish_once(status, clean);
  ended_ = true;
}

void Session::finish_once(int status, bool clean) noexcept {
  try {
    Own own; // what is called here is nobody's
    if (host_writes_) host_writes_->stop(); // the memory may go with the driver
    if (clean) recorder_->stop();
    if (window_) window_->finish();
    journal_.close(); // other threads may go on for ever
    journal_.pump(*writer_, true);
    // Launchers of jobs (torchrun) look at the devices, and leave the work to other processes.
    if (clean && did_nothing() && (options_.output.find('%') != std::string::npos || others_in_trace())) {
      writer_->discard();
      return;
    }
    write_incidents();
    if (activity_) activity_->write(*writer_, clean);
    if (Expected<void> done = writer_->finish(status, clean); !done && !said_error_.exchange(true)) {
      say(done.error().message());
    }
  } catch (...) {
  }
}

void Session::works_here() noexcept {
  clockid_t clock{};
  if (pthread_getcpuclockid(pthread_self(), &clock) == 0) headway_ = clock;
}

void Session::leave(int status) noexcept { finish_elsewhere(status, 5000); }

void Session::exits(int status) noexcept {
  if (!here.own_calls) recorder_->wake();
  finish_elsewhere(status, 10'000);
}

bool Session::Headway::made() {
  timespec now{};
  clock_gettime(session_.headway_, &now);
  const bool worked_on = now.tv_sec != worked_.tv_sec || now.tv_nsec != worked_.tv_nsec;
  const bool in_driver = (Rings::asked() & 1) && Rings::asked() == asked_; // which may wait actively
  worked_ = now;
  asked_ = Rings::asked();
  return worked_on && !in_driver;
}

// Called in handlers of signals: no locks, no memory, unless there is no thread that could finish (Recorder::start),
// and this one was not interrupted in what it does here.
void Session::finish_elsewhere(int status, int most_idle) noexcept {
  constexpr timespec step{0, 1'000'000};
  constexpr int most = 600'000;  // steps
  if (process_ != int(getpid()) || finishing_ == int(syscall(SYS_gettid))) return;
  if (!finished_ && !recorder_->finish_there(status)) {
    if (!here.own_calls) finish(status, true);
    return;
  }
  Headway headway(*this);
  for (int steps = 0, idle = 0; !ended_ && idle < most_idle && steps < most; ++steps) {
    nanosleep(&step, nullptr);
    idle = headway.made() ? 0 : idle + 1;
  }
  if (ended_ || said_cut_off_.exchange(true)) return;
  constexpr char line[] =
      "deadheat: the trace is cut off: whoever writes it gets no further, and the job does not wait for it\n";
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) && !(ready.revents & POLLERR))
    (void)!::write(STDERR_FILENO, line, sizeof line - 1);
}

std::uint64_t Session::spare_memory(CUcontext context) {
  return recorder_->spare_memory(context) + (window_ ? window_->spare_memory(context) : 0);
}

bool Session::give_back_memory(CUcontext context) {
  return recorder_->give_back_memory(context) || (window_ && window_->give_back_memory(context));
}

bool Session::did_nothing() {
  std::lock_guard hold(lock);
  return next_operation_ == 1 && incidents_.empty();
}

bool Session::others_in_trace() const {
  std::error_code error;
  std::size_t logs = 0;  // those that are not finished too
  for (const auto& entry : std::filesystem::directory_iterator(writer_->directory(), error)) {
    logs += entry.path().filename().string().find(trace::log_suffix) != std::string::npos;
  }
  return !error && logs > 1;
}

void Session::incident(const std::string& kind, const std::string& text, std::uint64_t times) {
  std::lock_guard hold(lock);
  Count& count = incidents_[kind + '\n' + text];
  count.text = text;
  count.count += times;
}

void Session::cut_off(const std::string& why) {
  if (cut_off_.exchange(true)) return;
  journal_.close();
  say(why);
  if (window_) window_->spoil(why);
  incident("lost", why);
}

[[gnu::cold]] void Session::call_not_recorded() noexcept {
  try {
    if (window_) window_->spoil("a call in it could not be recorded");
    if (host_writes_) host_writes_->stop();
    incident("lost", "a call could not be recorded");
  } catch (...) {
  }
}

void Session::write_incidents() {
  std::lock_guard hold(lock);
  for (const auto& [key, count] : incidents_) {
    writer_->write(trace::Incident{key.substr(0, key.find('\n')), count.count, count.text});
  }
  incidents_.clear();
}

std::uint32_t Session::first_host_thread() {
  static std::atomic<std::uint32_t> next{1};
  return here.number = next++;
}

}  // namespace deadheat::cupti
