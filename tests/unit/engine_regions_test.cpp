// Whole blocks, region by region, against the same kernels a thread at a time: hand-written shapes, and random ones.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "engine_runner.h"

namespace deadheat::engine {
namespace {

const char* head = ".version 8.0\n.target sm_90\n.address_size 64\n";

struct Compared {
  std::uint64_t fast = 0, slow = 0;
  std::uint64_t checked = 0; // regions of fast code where addresses are checked
};

// Runs kernel k(u64 in, u64 out, u32 n) both ways and compares what `out` holds.
Compared compare(const std::string& ptx, Runner::Dim grid, Runner::Dim block, std::uint32_t n,
                 std::uint32_t words = 4096, std::uint32_t seed = 1) {
  std::vector<std::uint32_t> results[3], in(words);
  std::mt19937 random(seed);
  for (auto& v : in) v = random() % 97;
  Compared seen;
  for (unsigned way : {0, 1, 2}) { // a thread at a time, region by region, the same with addresses checked
    Runner r(ptx);
    r.regions = way > 0;
    r.mode.check = way > 1;
    const std::uint64_t source = r.upload(in), out = r.upload(std::vector<std::uint32_t>(words, 0xcdcdcdcd));
    r.launch("k", grid, block, source, out, n);
    EXPECT_FALSE(r.hung);
    EXPECT_EQ(r.fault, "");
    results[way] = r.download<std::uint32_t>(out, words);
    if (way == 1) seen = {r.fast_regions, r.slow_threads, 0};
    if (way == 2) seen.checked = r.fast_regions;
  }
  EXPECT_EQ(results[0], results[1]) << ptx;
  EXPECT_EQ(results[0], results[2]) << ptx;
  return seen;
}

std::string kernel(const std::string& body) {
  return std::string(head) +
         ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n"
         ".reg .pred %p<40>;\n.reg .b32 %r<100>;\n.reg .f32 %f<40>;\n.reg .b64 %rd<40>;\n"
         ".shared .align 8 .b8 tile[8192];\n"
         "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nld.param.u32 %r1, [n];\n"
         "mov.u32 %r2, %tid.x;\nmov.u32 %r3, %tid.y;\nmov.u32 %r4, %ntid.x;\nmov.u32 %r5, %ctaid.x;\n"
         "mad.lo.s32 %r6, %r3, %r4, %r2;\nmov.u32 %r7, %ntid.y;\nmul.lo.s32 %r8, %r4, %r7;\n"
         "mad.lo.s32 %r9, %r5, %r8, %r6;\n"
         "mul.wide.u32 %rd3, %r9, 4;\nadd.s64 %rd4, %rd2, %rd3;\nadd.s64 %rd5, %rd1, %rd3;\n"
         "shl.b32 %r10, %r6, 2;\nmov.u32 %r11, tile;\nadd.s32 %r12, %r11, %r10;\n" +
         body + "ret;\n}\n";
}

TEST(Regions, fast_code_alone_where_threads_stay_together) {
  // Each thread stores to shared memory and reads its neighbour's, three times, in a loop that counts to n.
  const std::string ptx = kernel(R"(
mov.u32 %r20, 0;
ld.global.u32 %r21, [%rd5];
add.s32 %r22, %r10, 4;
and.b32 %r22, %r22, 127;
add.s32 %r22, %r22, %r11;
LOOP:
st.shared.u32 [%r12], %r21;
bar.sync 0;
ld.shared.u32 %r23, [%r22];
mad.lo.s32 %r21, %r21, 3, %r23;
bar.sync 0;
add.s32 %r20, %r20, 1;
setp.lt.s32 %p1, %r20, %r1;
@%p1 bra LOOP;
st.global.u32 [%rd4], %r21;
)");
  const Compared seen = compare(ptx, {2}, {32}, 3);
  EXPECT_EQ(seen.slow, 0u);
  EXPECT_EQ(seen.fast, 2u * 7);  // the start, then each barrier
  EXPECT_EQ(seen.checked, seen.fast);
}

TEST(Regions, rows_of_a_block) {
  // Affine in x, anything in y.
  const std::string ptx = kernel(R"(
mul.lo.s32 %r20, %r3, %r3;
add.s32 %r21, %r20, %r2;
st.shared.u32 [%r12], %r21;
bar.sync 0;
ld.shared.u32 %r22, [%r12];
add.s32 %r23, %r22, %r21;
st.global.u32 [%rd4], %r23;
)");
  EXPECT_EQ(compare(ptx, {3}, {8, 16}, 0).slow, 0u);
  EXPECT_EQ(compare(ptx, {3}, {1, 32}, 0).slow, 0u);
}

TEST(Regions, a_loop_whose_header_is_a_stop) {
  const std::string ptx = kernel(R"(
mov.u32 %r20, %r9;
mov.f32 %f1, 0f00000000;
setp.ge.u32 %p1, %r20, %r1;
@%p1 bra DONE;
mov.u32 %r21, %nctaid.x;
mul.lo.s32 %r21, %r21, %r8;
LOOP:
mul.wide.s32 %rd10, %r20, 4;
add.s64 %rd11, %rd1, %rd10;
ld.global.u32 %r22, [%rd11];
cvt.rn.f32.u32 %f2, %r22;
add.f32 %f1, %f1, %f2;
add.s32 %r20, %r20, %r21;
setp.lt.s32 %p2, %r20, %r1;
@%p2 bra LOOP;
DONE:
st.global.f32 [%rd4], %f1;
)");
  Compared even = compare(ptx, {2}, {64}, 1024);
  EXPECT_EQ(even.slow, 0u);
  EXPECT_EQ(even.fast, 2u * 9);
  EXPECT_EQ(even.checked, even.fast);
  Compared odd = compare(ptx, {2}, {64}, 1000);  // in the last turn they part
  EXPECT_GT(odd.fast, 0u);
  EXPECT_GT(odd.slow, 0u);
  compare(ptx, {2}, {64}, 0);
  compare(ptx, {2}, {64}, 5);
}

TEST(Regions, a_loop_that_is_entered_again) {
  // What the inner loop does not change is affine the first time it is entered, and not the next.
  const std::string ptx = kernel(R"(
mov.u32 %r40, %r2;
mov.u32 %r41, 0;
mov.u32 %r45, 0;
OUTER:
mov.u32 %r42, 0;
INNER:
add.s32 %r43, %r40, %r42;
mul.wide.s32 %rd10, %r43, 4;
add.s64 %rd11, %rd1, %rd10;
ld.global.u32 %r44, [%rd11];
mad.lo.s32 %r45, %r45, 3, %r44;
add.s32 %r42, %r42, 1;
setp.lt.s32 %p1, %r42, 3;
@%p1 bra INNER;
setp.ne.s32 %p2, %r2, 7;
@%p2 bra SKIP;
add.s32 %r40, %r40, 4;
SKIP:
add.s32 %r41, %r41, 1;
setp.lt.s32 %p3, %r41, 3;
@%p3 bra OUTER;
st.global.u32 [%rd4], %r45;
)");
  const Compared seen = compare(ptx, {1}, {32}, 0);
  EXPECT_GT(seen.fast, 1u);
  EXPECT_GT(seen.slow, 0u);
}

TEST(Regions, values_that_are_not_affine_after_all) {
  // %r20 grows by a constant in one thread only: the guess fails, slow code does it.
  const std::string ptx = kernel(R"(
mov.u32 %r20, %r2;
setp.ne.s32 %p1, %r2, 7;
@%p1 bra SKIP;
add.s32 %r20, %r20, 4;
SKIP:
bar.sync 0;
mul.lo.s32 %r21, %r20, 5;
st.global.u32 [%rd4], %r21;
)");
  const Compared seen = compare(ptx, {1}, {32}, 0);
  EXPECT_EQ(seen.slow, 32u);
}

TEST(Regions, sums_that_leave_the_signed_range) {
  const std::string ptx = kernel(R"(
add.s32 %r20, %r2, 2147483640;
mov.u32 %r21, %r20;
setp.eq.s32 %p1, %r1, 1;
@%p1 bra A;
add.s32 %r21, %r21, 1;
A:
bar.sync 0;
shr.s32 %r22, %r21, 3;
cvt.s64.s32 %rd10, %r21;
shr.s64 %rd11, %rd10, 7;
cvt.u32.u64 %r23, %rd11;
add.s32 %r22, %r22, %r23;
st.global.u32 [%rd4], %r22;
)");
  EXPECT_EQ(compare(ptx, {1}, {64}, 0).slow, 64u);
  EXPECT_EQ(compare(ptx, {1}, {4}, 0).slow, 0u);
}

TEST(Regions, threads_that_exit_early_and_barriers_of_the_rest) {
  const std::string ptx = kernel(R"(
setp.ge.u32 %p1, %r6, %r1;
@%p1 exit;
st.shared.u32 [%r12], %r6;
bar.sync 0;
ld.shared.u32 %r20, [tile];
add.s32 %r21, %r20, %r6;
bar.sync 0;
st.shared.u32 [%r12], %r21;
bar.sync 0;
ld.shared.u32 %r22, [tile+4];
add.s32 %r22, %r22, %r21;
st.global.u32 [%rd4], %r22;
)");
  compare(ptx, {2}, {64}, 64);
  compare(ptx, {2}, {64}, 40);
  compare(ptx, {2}, {64}, 2);
}

TEST(Regions, different_barriers_in_one_phase) {
  const std::string ptx = kernel(R"(
mov.u32 %r20, %r2;
and.b32 %r21, %r2, 1;
setp.eq.s32 %p1, %r21, 0;
st.shared.u32 [%r12], %r6;
@%p1 bra EVEN;
bar.sync 0;
add.s32 %r20, %r20, 100;
bra.uni MET;
EVEN:
mul.lo.s32 %r20, %r20, 3;
bar.sync 0;
MET:
xor.b32 %r22, %r10, 4;
add.s32 %r22, %r22, %r11;
ld.shared.u32 %r23, [%r22];
add.s32 %r24, %r23, %r20;
bar.sync 0;
st.global.u32 [%rd4], %r24;
)");
  compare(ptx, {1}, {64}, 0);
}

TEST(Regions, what_must_run_a_thread_at_a_time_has_no_regions) {
  const char* bodies[] = {
      "S: ld.volatile.shared.u32 %r20, [%r12];\nsetp.eq.s32 %p1, %r20, 0;\n@%p1 bra S;\n",      // waits
      "S: atom.shared.cas.b32 %r20, [%r12], 0, 1;\nsetp.ne.s32 %p1, %r20, 0;\n@%p1 bra S;\n",  // a lock
      "shfl.sync.bfly.b32 %r20, %r2, 1, 31, -1;\nst.global.u32 [%rd4], %r20;\n",               // lanes meet
      "bar.sync 1, 32;\n",
      "bar.warp.sync -1;\n",
      "@%p1 bar.sync 0;\n",
      "trap;\n",
  };
  for (const char* body : bodies) {
    Runner r(kernel(body));
    EXPECT_EQ(r.module().regions("k"), nullptr) << body;
  }
}

TEST(Regions, atomics_nobody_waits_for) {
  const std::string ptx = kernel(R"(
mov.u32 %r20, 0;
LOOP:
and.b32 %r21, %r6, 7;
shl.b32 %r21, %r21, 2;
cvt.u64.u32 %rd10, %r21;
add.s64 %rd11, %rd2, %rd10;
atom.global.add.u32 %r22, [%rd11], %r6;
add.s32 %r20, %r20, 1;
setp.lt.s32 %p1, %r20, %r1;
@%p1 bra LOOP;
)");
  compare(ptx, {3}, {64}, 5);
}

// ---- random kernels. Race-free by construction: between barriers a thread writes its own words only and reads its own
// or, in shared memory, words that were written before the last barrier and not since.

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  std::string body() {
    for (int n = 20; n < 30; ++n) line("mov.u32 %r" + std::to_string(n) + ", " + (pick(3) ? "%r6" : "%r2") + ";");
    line("mov.f32 %f1, 0f3F800000;\nst.shared.u32 [%r12], %r6;\nbar.sync 0;");
    for (std::uint32_t n = 2 + pick(5); n; --n) statement(2, true);
    line("bar.sync 0;");
    for (int n = 20; n < 30; ++n) line("xor.b32 %r21, %r21, %r" + std::to_string(n) + ";");
    line("mov.b32 %r90, %f1;\nadd.s32 %r21, %r21, %r90;\nst.global.u32 [%rd4], %r21;");
    return text_;
  }

