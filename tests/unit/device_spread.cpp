// Launches whose blocks run on several cores leave the same memory, the same errors and the same records behind as with
// one, whichever kernel it is; and kernels take the way that they should.
#include <fenv.h>
#include <pmmintrin.h>

#include <algorithm>
#include <random>

#include "device_support.h"

namespace deadheat::device_test {

namespace {

// What a kernel's blocks are for those that could run them at the same time.
// Interleaved: independent, though elements of some lie between those of others.
enum class Blocks { independent, interleaved, dependent, unknown };

// k(a, b, c, d): each thread has its number in %g (of all) and %t (of its block), its block's in %k, the addresses of
// its elements (4 bytes) in %a to %d and of the arrays in %A to %D; %r*, %q*, %p*, %f* are free; `tile` is 1 KB of
// shared memory and %s the address of the thread's element there.
std::string kernel(const std::string& body) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{
.reg .pred %p<9>;
.reg .b32 %t, %k, %g, %n, %s, %r<99>;
.reg .f32 %f<9>;
.reg .b64 %A, %B, %C, %D, %a, %b, %c, %d, %o, %q<99>;
.shared .align 16 .b8 tile[1024];
ld.param.u64 %A, [pa];
ld.param.u64 %B, [pb];
ld.param.u64 %C, [pc];
ld.param.u64 %D, [pd];
mov.u32 %t, %tid.x;
mov.u32 %k, %ctaid.x;
mov.u32 %n, %ntid.x;
mad.lo.u32 %g, %k, %n, %t;
mul.wide.u32 %o, %g, 4;
add.u64 %a, %A, %o;
add.u64 %b, %B, %o;
add.u64 %c, %C, %o;
add.u64 %d, %D, %o;
shl.b32 %s, %t, 2;
mov.u32 %r98, tile;
add.u32 %s, %s, %r98;
)" + body +
         "\nret;\n}\n";
}

struct Way {
  unsigned cores;
  bool regions;
};
struct Result {
  device::Progress progress = device::Progress::done;
  std::string report; // faults, hangs, SyncErrors, records
  std::vector<std::uint8_t> memory;
  Blocks taken = Blocks::unknown;
  std::uint64_t launches = 0; // that were spread
};

constexpr std::uint32_t threads = 32, blocks = 24, count = threads * blocks, words = 2 * count;

// a: 3, 10, 17, …; b: a permutation of the elements of each block; c, d: other numbers.
// `free`: the third array, before the last launch.
Result run(const std::string& ptx, Way way, Dim3 grid = {blocks, 1, 1}, unsigned times = 1, bool free = false) {
  static std::map<std::string, std::shared_ptr<device::ModuleCache>> caches[2];
  auto& cache = caches[way.regions][ptx];
  if (!cache) {
    engine::CompilerOptions code;
    code.regions = way.regions;
    code.cache.clear();
    cache = device::make_module_cache(engine::make_compiler(code));
  }
  KeepingSink sink;
  device::DeviceOptions options;
  options.modules = cache;
  options.record_accesses = false;
  options.sink = &sink;
  options.cores = way.cores;
  options.spread_after = 0;
  auto made = device::Device::create(options);
  EXPECT_TRUE(made);
  device::Device& device = **made;
  auto module = device.load_module(ptx, "k.ptx");
  EXPECT_TRUE(module) << module.error().message();
  std::mt19937 random(1);
  std::vector<std::uint64_t> arrays;
  for (std::uint32_t n = 0; n < 4; ++n) {
    std::vector<std::uint32_t> values(words);
    for (std::uint32_t i = 0; i < words; ++i) values[i] = n == 0 ? 3 + 7 * i : n == 1 ? i : i * n * 0x9E3779B9u >> 7;
    for (std::uint32_t k = 0; n == 1 && k < words; k += threads)
      std::shuffle(values.begin() + k, values.begin() + k + threads, random);
    auto a = device.allocate(trace::Allocate::Kind::device, 4 * words, 1);
    EXPECT_TRUE(a);
    std::memcpy(const_cast<std::uint8_t*>(device.peek(a->address, 4 * words)), values.data(), 4 * words);
    arrays.push_back(a->address);
  }
  trace::Operation operation;
  trace::Launch launch;
  launch.module = *module;
  launch.kernel = "k";
  launch.grid = grid;
  launch.block = {threads, 1, 1};
  launch.arguments.size = 32;
  launch.arguments.inlined.resize(32);
  std::memcpy(launch.arguments.inlined.data(), arrays.data(), 32);
  operation.stream = 1;
  operation.host_thread = 1;
  operation.what = launch;
  Result result;
  for (unsigned n = 0; n < times; ++n) {
    if (free && n + 1 == times) {
      EXPECT_TRUE(device.release(arrays[2], 1));
    }
    EXPECT_TRUE(device.submit(operation));
    result.progress = device.wait({});
  }
  if (const auto& f = device.fault())
    result.report = "fault " + std::to_string(int(f->kind)) + " block " + std::to_string(f->block) + " thread " +
                    std::to_string(f->thread) + " site " + std::to_string(f->site) + " at " +
                    std::to_string(f->address) + " near " + std::to_string(f->nearest_allocation) + f->text + "\n";
  if (result.progress == device::Progress::hang) result.report += device.stuck_description() + "\n";
  for (const auto& item : sink.items) {
    result.report += "record " + std::to_string(item.record.index());
    if (const auto* e = std::get_if<trace::SyncError>(&item.record))
      result.report += " block " + std::to_string(e->block) + " thread " + std::to_string(e->thread) + " site " +
                       std::to_string(e->site) + e->text;
    result.report += "\n";
  }
  for (std::uint64_t at : arrays) {
    if (free) break;
    const std::uint8_t* bytes = device.peek(at, 4 * words);
    result.memory.insert(result.memory.end(), bytes, bytes + 4 * words);
  }
  const device::ChoiceSummary& choices = device.choices();
  result.launches = choices.spread;
  result.taken = choices.interleaved ? Blocks::interleaved
                 : choices.spread    ? Blocks::independent
                 : choices.dependent ? Blocks::dependent
                                     : Blocks::unknown;
  return result;
}

// Returns the way that the launch took with several cores.
Blocks expect_same(const std::string& body, Dim3 grid = {blocks, 1, 1}) {
  const std::string ptx = kernel(body);
  Blocks taken[2] = {};
  for (bool regions : {false, true}) {
    const Result one = run(ptx, {1, regions}, grid);
    EXPECT_EQ(one.taken, Blocks::unknown);
    for (unsigned cores : {2u, 5u}) {
      const Result several = run(ptx, {cores, regions}, grid);
      EXPECT_EQ(one.progress, several.progress) << body;
      EXPECT_EQ(one.report, several.report) << body;
      // A fault ends the device: nobody sees its memory any more.
      if (one.progress != device::Progress::fault) {
        EXPECT_TRUE(one.memory == several.memory) << body;
      }
      taken[regions] = several.taken;
    }
  }
  EXPECT_EQ(taken[false], taken[true]) << body;
  return taken[true];
}

const char* name(Blocks b) {
  return b == Blocks::independent   ? "independent"
         : b == Blocks::interleaved ? "interleaved"
         : b == Blocks::dependent   ? "dependent"
                                    : "unknown";
}

} // namespace

