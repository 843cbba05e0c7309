// A module of 1 MB loads in two seconds, and its kernels compile in ten: of one core's time, so that other work on the
// machine does not count. Compiled once, they come from the cache.
#include <gtest/gtest.h>

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <random>

#include "replay/engine/compiler.h"
#include "tracer/ptx/parse.h"

namespace deadheat::engine {
namespace {

constexpr std::size_t module_bytes = 1 << 20, kernel_bytes = 32 << 10;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

// Kernels as compilers write them: unrolled loads, arithmetic, stores, branches around them, loops, tiles in shared
// memory, shuffles, atomics. About a third of the instructions touch memory.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::string module() {
    text_ = ".version 8.3\n.target sm_90\n.address_size 64\n";
    for (int kernel = 0; text_.size() < module_bytes; ++kernel) make_kernel("kernel_" + std::to_string(kernel));
    return std::move(text_);
  }

 private:
  unsigned below(unsigned n) { return unsigned(random_() % n); }
  std::string r() { return "%r" + std::to_string(8 + below(32)); }
  std::string f() { return "%f" + std::to_string(below(40)); }
  void line(const std::string& s) { text_ += "\t" + s + ";\n"; }

  void make_kernel(const std::string& name) {
    const std::size_t end = text_.size() + kernel_bytes;
    text_ += ".visible .entry " + name + "(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n";
    line(".reg .pred %p<8>");
    line(".reg .b32 %r<48>");
    line(".reg .f32 %f<48>");
    line(".reg .b64 %rd<16>");
    line(".shared .align 16 .b8 tile_" + name + "[4096]");
    line("ld.param.u64 %rd1, [in]");
    line("ld.param.u64 %rd2, [out]");
    line("ld.param.u32 %r1, [n]");
    line("mov.u32 %r2, %tid.x");
    line("mov.u32 %r3, %ctaid.x");
    line("mov.u32 %r4, %ntid.x");
    line("mad.lo.s32 %r5, %r3, %r4, %r2");
    line("mul.wide.s32 %rd3, %r5, 64");
    line("add.s64 %rd4, %rd1, %rd3");
    line("add.s64 %rd5, %rd2, %rd3");
    line("mov.u32 %r6, tile_" + name);
    line("shl.b32 %r7, %r2, 2");
    line("add.s32 %r6, %r6, %r7");
    for (int n = 8; n < 40; ++n) line("add.s32 %r" + std::to_string(n) + ", %r5, " + std::to_string(n));
    for (int n = 0; n < 40; ++n) line("cvt.rn.f32.s32 %f" + std::to_string(n) + ", %r" + std::to_string(8 + n % 32));
    while (text_.size() < end) piece();
    line("ret");
    text_ += "}\n";
  }

  void piece() {
    const std::string label = "$L" + std::to_string(labels_++);
    switch (below(6)) {
      case 0: // a branch around some arithmetic
        line("setp.lt.s32 %p1, " + r() + ", " + r());
        line("@%p1 bra " + label);
        arithmetic(6);
        text_ += label + ":\n";
        break;
      case 1: // a loop
        line("mov.u32 %r40, 0");
        text_ += label + ":\n";
        memory(3);
        arithmetic(5);
        line("add.s32 %r40, %r40, 1");
        line("setp.lt.s32 %p2, %r40, %r1");
        line("@%p2 bra " + label);
        break;
      case 2: // through shared memory
        line("st.shared.f32 [%r6], " + f());
        line("bar.sync 0");
        line("ld.shared.f32 " + f() + ", [%r6]");
        line("bar.sync 0");
        break;
      case 3: line("shfl.sync.bfly.b32 " + r() + ", " + r() + ", " + std::to_string(1 << below(5)) + ", 31, -1"); break;
      case 4: line("atom.global.add.u32 " + r() + ", [%rd5], " + r()); break;
      default:
        memory(6);
        arithmetic(10);
        break;
    }
  }
  void memory(int count) {
    for (int n = 0; n < count; ++n) {
      const std::string at = "+" + std::to_string(4 * below(16)) + "]";
      if (below(3))
        line("ld.global.f32 " + f() + ", [%rd4" + at);
      else
        line("st.global.f32 [%rd5" + at + ", " + f());
    }
  }
  void arithmetic(int count) {
    for (int n = 0; n < count; ++n)
      if (below(2))
        line("fma.rn.f32 " + f() + ", " + f() + ", " + f() + ", " + f());
      else
        line("mad.lo.s32 " + r() + ", " + r() + ", " + r() + ", " + r());
  }

  std::mt19937_64 random_;
  std::string text_;
  unsigned labels_ = 0;
};

class ModuleLoad : public testing::Test {
 protected:
  ModuleLoad() : cache_(std::filesystem::temp_directory_path() / ("deadheat-load-" + std::to_string(getpid()))) {}
  ~ModuleLoad() override { std::filesystem::remove_all(cache_); }

  struct Seconds {
    double load = 0, compile = 0;
  };
  Seconds measure(const std::string& text, Mode mode) {
    CompilerOptions options;
    options.cache = cache_.string();
    const double start = cpu_seconds();
    auto module = ptx::parse(text, "generated.ptx");
    EXPECT_TRUE(module) << module.error().message();
    auto compiler = make_compiler(options);
    auto loaded = compiler->load(std::move(*module), "generated.ptx", [](std::string_view) { return 0; });
    EXPECT_TRUE(loaded);
    Seconds s;
    s.load = cpu_seconds() - start;
    for (const std::string& name : (*loaded)->kernel_names()) {
      auto code = (*loaded)->compile(name, mode);
      EXPECT_TRUE(code) << code.error().message();
    }
    s.compile = cpu_seconds() - start - s.load;
    return s;
  }
  std::filesystem::path cache_;
};

TEST_F(ModuleLoad, OneMegabyte) {
  const std::string text = Generator(1).module();
  const Mode recorded{.record = true, .check = true};
  const Seconds first = measure(text, recorded), again = measure(text, recorded);
  RecordProperty("load_ms", int(first.load * 1e3));
  RecordProperty("compile_ms", int(first.compile * 1e3));
  RecordProperty("cached_ms", int(again.compile * 1e3));
  std::printf("load %.2f s, compile %.2f s, from the cache %.2f s\n", first.load, first.compile, again.compile);
  EXPECT_LE(first.load, first.compile);
  EXPECT_LE(again.compile, first.compile / 4);
}

}  // namespace
}  // namespace deadheat::engine