 private:
  std::uint32_t pick(std::uint32_t n) { return random_() % n; }
  void line(const std::string& s) { text_ += s + "\n"; }
  std::string reg() { return "%r" + std::to_string(20 + pick(10)); }
  std::string label() { return "L" + std::to_string(++labels_); }
  std::string predicate() { return "%p" + std::to_string(++predicates_ % 30 + 1); }
  std::string operand() {
    switch (pick(5)) {
      case 0: return std::to_string(pick(9));
      case 1: return "%r1";
      case 2: return "%r5";
      default: return reg();
    }
  }

  void arithmetic() {
    static const char* ops[] = {"add.s32", "sub.s32", "mul.lo.s32", "and.b32",
                                "or.b32",  "xor.b32", "min.s32",    "max.u32"};
    switch (pick(6)) {
      case 0: line("mad.lo.s32 " + reg() + ", " + reg() + ", " + operand() + ", " + reg() + ";"); break;
      case 1: line("shl.b32 " + reg() + ", " + reg() + ", " + std::to_string(pick(4)) + ";"); break;
      case 2: line("cvt.rn.f32.s32 %f2, " + reg() + ";\nfma.rn.f32 %f1, %f1, 0f3F000000, %f2;"); break;
      default: line(std::string(ops[pick(8)]) + " " + reg() + ", " + reg() + ", " + operand() + ";");
    }
  }

