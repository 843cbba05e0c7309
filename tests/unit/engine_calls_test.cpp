// Calls: frames, recursion, stops inside callees, pointers, what the runtime provides.
#include <gtest/gtest.h>

#include "engine_runner.h"

namespace deadheat::engine {
namespace {

const std::string header = ".version 8.0\n.target sm_90\n.address_size 64\n";

class Modes : public ::testing::TestWithParam<int> {
 protected:
  Mode mode() const {
    return {.record = (GetParam() & 1) != 0, .control = (GetParam() & 2) != 0, .check = (GetParam() & 4) != 0};
  }
};
INSTANTIATE_TEST_SUITE_P(Calls, Modes, ::testing::Range(0, 8));

// fib(n) by double recursion; every call waits for the block and touches shared memory, so threads stop deep inside.
const char* const fibonacci = R"(
.func (.param .b32 out) fib(.param .b32 n, .param .b64 where)
{
  .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %a<3>;
  ld.param.u32 %r1, [n];
  ld.param.u64 %a1, [where];
  bar.sync 1;
  ld.u32 %r7, [%a1];
  add.u32 %r7, %r7, 1;
  st.u32 [%a1], %r7;
  setp.lt.u32 %p, %r1, 2;
  @%p bra BASE;
  sub.u32 %r2, %r1, 1;
  {
    .param .b32 p0; .param .b64 p1; .param .b32 r0;
    st.param.b32 [p0], %r2;
    st.param.b64 [p1], %a1;
    call.uni (r0), fib, (p0, p1);
    ld.param.b32 %r3, [r0];
  }
  sub.u32 %r4, %r1, 2;
  {
    .param .b32 p0; .param .b64 p1; .param .b32 r0;
    st.param.b32 [p0], %r4;
    st.param.b64 [p1], %a1;
    call.uni (r0), fib, (p0, p1);
    ld.param.b32 %r5, [r0];
  }
  add.u32 %r6, %r3, %r5;
  st.param.b32 [out], %r6;
  ret;
BASE:
  st.param.b32 [out], %r1;
  ret;
}
.visible .entry k(.param .u32 n, .param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %a<6>;
  .shared .align 4 .b8 counts[128];
  ld.param.u32 %r1, [n];
  ld.param.u64 %a1, [out];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %a2, %r2, 4;
  mov.u64 %a3, counts;
  add.u64 %a3, %a3, %a2;
  mov.u32 %r3, 0;
  cvta.shared.u64 %a4, %a3;
  st.u32 [%a4], %r3;
  {
    .param .b32 p0; .param .b64 p1; .param .b32 r0;
    st.param.b32 [p0], %r1;
    st.param.b64 [p1], %a4;
    call.uni (r0), fib, (p0, p1);
    ld.param.b32 %r4, [r0];
  }
  ld.shared.u32 %r5, [%a3];
  mul.lo.u32 %r5, %r5, 1000;
  add.u32 %r6, %r5, %r4;
  add.u64 %a5, %a1, %a2;
  st.global.u32 [%a5], %r6;
  ret;
}
)";

TEST_P(Modes, recursion_stops_and_goes_on) {
  Runner r(header + fibonacci);
  r.mode = mode();
  r.quantum = 2;
  std::uint64_t out = r.allocate(32 * 4);
  r.launch("k", {1}, {32}, 9u, out);
  EXPECT_EQ(r.fault, "");
  for (std::uint32_t v : r.download<std::uint32_t>(out, 32)) EXPECT_EQ(v, 109u * 1000 + 34);
}

TEST(Calls, overflow_is_a_fault) {
  Runner r(header + fibonacci);
  r.stack_bytes = 512;
  std::uint64_t out = r.allocate(4);
  r.launch("k", {1}, {1}, 20u, out);
  EXPECT_EQ(r.fault_kind, 7u) << r.fault;  // stack_overflow
}

const char* const pointers = R"(
.func (.param .b32 out) twice(.param .b32 n)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [n];
  add.u32 %r2, %r1, %r1;
  st.param.b32 [out], %r2;
  ret;
}
.func (.param .b32 out) lane(.param .b32 n)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [n];
  shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
  st.param.b32 [out], %r2;
  ret;
}
.global .align 8 .u64 table[3] = {twice, lane, 0};
.visible .entry k(.param .u64 out, .param .u32 which)
{
  .reg .b32 %r<8>; .reg .b64 %a<8>;
  ld.param.u64 %a1, [out];
  ld.param.u32 %r1, [which];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %a2, %r1, 8;
  mov.u64 %a3, table;
  add.u64 %a3, %a3, %a2;
  ld.global.u64 %a4, [%a3];
  {
    .param .b32 p0; .param .b32 r0;
    st.param.b32 [p0], %r2;
    prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
    call (r0), %a4, (p0), prototype_0;
    ld.param.b32 %r3, [r0];
  }
  mul.wide.u32 %a5, %r2, 4;
  add.u64 %a1, %a1, %a5;
  st.global.u32 [%a1], %r3;
  ret;
}
)";

TEST_P(Modes, through_pointers) {
  Runner r(header + pointers);
  r.mode = mode();
  r.quantum = 1;
  std::uint64_t out = r.allocate(32 * 4);
  r.launch("k", {1}, {32}, out, 0u);
  EXPECT_EQ(r.fault, "");
  EXPECT_EQ(r.download<std::uint32_t>(out, 32)[7], 14u);
  r.launch("k", {1}, {32}, out, 1u);
  EXPECT_EQ(r.fault, "");
  EXPECT_EQ(r.download<std::uint32_t>(out, 32)[7], 6u);
  r.launch("k", {1}, {32}, out, 2u);
  EXPECT_EQ(r.fault_kind, 8u) << r.fault;  // trap
}

