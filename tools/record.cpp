// deadheat record: runs a command with the recording library preloaded.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <regex>

#include "deadheat/profile.h"
#include "tools/command.h"
#include "tracer/ptx/fatbin.h"
#include "tracer/ptx/static_runtime.h"
#include "tracer/recorder/files.h"

namespace deadheat::tools {

namespace po = boost::program_options;
namespace fs = std::filesystem;

fs::path own_directory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

namespace {

const char* const usage =
    "usage: deadheat record [OPTIONS] -- COMMAND...\n\n"
    "Runs COMMAND and records its GPU work: launches, streams, every shared and global access. Its output and exit\n"
    "status stay its own.\n";

// The preloaded runtime, beside the command in a build tree (../lib) or an installation (../lib/deadheat).
Expected<fs::path> find_library(const char* name, const char* hint) {
  for (const char* place : {"../lib", "../lib/deadheat", "."}) {
    std::error_code error;
    fs::path path = fs::weakly_canonical(own_directory() / place / name, error);
    if (!error && fs::exists(path, error)) return path;
  }
  return Error{std::string("cannot find ") + name, own_directory().string(), hint};
}

// The file that execvp would run.
Expected<std::string> resolve(const std::string& program) {
  std::error_code error;
  if (program.find('/') != std::string::npos) {
    if (!fs::exists(program, error)) return Error{"no such program", program};
    if (fs::is_directory(program, error)) return Error{"is a directory, not a program", program};
    if (access(program.c_str(), X_OK) != 0)
      return Error{"is not executable", program, "chmod +x, or name what runs it"};
    return program;
  }
  const char* path = getenv("PATH");
  std::string directories = path ? path : "/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= directories.size();) {
    std::size_t end = std::min(directories.find(':', begin), directories.size());
    std::string file = directories.substr(begin, end - begin) + "/" + program;
    if (access(file.c_str(), X_OK) == 0 && !fs::is_directory(file, error)) return file;
    begin = end + 1;
  }
  return Error{"no such program", program};
}

// That the runtime will be able to make the directory: tried, and undone, before the program runs.
Expected<void> can_make(const fs::path& directory) {
  std::error_code error, ignored;
  fs::path made = directory; // the first directory that is not there yet
  while (made.has_relative_path() && !fs::exists(made.parent_path(), ignored)) made = made.parent_path();
  fs::create_directories(directory, error);
  if (!error && access(directory.c_str(), W_OK | X_OK) != 0) error.assign(errno, std::generic_category());
  fs::remove_all(made, ignored);
  if (error) return Error{"cannot make the trace directory: " + error.message(), directory.string()};
  return {};
}

Expected<std::string> trace_directory(const std::string& wanted) {
  std::error_code error;
  if (!wanted.empty()) {
    if (wanted.find(':') != std::string::npos) return Error{"a trace's name cannot hold a colon", wanted};
    if (fs::exists(wanted, error)) {
      return Error{"already exists", wanted, "choose another name with -o, or remove it"};
    }
    return fs::absolute(wanted).string();
  }
  return trace::unused_trace_name();
}

bool has_gpu() { return access("/dev/nvidiactl", R_OK) == 0; }

// An environment variable for as long as a command runs.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  static std::string with(const char* name, const std::string& first, const char* separator) {
    const char* others = getenv(name);
    return first + (others && *others ? separator + std::string(others) : "");
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

volatile sig_atomic_t child_pid = 0;
void forward(int number) {
  if (child_pid > 0) kill(child_pid, number);
}

// Signals are the command's while it runs; afterwards they mean what they meant before, to whoever goes on.
class Forwarding {
 public:
  explicit Forwarding(pid_t to) {
    child_pid = to;
    struct sigaction forwarding = {};
    forwarding.sa_handler = forward;
    sigemptyset(&forwarding.sa_mask);
    forwarding.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &forwarding, &before_[i]);
  }
  ~Forwarding() {
    child_pid = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &before_[i], nullptr);
  }
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;

 private:
  static constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, numbers.size()> before_;
};

