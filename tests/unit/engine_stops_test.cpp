// Stops and resumes: barriers, rendezvous, calls, spinning, in every mode.
#include <gtest/gtest.h>

#include <numeric>

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "engine_runner.h"

namespace deadheat::engine {
namespace {

// out[block] = sum of in[block * 128 ...], a tree in shared memory.
const char* const reduce = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry reduce(.param .u64 pin, .param .u64 pout)
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  .shared .align 4 .b8 tile[512];
  ld.param.u64 %rd1, [pin];
  ld.param.u64 %rd2, [pout];
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  shl.b32 %r3, %r2, 7;
  add.s32 %r4, %r3, %r1;
  mul.wide.u32 %rd5, %r4, 4;
  add.s64 %rd6, %rd3, %rd5;
  ld.global.u32 %r5, [%rd6];
  shl.b32 %r6, %r1, 2;
  mov.u32 %r7, tile;
  add.s32 %r8, %r7, %r6;
  st.shared.u32 [%r8], %r5;
  mov.u32 %r9, 64;
LOOP:
  bar.sync 0;
  setp.ge.u32 %p1, %r1, %r9;
  @%p1 bra SKIP;
  shl.b32 %r10, %r9, 2;
  add.s32 %r11, %r8, %r10;
  ld.shared.u32 %r12, [%r11];
  ld.shared.u32 %r13, [%r8];
  add.s32 %r14, %r12, %r13;
  st.shared.u32 [%r8], %r14;
SKIP:
  shr.u32 %r9, %r9, 1;
  setp.ne.u32 %p2, %r9, 0;
  @%p2 bra LOOP;
  setp.ne.u32 %p3, %r1, 0;
  @%p3 bra DONE;
  mul.wide.u32 %rd7, %r2, 4;
  add.s64 %rd4, %rd4, %rd7;
  ld.shared.u32 %r15, [tile];
  st.global.u32 [%rd4], %r15;
DONE:
  ret;
}
)";

class Modes : public ::testing::TestWithParam<int> {
 protected:
  Mode mode() const {
    return {.record = (GetParam() & 1) != 0, .control = (GetParam() & 2) != 0, .check = (GetParam() & 4) != 0};
  }
};
INSTANTIATE_TEST_SUITE_P(Engine, Modes, ::testing::Range(0, 8));

TEST_P(Modes, reduces) {
  Runner r(reduce);
  r.mode = mode();
  r.quantum = 3;
  std::vector<std::uint32_t> in(512);
  std::iota(in.begin(), in.end(), 1);
  std::uint64_t pin = r.upload(in), pout = r.allocate(16);
  r.launch("reduce", {4}, {128}, pin, pout);
  EXPECT_EQ(r.fault, "");
  auto out = r.download<std::uint32_t>(pout, 4);
  for (unsigned b = 0; b < 4; ++b) EXPECT_EQ(out[b], 128 * (b * 128) + 128 * 129 / 2);
  std::uint64_t accesses = 4 * (128 * 2 + 127 * 3 + 2);
  EXPECT_EQ(r.log.size(), r.mode.record ? accesses : 0);
  EXPECT_EQ(r.visible, r.mode.control ? accesses : 0);
  EXPECT_EQ(r.stops.empty(), !r.mode.control);
  if (!r.mode.record) return;
  bool read = false, written = false;
  for (auto& [thread, entry] : r.log) {
    read |= thread == 5 && entry.address == pin + 20 && entry.digest == 0;
    written |= thread == 0 && entry.address == pout && entry.digest == out[0];
  }
  EXPECT_TRUE(read);
  EXPECT_TRUE(written);
}