TEST(Spread, KernelsTakeTheirWay) {
  const std::string own = "ld.global.u32 %r1, [%a];\nadd.u32 %r1, %r1, %g;\nst.global.u32 [%c], %r1;\n";
  const struct {
    const char* what;
    std::string body;
    Blocks expected;
  } cases[] = {
      {"own elements", own, Blocks::independent},
      {"in place", "ld.global.u32 %r1, [%c];\nmad.lo.u32 %r1, %r1, 3, 1;\nst.global.u32 [%c], %r1;",
       Blocks::independent},
      {"nothing but reads", "ld.global.u32 %r1, [%a+4];\nst.shared.u32 [%s], %r1;", Blocks::independent},
      {"a neighbour's element of what is written", "ld.global.u32 %r1, [%c+4];\nst.global.u32 [%c], %r1;",
       Blocks::dependent},
      {"everybody's element", "st.global.u32 [%C], %g;", Blocks::dependent},
      {"lines that blocks discard", own + "and.b64 %q1, %d, -128;\ndiscard.global.L2 [%q1], 128;", Blocks::independent},
      {"a line that everybody discards", own + "discard.global.L2 [%D], 128;", Blocks::dependent},
      {"counts", "and.b32 %r1, %t, 3;\nmul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, %D, %q1;\nred.global.add.u32 [%q2], %g;",
       Blocks::independent},
      {"counts that nobody reads", "atom.global.add.u32 %r1, [%D], %t;", Blocks::independent},
      {"counts that are read", "atom.global.add.u32 %r1, [%D], 1;\nst.global.u32 [%c], %r1;", Blocks::dependent},
      {"counts beside a plain read of them",
       "red.global.add.u32 [%D], %t;\nld.global.u32 %r1, [%D];\n"
       "st.global.u32 [%c], %r1;",
       Blocks::dependent},
      {"extremes", "red.global.max.s32 [%D], %g;", Blocks::independent},
      {"extremes of either kind", "red.global.max.u32 [%D], %g;\nred.global.min.u32 [%D], %g;", Blocks::dependent},
      {"sums of two widths", "cvt.u64.u32 %q1, %g;\nred.global.add.u32 [%D], %g;\nred.global.add.u64 [%D], %q1;",
       Blocks::dependent},
      {"bits", "shl.b32 %r1, 1, %t;\nred.global.or.b32 [%D], %r1;\nred.global.xor.b32 [%D+4], %g;",
       Blocks::independent},
      {"sums of floats", "cvt.rn.f32.u32 %f1, %g;\nred.global.add.f32 [%D], %f1;", Blocks::dependent},
      {"exchanges", "atom.global.exch.b32 %r1, [%D], %g;", Blocks::dependent},
      {"counts in a loop",
       "mov.u32 %r1, 0;\nL:\nand.b32 %r2, %r1, 7;\nmul.wide.u32 %q1, %r2, 4;\nadd.u64 %q2, %D, %q1;\n"
       "red.global.add.u32 [%q2], %r1;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 20000;\n@%p1 bra L;\n" +
           own,
       Blocks::independent},
      {"indices within the block",
       "ld.global.u32 %r1, [%b];\nmul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, %C, %q1;\n"
       "st.global.u32 [%q2], %g;",
       Blocks::independent},
      {"indices that lead elsewhere",
       "ld.global.u32 %r1, [%b];\nxor.b32 %r1, %r1, 32;\nmul.wide.u32 %q1, %r1, 4;\n"
       "add.u64 %q2, %C, %q1;\nst.global.u32 [%q2], %g;\nld.global.u32 %r2, [%c];\nst.global.u32 [%d], %r2;",
       Blocks::dependent},
      {"indices that are written",
       "ld.global.u32 %r1, [%b];\nmul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, %B, %q1;\n"
       "st.global.u32 [%q2], %r1;",
       Blocks::dependent},
      {"indices in a loop",
       "mov.u32 %r1, 0;\nL:\nmul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, %b, %q1;\n"
       "ld.global.u32 %r2, [%q2];\nmul.wide.u32 %q1, %r2, 4;\nadd.u64 %q2, %C, %q1;\nst.global.u32 [%q2], %g;\n"
       "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 2;\n@%p1 bra L;",
       Blocks::unknown},
      {"guards that are loaded",
       "ld.global.u32 %r1, [%a];\nand.b32 %r1, %r1, 1;\nsetp.eq.u32 %p1, %r1, 1;\n"
       "@%p1 st.global.u32 [%c], %g;",
       Blocks::independent},
      {"shuffles", "ld.global.u32 %r1, [%a];\nshfl.sync.down.b32 %r2, %r1, 1, 31, -1;\nst.global.u32 [%c], %r2;",
       Blocks::independent},
      {"shuffled indices",
       "shfl.sync.bfly.b32 %r2, %t, 1, 31, -1;\nmul.wide.u32 %q1, %r2, 4;\nadd.u64 %q2, %c, %q1;\n"
       "st.global.u32 [%q2], %g;",
       Blocks::unknown},
      {"barriers",
       "st.shared.u32 [%s], %g;\nbar.sync 0;\nxor.b32 %r1, %s, 4;\nld.shared.u32 %r2, [%r1];\n"
       "st.global.u32 [%c], %r2;",
       Blocks::independent},
      {"indices from shared memory",
       "st.shared.u32 [%s], %g;\nbar.sync 0;\nld.shared.u32 %r2, [%s];\n"
       "mul.wide.u32 %q1, %r2, 4;\nadd.u64 %q2, %C, %q1;\nst.global.u32 [%q2], %g;",
       Blocks::unknown},
      {"shared memory by generic addresses",
       "cvt.u64.u32 %q1, %s;\ncvta.shared.u64 %q2, %q1;\nst.u32 [%q2], %g;\n"
       "ld.u32 %r1, [%q2];\nst.u32 [%c], %r1;",
       Blocks::independent},
      {"clocks", "mov.u32 %r1, %clock;\nst.global.u32 [%c], %r1;", Blocks::unknown},
      {"waiting", "L:\nld.volatile.global.u32 %r1, [%a];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra L;\n" + own,
       Blocks::unknown},
      {"strides through all",
       "mov.u32 %r1, %g;\nmov.u32 %r3, 0;\nL:\nmul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, %A, %q1;\n"
       "ld.global.u32 %r2, [%q2];\nadd.u32 %r3, %r3, %r2;\nadd.u32 %r1, %r1, 96;\nsetp.lt.u32 %p1, %r1, 768;\n"
       "@%p1 bra L;\nst.global.u32 [%c], %r3;",
       Blocks::independent},
      {"copies to shared memory",
       "cp.async.ca.shared.global [%s], [%a], 4;\ncp.async.commit_group;\n"
       "cp.async.wait_group 0;\nbar.sync 0;\nld.shared.u32 %r1, [%s];\nst.global.u32 [%c], %r1;",
       Blocks::independent},
      {"copies from what is written",
       "cp.async.ca.shared.global [%s], [%c+4], 4;\ncp.async.wait_all;\n"
       "ld.shared.u32 %r1, [%s];\nst.global.u32 [%c], %r1;",
       Blocks::dependent},
  };
  for (const auto& c : cases) EXPECT_STREQ(name(expect_same(c.body)), name(c.expected)) << c.what;
}

