// Code that is compiled quickly first, and better once it has run for long: results are the same, whenever that is.
#include <limits>

#include "device_ptx.h"

namespace deadheat::device_test {
namespace {

constexpr std::uint32_t blocks = 6, threads = 96, count = blocks * threads;

// Sums over shuffles, a loop with barriers, a counter that all blocks add to, and local memory of each thread.
const std::string busy = kernel("k", R"(
mad.lo.u32 %r1, %r31, 96, %r30;
mul.wide.u32 %rd1, %r1, 4;
add.u64 %rd2, %rd31, %rd1;
add.u64 %rd3, %rd30, %rd1;
ld.global.u32 %r2, [%rd2];
.local .align 4 .b8 kept[64];
and.b32 %r3, %r30, 15;
mul.wide.u32 %rd4, %r3, 4;
mov.u64 %rd5, kept;
add.u64 %rd5, %rd5, %rd4;
st.local.u32 [%rd5], %r2;
mov.u32 %r4, 0;
mov.u32 %r8, 0;
$loop:
shfl.sync.bfly.b32 %r5, %r2, 1, 31, -1;
add.u32 %r2, %r2, %r5;
shl.b32 %r6, %r30, 2;
add.u32 %r6, %r29, %r6;
st.shared.u32 [%r6], %r2;
bar.sync 0;
xor.b32 %r7, %r30, 32;
min.u32 %r7, %r7, 95;
shl.b32 %r7, %r7, 2;
add.u32 %r7, %r29, %r7;
ld.shared.u32 %r5, [%r7];
add.u32 %r8, %r8, %r5;
bar.sync 0;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p1, %r4, 12;
@%p1 bra $loop;
atom.global.add.u32 %r9, [%rd30+4096], 1;
ld.local.u32 %r10, [%rd5];
add.u32 %r8, %r8, %r10;
st.global.u32 [%rd3], %r8;
)");

struct Improved {
  std::vector<std::uint32_t> words;
  bool quick = false; // still
};

// Two launches, each as `mode_options` says.
Improved improved_by(int mode, double quick_for_work) {
  engine::CompilerOptions options;
  options.cache.clear();
  options.quick_for_work = quick_for_work;
  Rig rig(module_of(busy), engine::make_compiler(options), mode_options(mode));
  rig.load();
  std::vector<std::uint32_t> values(count);
  for (std::uint32_t i = 0; i < count; ++i) values[i] = i * 2654435761u >> 9;
  const std::uint64_t in = rig.alloc(count * 4), out = rig.alloc(4096 + 4);
  rig.copy(trace::Copy::Direction::h2d, in, std::uint64_t(values.data()), count * 4);
  rig.set(out, 0, 4096 + 4);
  for (int n = 0; n < 2; ++n) {
    rig.launch("k", blocks, threads, {out, in});
    EXPECT_EQ(rig.sync(), device::Progress::done);
  }
  Improved result;
  result.words = rig.words(out, 1024 + 1);
  const device::DeviceOptions with = mode_options(mode);
  auto code = rig.device->module(rig.module)
                  ->compile("k", {.record = with.record_accesses,
                                  .control = with.schedule.kind != Schedule::Kind::natural,
                                  .check = with.check});
  EXPECT_TRUE(code);
  result.quick = code && (*code)->improve != nullptr;
  return result;
}

TEST(ImprovingCode, ResultsDoNotDependOnWhenItGetsBetter) {
  for (int mode = 0; mode < modes; ++mode) {
    const Improved best = improved_by(mode, 0), quick = improved_by(mode, std::numeric_limits<double>::max()),
                   improved = improved_by(mode, 1e-12);
    EXPECT_EQ(best.words[1024], 2 * count);
    EXPECT_EQ(best.words, quick.words) << mode;
    EXPECT_EQ(best.words, improved.words) << mode;
    EXPECT_FALSE(best.quick) << mode;
    EXPECT_TRUE(quick.quick) << mode;
    EXPECT_FALSE(improved.quick) << mode;
  }
}

// On two cores nobody compiles while both run: the code is better before that or behind it.
TEST(ImprovingCode, OnSeveralCores) {
  const std::string body = R"(
mov.u32 %r2, %ntid.x;
mad.lo.u32 %r1, %r31, %r2, %r30;
mul.wide.u32 %rd1, %r1, 4;
add.u64 %rd2, %rd31, %rd1;
add.u64 %rd3, %rd30, %rd1;
ld.global.u32 %r2, [%rd2];
mul.lo.u32 %r2, %r2, %r2;
st.global.u32 [%rd3], %r2;
)";
  std::vector<std::uint32_t> expected;
  for (const double quick_for_work : {0.0, 1e-12, 1e-7}) {
    for (const unsigned cores : {1u, 2u}) {
      engine::CompilerOptions code;
      code.cache.clear();
      code.quick_for_work = quick_for_work;
      code.regions = false;
      device::DeviceOptions options;
      options.check = true;
      options.record_accesses = false;
      options.cores = cores;
      options.spread_after = 0;
      Rig rig(module_of(kernel("k", body)), engine::make_compiler(code), options);
      rig.load();
      const std::uint64_t in = rig.alloc(64 * 32 * 4), out = rig.alloc(64 * 32 * 4);
      std::vector<std::uint32_t> values(64 * 32);
      for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = i * 40503u;
      rig.copy(trace::Copy::Direction::h2d, in, std::uint64_t(values.data()), values.size() * 4);
      for (int n = 0; n < 4; ++n) {
        rig.launch("k", 64, 32, {out, in});
        EXPECT_EQ(rig.sync(), device::Progress::done);
      }
      const std::vector<std::uint32_t> found = rig.words(out, values.size());
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected) << quick_for_work << " " << cores;
      EXPECT_EQ(rig.device->choices().spread > 0, cores > 1);
      if (quick_for_work < 1e-9) {
        auto now = rig.device->module(rig.module)->compile("k", {.check = true});
        EXPECT_TRUE(now && !(*now)->improve) << quick_for_work << " " << cores;
      }
    }
  }
}

