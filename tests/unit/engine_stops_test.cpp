// Stops and resumes: barriers, rendezvous, calls, spinning, in every mode.
#include <gtest/gtest.h>

#include <numeric>

#include "deadheat/address.h"
#include "engine_runner.h"
#include "replay/engine/digest.h"

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
  Mode mode() const { return {.record = (GetParam() & 1) != 0, .control = (GetParam() & 2) != 0, .check = (GetParam() & 4) != 0}; }
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

} // namespace
} // namespace deadheat::engine