// Grid-stride loops and tiles: what blocks write lies between what others write.
TEST(Spread, InterleavedElements) {
  // %r1: the element, from %g on in steps of `step` while below `end`; %q2: its address in `array`.
  auto strides = [](const std::string& body, unsigned step = count, unsigned end = words, const char* array = "%C") {
    return "mov.u32 %r1, %g;\nL:\nmul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, " + std::string(array) + ", %q1;\n" + body +
           "add.u32 %r1, %r1, " + std::to_string(step) + ";\nsetp.lt.u32 %p1, %r1, " + std::to_string(end) +
           ";\n@%p1 bra L;\n";
  };
  const std::string write = "st.global.u32 [%q2], %r1;\n",
                    in_place =
                        "ld.global.u32 %r3, [%q2];\n"
                        "mad.lo.u32 %r3, %r3, 3, %r1;\nst.global.u32 [%q2], %r3;\n";
  // Blocks of 8 columns by 4 rows, in rows of `pitch` words.
  auto tiles = [](unsigned pitch, const std::string& more) {
    return "and.b32 %r1, %t, 7;\nshr.u32 %r2, %t, 3;\nmad.lo.u32 %r1, %k, 8, %r1;\nmov.u32 %r4, %ctaid.y;\n"
           "mad.lo.u32 %r2, %r4, 4, %r2;\nmad.lo.u32 %r3, %r2, " +
           std::to_string(pitch) +
           ", %r1;\n"
           "mul.wide.u32 %q1, %r3, 4;\nadd.u64 %q2, %C, %q1;\n" +
           more + "st.global.u32 [%q2], %g;\n";
  };
  const struct {
    const char* what;
    std::string body;
    Blocks expected;
    Dim3 grid = {blocks, 1, 1};
  } cases[] = {
      {"elements in turn", strides(write), Blocks::interleaved},
      {"in place", strides(in_place), Blocks::interleaved},
      {"and one of another block's", "setp.eq.u32 %p2, %g, 0;\n@%p2 add.u32 %g, %g, 320;\n" + strides(write),
       Blocks::dependent},
      {"without the first", "setp.eq.u32 %p2, %g, 0;\n@%p2 add.u32 %g, %g, 768;\n" + strides(in_place),
       Blocks::interleaved},
      {"sums of the neighbour's", strides("ld.global.u32 %r3, [%q2+4];\nst.global.u32 [%q2], %r3;\n", count, words - 1),
       Blocks::dependent},
      {"of steps that overlap", strides(write, count - 1, words), Blocks::dependent},
      {"of steps with holes", strides(write, count + 100, words), Blocks::interleaved},
      {"two arrays", strides("add.u64 %q3, %q2, %D;\nsub.u64 %q3, %q3, %C;\nst.global.u32 [%q3], %g;\n" + in_place),
       Blocks::interleaved},
      {"reads of what the own turn before wrote",
       strides("ld.global.u32 %r3, [%q2];\nst.global.u32 [%q2], %g;\nst.global.u32 [%q2+3072], %r3;\n", count, count),
       Blocks::independent},
      {"counters", strides("red.global.add.u32 [%q2], 1;\n"), Blocks::independent},
      {"counters, and reads of one", strides("red.global.add.u32 [%q2], 1;\nld.global.u32 %r3, [%C+8];\n"),
       Blocks::dependent},
      {"guards that are loaded, of what is written",
       "ld.global.u32 %r8, [%c];\nsetp.gt.u32 %p3, %r8, 7;\n@%p3 ret;\n" + strides(write), Blocks::dependent},
      {"guards that are loaded", "ld.global.u32 %r8, [%a];\nsetp.gt.u32 %p3, %r8, 700;\n@%p3 ret;\n" + strides(write),
       Blocks::interleaved},
      {"columns of tiles", tiles(192, ""), Blocks::interleaved, {24, 1, 1}},
      // 1 / 784 * 784 is less than 1 in floating point.
      {"columns of tiles, rows of 784 bytes", tiles(196, ""), Blocks::interleaved, {24, 1, 1}},
      {"columns of tiles, rows longer", tiles(210, "ld.global.u32 %g, [%q2];\n"), Blocks::interleaved, {24, 1, 1}},
      {"columns of tiles, rows too short", tiles(191, ""), Blocks::dependent, {24, 1, 1}},
      {"rows of tiles", tiles(48, ""), Blocks::independent, {6, 4, 1}},
      {"rows of blocks, permuted",
       "mul.lo.u32 %r1, %k, 5;\nrem.u32 %r1, %r1, 24;\nmad.lo.u32 %r1, %r1, 32, %t;\n"
       "mul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, %C, %q1;\nst.global.u32 [%q2], %g;\n",
       Blocks::independent},
      {"rows of blocks, one twice",
       "mul.lo.u32 %r1, %k, 5;\nrem.u32 %r1, %r1, 23;\nmad.lo.u32 %r1, %r1, 32, %t;\n"
       "mul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, %C, %q1;\nst.global.u32 [%q2], %g;\n",
       Blocks::dependent},
  };
  for (const auto& c : cases) EXPECT_STREQ(name(expect_same(c.body, c.grid)), name(c.expected)) << c.what;
}