const char* const provided = R"(
.extern .func (.param .b32 out) vprintf(.param .b64 a, .param .b64 b);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.extern .func (.param .b64 out) malloc(.param .b64 n);
.global .align 1 .b8 format[6] = {104, 105, 32, 37, 100, 0};
.visible .entry prints(.param .u32 n)
{
  .local .align 8 .b8 depot[8];
  .reg .b64 %a<6>; .reg .b32 %r<4>;
  mov.u64 %a1, depot;
  cvta.local.u64 %a2, %a1;
  ld.param.u32 %r1, [n];
  st.local.u32 [%a1], %r1;
  mov.u64 %a3, format;
  cvta.global.u64 %a4, %a3;
  {
    .param .b64 p0; .param .b64 p1; .param .b32 r0;
    st.param.b64 [p0], %a4;
    st.param.b64 [p1], %a2;
    call.uni (r0), vprintf, (p0, p1);
  }
  ret;
}
.visible .entry asserts()
{
  {
    .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
    call.uni __assertfail, (p0, p1, p2, p3, p4);
  }
  ret;
}
.visible .entry traps()
{
  trap;
}
.visible .entry allocates(.param .u64 out)
{
  .reg .b64 %a<6>; .reg .b32 %r<4>;
  ld.param.u64 %a1, [out];
  mov.u64 %a2, 64;
  {
    .param .b64 p0; .param .b64 r0;
    st.param.b64 [p0], %a2;
    call.uni (r0), malloc, (p0);
    ld.param.b64 %a3, [r0];
  }
  mov.u32 %r1, 77;
  st.u32 [%a3+8], %r1;
  st.global.u64 [%a1], %a3;
  ret;
}
)";

TEST(Calls, functions_of_the_runtime) {
  Runner r(header + provided);
  r.mode.check = true;
  r.launch("prints", {1}, {2}, 42u);
  EXPECT_EQ(r.printed, (std::vector<std::string>{"hi %d:42", "hi %d:42"}));
  r.launch("asserts", {1}, {1});
  EXPECT_EQ(r.fault_kind, 9u);
  r.launch("traps", {1}, {1});
  EXPECT_EQ(r.fault_kind, 8u);
  std::uint64_t out = r.allocate(8);
  r.launch("allocates", {1}, {1}, out);
  EXPECT_EQ(r.fault, "");
  std::uint64_t p = r.download<std::uint64_t>(out, 1)[0];
  EXPECT_EQ(r.download<std::uint32_t>(p + 8, 1)[0], 77u);
}

TEST(Calls, what_cannot_run_is_named) {
  Runner r(header + R"(
.extern .func nowhere();
.func inner() { .reg .b32 %r<8>; tcgen05.fence::before_thread_sync; ret; }
.visible .entry a() { call.uni nowhere, (); ret; }
.visible .entry b() { call.uni inner, (); ret; }
.visible .entry good(.param .u64 out) { .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [out]; mov.u32 %r, 5; st.global.u32 [%a], %r; exit; }
)");
  EXPECT_EQ(r.module().refusals(),
            (std::vector<std::string>{
                "kernel a: call.uni: function nowhere has no body",
                "kernel b: tcgen05.fence::before_thread_sync: not supported by the embedded device (in inner)"}));
  EXPECT_FALSE(r.module().compile("a", {}));
  std::uint64_t out = r.allocate(4);
  r.launch("good", {1}, {1}, out);
  EXPECT_EQ(r.download<std::uint32_t>(out, 1)[0], 5u);
}

// What a later PTX says of instructions that are known changes what they do.
TEST(Calls, what_later_ptx_says_is_named) {
  Runner r(header + R"(
.visible .entry a() { .reg .b32 %r<8>; .reg .b64 %a;
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [%r1], [%a], 64, %r2, %r3, [%r4]; ret; }
.visible .entry b() { .reg .b32 %r<8>;
  mbarrier.arrive.shared::cluster.multicast::cluster::32b.b64 _, [%r1], %r2; ret; }
)");
  EXPECT_EQ(r.module().refusals(),
            (std::vector<std::string>{
                "kernel a: cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob: ignored bytes are "
                "not supported by the embedded device",
                "kernel b: mbarrier.arrive.shared::cluster.multicast::cluster::32b.b64: unknown modifier"}));
}

const char* const jumps = R"(
.visible .entry k(.param .u64 out)
{
  .reg .b64 %a<4>; .reg .b32 %r<4>;
  ld.param.u64 %a1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %a2, %r1, 4;
  add.u64 %a1, %a1, %a2;
  mov.u32 %r2, 100;
  targets: .branchtargets ONE, TWO, THREE;
  brx.idx %r1, targets;
ONE:
  add.u32 %r2, %r2, 1;
TWO:
  add.u32 %r2, %r2, 10;
THREE:
  st.global.u32 [%a1], %r2;
  ret;
}
)";
TEST_P(Modes, branch_tables) {
  Runner r(header + jumps);
  r.mode = mode();
  std::uint64_t out = r.allocate(12);
  r.launch("k", {1}, {3}, out);
  EXPECT_EQ(r.download<std::uint32_t>(out, 3), (std::vector<std::uint32_t>{111, 110, 100}));
}

}  // namespace
}  // namespace deadheat::engine
