// Memory: spaces, generic addresses, vectors, atomics; logs, reports, checks; spinning.
#include <gtest/gtest.h>

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "engine_runner.h"

namespace deadheat::engine {
namespace {

const std::string header = ".version 8.1\n.target sm_90\n.address_size 64\n";

class Modes : public ::testing::TestWithParam<int> {
 protected:
  Mode mode() const {
    return {.record = (GetParam() & 1) != 0, .control = (GetParam() & 2) != 0, .check = (GetParam() & 4) != 0};
  }
};
INSTANTIATE_TEST_SUITE_P(Memory, Modes, ::testing::Range(0, 8));

// Generic addresses of all windows, constants, dynamic shared memory, parameters by address.
const char* const spaces = R"(
.const .align 4 .u32 numbers[4] = {10, 20, 30, 40};
.global .align 4 .u32 counter = 7;
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 out, .param .align 4 .b8 pair[8])
{
  .local .align 4 .b8 box[16];
  .shared .align 4 .b8 fixed[36];
  .reg .b64 %a<20>; .reg .b32 %r<20>; .reg .pred %p<8>;
  ld.param.u64 %a1, [out];
  ld.const.u32 %r1, [numbers+8];
  ld.global.u32 %r2, [counter];
  add.u32 %r3, %r1, %r2;
  mov.u64 %a2, box;
  cvta.local.u64 %a3, %a2;
  st.u32 [%a3+4], %r3;
  ld.local.u32 %r4, [%a2+4];
  mov.u64 %a4, dynamic;
  cvta.shared.u64 %a5, %a4;
  st.u32 [%a5], %r4;
  mov.u32 %r5, dynamic;
  ld.shared.u32 %r6, [%r5];
  st.shared.u32 [fixed+32], %r6;
  ld.shared.u32 %r7, [fixed+32];
  mov.b64 %a6, pair;
  cvta.param.u64 %a7, %a6;
  ld.u32 %r8, [%a7+4];
  ld.param.u32 %r9, [pair];
  ld.param.u32 %r12, [%a6+4];
  add.u32 %r8, %r8, %r12;
  isspacep.local %p1, %a3;
  isspacep.shared %p2, %a5;
  isspacep.global %p3, %a1;
  isspacep.shared %p4, %a3;
  selp.u32 %r10, 1, 0, %p1;
  @%p2 add.u32 %r10, %r10, 2;
  @%p3 add.u32 %r10, %r10, 4;
  @%p4 add.u32 %r10, %r10, 8;
  st.global.u32 [%a1], %r7;
  st.global.u32 [%a1+4], %r8;
  st.global.u32 [%a1+8], %r9;
  st.global.u32 [%a1+12], %r10;
  mov.u32 %r11, dynamic;
  st.global.u32 [%a1+16], %r11;
  ret;
}
)";

TEST_P(Modes, spaces_and_windows) {
  Runner r(header + spaces);
  r.mode = mode();
  r.quantum = 1;
  r.dynamic_shared = 64;
  EXPECT_EQ(r.module().kernel("k")->static_shared, 36u);
  EXPECT_EQ(r.module().kernel("k")->dynamic_shared_offset, 48u);
  EXPECT_EQ(r.module().kernel("k")->parameter_bytes, 16u);
  std::uint64_t out = r.allocate(20);
  struct Pair {
    std::uint32_t a, b;
  };
  r.launch("k", {1}, {1}, out, Pair{5, 6});
  EXPECT_EQ(r.fault, "");
  EXPECT_EQ(r.download<std::uint32_t>(out, 5), (std::vector<std::uint32_t>{37, 12, 5, 7, 48}));
  // numbers; counter; dynamic by generic and by shared address; fixed twice; five stores. Not local, param.
  EXPECT_EQ(r.log.size(), r.mode.record ? 11u : 0u);
  EXPECT_EQ(r.visible, r.mode.control ? 11u : 0u);
  if (r.mode.record) {
    EXPECT_EQ(r.log[2].second.address, shared_window + 48);
    EXPECT_EQ(r.log[2].second.digest, 37u);
  }
}