// What is known of a launch serves the next one like it, unless memory says something else.
TEST(Spread, LaunchesThatRepeat) {
  const std::string loop =
      "L:\nmul.wide.u32 %q1, %r1, 4;\nadd.u64 %q2, %C, %q1;\nld.global.u32 %r3, [%q2];\n"
      "mad.lo.u32 %r3, %r3, 3, %r1;\nst.global.u32 [%q2], %r3;\nadd.u32 %r1, %r1, 768;\n"
      "setp.lt.u32 %p1, %r1, 1536;\n@%p1 bra L;\n";
  const std::string fixed = "mov.u32 %r1, %g;\n" + loop;
  // Where an element is moved to lies in %D, which the last thread of the grid changes at its end.
  const std::string loaded =
      "ld.global.u32 %r4, [%D];\nand.b32 %r4, %r4, 64;\nadd.u32 %r1, %g, %r4;\nmul.wide.u32 %q1, %r1, 4;\n"
      "add.u64 %q2, %C, %q1;\nst.global.u32 [%q2], %g;\nld.global.u32 %r5, [%c+256];\nst.global.u32 [%a], %r5;\n";
  for (const std::string& body : {fixed, loaded}) {
    const Result one = run(kernel(body), {1, true}, {blocks, 1, 1}, 4),
                 several = run(kernel(body), {3, true}, {blocks, 1, 1}, 4);
    EXPECT_EQ(one.report, several.report);
    EXPECT_TRUE(one.memory == several.memory);
    EXPECT_STREQ(name(several.taken), name(body == fixed ? Blocks::interleaved : Blocks::dependent));
    EXPECT_EQ(several.launches, body == fixed ? 4u : 0u);
  }
  // Memory that has been freed meanwhile is no longer legal.
  for (unsigned cores : {1u, 3u}) {
    const Result freed = run(kernel(fixed), {cores, true}, {blocks, 1, 1}, 2, true);
    EXPECT_EQ(freed.progress, device::Progress::fault);
    EXPECT_NE(freed.report.find("block 0 thread 0"), std::string::npos) << freed.report;
  }
}

