// Compiled code that carries doubles (Mode::precision): each instruction's shadow is the same operation on the shadows
// of its sources, on random operands whose shadows are not their values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "engine_runner.h"
#include "engine_snippets.h"
#include "replay/engine/shadow.h"

namespace deadheat::engine {
namespace {

using O = Operands;
using K = FloatKind;
using Doubles = std::vector<double>;

struct Operation {
  std::string code;
  std::vector<O> inputs;
  unsigned bits; // of the result
  K kind; // of its elements
  std::function<double(const Doubles&)> wanted; // of one lane, by the sources' shadows in it
  double relative = 0; // how far an approximation may be off
  std::vector<unsigned> moved = {}; // instead: which lane each lane is, of all the sources' lanes one after the other
};

K kind_of(O operand) {
  switch (operand) {
    case O::f32: return K::f32;
    case O::f64: return K::f64;
    case O::f16:
    case O::f16x2: return K::f16;
    case O::bf16:
    case O::bf16x2: return K::bf16;
    default: return K::none;
  }
}

// A shadow that is not the value, but near.
double perturbed(double value, unsigned position, unsigned n) {
  if (!std::isfinite(value)) return value;
  return value * (1 + 0x1p-20 * double(mix(n * 31 + position) % 1024) / 1024) + 0x1p-40;
}

class Precision : public ::testing::Test {
 protected:
  // Runs each on all threads and compares the shadows of what it stores.
  void check(const std::vector<Operation>& operations) {
    std::vector<Snippet> snippets;
    for (const Operation& o : operations) snippets.push_back({o.code, o.inputs, o.bits});
    Runner r(snippet_module(snippets));
    ASSERT_EQ(r.module().refusals(), std::vector<std::string>());
    r.mode.precision = true;
    std::uint64_t at[5];
    for (std::uint64_t& a : at) a = r.allocate(snippet_threads * 8);
    for (std::size_t k = 0; k < operations.size(); ++k) check_one(r, operations[k], k, at);
  }

