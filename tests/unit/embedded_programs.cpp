// CUDA programs (embedded/*.cu) under the embedded runtime: what they print, how they end, what they leave behind.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "embedded_support.h"
#include "tracer/recorder/describe.h"
#include "tracer/recorder/reader.h"

namespace deadheat::embedded_test {

namespace fs = std::filesystem;

std::vector<std::string> Ran::error_lines() const {
  std::vector<std::string> lines;
  std::istringstream text(errors);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string scratch(const std::string& name) {
  struct Directory {
    fs::path path = fs::temp_directory_path() / ("deadheat-embedded-" + std::to_string(getpid()));
    const pid_t owner = getpid();
    Directory() { fs::create_directories(path); }
    ~Directory() {
      std::error_code error;
      if (getpid() == owner) fs::remove_all(path, error);
    }
  };
  static Directory directory;
  return (directory.path / name).string();
}

static std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Ran run(const std::string& program, const std::vector<std::string>& arguments, const std::string& settings,
        const std::vector<std::string>& environment, bool preload) {
  static int number = 0;
  const std::string out = scratch("out" + std::to_string(++number)), err = scratch("err" + std::to_string(number));
  const std::string file = EMBEDDED_PROGRAMS + program;
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(out.c_str(), "w", stdout) || !freopen(err.c_str(), "w", stderr)) _exit(126);
    setenv("DEADHEAT_OPTIONS", settings.c_str(), 1);
    if (preload) setenv("LD_PRELOAD", EMBEDDED_LIBRARY, 1);
    for (const std::string& setting : environment) putenv(strdup(setting.c_str()));
    std::vector<char*> words{const_cast<char*>(file.c_str())};
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    alarm(240);
    execv(file.c_str(), words.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), text_of(out), text_of(err)};
}