// What each block writes lies in all rows: only columns of blocks are apart.
TEST(Spread, GridsAreCutAlongTheAxisThatFits) {
  const std::string transposed =
      "mov.u32 %r1, %ctaid.y;\nmad.lo.u32 %r2, %k, 4, %r1;\nmad.lo.u32 %r3, %r2, %n, %t;\n"
      "mul.wide.u32 %q1, %r3, 4;\nadd.u64 %q2, %C, %q1;\nst.global.u32 [%q2], %r3;\n";
  EXPECT_EQ(expect_same(transposed, {6, 4, 1}), Blocks::independent);
  EXPECT_EQ(expect_same(transposed, {6, 1, 1}), Blocks::independent);
}

// The program's rounding and its flushing of denormals are its own.
TEST(Spread, FloatingPointIsTheSameOnAllCores) {
  const std::string body =
      "ld.global.u32 %r1, [%a];\nand.b32 %r1, %r1, 1023;\nmov.b32 %f1, %r1;\nadd.f32 %f1, %f1, %f1;\n"
      "st.global.f32 [%c], %f1;\ncvt.rn.f32.u32 %f2, %r1;\ndiv.rn.f32 %f2, %f2, 0f40400000;\n"
      "st.global.f32 [%d], %f2;\n";
  const Result expected = run(kernel(body), {1, true});
  fenv_t before;
  fegetenv(&before);
  for (unsigned cores : {1u, 2u, 5u}) {
    fesetround(FE_UPWARD);
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
    const unsigned mine = _mm_getcsr();
    const Result result = run(kernel(body), {cores, true});
    const unsigned after = _mm_getcsr();
    fesetenv(&before);
    EXPECT_TRUE(result.memory == expected.memory) << cores;
    EXPECT_EQ(result.launches, cores > 1 ? 1u : 0u);
    EXPECT_EQ(after & 0xFFC0, mine & 0xFFC0);
  }
}