// PTX ISA, special registers: where the system's part of shared memory lies. It overlaps nothing of the program's.
TEST_P(Modes, reserved_shared_memory) {
  Runner r(header + R"(
.extern .shared .align 32 .b8 dynamic[];
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<9>;
  .reg .b64 %a<2>;
  .shared .align 4 .b8 fixed[20];
  ld.param.u64 %a1, [out];
  mov.u32 %r1, %reserved_smem_offset_begin;
  mov.u32 %r2, %reserved_smem_offset_0;
  mov.u32 %r3, %reserved_smem_offset_1;
  mov.u32 %r4, %reserved_smem_offset_end;
  mov.u32 %r5, %reserved_smem_offset_cap;
  mov.u32 %r6, dynamic;
  mov.u32 %r7, %total_smem_size;
  mov.u32 %r8, %aggr_smem_size;
  st.shared.u32 [fixed+16], 7;
  st.shared.u32 [%r3], 8;
  st.shared.u32 [%r6], 9;
  ld.shared.u32 %r2, [fixed+16];
  st.global.v4.u32 [%a1], {%r1, %r2, %r3, %r4};
  st.global.v4.u32 [%a1+16], {%r5, %r6, %r7, %r8};
  ret;
}
)");
  r.mode = mode();
  r.dynamic_shared = 64;
  const KernelInfo& info = *r.module().kernel("k");
  EXPECT_EQ(info.static_shared, 20u);
  EXPECT_EQ(info.dynamic_shared_offset, 1056u);
  EXPECT_EQ(info.total_shared(0), 1056u);
  EXPECT_EQ(info.total_shared(64), 1120u);
  std::uint64_t out = r.allocate(32);
  r.launch("k", {1}, {1}, out);
  EXPECT_EQ(r.fault, "");
  EXPECT_EQ(r.download<std::uint32_t>(out, 8), (std::vector<std::uint32_t>{32, 7, 544, 1056, 1024, 1056, 96, 1120}));
}

const char* const vectors = R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b64 %a<8>; .reg .b32 %r<12>; .reg .f32 %f<8>; .reg .b16 %h<8>; .reg .f64 %d<4>;
  ld.param.u64 %a1, [in];
  ld.param.u64 %a2, [out];
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%a1];
  add.f32 %f1, %f1, %f4;
  st.global.v2.f32 [%a2], {%f1, %f2};
  ld.global.v2.f64 {%d1, %d2}, [%a1+16];
  add.f64 %d3, %d1, %d2;
  st.global.f64 [%a2+8], %d3;
  ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%a1+32];
  st.global.v4.u8 [%a2+16], {%h4, %h3, %h2, %h1};
  ld.global.s8 %r1, [%a1+33];
  st.global.u32 [%a2+20], %r1;
  ld.global.nc.v2.b16 {%h6, %h5}, [%a1+36];
  st.global.b16 [%a2+24], %h6;
  ld.global.b8 %r2, [%a1+33];
  st.global.b32 [%a2+28], %r2;
  ret;
}
)";

TEST_P(Modes, vectors_and_widths) {
  Runner r(header + vectors);
  r.mode = mode();
  struct In {
    float f[4];
    double d[2];
    std::uint8_t b[4];
    std::uint16_t h;
  } in{{1, 2, 3, 4}, {0.5, 0.25}, {1, 0x80, 3, 4}, 0x1234};
  std::uint64_t a = r.upload(std::vector<In>{in}), out = r.allocate(32);
  r.launch("k", {1}, {1}, a, out);
  EXPECT_EQ(r.fault, "");
  auto words = r.download<std::uint32_t>(out, 8);
  EXPECT_EQ(words[0], 0x40a00000u);
  EXPECT_EQ(words[1], 0x40000000u);
  EXPECT_EQ(r.download<double>(out + 8, 1)[0], 0.75);
  EXPECT_EQ(words[4], 0x01800304u);
  EXPECT_EQ(words[5], 0xffffff80u);
  EXPECT_EQ(words[6] & 0xffff, 0x1234u);
  EXPECT_EQ(words[7], 0x80u);
  if (!r.mode.record) return;
  // One entry a vector; digests are those of the bytes.
  ASSERT_EQ(r.log.size(), 12u);
  auto at = [&](unsigned n) { return static_cast<const std::uint8_t*>(r.host(out)) + n; };
  EXPECT_EQ(r.log[1].second.digest, digest(at(0), 8));
  EXPECT_EQ(r.log[3].second.digest, digest(at(8), 8));
  EXPECT_EQ(r.log[5].second.digest, digest(at(16), 4));
  EXPECT_EQ(r.log[0].second.digest, 0u);
}