// Rendezvous of lanes: a warp sum by shuffles, ballots, matches; values that live across many stops.
const char* const lanes = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<6>; .reg .b32 %r<30>; .reg .b64 %a<6>; .reg .f32 %f<8>; .reg .f64 %d<3>;
  ld.param.u64 %a1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %laneid;
  cvt.rn.f32.u32 %f1, %r1;
  cvt.f64.f32 %d1, %f1;
  add.u32 %r3, %r1, 1;
  shfl.sync.down.b32 %r4, %r3, 16, 31, 0xffffffff;
  add.u32 %r3, %r3, %r4;
  shfl.sync.down.b32 %r4, %r3, 8, 31, 0xffffffff;
  add.u32 %r3, %r3, %r4;
  shfl.sync.down.b32 %r4, %r3, 4, 31, 0xffffffff;
  add.u32 %r3, %r3, %r4;
  shfl.sync.down.b32 %r4, %r3, 2, 31, 0xffffffff;
  add.u32 %r3, %r3, %r4;
  shfl.sync.down.b32 %r4, %r3, 1, 31, 0xffffffff;
  add.u32 %r3, %r3, %r4;
  shfl.sync.idx.b32 %r5, %r3, 0, 31, 0xffffffff;
  shfl.sync.up.b32 %r6|%p1, %r1, 1, 0, 0xffffffff;
  selp.u32 %r7, 1, 0, %p1;
  and.b32 %r8, %r1, 3;
  setp.eq.u32 %p2, %r8, 0;
  vote.sync.ballot.b32 %r9, %p2, 0xffffffff;
  vote.sync.any.pred %p3, %p2, 0xffffffff;
  vote.sync.all.pred %p4, !%p2, 0xffffffff;
  match.any.sync.b32 %r10, %r8, 0xffffffff;
  redux.sync.add.s32 %r11, %r8, 0xffffffff;
  activemask.b32 %r12;
  bar.warp.sync 0xffffffff;
  elect.sync %r13|%p5, 0xffffffff;
  setp.lt.u32 %p1, %r1, 40;
  bar.red.popc.u32 %r14, 0, %p1;
  bar.red.or.pred %p1, 0, %p1;
  mul.wide.u32 %a2, %r1, 64;
  add.u64 %a1, %a1, %a2;
  st.global.u32 [%a1], %r5;
  st.global.u32 [%a1+4], %r6;
  st.global.u32 [%a1+8], %r7;
  st.global.u32 [%a1+12], %r9;
  selp.u32 %r15, 1, 0, %p3;
  @%p4 add.u32 %r15, %r15, 2;
  @%p5 add.u32 %r15, %r15, 4;
  @%p1 add.u32 %r15, %r15, 8;
  st.global.u32 [%a1+16], %r15;
  st.global.u32 [%a1+20], %r10;
  st.global.u32 [%a1+24], %r11;
  st.global.u32 [%a1+28], %r12;
  st.global.u32 [%a1+32], %r14;
  cvt.rn.f32.f64 %f2, %d1;
  add.f32 %f2, %f2, %f1;
  cvt.rni.u32.f32 %r16, %f2;
  st.global.u32 [%a1+36], %r16;
  ret;
}
)";

TEST_P(Modes, lanes_meet) {
  Runner r(lanes);
  r.mode = mode();
  r.quantum = 1;
  std::uint64_t out = r.allocate(64 * 64);
  r.launch("k", {1}, {64}, out);
  EXPECT_EQ(r.fault, "");
  auto words = r.download<std::uint32_t>(out, 64 * 16);
  for (std::uint32_t t = 0; t < 64; ++t) {
    const std::uint32_t* w = &words[t * 16];
    std::uint32_t warp = t / 32 * 32;
    EXPECT_EQ(w[0], 32 * warp + 32 * 33 / 2);
    EXPECT_EQ(w[1], t % 32 ? t - 1 : t);
    EXPECT_EQ(w[2], t % 32 ? 1u : 0u);
    EXPECT_EQ(w[3], 0x11111111u);
    EXPECT_EQ(w[4], 1u + (t % 32 == 0 ? 4u : 0u) + 8u);
    EXPECT_EQ(w[5], 0x11111111u << (t % 4));
    EXPECT_EQ(w[6], 48u);
    EXPECT_EQ(w[7], 0xffffffffu);
    EXPECT_EQ(w[8], 40u);
    EXPECT_EQ(w[9], 2 * t);
  }
}

// Visible stops: at marked sites even with quantum left; pending_address says what comes.
TEST(Control, marked_sites_stop) {
  Runner r(reduce);
  r.mode.control = true;
  std::vector<std::uint32_t> in(128, 1);
  std::uint64_t pin = r.upload(in), pout = r.allocate(4);
  r.launch("reduce", {1}, {128}, pin, pout);
  EXPECT_TRUE(r.stops.empty());
  std::uint32_t last = std::uint32_t(r.module().sites().size());
  for (const Site& s : r.module().sites())
    if (s.opcode == "st.global.u32") last = s.id;
  r.site_stop[last] = 1;
  r.launch("reduce", {1}, {128}, pin, pout);
  ASSERT_EQ(r.stops.size(), 1u);
  EXPECT_EQ(r.stops[0].first, Step::visible);
  EXPECT_EQ(r.stops[0].second, pout);
  EXPECT_EQ(r.download<std::uint32_t>(pout, 1)[0], 128u);
}

// A log of 4 entries fills many times; nothing is lost.
TEST(Record, logs_of_any_length) {
  for (std::size_t entries : {1u, 2u, 5u, 1000u}) {
    Runner r(reduce);
    r.mode.record = true;
    r.log_entries = entries;
    std::uint64_t pin = r.upload(std::vector<std::uint32_t>(128, 1)), pout = r.allocate(4);
    r.launch("reduce", {1}, {128}, pin, pout);
    EXPECT_EQ(r.log.size(), 128u * 2 + 127 * 3 + 2);
  }
}

}  // namespace
}  // namespace deadheat::engine