TEST(Spread, TheFirstFaultInTheUsualOrderIsReported) {
  // Blocks 9, 13 and 17 go beyond their shared memory, and which of them gets there first is chance.
  const std::string shared =
      "setp.eq.u32 %p1, %k, 9;\nsetp.eq.or.u32 %p1, %k, 13, %p1;\nsetp.eq.or.u32 %p1, %k, 17, %p1;\n"
      "mov.u32 %r1, %s;\n@%p1 add.u32 %r1, %s, 1024;\nst.shared.u32 [%r1], %g;\n"
      "st.global.u32 [%c], %g;";
  EXPECT_EQ(expect_same(shared), Blocks::independent);
  const Result result = run(kernel(shared), {4, true});
  EXPECT_NE(result.report.find("block 9 "), std::string::npos) << result.report;
  // Of global memory it is known before.
  EXPECT_EQ(expect_same("setp.gt.u32 %p1, %k, 9;\n@%p1 add.u64 %c, %c, 1000000;\nst.global.u32 [%c], %g;"),
            Blocks::dependent);
  EXPECT_EQ(expect_same("st.global.u32 [%c+2], %g;"), Blocks::dependent);
}

TEST(Spread, MisusedBarriersAreReportedInTheUsualOrder) {
  // Half of a warp at each of two aligned barriers, in blocks 20, 11 and 3; and in all of them at another one. The
  // lower its number, the longer a block takes.
  const std::string divergent =
      "sub.u32 %r1, 24, %k;\nmul.lo.u32 %r1, %r1, 20000;\nmov.u32 %r2, %g;\nL:\nmad.lo.u32 %r2, %r2, %r2, 7;\n"
      "shr.u32 %r3, %r2, 5;\nxor.b32 %r2, %r2, %r3;\nsub.u32 %r1, %r1, 1;\nsetp.ne.u32 %p3, %r1, 0;\n@%p3 bra L;\n"
      "setp.lt.u32 %p1, %t, 16;\nsetp.eq.u32 %p2, %k, 20;\nsetp.eq.or.u32 %p2, %k, 11, %p2;\n"
      "setp.eq.or.u32 %p2, %k, 3, %p2;\n@!%p2 bra C;\n@%p1 bra A;\nbar.sync 0;\nbra C;\nA:\nbar.sync 0;\nC:\n"
      "@%p1 bra D;\nbar.sync 0;\nbra E;\nD:\nbar.sync 0;\nE:\nst.global.u32 [%c], %r2;";
  EXPECT_EQ(expect_same(divergent), Blocks::independent);
  const Result result = run(kernel(divergent), {4, true});
  EXPECT_NE(result.report.find("block 0 "), std::string::npos) << result.report;
  EXPECT_NE(result.report.find("block 3 "), std::string::npos) << result.report;
}