// Every operation, its result and what it leaves.
struct Atomic {
  const char* op;
  const char* type;
  unsigned bits;
  std::uint64_t old, a, b, expect;
};
const Atomic atomics[] = {
    {"add", "u32", 32, 5, 7, 0, 12},
    {"add", "u64", 64, 5, ~0ull, 0, 4},
    {"add", "s32", 32, 5, 0xfffffffe, 0, 3},
    {"min", "s32", 32, 5, 0xfffffffe, 0, 0xfffffffe},
    {"min", "u32", 32, 5, 0xfffffffe, 0, 5},
    {"max", "s64", 64, 5, ~0ull, 0, 5},
    {"max", "u64", 64, 5, ~0ull, 0, ~0ull},
    {"and", "b32", 32, 12, 10, 0, 8},
    {"or", "b64", 64, 12, 10, 0, 14},
    {"xor", "b32", 32, 12, 10, 0, 6},
    {"exch", "b64", 64, 12, 10, 0, 10},
    {"exch", "b32", 32, 12, 10, 0, 10},
    {"inc", "u32", 32, 5, 5, 0, 0},
    {"inc", "u32", 32, 4, 5, 0, 5},
    {"dec", "u32", 32, 0, 5, 0, 5},
    {"dec", "u32", 32, 3, 5, 0, 2},
    {"dec", "u32", 32, 9, 5, 0, 5},
    {"cas", "b32", 32, 5, 5, 9, 9},
    {"cas", "b64", 64, 5, 6, 9, 5},
    {"cas", "b16", 16, 5, 5, 9, 9},
    {"add", "f32", 32, 0x3f800000, 0x40000000, 0, 0x40400000},
    {"add", "f64", 64, 0x3ff0000000000000, 0x4000000000000000, 0, 0x4008000000000000},
    {"add.noftz", "f16x2", 32, 0x3c003c00, 0x40003c00, 0, 0x42004000},
    {"add.noftz", "bf16x2", 32, 0x3f803f80, 0x40003f80, 0, 0x40404000},
    {"add.noftz", "f16", 16, 0x3c00, 0x4000, 0, 0x4200},
};