// Runs `command` and waits for it: its exit status, 128 + signal when a signal ended it.
Expected<int> run(const std::string& file, const Arguments& command, bool standard_output_to_error) {
  int failure[2]; // carries errno back when exec fails
  if (pipe2(failure, O_CLOEXEC) != 0) return Error{std::string("pipe: ") + strerror(errno)};
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = fork();
  if (pid < 0) return Error{std::string("fork: ") + strerror(errno)};
  if (pid == 0) {
    if (standard_output_to_error) dup2(STDERR_FILENO, STDOUT_FILENO);
    execv(file.c_str(), words.data());
    int error = errno;
    [[maybe_unused]] ssize_t written = write(failure[1], &error, sizeof error);
    _exit(127);
  }
  const Forwarding forwarding(pid);
  close(failure[1]);
  int exec_error = 0;
  bool failed = read(failure[0], &exec_error, sizeof exec_error) == sizeof exec_error;
  close(failure[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (failed) return Error{strerror(exec_error), file};
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace

po::options_description record_options(RecordOptions& options) {
  const std::string capabilities =
      "compute capability that the embedded device says it has, where code is for others than 9.0: " +
      known_capabilities();
  po::options_description description("Recording");
  description.add_options()("output,o", po::value(&options.output), "trace directory (default: run.deadheat)")(
      "device", po::value(&options.device)->default_value("auto"), "auto, gpu or embedded")(
      "kernel", po::value(&options.kernel),
      "record the accesses of kernels whose name matches this regular expression")(
      "launch-skip", po::value(&options.launch_skip)->default_value(0), "of those, skip the first N launches")(
      "launch-count", po::value(&options.launch_count)->default_value(0), "and record N (0: all)")(
      "operations", po::bool_switch()->notifier([&options](bool only) { options.accesses = !only; }),
      "record operations only: launches, copies, streams, no accesses")(
      "capture-range", po::value(&options.capture_range)->default_value("none"),
      "accesses of launches in a range only: none, cudaProfilerApi (from cudaProfilerStart to cudaProfilerStop) or "
      "nvtx:NAME (GPU)")("budget", po::value(&options.budget)->default_value(0),
                         "MiB of accesses after which their recording ends (GPU; 0: 8192)")(
      "assemble", po::value(&options.assemble)->default_value(options.assemble),
      "seconds that assembling a module's instrumented code may take; costlier kernels are not recorded (GPU; 0: any)")(
      "window", po::bool_switch(&options.window),
      "keep what it takes to replay the capture range, or the whole run (GPU; check always does)")(
      "timestamps", po::bool_switch(&options.timestamps), "record when each operation ran on the device (GPU)")(
      "no-host-writes", po::bool_switch()->notifier([&options](bool none) { options.host_writes = !none; }),
      "do not look for what the host writes into page-locked memory while a copy may still read it (GPU)")(
      "seed", po::value(&options.seed)->default_value(1), "seed of the embedded device's choices")(
      "capability", po::value(&options.capability), capabilities.c_str())(
      "leak-check", po::bool_switch(&options.leak_check), "report memory that is never freed (embedded device)");
  return description;
}

Expected<Recorded> record(const RecordOptions& options, const Arguments& command, bool standard_output_to_error) {
  if (options.device != "auto" && options.device != "gpu" && options.device != "embedded") {
    return Error{"unknown device '" + options.device + "'", "", "auto, gpu or embedded"};
  }
  if (!options.capability.empty() && !profile_of(options.capability))
    return Error{"no embedded device of compute capability '" + options.capability + "'", "--capability",
                 known_capabilities()};
  const bool nvtx =
      options.capture_range.rfind("nvtx:", 0) == 0 && options.capture_range.find(':', 5) == std::string::npos;
  if (options.capture_range != "none" && options.capture_range != "cudaProfilerApi" && !nvtx) {
    return Error{"unknown capture range '" + options.capture_range + "'", "--capture-range",
                 "none, cudaProfilerApi or nvtx:NAME (a name without colons)"};
  }
  if (options.kernel.find(':') != std::string::npos) {
    return Error{"a kernel pattern cannot hold a colon", options.kernel, "use '.' in its place"};
  }
  try {
    std::regex pattern(options.kernel);
  } catch (const std::regex_error&) {
    return Error{"'" + options.kernel + "' is not a regular expression", "--kernel"};
  }
  Expected<std::string> file = resolve(command[0]);
  if (!file) return file.error();
  Expected<fs::path> tracer = find_library("libdeadheat.so", "install the CUDA 13 toolkit with CUPTI, and build again");
  const bool on_gpu = options.device == "gpu" || (options.device == "auto" && has_gpu() && tracer.has_value());
  if (on_gpu && !tracer) return tracer.error();
  if (on_gpu && !options.capability.empty())
    return Error{"a GPU has the compute capability that it has", "--capability", "use --device embedded"};
  if (on_gpu && !has_gpu()) return Error{"this machine has no NVIDIA GPU", "--device gpu", "use --device embedded"};
  if (options.device == "auto" && has_gpu() && !on_gpu) {
    say("recording on the embedded device, although there is a GPU: recording on a GPU is not part of this build");
  }
  if (!on_gpu && ptx::links_cudart_statically(*file)) {
    const ptx::StaticRuntime runtime = ptx::static_runtime(*file);
    if (runtime.functions.empty() || !runtime.of_13) {
      const char* why = runtime.functions.empty() ? "it was stripped of its symbols" : "it is not of CUDA 13";
      return Error{std::string("links the CUDA runtime statically, which cannot be replaced: ") + why, *file,
                   "build it with NVCC_APPEND_FLAGS='-cudart shared'"};
    }
  }
  Expected<std::string> trace = trace_directory(options.output);
  if (!trace) return trace.error();
  if (Expected<void> possible = can_make(*trace); !possible) return possible.error();
  Expected<fs::path> library =
      on_gpu
          ? *tracer
          : find_library("libcudart.so.13", "it is built with LLVM 19 and a CUDA toolkit: apt-get install llvm-19-dev");
  if (!library) return library.error();
  // The driver, for who is linked with it or asks for it: by the name libcuda.so it is found by the path alone.
  std::string preloaded = library->string();
  const fs::path driver = library->parent_path() / "libcuda.so.1";
  const fs::path within = library->parent_path() / "libdeadheat_static.so"; // for who has the runtime in itself
  for (const fs::path& beside : {driver, within}) {
    if (std::error_code error; !on_gpu && fs::exists(beside, error)) preloaded += ":" + beside.string();
  }

  std::string settings = "output=" + *trace + ":seed=" + std::to_string(options.seed);
  if (on_gpu) settings += ":device=gpu";
  if (!on_gpu && !options.capability.empty()) settings += ":capability=" + options.capability;
  if (options.leak_check) settings += ":leak-check=1";
  if (!options.kernel.empty()) settings += ":kernel=" + options.kernel;
  if (options.launch_skip) settings += ":launch-skip=" + std::to_string(options.launch_skip);
  if (options.launch_count) settings += ":launch-count=" + std::to_string(options.launch_count);
  if (!options.accesses) settings += ":accesses=0";
  if (nvtx)
    settings += ":capture-range=nvtx=" + options.capture_range.substr(5);
  else if (options.capture_range != "none")
    settings += ":capture-range=" + options.capture_range;
  if (on_gpu && options.assemble != RecordOptions{}.assemble)
    settings += ":assemble=" + std::to_string(options.assemble);
  if (on_gpu && options.window) settings += ":window=1";
  if (on_gpu && options.timestamps) settings += ":timestamps=1";
  if (on_gpu && !options.host_writes) settings += ":host-writes=0";
  if (options.budget) settings += ":budget=" + std::to_string(options.budget);
  Environment recording("DEADHEAT_OPTIONS", settings);
  Environment preload("LD_PRELOAD", Environment::with("LD_PRELOAD", preloaded, ":"));
  // A program of its own AddressSanitizer's refuses to run where another library comes before that.
  Environment sanitizer("ASAN_OPTIONS", Environment::with("ASAN_OPTIONS", "verify_asan_link_order=0", ":"));
  // Machine code that an earlier run compiled says nothing of its PTX: CuPy and PyTorch compile theirs anew.
  Environment in_memory("CUPY_CACHE_IN_MEMORY", "1"), uncached("USE_PYTORCH_KERNEL_CACHE", "0");
  std::optional<Environment> injection, path;
  if (!on_gpu)
    path.emplace("LD_LIBRARY_PATH", Environment::with("LD_LIBRARY_PATH", library->parent_path().string(), ":"));
  if (on_gpu) injection.emplace("CUDA_INJECTION64_PATH", library->string());

  Expected<int> status = run(*file, command, standard_output_to_error);
  if (!status) return status.error();
  return Recorded{*trace, *status, on_gpu};
}

int run_record(const Arguments& arguments) {
  SplitCommand split = split_command(arguments);
  RecordOptions options;
  po::options_description description = record_options(options);
  po::variables_map values;
  int status = 0;
  if (!parse(split.options, usage, description, {}, values, status)) return status;
  if (split.command.empty()) return fail("no command to record (deadheat record [OPTIONS] -- COMMAND...)");
  Expected<Recorded> recorded = record(options, split.command, false);
  if (!recorded) return fail(recorded.error());
  signal(SIGPIPE, SIG_IGN); // the exit status is the command's, whether or not somebody reads what follows
  std::error_code error;
  if (fs::exists(recorded->trace, error)) {
    say("recorded " + recorded->trace);
  } else {
    say("nothing recorded: '" + split.command[0] + "' made no CUDA call");
  }
  return recorded->status;
}

} // namespace deadheat::tools