// Blocks that cannot end are handed back, and the machine says who waits for whom, as ever.
TEST(Spread, Deadlocks) {
  const std::string stuck =
      "setp.eq.u32 %p1, %k, 7;\nsetp.eq.or.u32 %p1, %k, 19, %p1;\n@%p1 bar.sync 1, 64;\n"
      "st.global.u32 [%c], %g;";
  EXPECT_EQ(expect_same(stuck), Blocks::independent);
  EXPECT_EQ(run(kernel(stuck), {3, true}).progress, device::Progress::hang);
}

// Kernels made of random accesses: whatever way they take, nothing differs.
TEST(Spread, RandomKernels) {
  std::mt19937 random(7);
  std::size_t taken[4] = {};
  for (int n = 0; n < 60; ++n) {
    std::string body = "mov.u32 %r1, %g;\n";
    const bool loop = random() % 4 == 0;
    body += "mov.u32 %r9, 0;\n";
    if (loop) body += "L:\n";
    const unsigned statements = 1 + random() % 4;
    for (unsigned s = 0; s < statements; ++s) {
      const std::string r = std::to_string(10 + s), q = std::to_string(10 + s);
      const char* const arrays[] = {"%A", "%B", "%C", "%D"};
      const std::string array = arrays[random() % 4];
      switch (random() % 8) { // the element
        case 4: body += "mul.lo.u32 %r" + r + ", %r9, 768;\nadd.u32 %r" + r + ", %r" + r + ", %g;\n"; break;
        case 0: body += "mov.u32 %r" + r + ", %t;\n"; break;
        case 1: body += "mov.u32 %r" + r + ", %k;\n"; break;
        case 2: body += "add.u32 %r" + r + ", %g, " + std::to_string(random() % 3 * 32) + ";\n"; break;
        case 3: body += "ld.global.u32 %r" + r + ", [%b];\n"; break;
        default: body += "mov.u32 %r" + r + ", %g;\n"; break;
      }
      body += "mul.wide.u32 %q" + q + ", %r" + r + ", 4;\nadd.u64 %q" + q + ", " + array + ", %q" + q + ";\n";
      const std::string at = "[%q" + q + "]";
      switch (random() % 8) {
        case 0: body += "red.global.add.u32 " + at + ", %r1;\n"; break;
        case 1: body += "red.global.max.u32 " + at + ", %r1;\n"; break;
        case 2: body += "atom.global.add.u32 %r2, " + at + ", 5;\nxor.b32 %r1, %r1, %r2;\n"; break;
        case 3: body += "shfl.sync.bfly.b32 %r2, %r1, 3, 31, -1;\nadd.u32 %r1, %r1, %r2;\n"; break;
        case 4:
        case 5: body += "st.global.u32 " + at + ", %r1;\n"; break;
        default: body += "ld.global.u32 %r2, " + at + ";\nmad.lo.u32 %r1, %r1, 31, %r2;\n"; break;
      }
    }
    if (loop) body += "add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p1, %r9, 2;\n@%p1 bra L;\n";
    if (random() % 3) body += "st.global.u32 [%d], %r1;";
    ++taken[std::size_t(expect_same(body))];
    if (HasFailure()) break;
  }
  // All ways were seen.
  EXPECT_GE(taken[std::size_t(Blocks::independent)], 10u);
  EXPECT_GE(taken[std::size_t(Blocks::dependent)], 10u);
  EXPECT_GE(taken[std::size_t(Blocks::unknown)], 2u);
}

} // namespace deadheat::device_test