TEST_P(Modes, atomics) {
  std::string text = header;
  unsigned k = 0;
  for (const Atomic& t : atomics) {
    std::string bits = std::to_string(t.bits), n = std::to_string(k++);
    bool cas = std::string(t.op) == "cas";
    std::string operands = std::string("[%p], %a") + (cas ? ", %b" : "");
    for (std::string space : {"", ".global", ".shared"}) {
      text += ".visible .entry k" + n + space.substr(space.empty() ? 0 : 1) +
              "(.param .u64 p, .param .u64 a, .param .u64 b)\n{\n" + "  .reg .b64 %p, %g; .reg .b" + bits +
              " %a, %b, %o;\n  .shared .align 8 .b8 s[8];\n" +
              "  ld.param.u64 %g, [p];\n  mov.b64 %p, %g;\n  ld.param.b" + bits + " %a, [a];\n  ld.param.b" + bits +
              " %b, [b];\n";
      if (space == ".shared")
        text += "  mov.u64 %p, s;\n  ld.global.b" + bits + " %o, [%g];\n  st.shared.b" + bits + " [%p], %o;\n";
      text += "  atom" + space + "." + t.op + "." + t.type + " %o, " + operands + ";\n  st.global.b" + bits +
              " [%g+8], %o;\n";
      if (space == ".shared") text += "  ld.shared.b" + bits + " %o, [%p];\n  st.global.b" + bits + " [%g], %o;\n";
      text += "  ret;\n}\n";
    }
  }
  Runner r(text);
  EXPECT_EQ(r.module().refusals(), std::vector<std::string>());
  r.mode = mode();
  for (k = 0; k < sizeof atomics / sizeof atomics[0]; ++k)
    for (std::string space : {"", "global", "shared"}) {
      const Atomic& t = atomics[k];
      std::uint64_t p = r.upload(std::vector<std::uint64_t>{t.old, 0});
      r.launch("k" + std::to_string(k) + space, {1}, {1}, p, t.a, t.b);
      EXPECT_EQ(r.fault, "");
      auto out = r.download<std::uint64_t>(p, 2);
      std::uint64_t mask = t.bits == 64 ? ~0ull : (1ull << t.bits) - 1;
      EXPECT_EQ(out[0] & mask, t.expect) << t.op << t.type << space;
      EXPECT_EQ(out[1] & mask, t.old) << t.op << t.type << space;
      if (!r.mode.record) continue;
      ASSERT_EQ(r.strong.size(), 1u);
      EXPECT_EQ(r.strong[0].read, t.old);
      bool cas = std::string(t.op) == "cas";
      EXPECT_EQ(r.strong[0].wrote, !cas || t.old == t.a);
      if (r.strong[0].wrote) {
        EXPECT_EQ(r.strong[0].written, t.expect);
      }
      if (space != "shared") {
        EXPECT_EQ(r.strong[0].address, p);
      }
    }
}

// Thread 0 waits for what thread 40 writes; then everything is as if by one clock.
const char* const flag = R"(
.visible .entry k(.param .u64 flag, .param .u64 out)
{
  .reg .b64 %a<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
  ld.param.u64 %a1, [flag];
  ld.param.u64 %a2, [out];
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 40;
  @%p1 bra WRITE;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 ret;
WAIT:
  ld.acquire.gpu.global.u32 %r2, [%a1];
  setp.eq.u32 %p2, %r2, 0;
  @%p2 bra WAIT;
  ld.global.u32 %r3, [%a2];
  add.u32 %r3, %r3, %r2;
  st.global.u32 [%a2+4], %r3;
  ret;
WRITE:
  mov.u32 %r4, 30;
  st.global.u32 [%a2], %r4;
  mov.u32 %r5, 1;
  st.release.gpu.global.u32 [%a1], %r5;
  ret;
}
)";

TEST_P(Modes, spinning_lets_others_run) {
  Runner r(header + flag);
  r.mode = mode();
  std::uint64_t f = r.upload(std::vector<std::uint32_t>{0}), out = r.allocate(8);
  r.launch("k", {1}, {64}, f, out);
  EXPECT_EQ(r.fault, "");
  EXPECT_FALSE(r.hung);
  EXPECT_EQ(r.download<std::uint32_t>(out, 2)[1], 31u);
  bool spun = false;
  for (auto& [step, address] : r.stops) spun |= step == Step::spin && address == f;
  EXPECT_EQ(spun, !r.mode.record);  // recorded threads stop before every strong operation, so the writer comes first
  if (r.mode.record) {
    EXPECT_GE(r.strong.size(), 3u);
    EXPECT_EQ(r.strong.back().read, 1u);
    EXPECT_EQ(r.log.size(), 3u);
  }
}