  void memory() {
    switch (pick(4)) {
      case 0: line("ld.global.u32 " + reg() + ", [%rd5];"); break;
      case 1: line("ld.global.u32 " + reg() + ", [%rd1+" + std::to_string(4 * pick(16)) + "];"); break;
      case 2: line("st.global.u32 [%rd4], " + reg() + ";"); break;
      default: line("ld.global.u32 " + reg() + ", [%rd4];");
    }
  }

  // Everybody's word is written, then everybody reads another's.
  void exchange() {
    line("bar.sync 0;\nst.shared.u32 [%r12], " + reg() + ";\nbar.sync 0;");
    line("xor.b32 %r91, %r10, " + std::to_string(4 << pick(4)) + ";\nadd.s32 %r91, %r91, %r11;");
    line("ld.shared.u32 " + reg() + ", [%r91];");
  }

  void branch(unsigned depth, bool together) {
    const std::string p = predicate(), skip = label(), end = label();
    const bool uniform = pick(2) != 0;
    line("setp.lt.s32 " + p + ", " + (uniform ? "%r1" : reg()) + ", " + std::to_string(pick(60)) + ";");
    line("@" + p + " bra " + skip + ";");
    for (std::uint32_t n = 1 + pick(2); n; --n) statement(depth - 1, together && uniform);
    line("bra.uni " + end + ";\n" + skip + ":");
    if (pick(2)) statement(depth - 1, together && uniform);
    line(end + ":");
  }

