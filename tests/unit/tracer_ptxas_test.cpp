// Which ptxas assembles a module, and what of its work is believed. The ptxas is a script (tests/tracer/fake_ptxas.py).
#include "tracer/cupti/ptxas.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace deadheat::cupti {
namespace {

namespace fs = std::filesystem;
using How = Assembler::Result::How;

constexpr const char* module_text =
    ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry fill()\n{\n  ret;\n}\n";

class Ptxas : public ::testing::Test {
 protected:
  const fs::path folder = fs::temp_directory_path() / ("deadheat-ptxas-" + std::to_string(getpid()));
  const fs::path log = folder / "log";
  int asked_driver = 0;
  std::string cache; // folder; empty: nothing is kept

  void SetUp() override {
    fs::create_directories(folder);
    for (const char* name : {"CUDA_HOME", "CUDA_PATH", "DEADHEAT_PTXAS", "DEADHEAT_PTXAS_SECONDS", "FAKE_PTXAS"}) {
      unsetenv(name);
    }
    setenv("FAKE_PTXAS_LOG", log.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder); }

  // A toolkit whose ptxas behaves so whatever FAKE_PTXAS is; its folder.
  fs::path toolkit(const std::string& name, const std::string& how) {
    const fs::path home = folder / name;
    fs::create_directories(home / "bin");
    std::ofstream(home / "bin/ptxas") << "#!/bin/sh\nFAKE_PTXAS='" << how << "' exec " DEADHEAT_FAKE_PTXAS " \"$@\"\n";
    fs::permissions(home / "bin/ptxas", fs::perms::owner_all);
    return home;
  }
  void use(const std::string& how) { setenv("DEADHEAT_PTXAS", (toolkit("named", how) / "bin/ptxas").c_str(), 1); }
  Assembler assembler(std::optional<bool> driver_takes = true) {
    const auto takes = [this, driver_takes](const std::string&) {
      ++asked_driver;
      return driver_takes;
    };
    return Assembler(takes, std::chrono::minutes(1), ptx::CodeCache(cache));
  }
  static Assembler::Module module(std::string_view text = module_text, unsigned version = 83) {
    return {text, version, "sm_90a", 90, {}, {"fill"}, false};
  }
  std::vector<std::string> calls() const {
    std::ifstream file(log);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(Ptxas, TheDriverIsAskedOnceForAllModules) {
  use("");
  Assembler made = assembler();
  EXPECT_EQ(made.assemble(module()).how, How::assembled);
  EXPECT_EQ(made.assemble(module(module_text, 82)).how, How::assembled);
  EXPECT_EQ(asked_driver, 1);
}

TEST_F(Ptxas, ADriverThatCannotBeAskedYetIsAskedAgain) {
  use("");
  Assembler made = assembler(std::nullopt);
  EXPECT_EQ(made.assemble(module()).how, How::absent);
  EXPECT_EQ(made.assemble(module()).how, How::absent);
  EXPECT_EQ(asked_driver, 2);
}

TEST_F(Ptxas, AssemblesForTheDevice) {
  use("");
  Assembler made = assembler();
  Assembler::Module asked = module();
  asked.options = {"-maxrregcount=40"};
  Assembler::Result result = made.assemble(asked);
  ASSERT_EQ(result.how, How::assembled) << result.why;
  EXPECT_NE(result.cubin.find(module_text), std::string::npos);
  asked.target = "sm_80"; // for the device as well
  EXPECT_EQ(made.assemble(asked).how, How::assembled);
  const std::string files = " /proc/self/fd/3 -o /proc/self/fd/4 ";
  const std::vector<std::string> expected = {"-arch=sm_90a -lineinfo -maxrregcount=40" + files + "deadheat_empty",
                                             "-arch=sm_90a -lineinfo -maxrregcount=40" + files + "fill",
                                             "-arch=sm_90 -lineinfo -maxrregcount=40" + files + "deadheat_empty",
                                             "-arch=sm_90 -lineinfo -maxrregcount=40" + files + "fill"};
  EXPECT_EQ(calls(), expected);
}

TEST_F(Ptxas, InParallelWhereItCan) {
  Assembler::Module asked = module();
  asked.in_parallel = true;
  for (const char* how : {"", "serial", "crash-parallel"}) {
    fs::remove(log);
    use(how);
    Assembler made = assembler();
    Assembler::Result result = made.assemble(asked);
    EXPECT_EQ(result.how, How::assembled) << how << ": " << result.why;
    EXPECT_EQ(calls().size(), *how ? 3u : 2u) << how;
    EXPECT_NE(calls()[1].find(" -split-compile=0 "), std::string::npos) << calls()[1];
  }
  use("hang");
  setenv("DEADHEAT_PTXAS_SECONDS", "1", 1);
  Assembler made = assembler();
  EXPECT_EQ(made.assemble(asked).how, How::crashed); // not asked again
}

// The driver is asked once what it thinks of this ptxas.
TEST_F(Ptxas, AnswersAreRemembered) {
  use("");
  Assembler made = assembler();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(made.assemble(module()).how, How::assembled);
  EXPECT_EQ(calls().size(), 4u);
  EXPECT_EQ(asked_driver, 1);
}

TEST_F(Ptxas, DriverDoesNotTakeItsCode) {
  use("");
  Assembler made = assembler(false);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(made.assemble(module()).how, How::absent);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(asked_driver, 1);
}

TEST_F(Ptxas, DistrustedLater) {
  use("");
  Assembler made = assembler();
  EXPECT_EQ(made.assemble(module()).how, How::assembled);
  made.distrust();
  EXPECT_EQ(made.assemble(module()).how, How::absent);
}

// The first that does the module's version.
TEST_F(Ptxas, NewerOneElsewhere) {
  setenv("CUDA_HOME", toolkit("old", "old").c_str(), 1);
  setenv("CUDA_PATH", toolkit("new", "").c_str(), 1);
  Assembler made = assembler();
  EXPECT_EQ(made.assemble(module()).how, How::assembled);
  EXPECT_EQ(calls().size(), 3u);
  EXPECT_EQ(made.assemble(module(".version 8.0\n.target sm_90a\n.address_size 64\n.entry fill() { ret; }\n", 80)).how,
            How::assembled);
  EXPECT_EQ(calls().size(), 5u);
}

// Packages for Python lie side by side; nothing else that is at hand does this version.
TEST_F(Ptxas, BesideWhatIsMapped) {
  const fs::path packages = folder / "site-packages";
  const char* text = ".version 99.0\n.target sm_90a\n.address_size 64\n.visible .entry fill() { ret; }\n";
  for (const char* place : {"nvidia/cu13", "nvidia/cuda_nvcc", "triton/backends/nvidia", "."}) {
    toolkit((fs::path("site-packages") / place).string(), "");
    fs::create_directories(packages / "torch/lib");
    const std::string file = packages / "torch/lib/libtorch_cuda.so";
    std::ofstream(file) << "code";
    const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    Assembler made = assembler();
    EXPECT_EQ(made.assemble(module(text, 990)).how, How::absent) << place;
    void* mapped = mmap(nullptr, 4, PROT_READ, MAP_PRIVATE, descriptor, 0);
    EXPECT_EQ(made.assemble(module(text, 990)).how, How::assembled) << place;
    munmap(mapped, 4);
    close(descriptor);
    fs::remove_all(packages);
  }
}

TEST_F(Ptxas, NoneThatIsNamed) {
  for (const char* name : {"0", "/no/such/ptxas", "ptxas"}) {
    setenv("DEADHEAT_PTXAS", name, 1);
    Assembler made = assembler();
    EXPECT_EQ(made.assemble(module()).how, How::absent) << name;
  }
}

TEST_F(Ptxas, Crash) {
  use("crash");
  Assembler made = assembler();
  const Assembler::Result result = made.assemble(module());
  EXPECT_EQ(result.how, How::crashed);
  EXPECT_NE(result.why.find("signal 11"), std::string::npos) << result.why;
}

TEST_F(Ptxas, CrashBelowAScript) {
  const fs::path script = toolkit("script", "") / "bin/ptxas";
  std::ofstream(script) << "#!/bin/sh\nFAKE_PTXAS=crash " DEADHEAT_FAKE_PTXAS " \"$@\"\nexit $?\n";
  setenv("DEADHEAT_PTXAS", script.c_str(), 1);
  Assembler made = assembler();
  EXPECT_EQ(made.assemble(module()).how, How::crashed);
}

TEST_F(Ptxas, NeverEnds) {
  use("hang");
  setenv("DEADHEAT_PTXAS_SECONDS", "1", 1);
  Assembler made = assembler();
  const Assembler::Result result = made.assemble(module());
  EXPECT_EQ(result.how, How::crashed);
  EXPECT_NE(result.why.find("did not end within 1 s"), std::string::npos) << result.why;
}

TEST_F(Ptxas, Refusal) {
  use("refuse");
  Assembler made = assembler();
  const Assembler::Result result = made.assemble(module());
  EXPECT_EQ(result.how, How::refused);
  EXPECT_EQ(result.why, "ptxas error   : there are too many votes");
}

TEST_F(Ptxas, HalfACubin) {
  use("half");
  Assembler made = assembler();
  EXPECT_EQ(made.assemble(module()).how, How::refused);
}

TEST_F(Ptxas, ItSeesNothingOfThisLibrary) {
  const fs::path script = toolkit("script", "") / "bin/ptxas";
  std::ofstream(script) << "#!/bin/sh\nenv > " << (folder / "environment").string() << "\n";
  setenv("DEADHEAT_PTXAS", script.c_str(), 1);
  setenv("CUDA_INJECTION64_PATH", "/no/such/library.so", 1);
  setenv("KEPT", "1", 1);
  Assembler made = assembler();
  EXPECT_EQ(made.assemble(module()).how, How::absent);
  unsetenv("CUDA_INJECTION64_PATH");
  std::ifstream file(folder / "environment");
  const std::string environment{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_NE(environment.find("KEPT=1"), std::string::npos);
  EXPECT_EQ(environment.find("CUDA_INJECTION64_PATH"), std::string::npos);
  EXPECT_EQ(environment.find("DEADHEAT_PTXAS"), std::string::npos);
}

TEST_F(Ptxas, SeveralModulesAtOnce) {
  use("");
  Assembler made = assembler();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { right += made.assemble(module()).how == How::assembled; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 4);
}

// By another assembler of another process as well, once it is known which ptxas does it.
TEST_F(Ptxas, WhatItMadeIsKept) {
  use("");
  cache = folder / "cache";
  int begun = 0;
  const auto make = [&](Assembler::Module asked) {
    asked.begins = [&] { ++begun; };
    const std::size_t before = calls().size();
    const Assembler::Result result = assembler().assemble(asked);
    EXPECT_EQ(result.how, How::assembled) << result.why;
    EXPECT_TRUE(is_cubin(result.cubin, asked.functions));
    EXPECT_NE(result.cubin.find(asked.text), std::string::npos);
    return calls().size() - before; // one of them for the empty kernel
  };
  const std::string other_text = std::string(module_text) + "// other\n";
  Assembler::Module limited = module(), parallel = module(), older = module();
  limited.options = {"-maxrregcount=40"};
  parallel.in_parallel = true;
  older.target = "sm_80";
  EXPECT_EQ(make(module()), 2u);
  EXPECT_EQ(make(module()), 1u);
  EXPECT_EQ(make(parallel), 1u); // the same code
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(make(module(other_text)), 2u);
  EXPECT_EQ(make(limited), 2u);
  EXPECT_EQ(make(older), 2u);
  EXPECT_EQ(make(limited), 1u);
  use(" "); // another ptxas in its place
  EXPECT_EQ(make(module()), 2u);
  EXPECT_EQ(make(module()), 1u);
  EXPECT_EQ(begun, 5);
  for (const auto& entry : fs::directory_iterator(cache))
    fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
  EXPECT_EQ(make(module()), 2u); // damaged
  EXPECT_EQ(make(module()), 1u);
}

TEST_F(Ptxas, WhatItDidNotMakeIsNotKept) {
  cache = folder / "cache";
  for (const char* how : {"crash", "refuse", "half"}) {
    use(how);
    EXPECT_NE(assembler().assemble(module()).how, How::assembled) << how;
    EXPECT_NE(assembler().assemble(module()).how, How::assembled) << how;
    EXPECT_TRUE(fs::is_empty(cache)) << how;
  }
}

// SIGXFSZ would end the program, now or when it takes signals again.
TEST_F(Ptxas, AJobThatMayNotWriteFilesThatLong) {
  use("");
  const std::string text = module_text + ("//" + std::string(1 << 16, '-')) + "\n";
  const std::size_t bytes = assembler().assemble(module(text)).cubin.size();
  cache = folder / "cache"; // whose files have a head besides
  const auto run = [&](std::size_t most) {
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = most;
    setrlimit(RLIMIT_FSIZE, &limit);
    const bool good = assembler().assemble(module(text)).how == How::assembled;
    std::_Exit(good ? 0 : 1);
  };
  EXPECT_EXIT(run(bytes), ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(fs::is_empty(cache));
  EXPECT_EXIT(run(bytes + 100), ::testing::ExitedWithCode(0), "");
  EXPECT_FALSE(fs::is_empty(cache));
}

// Whatever of its end is missing.
TEST_F(Ptxas, WholeCubins) {
  use("");
  Assembler made = assembler();
  const std::string cubin = made.assemble(module()).cubin;
  EXPECT_TRUE(is_cubin(cubin, {"fill"}));
  EXPECT_FALSE(is_cubin(cubin, {"fill", "clear"}));
  for (std::size_t bytes = 0; bytes < cubin.size(); ++bytes) {
    EXPECT_FALSE(is_cubin(std::string_view(cubin).substr(0, bytes), {})) << bytes;
  }
  std::string other = cubin;
  other[18] = 62; // e_machine: EM_X86_64
  EXPECT_FALSE(is_cubin(other, {}));
}

// The true one, where it is at hand.
TEST_F(Ptxas, OfTheToolkit) {
  if (access("/usr/local/cuda/bin/ptxas", X_OK) != 0) GTEST_SKIP() << "no ptxas";
  Assembler made = assembler();
  Assembler::Result result = made.assemble(module());
  ASSERT_EQ(result.how, How::assembled) << result.why;
  for (std::size_t bytes = 0; bytes < result.cubin.size(); ++bytes) {
    EXPECT_FALSE(is_cubin(std::string_view(result.cubin).substr(0, bytes), {"fill"})) << bytes;
  }
  result = made.assemble(module(".version 8.3\n.target sm_90a\n.visible .entry fill() { nonsense; }\n"));
  EXPECT_EQ(result.how, How::refused);
  EXPECT_NE(result.why.find("nonsense"), std::string::npos) << result.why;
  EXPECT_EQ(made.assemble(module(".version 99.0\n.target sm_90a\n.visible .entry fill() { ret; }\n", 990)).how,
            How::absent);
}

} // namespace
} // namespace deadheat::cupti