  void check_one(Runner& r, const Operation& o, std::size_t k, const std::uint64_t* at) {
    Shadows shadows;
    r.shadows = &shadows;
    const unsigned lanes = o.bits / width_of(o.kind);
    std::vector<std::vector<Doubles>> sources(snippet_threads, std::vector<Doubles>(lanes));
    std::vector<Doubles> flat(snippet_threads); // all lanes of all sources
    for (unsigned n = 0; n < o.inputs.size(); ++n) {
      std::vector<std::uint64_t> words(snippet_threads);
      for (unsigned t = 0; t < snippet_threads; ++t) words[t] = operand_value(o.inputs[n], n, t);
      std::memcpy(r.host(at[n]), words.data(), words.size() * 8);
      const K kind = kind_of(o.inputs[n]);
      for (unsigned t = 0; t < snippet_threads; ++t)
        for (unsigned lane = 0; lane < std::max(1u, operand_bits(o.inputs[n]) / std::max(width_of(kind), 1u)); ++lane) {
          const std::uint64_t address = std::uint64_t(r.host(at[n])) + t * 8 + lane * width_of(kind) / 8;
          const std::uint64_t bits =
              kind == K::none ? words[t]
                              : words[t] >> (lane * width_of(kind)) & (~std::uint64_t(0) >> (64 - width_of(kind)));
          double value = double(std::int32_t(bits));
          if (kind != K::none) {
            Shadow s = Shadow::of(kind, bits);
            value = s.value = perturbed(s.value, n + 8 * lane, t);
            s.roundings = 1;
            shadows.put(address, s);
          }
          if (lane < lanes) sources[t][lane].push_back(value);
          flat[t].push_back(value);
        }
    }
    r.launch("snippet_" + std::to_string(k), {snippet_threads / 128}, {128}, at[0], at[1], at[2], at[3], at[4]);
    ASSERT_EQ(r.fault, "") << o.code;
    unsigned wrong = 0;
    for (unsigned t = 0; t < snippet_threads; ++t)
      for (unsigned lane = 0; lane < lanes; ++lane) {
        const std::uint64_t address = std::uint64_t(r.host(at[4])) + t * 8 + lane * width_of(o.kind) / 8;
        std::uint64_t bits = 0;
        std::memcpy(&bits, reinterpret_cast<const void*>(address), width_of(o.kind) / 8);
        const Shadow* s = shadows.find(address);
        const double got = s && s->bits == bits ? s->value : widened(o.kind, bits);
        const double wanted = o.moved.empty() ? o.wanted(sources[t][lane]) : flat[t][o.moved[lane]];
        if (got == wanted || (std::isnan(got) && std::isnan(wanted))) continue;
        if (std::fabs(got - wanted) <= o.relative * std::fabs(wanted) + o.relative * 1e-30) continue;
        if (++wrong > 3) continue;
        ADD_FAILURE() << o.code << " lane " << lane << " of thread " << t << ": shadow " << got << ", wanted " << wanted
                      << (s ? "" : " (it has none)");
      }
    EXPECT_EQ(wrong, 0u) << o.code;
  }
};

double minimum(double x, double y) { return std::isnan(x) ? y : std::isnan(y) ? x : std::min(x, y); }
double maximum(double x, double y) { return std::isnan(x) ? y : std::isnan(y) ? x : std::max(x, y); }
double saturated(double x) { return x > 0 ? std::min(x, 1.0) : 0.0; }

TEST_F(Precision, sums_products_and_extrema) {
  std::vector<Operation> all;
  struct Type {
    std::string name;
    O operand;
    unsigned bits;
  };
  const Type types[] = {{"f32", O::f32, 32},     {"f64", O::f64, 64},   {"f16", O::f16, 16},
                        {"f16x2", O::f16x2, 32}, {"bf16", O::bf16, 16}, {"bf16x2", O::bf16x2, 32}};
  for (const Type& t : types) {
    const std::string rn = t.operand == O::f32 || t.operand == O::f64 ? ".rn." : ".";
    const std::vector<O> one{t.operand}, two{t.operand, t.operand}, three{t.operand, t.operand, t.operand};
    const K k = kind_of(t.operand);
    auto add = [&](const std::string& op, const std::string& operands, const std::vector<O>& in,
                   std::function<double(const Doubles&)> f) {
      all.push_back({op + t.name + " %d, " + operands + ";", in, t.bits, k, std::move(f)});
    };
    add("add" + rn, "%a, %b", two, [](const Doubles& s) { return s[0] + s[1]; });
    add("sub" + rn, "%a, %b", two, [](const Doubles& s) { return s[0] - s[1]; });
    add("mul" + rn, "%a, %b", two, [](const Doubles& s) { return s[0] * s[1]; });
    add("fma.rn.", "%a, %b, %c", three, [](const Doubles& s) { return std::fma(s[0], s[1], s[2]); });
    add("min.", "%a, %b", two, [](const Doubles& s) { return minimum(s[0], s[1]); });
    add("max.", "%a, %b", two, [](const Doubles& s) { return maximum(s[0], s[1]); });
    add("neg.", "%a", one, [](const Doubles& s) { return -s[0]; });
    add("abs.", "%a", one, [](const Doubles& s) { return std::fabs(s[0]); });
  }
  auto f32 = [&](const std::string& code, unsigned inputs, std::function<double(const Doubles&)> f) {
    all.push_back({code, std::vector<O>(inputs, O::f32), 32, K::f32, std::move(f)});
  };
  f32("add.sat.f32 %d, %a, %b;", 2, [](const Doubles& s) { return saturated(s[0] + s[1]); });
  f32("add.rz.ftz.f32 %d, %a, %b;", 2, [](const Doubles& s) { return s[0] + s[1]; });
  f32("div.rn.f32 %d, %a, %b;", 2, [](const Doubles& s) { return s[0] / s[1]; });
  f32("div.full.f32 %d, %a, %b;", 2, [](const Doubles& s) { return s[0] / s[1]; });
  f32("copysign.f32 %d, %a, %b;", 2, [](const Doubles& s) { return std::copysign(s[1], s[0]); });
  f32("max.NaN.f32 %d, %a, %b;", 2,
      [](const Doubles& s) { return std::isnan(s[0]) || std::isnan(s[1]) ? std::nan("") : std::max(s[0], s[1]); });
  f32("min.f32 %d, %a, %b, %c;", 3, [](const Doubles& s) { return minimum(minimum(s[0], s[1]), s[2]); });
  all.push_back({"fma.rn.relu.f16x2 %d, %a, %b, %c;", {O::f16x2, O::f16x2, O::f16x2}, 32, K::f16, [](const Doubles& s) {
                   const double r = std::fma(s[0], s[1], s[2]);
                   return r <= 0 ? 0 : r;
                 }});
  check(all);
}

TEST_F(Precision, functions) {
  std::vector<Operation> all;
  auto f32 = [&](const std::string& op, double relative, double (*f)(double)) {
    all.push_back({op + " %d, %a;", {O::f32}, 32, K::f32, [f](const Doubles& s) { return f(s[0]); }, relative});
  };
  f32("rcp.approx.f32", 0, [](double x) { return 1 / x; });
  f32("sqrt.rn.f32", 0, [](double x) { return std::sqrt(x); });
  f32("rsqrt.approx.f32", 1e-15, [](double x) { return 1 / std::sqrt(x); });
  f32("ex2.approx.f32", 1e-12, [](double x) { return std::exp2(x); });
  f32("lg2.approx.f32", 1e-12, [](double x) { return std::log2(x); });
  f32("tanh.approx.f32", 1e-12, [](double x) { return std::tanh(x); });
  // Of large operands the host's own reduction is better than ours: bounded ones.
  auto bounded = [&](const std::string& op, double (*f)(double)) {
    all.push_back(
        {"mul.f32 %a, %a, 0f00000000; add.f32 %a, %a, %b; min.f32 %a, %a, 0f42C80000; max.f32 %a, %a, "
         "0fC2C80000; " +
             op + " %d, %a;",
         {O::f32, O::f32},
         32,
         K::f32,
         [f](const Doubles& s) { return f(maximum(minimum(s[0] * 0 + s[1], 100), -100)); },
         1e-9});
  };
  bounded("sin.approx.f32", [](double x) { return std::sin(x); });
  bounded("cos.approx.f32", [](double x) { return std::cos(x); });
  all.push_back({"ex2.approx.ftz.bf16x2 %d, %a;",
                 {O::bf16x2},
                 32,
                 K::bf16,
                 [](const Doubles& s) { return std::exp2(s[0]); },
                 1e-12});
  all.push_back(
      {"tanh.approx.f16 %d, %a;", {O::f16}, 16, K::f16, [](const Doubles& s) { return std::tanh(s[0]); }, 1e-12});
  check(all);
}

TEST_F(Precision, conversions) {
  auto same = [](const Doubles& s) { return s[0]; };
  check({
      {"cvt.f64.f32 %d, %a;", {O::f32}, 64, K::f64, same},
      {"cvt.rn.f32.f64 %d, %a;", {O::f64}, 32, K::f32, same},
      {"cvt.f32.f16 %d, %a;", {O::f16}, 32, K::f32, same},
      {"cvt.rn.f16.f32 %d, %a;", {O::f32}, 16, K::f16, same},
      {"cvt.f32.bf16 %d, %a;", {O::bf16}, 32, K::f32, same},
      {"cvt.rn.bf16.f32 %d, %a;", {O::f32}, 16, K::bf16, same},
      {"cvt.rn.f16.f64 %d, %a;", {O::f64}, 16, K::f16, same},
      {"cvt.rna.tf32.f32 %d, %a;", {O::f32}, 32, K::f32, same},
      {"cvt.sat.f32.f32 %d, %a;", {O::f32}, 32, K::f32, [](const Doubles& s) { return saturated(s[0]); }},
      {"cvt.rn.f32.s32 %d, %a;", {O::b32}, 32, K::f32, same},
      {"cvt.rn.bf16x2.f32 %d, %a, %b;", {O::f32, O::f32}, 32, K::bf16, nullptr, 0, {1, 0}},
      {"cvt.rn.f16x2.f32 %d, %a, %b;", {O::f32, O::f32}, 32, K::f16, nullptr, 0, {1, 0}},
  });
}

// Bits that are moved, not computed with: halves of registers keep their shadows.
TEST_F(Precision, moves_of_bits) {
  const std::vector<O> pair{O::bf16x2}, pairs{O::f16x2, O::f16x2}, halves{O::f16, O::f16};
  auto op = [](const std::string& code, const std::vector<O>& in, unsigned bits, K kind, std::vector<unsigned> moved) {
    return Operation{code, in, bits, kind, nullptr, 0, std::move(moved)};
  };
  check({
      op("mov.b32 %x32, %a; mov.b32 %d, %x32;", {O::f32}, 32, K::f32, {0}),
      op("mov.b64 %x64, %a; mov.b64 %d, %x64;", {O::f64}, 64, K::f64, {0}),
      op("mov.b32 %d, {%b, %a};", halves, 32, K::f16, {1, 0}),
      op("mov.b32 {%x16, %y16}, %a; mov.b32 %d, {%y16, %x16};", pair, 32, K::bf16, {1, 0}),
      op("mov.b64 %d, {%b, %a};", {O::f32, O::f32}, 64, K::f32, {1, 0}),
      op("mov.b64 %x64, {%b, %a}; mov.b64 {%x32, %d}, %x64;", {O::f32, O::f32}, 32, K::f32, {0}),
      op("prmt.b32 %d, %a, %b, 0x5410;", pairs, 32, K::f16, {0, 2}),
      op("prmt.b32 %d, %a, %b, 0x7632;", pairs, 32, K::f16, {1, 3}),
      op("prmt.b32 %d, %a, %b, 0x1032;", pairs, 32, K::f16, {1, 0}),
      op("shl.b32 %x32, %a, 16; add.f32 %d, %x32, 0f00000000;", pair, 32, K::f32, {0}),
      op("and.b32 %x32, %a, 0xffff0000; add.f32 %d, %x32, 0f00000000;", pair, 32, K::f32, {1}),
      op("cvt.u32.u16 %x32, %a; shl.b32 %x32, %x32, 16; add.f32 %d, %x32, 0f00000000;", {O::bf16}, 32, K::f32, {0}),
      op("shr.u32 %x32, %a, 16; cvt.u16.u32 %d, %x32;", pair, 16, K::bf16, {1}),
      op("cvt.u16.u32 %d, %a;", pair, 16, K::bf16, {0}),
      op("and.b32 %x32, %a, 0xffff; and.b32 %y32, %b, 0xffff0000; or.b32 %d, %x32, %y32;", pairs, 32, K::f16, {0, 3}),
      op("setp.gt.u32 %p, %i0, 1000; selp.f32 %d, %a, %a, %p;", {O::f32}, 32, K::f32, {0}),
      op("mov.b64 %x64, {%a, %b}; mov.b64 {%x32, %y32}, %x64; mov.b64 %d, {%y32, %x32};", {O::f32, O::f32}, 64, K::f32,
         {1, 0}),
  });
  auto negated = [](const Doubles& s) { return -s[0]; };
  auto bare = [](const Doubles& s) { return std::fabs(s[0]); };
  check({
      {"xor.b32 %d, %a, 0x80000000;", {O::f32}, 32, K::f32, negated},
      {"and.b32 %d, %a, 0x7fffffff;", {O::f32}, 32, K::f32, bare},
      {"xor.b32 %d, %a, 0x80008000;", {O::f16x2}, 32, K::f16, negated},
      {"xor.b16 %d, %a, 0x8000;", {O::bf16}, 16, K::bf16, negated},
      {"and.b64 %d, %a, 0x7fffffffffffffff;", {O::f64}, 64, K::f64, bare},
  });
}

// One kernel each, on one thread unless said; `in` holds f32 with a shadow, the results are what memory has.
class Kernels : public ::testing::Test {
 protected:
  void run(const std::string& body, unsigned threads = 1, unsigned blocks = 1, const std::string& functions = "") {
    r_ = std::make_unique<Runner>(".version 8.1\n.target sm_90\n.address_size 64\n" + functions +
                                  ".visible .entry k(.param .u64 pi, .param .u64 po)\n{\n.reg .pred %p<4>;\n.reg .b16 "
                                  "%h<8>;\n.reg .b32 %r<16>;\n.reg .f32 %f<16>;\n.reg .b64 %rd<8>;\n.shared .align 8 "
                                  ".b8 s[1024];\n.local .align 8 .b8 l[64];\nld.param.u64 %rd1, [pi];\nld.param.u64 "
                                  "%rd2, [po];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, 4;\nadd.u64 %rd4, %rd1, "
                                  "%rd3;\nadd.u64 %rd5, %rd2, %rd3;\n" +
                                  body + "\nret;\n}\n");
    ASSERT_EQ(r_->module().refusals(), std::vector<std::string>());
    std::vector<float> values(64);
    for (unsigned n = 0; n < 64; ++n) values[n] = 1.0f + float(n);
    in_ = r_->upload(values);
    out_ = r_->upload(std::vector<std::uint32_t>(64, 0));
    for (unsigned n = 0; n < 64; ++n) {
      Shadow s = Shadow::of(K::f32, std::bit_cast<std::uint32_t>(values[n]));
      s.value = shadow_in(n);
      s.roundings = 1;
      shadows_.put(std::uint64_t(r_->host(in_)) + 4 * n, s);
    }
    r_->mode.precision = r_->mode.check = true;
    r_->shadows = &shadows_;
    r_->launch("k", {blocks}, {threads}, in_, out_);
    EXPECT_EQ(r_->fault, "");
    EXPECT_FALSE(r_->hung);
  }
  static double shadow_in(unsigned n) { return 1.0 + n + 0x1p-30 * (n + 1); }
  std::uint64_t address(unsigned n, unsigned byte = 0) { return std::uint64_t(r_->host(out_)) + 4 * n + byte; }
  // The shadow of the n-th result, if it belongs to what is there.
  double shadow(unsigned n) {
    const Shadow* s = shadows_.find(address(n));
    const std::uint32_t bits = r_->download<std::uint32_t>(out_, 64)[n];
    return s && s->bits == bits ? s->value : std::nan("");
  }