// What a thread finds in registers that it never wrote, and in its local memory, is nothing of other threads, and the
// same in all code: else two schedules could seem to differ.
TEST(ImprovingCode, ThreadsBeginWithZeros) {
  const std::string body = R"(
.local .align 4 .b8 kept[256];
mov.u64 %rd1, kept;
and.b32 %r2, %r31, 1;
setp.eq.u32 %p1, %r2, 1;
@%p1 bra $reads;
mov.u32 %r4, 77;
mov.u32 %r5, -1;
st.local.u32 [%rd1+128], %r5;
bar.sync 0;
$reads:
bar.warp.sync -1;
ld.local.u32 %r6, [%rd1+128];
mad.lo.u32 %r7, %r31, 32, %r30;
mul.wide.u32 %rd2, %r7, 8;
add.u64 %rd3, %rd30, %rd2;
st.global.u32 [%rd3], %r4;
st.global.u32 [%rd3+4], %r6;
)";
  for (int mode = 0; mode < modes; ++mode) {
    for (const double quick_for_work : {0.0, 1e9}) {
      engine::CompilerOptions code;
      code.cache.clear();
      code.quick_for_work = quick_for_work;
      code.regions = mode % 2 == 0;
      Rig rig(module_of(kernel("k", body)), engine::make_compiler(code), mode_options(mode));
      rig.load();
      const std::uint64_t out = rig.alloc(8 * 32 * 8);
      rig.launch("k", 8, 32, {out, out});
      EXPECT_EQ(rig.sync(), device::Progress::done);
      const std::vector<std::uint32_t> found = rig.words(out, 8 * 32 * 2);
      for (std::uint32_t i = 0; i < found.size(); i += 2) {
        const bool wrote = i / 64 % 2 == 0;
        ASSERT_EQ(found[i], wrote ? 77u : 0u) << mode << " " << i;
        ASSERT_EQ(found[i + 1], wrote ? ~0u : 0u) << mode << " " << i;
      }
    }
  }
}

} // namespace
} // namespace deadheat::device_test