// Locks spin by compare-and-swap; loops of stores, fences and sleeps stop when the quantum is used up.
const char* const busy = R"(
.visible .entry lock(.param .u64 lock, .param .u64 sum)
{
  .reg .b64 %a<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
  ld.param.u64 %a1, [lock];
  ld.param.u64 %a2, [sum];
AGAIN:
  atom.global.cas.b32 %r1, [%a1], 0, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  membar.gl;
  ld.global.u32 %r2, [%a2];
  bar.warp.sync 0;
  add.u32 %r2, %r2, 1;
  st.global.u32 [%a2], %r2;
  membar.gl;
  atom.global.exch.b32 %r3, [%a1], 0;
  ret;
}
.visible .entry forever(.param .u64 p)
{
  .reg .b64 %a<4>; .reg .b32 %r<8>;
  ld.param.u64 %a1, [p];
  mov.u32 %r1, 0;
AGAIN:
  add.u32 %r1, %r1, 1;
  st.volatile.global.u32 [%a1], %r1;
  bra AGAIN;
}
.visible .entry sleeps()
{
AGAIN:
  nanosleep.u32 100;
  bra AGAIN;
}
.visible .entry fences()
{
AGAIN:
  fence.acq_rel.gpu;
  bra AGAIN;
}
)";

TEST_P(Modes, endless_loops_stop) {
  Runner r(header + busy);
  r.mode = mode();
  r.quantum = 10;
  r.most_steps = 50;
  std::uint64_t p = r.allocate(4);
  for (std::string kernel : {"forever", "sleeps", "fences"}) {
    if (kernel == "forever")
      r.launch(kernel, {1}, {1}, p);
    else
      r.launch(kernel, {1}, {1});
    EXPECT_TRUE(r.hung) << kernel;
  }
}

// Addresses that no allocation holds, shared memory beyond the end, misalignment.
const char* const bad = R"(
.visible .entry global(.param .u64 p, .param .u32 v) { .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [p]; ld.param.u32 %r, [v]; st.global.u32 [%a], %r; ret; }
.visible .entry wide(.param .u64 p) { .reg .b64 %a; .reg .b32 %r<5>; ld.param.u64 %a, [p]; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a]; ret; }
.visible .entry generic(.param .u64 p, .param .u32 v) { .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [p]; ld.param.u32 %r, [v]; st.u32 [%a], %r; ret; }
.visible .entry shared(.param .u32 at) { .reg .b32 %r<3>; .shared .align 4 .b8 s[16]; ld.param.u32 %r1, [at]; ld.shared.u32 %r2, [%r1]; st.shared.u32 [0], %r2; ret; }
)";

TEST(Checks, faults_name_what_was_wrong) {
  Runner r(header + bad);
  r.mode.check = true;
  std::uint64_t p = r.allocate(20);  // the last granule is valid in part
  auto faults = [&](const std::string& kernel, std::uint64_t address) {
    r.launch(kernel, {1}, {1}, address, 1u);
    return r.fault;
  };
  EXPECT_EQ(faults("global", p), "");
  EXPECT_EQ(faults("global", p + 16), "");
  EXPECT_NE(faults("global", p + 20), "");
  EXPECT_NE(faults("global", p + 2), "");
  EXPECT_NE(faults("global", 0), "");
  EXPECT_NE(faults("global", device_arena), "");  // a host address
  EXPECT_EQ(faults("generic", p + 4), "");
  EXPECT_NE(faults("generic", p + 24), "");
  EXPECT_EQ(faults("generic", shared_window), "write 4 site 4");  // no shared memory at all
  r.launch("wide", {1}, {1}, p);
  EXPECT_EQ(r.fault, "");
  r.launch("wide", {1}, {1}, p + 8);
  EXPECT_EQ(r.fault, "read 16 site 2");
  for (auto [at, good] : {std::pair{0u, true}, {12u, true}, {16u, false}, {2u, false}, {0xfffffffcu, false}}) {
    r.launch("shared", {1}, {1}, at);
    EXPECT_EQ(r.fault.empty(), good) << at;
  }
}

