// Doubles through matrix instructions: loads, products and stores of a warp (Mode::precision).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "engine_runner.h"
#include "engine_snippets.h"
#include "replay/engine/numeric.h"
#include "replay/engine/shadow.h"

namespace deadheat::engine {
namespace {

using K = FloatKind;

std::uint32_t f16_of(double v) { return numeric::narrow(v, numeric::Narrowing{numeric::Format::f16}.code()); }

class Matrices : public ::testing::Test {
 protected:
  // `out` is written by a warp that executes `body` with a in %rd1, b in %rd2, c in %rd3, out in %rd4.
  void run(const std::string& body) {
    r_ = std::make_unique<Runner>(
        ".version 8.1\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p1, .param .u64 p2, .param .u64 "
        "p3, .param .u64 p4)\n{\n.reg .pred %p<2>;\n.reg .b32 %a<8>, %b<8>, %h<8>, %r<8>;\n.reg .f32 %c<8>, "
        "%d<8>;\n.reg .b64 %rd<10>;\n"
        "ld.param.u64 %rd1, [p1];\nld.param.u64 %rd2, [p2];\nld.param.u64 %rd3, [p3];\nld.param.u64 %rd4, [p4];\n"
        "mov.u32 %r1, %laneid;\n.shared .align 16 .b8 s[512];\n" +
        body + "\nret;\n}\n");
    ASSERT_EQ(r_->module().refusals(), std::vector<std::string>());
    for (std::uint64_t& at : at_) at = r_->allocate(16 * 16 * 4);
    std::memset(r_->host(at_[3]), 0, 16 * 16 * 4);
    for (unsigned n = 0; n < 256; ++n) {
      a_.push_back(half(0, n));
      b_.push_back(half(1, n));
      Shadow s = Shadow::of(K::f32, std::bit_cast<std::uint32_t>(float(n % 17) - 8.0f));
      c_.push_back(put(at_[2] + 4 * n, s, n));
    }
    if (prepare_) prepare_();
    r_->mode.precision = r_->mode.check = true;
    r_->shadows = &shadows_;
    r_->launch("k", {1}, {32}, at_[0], at_[1], at_[2], at_[3]);
    EXPECT_EQ(r_->fault, "");
    EXPECT_FALSE(r_->hung);
  }
  double half(unsigned matrix, unsigned n) {
    const double value = double(mix(n * 2 + matrix) % 2001) / 1000 - 1;
    return put(at_[matrix] + 2 * n, Shadow::of(K::f16, f16_of(value)), n);
  }
  double put(std::uint64_t device, Shadow s, unsigned n) {
    std::memcpy(r_->host(device), &s.bits, width_of(s.kind) / 8);
    s.value += 0x1p-24 * (n + 1);
    s.roundings = 1;
    shadows_.put(std::uint64_t(r_->host(device)), s);
    return s.value;
  }
  double result(unsigned n, K kind) {
    const std::uint64_t at = std::uint64_t(r_->host(at_[3])) + n * width_of(kind) / 8;
    const Shadow* s = shadows_.find(at);
    std::uint64_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const void*>(at), width_of(kind) / 8);
    return s && s->bits == bits && s->kind == kind ? s->value : std::nan("");
  }
  double wanted(unsigned row, unsigned column, double c) const {
    for (unsigned k = 0; k < 16; ++k) c += a_[row * 16 + k] * b_[k * 16 + column];
    return c;
  }

  Shadows shadows_;
  std::function<void()> prepare_; // memory, where it is not as usual
  std::unique_ptr<Runner> r_;
  std::uint64_t at_[4] = {};
  std::vector<double> a_, b_, c_;
};

TEST_F(Matrices, wmma_with_float_accumulators) {
  run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%rd1], 16;\n"
      "wmma.load.b.sync.aligned.row.m16n16k16.global.f16 {%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, [%rd2], 16;\n"
      "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7}, [%rd3], 16;\n"
      "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}, "
      "{%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, {%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, {%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7};\n"
      "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd4], {%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}, 16;");
  for (unsigned n = 0; n < 256; ++n) EXPECT_NEAR(result(n, K::f32), wanted(n / 16, n % 16, c_[n]), 1e-12) << n;
  const Shadow* s = shadows_.find(std::uint64_t(r_->host(at_[3])));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->cuts, 1u + 16 / 4);
  EXPECT_EQ(shadows_.restarts(), 0u);
}

TEST_F(Matrices, wmma_with_half_accumulators) {
  run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%rd1], 16;\n"
      "wmma.load.b.sync.aligned.row.m16n16k16.global.f16 {%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, [%rd2], 16;\n"
      "wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {%h0,%h1,%h2,%h3}, [%rd1], 16;\n"
      "wmma.mma.sync.aligned.row.row.m16n16k16.f16.f16 {%h0,%h1,%h2,%h3}, {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, "
      "{%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, {%h0,%h1,%h2,%h3};\n"
      "wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%rd4], {%h0,%h1,%h2,%h3}, 16;");
  for (unsigned n = 0; n < 256; ++n) EXPECT_NEAR(result(n, K::f16), wanted(n / 16, n % 16, a_[n]), 1e-12) << n;
}

