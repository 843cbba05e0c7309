// Shadows without code: what is near enough to one, where precision goes, and what memory of them remembers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "replay/engine/numeric.h"
#include "replay/engine/shadow_step.h"

namespace deadheat::engine {
namespace {

using K = FloatKind;

std::uint64_t bits_of(float f) { return std::bit_cast<std::uint32_t>(f); }
std::uint64_t bf16_of(double v) { return numeric::narrow(v, numeric::Narrowing{numeric::Format::bf16}.code()); }
std::uint64_t f16_of(double v) { return numeric::narrow(v, numeric::Narrowing{numeric::Format::f16}.code()); }

ShadowStep step(ShadowOp op, K to, K from, std::uint8_t sources) {
  ShadowStep s;
  s.op = op;
  s.to = to;
  s.from = from;
  s.sources = sources;
  return s;
}

// A sum of `count` terms, one by one, in a 16-bit format.
Shadow sum_of(K kind, unsigned count, double term, std::uint64_t where) {
  auto narrow = [&](double v) { return kind == K::bf16 ? bf16_of(v) : f16_of(v); };
  Shadow sum = Shadow::of(kind, narrow(0));
  for (unsigned n = 0; n < count; ++n) {
    const Shadow terms[2] = {sum, Shadow::of(kind, narrow(term))};
    const double next = widened(kind, terms[0].bits) + widened(kind, terms[1].bits);
    sum = combine(step(ShadowOp::add, kind, kind, 2), terms, narrow(next), where);
  }
  return sum;
}

TEST(Shadow, ulp) {
  EXPECT_EQ(ulp_of(K::f32, 1.0), 0x1p-23);
  EXPECT_EQ(ulp_of(K::f32, 1.99), 0x1p-23);
  EXPECT_EQ(ulp_of(K::f32, -4.0), 0x1p-21);
  EXPECT_EQ(ulp_of(K::f32, 0), 0x1p-149);
  EXPECT_EQ(ulp_of(K::f32, 1e300), 0x1p104);
  EXPECT_EQ(ulp_of(K::bf16, 256), 2);
  EXPECT_EQ(ulp_of(K::f16, 1), 0x1p-10);
  EXPECT_EQ(ulp_of(K::f16, 0x1p-20), 0x1p-24);
  EXPECT_EQ(ulp_of(K::f64, 1), 0x1p-52);
}

TEST(Shadow, a_sum_that_swallows_its_terms_is_wrong) {
  const Shadow few = sum_of(K::bf16, 64, 1.0, 7);
  EXPECT_TRUE(is_right(few));
  EXPECT_TRUE(few.trivial() || few.roundings == 0); // exact
  const Shadow many = sum_of(K::bf16, 1000, 1.0, 7);
  EXPECT_EQ(widened(K::bf16, many.bits), 256);
  EXPECT_EQ(many.value, 1000);
  EXPECT_FALSE(is_right(many));
  EXPECT_EQ(many.where, 7u);
  EXPECT_EQ(many.lost, -744);
  EXPECT_EQ(many.roundings, 744u);
  EXPECT_EQ(distance_in_ulp(many), 744 / 4.0);
}

// Roundings that go either way stay within the tolerance.
TEST(Shadow, a_sum_with_roundings_either_way_is_right) {
  for (unsigned count : {10u, 50u, 200u}) {
    Shadow sum = Shadow::of(K::f16, f16_of(0));
    for (unsigned n = 0; n < count; ++n) {
      const double term = double(n * 2654435761u % 1000) / 1000;
      const Shadow terms[2] = {sum, Shadow::of(K::f16, f16_of(term))};
      const double next = widened(K::f16, sum.bits) + widened(K::f16, terms[1].bits);
      sum = combine(step(ShadowOp::add, K::f16, K::f16, 2), terms, f16_of(next), 1);
    }
    EXPECT_TRUE(is_right(sum)) << count << ": " << distance_in_ulp(sum) << " ulp, " << sum.roundings << " roundings";
  }
}

// Cancellation leaves little; what may be lost is relative to what was added.
TEST(Shadow, magnitude_is_that_of_the_terms) {
  const ShadowStep add = step(ShadowOp::add, K::f32, K::f32, 2), sub = step(ShadowOp::sub, K::f32, K::f32, 2);
  const Shadow terms[2] = {Shadow::of(K::f32, bits_of(1e8f)), Shadow::of(K::f32, bits_of(1.0f))};
  const Shadow sum = combine(add, terms, bits_of(1e8f), 5);
  EXPECT_EQ(sum.value, 100000001.0);
  const Shadow again[2] = {sum, Shadow::of(K::f32, bits_of(1e8f))};
  const Shadow left = combine(sub, again, bits_of(0.0f), 6);
  EXPECT_EQ(left.value, 1.0);
  EXPECT_EQ(left.magnitude, 200000001.0);
  EXPECT_TRUE(is_right(left));
  EXPECT_EQ(left.where, 5u); // the subtraction was exact
  EXPECT_EQ(left.lost, -1.0);
}

// Of two instructions the one that lost more is named, at the weight that its loss has in the result.
TEST(Shadow, where_precision_goes) {
  Shadow a = Shadow::of(K::f32, bits_of(1.0f)), b = Shadow::of(K::f32, bits_of(2.0f));
  a.value = 1.0 + 0x1p-20, a.lost = -0x1p-20, a.where = 11;
  b.value = 2.0 + 0x1p-21, b.lost = -0x1p-21, b.where = 12;
  const Shadow both[2] = {a, b};
  EXPECT_EQ(combine(step(ShadowOp::add, K::f32, K::f32, 2), both, bits_of(3.0f), 13).where, 11u);
  const Shadow third[3] = {b, Shadow::of(K::f32, bits_of(100.0f)), a};
  const Shadow fused = combine(step(ShadowOp::fma, K::f32, K::f32, 3), third, bits_of(201.0f), 13);
  EXPECT_EQ(fused.where, 12u); // a hundred times
  EXPECT_NEAR(fused.lost, -100 * 0x1p-21, 1e-9);
  const Shadow one[1] = {a};
  EXPECT_EQ(combine(step(ShadowOp::convert, K::bf16, K::f32, 1), one, bf16_of(1.0), 14).where, 11u);
  Shadow half = Shadow::of(K::f32, bits_of(1.01f));
  EXPECT_EQ(combine(step(ShadowOp::convert, K::bf16, K::f32, 1), &half, bf16_of(1.01f), 14).where, 14u);
}

TEST(Shadow, infinities) {
  const Shadow x = Shadow::of(K::f32, bits_of(200.0f));
  const Shadow big = combine(step(ShadowOp::ex2, K::f32, K::f32, 1), &x, bits_of(INFINITY), 3);
  EXPECT_EQ(big.value, std::exp2(200));
  EXPECT_TRUE(is_right(big)) << "no float is nearer";
  const Shadow pair[2] = {big, big};
  const Shadow ratio = combine(step(ShadowOp::div, K::f32, K::f32, 2), pair, bits_of(NAN), 4);
  EXPECT_EQ(ratio.value, 1);
  EXPECT_FALSE(is_right(ratio));
  EXPECT_EQ(ratio.where, 3u);
  EXPECT_TRUE(std::isinf(distance_in_ulp(ratio)));
}

TEST(Shadow, steps_keep_their_fields) {
  ShadowStep s = step(ShadowOp::permute, K::f64, K::bf16, 6);
  s.width = 64, s.at = 32, s.lanes = 2;
  s.mixed = s.relu = s.crossed = s.rounds = true;
  s.counts = false;
  const ShadowStep back = ShadowStep::from_code(s.code());
  EXPECT_EQ(back.code(), s.code());
  EXPECT_TRUE(back.op == s.op && back.to == s.to && back.width == 64 && back.at == 32 && back.rounds && !back.counts);
}

TEST(ShadowMemory, forgets_and_copies) {
  Shadows all;
  Shadow s = Shadow::of(K::f32, bits_of(1.5f));
  s.value = 1.25;
  for (std::uint64_t at = 4090 - 2; at < 4090 + 40; at += 4) all.put(at, s); // over a page's end
  unsigned count = 0;
  all.each(0, 10000, [&](std::uint64_t, const Shadow&) { ++count; });
  EXPECT_EQ(count, 11u);
  all.copy(20000, 4088, 40);
  all.forget(4092, 4);
  EXPECT_FALSE(all.find(4092));
  EXPECT_TRUE(all.find(4088));
  ASSERT_TRUE(all.find(20004));
  EXPECT_EQ(all.find(20004)->value, 1.25);
  RegisterShadow reg;
  all.load(reg, 20004, 32, bits_of(2.5f)); // other bits
  EXPECT_EQ(reg.lane[0].kind, K::none);
  EXPECT_EQ(all.restarts(), 1u);
  all.store(20004, 32, nullptr, 0);
  EXPECT_FALSE(all.find(20004));
}

// Where a register's shadow is wanted as another kind it starts again, but a bf16 above zeros is a float.
TEST(ShadowMemory, kinds) {
  RegisterShadow reg;
  reg.lane[1] = Shadow::of(K::bf16, bf16_of(3.0));
  reg.lane[1].value = 3.25;
  bool restarted = false;
  EXPECT_EQ(read_lane(&reg, bits_of(3.0f), 0, K::f32, restarted).value, 3.25);
  EXPECT_FALSE(restarted);
  EXPECT_EQ(read_lane(&reg, bits_of(3.0f), 16, K::f16, restarted).kind, K::f16);
  EXPECT_TRUE(restarted);
}

TEST(Numeric, doubles_of_approximate_functions) {
  for (unsigned n = 0; n < 4000; ++n) {
    const double x = (double(n * 2654435761u % 100000) / 1000 - 50) * (n % 3 ? 1 : 0.01);
    EXPECT_NEAR(numeric::wide_ex2(x), std::exp2(x), 1e-12 * std::exp2(x)) << x;
    EXPECT_NEAR(numeric::wide_lg2(std::fabs(x) + 1e-9), std::log2(std::fabs(x) + 1e-9), 1e-12) << x;
    EXPECT_NEAR(numeric::wide_sine(x), std::sin(x), 1e-12) << x;
    EXPECT_NEAR(numeric::wide_cosine(x), std::cos(x), 1e-12) << x;
    EXPECT_NEAR(numeric::wide_tanh(x), std::tanh(x), 1e-12 * std::fabs(std::tanh(x))) << x;
  }
  EXPECT_EQ(numeric::wide_ex2(-1074), 0x1p-1074);
  EXPECT_EQ(numeric::wide_lg2(0x1p-1074), -1074);
  EXPECT_TRUE(std::isinf(numeric::wide_ex2(1024)) && std::isnan(numeric::wide_lg2(-1)));
}

} // namespace
} // namespace deadheat::engine