  // Counts from 0 to something uniform, or to something of each thread's own.
  void loop(unsigned depth, bool together) {
    const std::string p = predicate(), top = label(), i = "%r" + std::to_string(40 + counters_),
                      to = "%r" + std::to_string(60 + counters_);
    counters_ = (counters_ + 1) % 20;
    const bool uniform = pick(2) != 0;
    if (uniform)
      line("mov.u32 " + to + ", " + std::to_string(1 + pick(4)) + ";");
    else
      line("and.b32 " + to + ", " + reg() + ", 3;");
    line("mov.u32 " + i + ", " + (pick(2) ? "0" : "%r5") + ";\n" + top + ":");
    for (std::uint32_t n = 1 + pick(3); n; --n) statement(depth - 1, together && uniform);
    line("add.s32 " + i + ", " + i + ", 1;\nsetp.lt.s32 " + p + ", " + i + ", " + to + ";\n@" + p + " bra " + top +
         ";");
  }

  void statement(unsigned depth, bool together) {
    switch (pick(depth ? 8 : 4)) {
      case 0:
      case 1: return arithmetic();
      case 2: return memory();
      case 3: return together ? exchange() : arithmetic();
      case 4:
      case 5: return loop(depth, together);
      default: return branch(depth, together);
    }
  }

  std::mt19937 random_;
  std::string text_;
  std::uint32_t labels_ = 0, predicates_ = 0, counters_ = 0;
};

TEST(Regions, random_kernels) {
  const char* amount = std::getenv("DEADHEAT_RANDOM_KERNELS"); // for longer runs
  const int kernels = amount ? std::atoi(amount) : 60;
  std::uint64_t fast = 0, slow = 0;
  for (int n = 0; n < kernels && !::testing::Test::HasFailure(); ++n) {
    const std::string ptx = kernel(Generator(std::uint32_t(n)).body());
    static const Runner::Dim blocks[] = {{32}, {64}, {16, 4}, {8, 8}, {1, 16}, {128}};
    const Compared seen = compare(ptx, {2}, blocks[n % 6], std::uint32_t(n) % 50, 4096, std::uint32_t(n));
    fast += seen.fast;
    slow += seen.slow;
  }
  EXPECT_GT(fast, std::uint64_t(kernels));
  EXPECT_GT(slow, std::uint64_t(kernels));
}

} // namespace
} // namespace deadheat::engine