const char* const discards = R"(
.visible .entry k(.param .u64 p)
{
  .reg .b64 %a<3>; .reg .b32 %r<3>;
  ld.param.u64 %a1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %a2, %r1, 256;
  add.u64 %a1, %a1, %a2;
  discard.global.L2 [%a1+128], 128;
  st.global.u32 [%a1+132], %r1;
  ret;
}
.visible .entry generic(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; discard.L2 [%a], 128; ret; }
)";

// Every second line, by a thread each; then a word of it is written again.
TEST_P(Modes, discarded_lines) {
  constexpr std::uint32_t threads = 5, words = threads * 64;
  Runner r(header + discards);
  r.mode = mode();
  r.quantum = 1;
  std::vector<std::uint32_t> expected(words, 7);
  const std::uint64_t place = r.allocate(words * 4 + 128), p = (place + 127) / 128 * 128;
  std::memcpy(r.host(p), expected.data(), words * 4);
  for (std::uint32_t w = 0; w < words; ++w)
    if (w / 32 % 2) expected[w] = w % 32 == 1 ? w / 64 : std::uint32_t(discard_pattern);
  r.launch("k", {1}, {threads}, p);
  EXPECT_EQ(r.fault, "");
  EXPECT_EQ(r.download<std::uint32_t>(p, words), expected);
  EXPECT_EQ(r.visible, r.mode.control ? 2 * threads : 0u);
  ASSERT_EQ(r.log.size(), r.mode.record ? 2 * threads : 0u);
  if (r.mode.record) {
    EXPECT_EQ(r.log[0].second.address, p + 128);
    EXPECT_EQ(r.log[0].second.digest, 0u);
  }
}

TEST(Checks, lines_that_cannot_be_discarded) {
  Runner r(header + discards);
  r.mode.check = true;
  const auto fault = [&](const std::string& kernel, std::uint64_t address) {
    r.launch(kernel, {1}, {1}, kernel == "k" ? address - 128 : address);
    return r.fault;
  };
  const std::uint64_t p = (r.allocate(4 * 128) + 127) / 128 * 128;
  for (const std::uint64_t address : {p + 4, p + 16, p + 32, p + 64, shared_window}) {
    EXPECT_EQ(fault("k", address), "write 128 site 0") << address - p;
    EXPECT_EQ(fault("generic", address), "write 128 site 3") << address - p;
  }
  // Wherever memory begins and ends in a line.
  for (std::uint64_t bytes = 16; bytes <= 400; bytes += 16) {
    const std::uint64_t place = r.allocate(bytes), end = place + bytes;
    for (std::uint64_t line = place / 128 * 128; line < end; line += 128)
      EXPECT_EQ(fault("generic", line), line < place || line + 128 > end ? "write 128 site 3" : "")
          << place % 128 << ", " << bytes;
  }
}

const char* const copies = R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b64 %a<6>; .reg .b32 %r<8>; .reg .pred %p;
  .shared .align 16 .b8 s[64];
  ld.param.u64 %a1, [in];
  ld.param.u64 %a2, [out];
  mov.u32 %r1, s;
  cp.async.cg.shared.global [%r1], [%a1], 16;
  cp.async.ca.shared.global [%r1+16], [%a1], 8, 4;
  cp.async.commit_group;
  cp.async.wait_group 0;
  ld.shared.u32 %r2, [%r1+8];
  ld.shared.u32 %r3, [%r1+16];
  ld.shared.u32 %r4, [%r1+20];
  st.global.u32 [%a2], %r2;
  st.global.u32 [%a2+4], %r3;
  st.global.u32 [%a2+8], %r4;
  ret;
}
)";

TEST_P(Modes, asynchronous_copies) {
  Runner r(header + copies);
  r.mode = mode();
  r.quantum = 1;
  std::uint64_t in = r.upload(std::vector<std::uint32_t>{1, 2, 3, 4}), out = r.allocate(12);
  r.launch("k", {1}, {1}, in, out);
  EXPECT_EQ(r.fault, "");
  EXPECT_EQ(r.download<std::uint32_t>(out, 3), (std::vector<std::uint32_t>{3, 1, 0}));
}

}  // namespace
}  // namespace deadheat::engine