  Shadows shadows_;
  std::unique_ptr<Runner> r_;
  std::uint64_t in_ = 0, out_ = 0;
};

TEST_F(Kernels, memory_of_every_kind) {
  run("ld.global.f32 %f1, [%rd4];\nst.shared.f32 [s+4], %f1;\nld.shared.f32 %f2, [s+4];\nst.local.f32 [l+8], "
      "%f2;\nld.local.f32 %f3, [l+8];\nst.global.f32 [%rd5], %f3;\n"
      "ld.global.v2.f32 {%f4, %f5}, [%rd1+8];\nst.global.v2.b32 [%rd2+8], {%f5, %f4};\n"
      "ld.global.b64 %rd6, [%rd1+16];\nst.global.b64 [%rd2+16], %rd6;");
  EXPECT_EQ(shadow(0), shadow_in(0));
  EXPECT_EQ(shadow(2), shadow_in(3));
  EXPECT_EQ(shadow(3), shadow_in(2));
  EXPECT_EQ(shadow(4), shadow_in(4));
  EXPECT_EQ(shadow(5), shadow_in(5));
  EXPECT_EQ(shadows_.restarts(), 0u);
}

// What a shadow was stored with is not there any more: the value starts again.
TEST_F(Kernels, other_bits_restart) {
  run("ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;\nmov.b32 %r2, 0x40400000;\nst.global.b32 [%rd5], "
      "%r2;\nld.global.f32 %f2, [%rd5];\nadd.f32 %f3, %f2, 0f3F800000;\nst.global.f32 [%rd5+4], %f3;\n"
      "mov.b32 %r3, %f1;\nadd.u32 %r3, %r3, 1;\nmov.b32 %f4, %r3;\nadd.f32 %f5, %f4, %f1;\nst.global.f32 [%rd5+8], "
      "%f5;");
  EXPECT_TRUE(std::isnan(shadow(0)));
  EXPECT_TRUE(std::isnan(shadow(1))); // 3 + 1: exact
  EXPECT_EQ(shadow(2), shadow_in(0) + (1 + 0x1p-23));
  EXPECT_EQ(shadows_.restarts(), 1u);
}

TEST_F(Kernels, calls) {
  run("{\n.param .b32 a0;\n.param .b32 r0;\nld.global.f32 %f1, [%rd4];\nst.param.f32 [a0], %f1;\ncall.uni (r0), "
      "twice, (a0);\nld.param.f32 %f2, [r0];\nst.global.f32 [%rd5], %f2;\n}",
      1, 1,
      ".func (.param .b32 r) twice(.param .b32 a)\n{\n.reg .f32 %f<3>;\nld.param.f32 %f1, [a];\nadd.f32 %f2, %f1, "
      "%f1;\nst.param.f32 [r], %f2;\nret;\n}\n");
  EXPECT_EQ(shadow(0), 2 * shadow_in(0));
}

TEST_F(Kernels, shuffles) {
  run("ld.global.f32 %f1, [%rd4];\nmov.b32 %r2, %f1;\nshfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\nmov.b32 %f2, "
      "%r3;\nsub.f32 %f3, %f2, %f1;\nst.global.f32 [%rd5], %f3;",
      32);
  for (unsigned n = 0; n < 32; ++n) EXPECT_EQ(shadow(n), shadow_in(n ^ 1) - shadow_in(n)) << n;
}

TEST_F(Kernels, atomics) {
  run("ld.global.f32 %f1, [%rd4];\nred.global.add.f32 [%rd2], %f1;\natom.global.add.f32 %f2, [%rd2+4], "
      "%f1;\nred.shared.add.f32 [s], %f1;\n"
      "setp.eq.u32 %p1, %r1, 3;\n@%p1 atom.global.exch.b32 %r2, [%rd2+8], %f1;\n"
      "mov.b32 %r3, %f1;\n@%p1 atom.global.cas.b32 %r4, [%rd2+12], 0, %r3;\n"
      "@%p1 atom.global.cas.b32 %r4, [%rd2+16], 7, %r3;\n"
      "@%p1 atom.global.add.u32 %r5, [%rd2+8], 1;\n",
      8);
  double sum = 0;
  for (unsigned n = 0; n < 8; ++n) sum += shadow_in(n);
  EXPECT_EQ(shadow(0), sum);
  EXPECT_EQ(shadow(1), sum);
  EXPECT_TRUE(std::isnan(shadow(2))); // an integer was added
  EXPECT_EQ(shadow(3), shadow_in(3)); // swapped in
  EXPECT_TRUE(std::isnan(shadow(4))); // not swapped in
  EXPECT_EQ(shadows_.restarts(), 1u);
  const auto sums = shadows_.accumulations();
  ASSERT_EQ(sums.size(), 3u); // red.global, atom.global, red.shared
  for (const auto& [place, a] : sums) EXPECT_TRUE(a.times == 8 && a.several_threads && a.atomic);
}

TEST_F(Kernels, atomics_of_pairs) {
  run("ld.global.f32 %f1, [%rd4];\ncvt.rn.bf16x2.f32 %r2, %f1, 0f3F800000;\nred.global.add.noftz.bf16x2 [%rd2], "
      "%r2;\ncvt.rn.bf16.f32 %h1, %f1;\nred.global.add.noftz.bf16 [%rd2+4], %h1;",
      32);
  double sum = 0;
  for (unsigned n = 0; n < 32; ++n) sum += shadow_in(n);
  const Shadow* high = shadows_.find(address(0, 2));
  ASSERT_TRUE(high);
  EXPECT_EQ(high->value, sum);
  EXPECT_GT(std::fabs(widened(K::bf16, high->bits) - sum), 0.5); // which bf16 cannot hold
  const Shadow* one = shadows_.find(address(1));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->value, sum);
}

// Protected by a barrier each, threads add to one place by loads and stores.
TEST_F(Kernels, sums_by_loads_and_stores) {
  run("mov.u32 %r2, 0;\nL:\nsetp.eq.u32 %p1, %r1, %r2;\n@!%p1 bra M;\nld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, "
      "[%rd2];\nadd.f32 %f3, %f2, %f1;\nst.global.f32 [%rd2], %f3;\nM:\nbar.sync 0;\nadd.u32 %r2, %r2, 1;\n"
      "setp.lt.u32 %p2, %r2, 4;\n@%p2 bra L;",
      4);
  EXPECT_EQ(shadow(0), shadow_in(0) + shadow_in(1) + shadow_in(2) + shadow_in(3));
  const auto sums = shadows_.accumulations();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_TRUE(sums.begin()->second.several_threads);
  EXPECT_FALSE(sums.begin()->second.atomic);
  EXPECT_EQ(sums.begin()->second.times, 4u);
}

// Blocks have their shared memory one after the other in the same place, and local memory is a thread's own.
TEST_F(Kernels, sums_of_one_thread) {
  run("ld.global.f32 %f1, [%rd4];\nred.shared.add.f32 [s], %f1;\nld.shared.f32 %f2, [s+4];\nadd.f32 %f3, %f2, "
      "%f1;\nst.shared.f32 [s+4], %f3;\nld.local.f32 %f4, [l];\nadd.f32 %f5, %f4, %f1;\nst.local.f32 [l], %f5;",
      1, 4);
  const auto sums = shadows_.accumulations();
  ASSERT_EQ(sums.size(), 2u);
  for (const auto& [place, a] : sums) EXPECT_TRUE(a.times == 4 && !a.several_threads);
}

// What rounds to an integer decides: by an instruction, or by adding and taking away a large constant.
TEST_F(Kernels, roundings_to_integers_follow_the_values) {
  run("ld.global.f32 %f1, [%rd4];\nmul.f32 %f2, %f1, 0f3FA00000;\nadd.f32 %f3, %f2, 0f4B400000;\nadd.f32 %f4, %f3, "
      "0fCB400000;\nadd.f32 %f5, %f4, %f1;\nst.global.f32 [%rd5], %f5;\n"
      "cvt.rni.f32.f32 %f6, %f2;\nadd.f32 %f7, %f6, %f1;\nst.global.f32 [%rd5+4], %f7;");
  EXPECT_EQ(shadow(0), 1 + shadow_in(0));
  EXPECT_EQ(shadow(1), 1 + shadow_in(0));
  run("ld.global.f32 %f1, [%rd4];\nmov.f32 %f8, 0f4B400000;\nfma.rm.f32 %f3, %f1, 0f3FA00000, %f8;\nsub.f32 %f4, %f3, "
      "%f8;\nmov.b32 %r2, %f3;\nshl.b32 %r2, %r2, 23;\nadd.u32 %r2, %r2, 0x3f800000;\nmov.b32 %f5, %r2;\nfma.rn.f32 "
      "%f6, %f5, %f4, %f1;\nst.global.f32 [%rd5], %f6;");
  EXPECT_EQ(shadow(0), 2 + shadow_in(0));
  EXPECT_NEAR(shadows_.find(address(0))->magnitude, 2 + 1, 1e-6);
  EXPECT_EQ(shadows_.restarts(), 0u);
}

} // namespace
} // namespace deadheat::engine