namespace {

// The records of a trace with one log.
std::vector<trace::Record> records_of(const std::string& directory, bool complete = true) {
  std::vector<trace::Record> records;
  Expected<trace::TraceReader> reader = trace::TraceReader::open(directory);
  EXPECT_TRUE(reader) << (reader ? "" : reader.error().message());
  if (!reader) return records;
  EXPECT_EQ(reader->logs().size(), 1u);
  Expected<trace::LogReader> log = reader->open_log(0);
  EXPECT_TRUE(log) << (log ? "" : log.error().message());
  if (!log) return records;
  for (trace::Record record; log->next(record);) records.push_back(record);
  EXPECT_EQ(log->complete(), complete);
  return records;
}

template <class T>
std::vector<T> all(const std::vector<trace::Record>& records) {
  std::vector<T> found;
  for (const trace::Record& record : records) {
    if (const T* value = std::get_if<T>(&record)) found.push_back(*value);
  }
  return found;
}

void expect_left(const Ran& ran, const std::string& output) {
  EXPECT_EQ(ran.output, output);
  EXPECT_EQ(ran.errors, "");
  EXPECT_EQ(ran.status, 7);
}

struct Case {
  const char* name;
  const char* output;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Prints : public testing::TestWithParam<Case> {};
TEST_P(Prints, WhatItComputed) {
  for (const char* options : {"", "check=0"}) {
    const Ran ran = run("programs", {GetParam().name}, options);
    EXPECT_EQ(ran.output, GetParam().output) << options;
    EXPECT_EQ(ran.errors, "") << options;
    EXPECT_EQ(ran.status, 0) << options;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Embedded, Prints,
    testing::Values(Case{"vector_add", "1.4985e+06\n"}, Case{"streams", "125798400 waited 1 elapsed 0.06\n"},
                    Case{"symbols", "42 10 2 6 101 8 0\n"}, Case{"copies", "0 3 -1 59\n12 15\n2\n"},
                    Case{"graphs", "5 6 60 60\n"},
                    Case{"callbacks", "callback one: cudaErrorNotPermitted\nstream callback two: 0\ndone\n"},
                    Case{"memory", "40 1310 0\n1\n"}, Case{"launches", "40959\n25\n77\n_Z4fillPiii\n"},
                    Case{"two_threads", "19 20 0\n"}, Case{"default_stream", "1 2 legacy\n"},
                    Case{"spin_on_stream", "3\n"}, Case{"destructor", "destructor cudaSuccess\n"},
                    Case{"forked", "child cudaErrorInitializationError\nparent 8 0\n"},
                    Case{"forked_early", "child 5\nparent 8 3\n"}, Case{"cancelled", "5\n"},
                    Case{"broken_pipe", "cudaErrorNotSupported\ncudaErrorNotSupported\ncudaErrorNotSupported\n"},
                    Case{"error_number", "0\n"}, Case{"other_thread_answers", "6\n"},
                    Case{"hello", "hello from 0\nhello from 1\n"}, Case{"attributes", "9.0 132 264 1024 8\n"},
                    Case{"nothing", ""}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Embedded, RecordsWhatAProgramDoes) {
  const std::string trace = scratch("vector_add.deadheat");
  const Ran ran = run("programs", {"vector_add"}, "output=" + trace + ":seed=5");
  EXPECT_EQ(ran.output, "1.4985e+06\n");
  EXPECT_EQ(ran.errors, "");
  const std::vector<trace::Record> records = records_of(trace);
  ASSERT_EQ(all<trace::Process>(records).size(), 1u);
  const trace::Process process = all<trace::Process>(records)[0];
  EXPECT_EQ(process.device_kind, "embedded");
  EXPECT_EQ(process.seed, 5u);
  ASSERT_EQ(process.command.size(), 2u);
  EXPECT_EQ(process.command[1], "vector_add");
  EXPECT_EQ(all<trace::Device>(records).size(), 1u);
  EXPECT_EQ(all<trace::Module>(records).size(), 1u);
  unsigned launches = 0, copies = 0;
  for (const trace::Operation& operation : all<trace::Operation>(records)) {
    if (const auto* launch = std::get_if<trace::Launch>(&operation.what)) {
      ++launches;
      EXPECT_EQ(launch->kernel, "_Z3addPKfS0_Pfi");
      EXPECT_EQ(launch->grid, (Dim3{4, 1, 1}));
      EXPECT_EQ(launch->arguments.size, 28u);
      EXPECT_TRUE(launch->instrumented);
      EXPECT_NE(operation.call_site.find("(vector_add())"), std::string::npos) << operation.call_site;
    }
    if (const auto* copy = std::get_if<trace::Copy>(&operation.what)) {
      ++copies;
      EXPECT_EQ(copy->api, "cudaMemcpy");
    }
  }
  EXPECT_EQ(launches, 1u);
  EXPECT_EQ(copies, 3u);
  std::uint64_t lanes = 0;
  for (const trace::Access& access : all<trace::Access>(records)) lanes += std::popcount(access.mask);
  EXPECT_EQ(lanes, 3000u); // two reads and a write for each of 1000 elements
  ASSERT_EQ(all<trace::ProgramEnd>(records).size(), 1u);
  EXPECT_TRUE(all<trace::ProgramEnd>(records)[0].clean);
}

TEST(Embedded, NodesAreNamedByTheCallThatAddedThem) {
  const std::string trace = scratch("by_hand");
  EXPECT_EQ(run("programs", {"run_by_hand"}, "output=" + trace).output, "3\n");
  unsigned launches = 0;
  for (const trace::Operation& operation : all<trace::Operation>(records_of(trace))) {
    if (!std::holds_alternative<trace::Launch>(operation.what)) continue;
    ++launches;
    EXPECT_NE(operation.call_site.find("(graph_by_hand(int*))"), std::string::npos) << operation.call_site;
  }
  EXPECT_EQ(launches, 1u);
}

TEST(Embedded, CallsAreNamedByTheirLine) {
  const std::string trace = scratch("lines");
  EXPECT_EQ(run("debug", {"graphs"}, "output=" + trace).status, 0);
  std::vector<std::string> fills;
  for (const trace::Operation& operation : all<trace::Operation>(records_of(trace))) {
    const auto* launch = std::get_if<trace::Launch>(&operation.what);
    if (launch && launch->kernel == "_Z4fillPiii") fills.push_back(operation.call_site);
  }
  ASSERT_EQ(fills.size(), 6u);
  EXPECT_NE(fills[0].find("programs.cu:"), std::string::npos) << fills[0];
  EXPECT_NE(fills[0], fills[1]);
  EXPECT_EQ(fills[0], fills[2]); // of the launch that was captured, each time that the graph runs
}

TEST(Embedded, SameSeedSameTrace) {
  std::vector<std::string> texts[2];
  for (int i = 0; i < 2; ++i) {
    const std::string trace = scratch("same" + std::to_string(i));
    EXPECT_EQ(run("programs", {"streams"}, "output=" + trace).status, 0);
    for (const trace::Record& record : records_of(trace)) {
      if (!std::holds_alternative<trace::Process>(record)) texts[i].push_back(trace::describe(record));
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_GT(texts[0].size(), 100u);
}

TEST(Embedded, LaunchesArePickedByNameAndNumber) {
  const std::string trace = scratch("picked");
  EXPECT_EQ(run("programs", {"two_threads"}, "output=" + trace + ":kernel=fil+\\(:launch-skip=3:launch-count=2").status,
            0);
  unsigned instrumented = 0;
  for (const trace::Operation& operation : all<trace::Operation>(records_of(trace))) {
    const auto* launch = std::get_if<trace::Launch>(&operation.what);
    instrumented += launch && launch->instrumented;
  }
  EXPECT_EQ(instrumented, 2u);
}

TEST(Embedded, PerThreadDefaultStreams) {
  const std::string trace = scratch("per_thread");
  const Ran ran = run("per_thread", {"default_stream"}, "output=" + trace);
  EXPECT_EQ(ran.output, "1 2 own\n");
  const auto streams = all<trace::StreamCreate>(records_of(trace));
  EXPECT_GE(std::count_if(streams.begin(), streams.end(),
                          [](const auto& s) { return s.kind == trace::StreamCreate::Kind::per_thread; }),
            2);
}

TEST(Embedded, GraphLaunchesAreInTheTrace) {
  const std::string trace = scratch("graphs");
  EXPECT_EQ(run("programs", {"graphs"}, "output=" + trace).output, "5 6 60 60\n");
  const std::vector<trace::Record> records = records_of(trace);
  EXPECT_EQ(all<trace::GraphLaunch>(records).size(), 3u);
  EXPECT_EQ(all<trace::GraphEnd>(records).size(), 3u);
  unsigned nodes = 0, edges = 0;
  for (const trace::Operation& operation : all<trace::Operation>(records)) {
    if (!operation.graph_launch) continue;
    ++nodes;
    edges += operation.node_dependencies.size();
  }
  EXPECT_EQ(nodes, 15u);
  EXPECT_EQ(edges, 15u);
}

TEST(Embedded, QueuedWorkIsCompletedAtExit) {
  const std::string trace = scratch("queued");
  const Ran ran = run("programs", {"leave_queued"}, "output=" + trace);
  EXPECT_EQ(ran.output, "leaving\n"); // its host function belongs to a program that has ended
  EXPECT_EQ(ran.errors, "");
  EXPECT_EQ(ran.status, 7);
  const std::vector<trace::Record> records = records_of(trace);
  EXPECT_EQ(all<trace::OperationBegin>(records).size(), all<trace::OperationEnd>(records).size());
  ASSERT_EQ(all<trace::ProgramEnd>(records).size(), 1u);
  EXPECT_EQ(all<trace::ProgramEnd>(records)[0].status, 7);
}

TEST(Embedded, HostFunctionsMayWaitForWhatTheHostDoesBehindItsWait) {
  const std::string trace = scratch("tell");
  const Ran ran = run("programs", {"tell"}, "output=" + trace);
  EXPECT_EQ(ran.output, "0 cudaErrorNotReady\n3 3 6 5\n");
  EXPECT_EQ(ran.errors, "");
  EXPECT_EQ(ran.status, 0);
  const std::vector<trace::Record> records = records_of(trace);
  ASSERT_EQ(all<trace::Incident>(records).size(), 1u);
  EXPECT_EQ(all<trace::Incident>(records)[0].kind, "unrepeatable");
  EXPECT_EQ(all<trace::OperationBegin>(records).size(), all<trace::OperationEnd>(records).size());
}

TEST(Embedded, ChildrenOfAnEarlyForkHaveALogOfTheirOwn) {
  const std::string trace = scratch("forked_early");
  expect_ran(run("programs", {"forked_early"}, "output=" + trace), "child 5\nparent 8 3\n", "");
  Expected<trace::TraceReader> reader = trace::TraceReader::open(trace);
  ASSERT_TRUE(reader);
  ASSERT_EQ(reader->logs().size(), 2u);
  for (unsigned i = 0; i < 2; ++i) {
    Expected<trace::LogReader> log = reader->open_log(i);
    ASSERT_TRUE(log);
    unsigned launches = 0;
    for (trace::Record record; log->next(record);) {
      const auto* operation = std::get_if<trace::Operation>(&record);
      launches += operation && std::holds_alternative<trace::Launch>(operation->what);
    }
    EXPECT_EQ(launches, 1u);
    EXPECT_TRUE(log->complete());
  }
}

TEST(Embedded, HandlersOfSignalsMayEndTheProcess) {
  const std::string trace = scratch("handler");
  expect_left(run("programs", {"leave_in_handler"}, "output=" + trace), "leaving cudaErrorNotPermitted\n");
}

TEST(Embedded, ProcessesEndBesideKernelsThatOthersWaitFor) {
  const std::string trace = scratch("beside_kernel");
  const auto begin = std::chrono::steady_clock::now();
  expect_left(run("programs", {"leave_beside_kernel"}, "output=" + trace), "leaving\n");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  const Expected<trace::TraceReader> reader = trace::TraceReader::open(trace); // its log is long
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->logs().size(), 1u);
}

TEST(Embedded, ProcessesEndBesideHostFunctions) {
  const std::string trace = scratch("running");
  const Ran ran = run("programs", {"leave_running"}, "output=" + trace);
  EXPECT_EQ(ran.output, "leaving\n");
  EXPECT_EQ(ran.errors, "");
  EXPECT_EQ(ran.status, 7);
  ASSERT_EQ(all<trace::ProgramEnd>(records_of(trace)).size(), 1u);
}

TEST(Embedded, HostFunctionsMayEndTheProcess) {
  const std::string trace = scratch("within");
  const Ran ran = run("programs", {"leave_within"}, "output=" + trace);
  EXPECT_EQ(ran.output, "");
  EXPECT_EQ(ran.errors, "");
  EXPECT_EQ(ran.status, 9);
}

TEST(Embedded, KilledProcessLeavesAReadableTrace) {
  const std::string trace = scratch("killed");
  const Ran ran = run("programs", {"killed"}, "output=" + trace);
  EXPECT_EQ(ran.output, "1.4985e+06\n1.4985e+06\n");
  EXPECT_EQ(ran.status, 128 + SIGKILL);
  const std::vector<trace::Record> records = records_of(trace, false);
  EXPECT_GE(all<trace::Operation>(records).size(), 4u);
  EXPECT_TRUE(all<trace::ProgramEnd>(records).empty());
}

TEST(Embedded, FaultsAreNamedAndStick) {
  const Ran ran = run("programs", {"fault"});
  EXPECT_EQ(ran.output, "launch cudaSuccess\nsync cudaErrorIllegalAddress\nmalloc cudaErrorIllegalAddress\n");
  ASSERT_EQ(ran.error_lines().size(), 1u);
  const std::string line = ran.error_lines()[0];
  for (const char* part : {"deadheat: out of bounds: kernel out_of_bounds(int*) at ",
                           "programs.cu:", "block (0,0,0), thread (0,0,0): write of 4 bytes at 0x"}) {
    EXPECT_NE(line.find(part), std::string::npos) << line;
  }
}

TEST(Embedded, AHangIsToldNotWaitedFor) {
  const Ran ran = run("programs", {"hang"});
  EXPECT_EQ(ran.output, "cudaErrorLaunchTimeout\n");
  ASSERT_EQ(ran.error_lines().size(), 1u);
  EXPECT_EQ(ran.error_lines()[0].rfind("deadheat: the device hangs: ", 0), 0u);
}

TEST(Embedded, AHostThatPollsMemoryGetsItsAnswer) {
  const std::string trace = scratch("poll");
  const Ran ran = run("programs", {"poll_memory"}, "patience=100:output=" + trace);
  EXPECT_EQ(ran.output, "9\n");
  EXPECT_EQ(ran.status, 0);
  const auto incidents = all<trace::Incident>(records_of(trace));
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].kind, "unrepeatable");
}

TEST(Embedded, AHostThatPollsKnowsOfWhoWroteThere) { // and of nobody else, though all are complete by then
  const std::string trace = scratch("poll_beside");
  EXPECT_EQ(run("programs", {"poll_beside"}, "patience=100:output=" + trace).output, "9\n");
  std::vector<std::uint32_t> launches, told;
  const auto records = records_of(trace);
  for (const auto& operation : all<trace::Operation>(records))
    if (std::holds_alternative<trace::Launch>(operation.what)) launches.push_back(operation.id);
  for (const auto& wait : all<trace::HostWait>(records))
    if (wait.kind == trace::HostWait::Kind::operation) told.push_back(wait.id);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(told, std::vector{launches[1]});
}

TEST(Embedded, AnotherHostThreadMayTellAKernel) { // of which one lane waits for it, and the others for that lane
  const Ran ran = run("programs", {"told_by_a_thread"});
  EXPECT_EQ(ran.output, "224\n");
  EXPECT_EQ(ran.errors, "");
  EXPECT_EQ(ran.status, 0);
}

TEST(Embedded, WhoWaitsInVainIsToldSo) { // when nobody has told the kernel anything for long
  const std::string trace = scratch("told");
  const Ran ran = run("programs", {"told_by_nobody"}, "patience=100:output=" + trace);
  EXPECT_EQ(ran.output, "cudaErrorLaunchTimeout\n");
  EXPECT_FALSE(all<trace::SyncError>(records_of(trace)).empty());
  ASSERT_EQ(ran.error_lines().size(), 1u) << ran.errors;
  EXPECT_EQ(ran.error_lines()[0].rfind("deadheat: the device hangs: ", 0), 0u);
}

TEST(Embedded, MissingEntryPointsNameThemselvesOnce) {
  const Ran ran = run("programs", {"unsupported"});
  EXPECT_EQ(ran.output, "cudaErrorNotSupported\ncudaErrorNotSupported\ncudaErrorNotSupported\n");
  EXPECT_EQ(ran.errors, "deadheat: cudaArrayGetSparseProperties is not supported by the embedded device\n");
}

TEST(Embedded, MachineCodeAloneIsRefusedWithAHint) {
  const Ran ran = run("machine_code", {"9"});
  EXPECT_EQ(ran.output.rfind("9: sync 0", 0), 0u);
  ASSERT_EQ(ran.error_lines().size(), 1u);
  EXPECT_NE(ran.errors.find("machine code for sm_90"), std::string::npos);
  EXPECT_NE(ran.errors.find("NVCC_APPEND_FLAGS='-gencode arch=compute_90,code=compute_90"), std::string::npos);
}

TEST(Embedded, TheNewestFittingImageIsTaken) {
  const std::string trace = scratch("images");
  EXPECT_EQ(run("two_images", {"9"}, "output=" + trace).errors, "");
  Expected<trace::TraceReader> reader = trace::TraceReader::open(trace);
  ASSERT_TRUE(reader);
  const auto modules = all<trace::Module>(records_of(trace));
  ASSERT_EQ(modules.size(), 1u);
  Expected<std::vector<std::uint8_t>> text = reader->blob(modules[0].image);
  ASSERT_TRUE(text);
  const std::string ptx(text->begin(), text->end());
  EXPECT_NE(ptx.find(".target sm_90"), std::string::npos) << ptx.substr(0, 500);
}

TEST(Embedded, ARunPathDoesNotBeatThePreload) {
  EXPECT_EQ(run("run_path", {"vector_add"}).output, "1.4985e+06\n");
  const Ran ran = run("run_path", {"nothing"}, "", {"LD_DEBUG=libs"});
  EXPECT_NE(ran.errors.find(EMBEDDED_LIBRARY), std::string::npos);
  EXPECT_EQ(ran.errors.find("calling init: " CUDA_LIBRARIES), std::string::npos) << "the toolkit's runtime was loaded";
}

TEST(Embedded, PlainCppPrograms) {
  const Ran ran = run("host_only", {});
  EXPECT_EQ(ran.output, "13 1020309 cudaSuccess\n");
  EXPECT_EQ(ran.status, 3);
}

TEST(Embedded, BadOptionsAreToldAndDoNotStopTheProgram) {
  const Ran ran = run("programs", {"vector_add"}, "sede=3");
  EXPECT_EQ(ran.output, "1.4985e+06\n");
  EXPECT_EQ(ran.errors.rfind("deadheat: DEADHEAT_OPTIONS: unknown option 'sede'", 0), 0u);
  const Ran unwritable = run("programs", {"vector_add"}, "output=/proc/none/run.deadheat");
  EXPECT_EQ(unwritable.output, "1.4985e+06\n");
  EXPECT_EQ(unwritable.errors.rfind("deadheat: cannot record: ", 0), 0u);
}

} // namespace
} // namespace deadheat::embedded_test