TEST_F(Matrices, wmma_of_doubles) {
  // Doubles in place of the halves and floats: a and b 8x4 and 4x8, c 8x8.
  std::vector<double> a, b, c;
  prepare_ = [&] {
    auto fill = [&](std::vector<double>& into, unsigned matrix, unsigned count) {
      for (unsigned n = 0; n < count; ++n) {
        const double value = double(mix(n * 3 + matrix) % 2001) / 1000 - 1;
        into.push_back(put(at_[matrix] + 8 * n, Shadow::of(K::f64, std::bit_cast<std::uint64_t>(value)), n));
      }
    };
    fill(a, 0, 32);
    fill(b, 1, 32);
    fill(c, 2, 64);
  };
  run(".reg .f64 %x<8>;\nwmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%x0}, [%rd1], 4;\n"
      "wmma.load.b.sync.aligned.row.m8n8k4.global.f64 {%x1}, [%rd2], 8;\n"
      "wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {%x2,%x3}, [%rd3], 8;\n"
      "wmma.mma.sync.aligned.row.row.m8n8k4.rn.f64.f64.f64.f64 {%x4,%x5}, {%x0}, {%x1}, {%x2,%x3};\n"
      "wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%rd4], {%x4,%x5}, 8;");
  for (unsigned n = 0; n < 64; ++n) {
    double wanted = c[n];
    for (unsigned k = 0; k < 4; ++k) wanted += a[n / 8 * 4 + k] * b[k * 8 + n % 8];
    EXPECT_NEAR(result(n, K::f64), wanted, 1e-12) << n;
  }
  EXPECT_EQ(shadows_.restarts(), 0u);
}

// ldmatrix of the rows of a, mma with b as it lies in registers, and what lanes store themselves.
TEST_F(Matrices, ldmatrix_and_mma) {
  // a to shared memory; row r of the m-th 8x8 matrix: a[(m % 2) * 8 + r][m / 2 * 8].
  run("shl.b32 %r2, %r1, 4;\ncvt.u64.u32 %rd5, %r2;\nadd.u64 %rd6, %rd1, %rd5;\nld.global.v4.b32 {%h0,%h1,%h2,%h3}, "
      "[%rd6];\nmov.u32 %r3, s;\nadd.u32 %r3, %r3, %r2;\nst.shared.v4.b32 [%r3], {%h0,%h1,%h2,%h3};\nbar.warp.sync "
      "-1;\n"
      "and.b32 %r4, %r1, 15;\nshl.b32 %r4, %r4, 5;\nshr.u32 %r5, %r1, 4;\nshl.b32 %r5, %r5, 4;\nadd.u32 %r4, %r4, "
      "%r5;\n"
      "mov.u32 %r3, s;\nadd.u32 %r3, %r3, %r4;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a0,%a1,%a2,%a3}, [%r3];\n"
      // b's columns 0 to 7, from rows of memory turned over on the way
      "add.u32 %r6, %r2, %r2;\ncvt.u64.u32 %rd5, %r6;\nadd.u64 %rd6, %rd2, %rd5;\nsetp.lt.u32 %p1, %r1, 16;\n"
      "mov.u32 %r3, s;\nadd.u32 %r3, %r3, %r2;\nbar.warp.sync -1;\n"
      "@%p1 ld.global.v4.b32 {%h0,%h1,%h2,%h3}, [%rd6];\n@%p1 st.shared.v4.b32 [%r3], {%h0,%h1,%h2,%h3};\n"
      "bar.warp.sync -1;\nldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%b0,%b1}, [%r3];\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, "
      "{0f00000000,0f00000000,0f00000000,0f00000000};\n"
      "shl.b32 %r6, %r1, 4;\ncvt.u64.u32 %rd5, %r6;\nadd.u64 %rd6, %rd4, %rd5;\nst.global.v4.f32 [%rd6], "
      "{%d0,%d1,%d2,%d3};");
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned e = 0; e < 4; ++e) { // PTX ISA 9.7.14.5.8: c of m16n8k16
      const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
      EXPECT_NEAR(result(lane * 4 + e, K::f32), wanted(row, column, 0), 1e-12) << lane << " " << e;
    }
}

TEST_F(Matrices, rows_that_are_stored_and_turned) {
  run("mov.u32 %r3, s;\nshl.b32 %r2, %r1, 2;\nshl.b32 %r4, %r1, 4;\ncvt.u64.u32 %rd5, %r2;\nadd.u64 %rd6, %rd1, "
      "%rd5;\nld.global.b32 %h0, [%rd6];\nmovmatrix.sync.aligned.m8n8.trans.b16 %h1, %h0;\nadd.u32 %r5, %r3, %r4;\n"
      "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%h1};\nbar.warp.sync -1;\nadd.u32 %r5, %r3, %r2;\n"
      "ld.shared.b32 %h2, [%r5];\nadd.u64 %rd6, %rd4, %rd5;\nst.global.b32 [%rd6], %h2;");
  for (unsigned n = 0; n < 64; ++n) EXPECT_EQ(result(n, K::f16), a_[n % 8 * 8 + n / 8]) << n;
}

} // namespace
} // namespace deadheat::engine
