// Every instruction on registers against a GPU: exact ones bit by bit, approximate ones within the bounds that the
// PTX ISA gives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "engine_runner.h"
#include "engine_snippets.h"

namespace deadheat::engine {
namespace {

class Snippets : public ::testing::Test {
 protected:
  static std::vector<std::uint64_t> run(Runner& r, const Snippet& s, std::size_t k) {
    std::uint64_t at[4];
    for (unsigned n = 0; n < 4; ++n) {
      std::vector<std::uint64_t> words(snippet_threads, 0);
      for (unsigned t = 0; t < snippet_threads && n < s.inputs.size(); ++t) words[t] = operand_value(s.inputs[n], n, t);
      std::memcpy(r.host(memory(r, n)), words.data(), words.size() * 8);
      at[n] = memory(r, n);
    }
    r.launch("snippet_" + std::to_string(k), {snippet_threads / 128}, {128}, at[0], at[1], at[2], at[3], memory(r, 4));
    EXPECT_EQ(r.fault, "");
    return r.download<std::uint64_t>(memory(r, 4), snippet_threads);
  }
  static std::uint64_t memory(Runner& r, unsigned n) {
    static std::uint64_t at[5] = {};
    if (!at[n]) at[n] = r.allocate(snippet_threads * 8);
    return at[n];
  }
};

// The results of approximate functions are not compared by hash.
TEST_F(Snippets, equal_the_gpu) {
  std::map<std::string, std::string> expected;
  std::ifstream file(DEADHEAT_TEST_DATA "/engine_gpu_results.txt");
  ASSERT_TRUE(file) << "no reference results";
  for (std::string line; std::getline(file, line);)
    if (line.size() > 17 && line[0] != '#') expected[line.substr(17)] = line.substr(0, 16);
  std::vector<Snippet> all = all_snippets();
  Runner r(snippet_module(all));
  EXPECT_EQ(r.module().refusals(), std::vector<std::string>());
  // For work on a difference: all results of a GPU, from engine_reference.
  std::ifstream words(std::getenv("DEADHEAT_GPU_RESULTS") ? std::getenv("DEADHEAT_GPU_RESULTS") : "/dev/null",
                      std::ios::binary);
  unsigned compared = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    std::vector<std::uint64_t> ours = run(r, all[k], k);
    std::vector<std::uint64_t> theirs(snippet_threads);
    words.read(reinterpret_cast<char*>(theirs.data()), snippet_threads * 8);
    if (!all[k].exact) continue;
    auto it = expected.find(all[k].code);
    if (it == expected.end()) {
      ADD_FAILURE() << "no reference for " << all[k].code;
      continue;
    }
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(hash_results(all[k], ours)));
    EXPECT_EQ(hash, it->second) << all[k].code;
    ++compared;
    if (hash == it->second || !words) continue;
    unsigned shown = 0, different = 0;
    for (unsigned t = 0; t < snippet_threads; ++t) {
      if (normal_result(all[k], ours[t]) == normal_result(all[k], theirs[t])) continue;
      ++different;
      if (shown++ >= 4) continue;
      std::fprintf(stderr, "  ours %llx, GPU %llx, operands", static_cast<unsigned long long>(ours[t]),
                   static_cast<unsigned long long>(theirs[t]));
      for (unsigned n = 0; n < all[k].inputs.size(); ++n)
        std::fprintf(stderr, " %llx", static_cast<unsigned long long>(operand_value(all[k].inputs[n], n, t)));
      std::fprintf(stderr, "\n");
    }
    std::fprintf(stderr, "  %u differ\n", different);
  }
  EXPECT_GT(compared, 900u);
}

double as_double(std::uint64_t bits) {
  float f;
  std::uint32_t b = std::uint32_t(bits);
  std::memcpy(&f, &b, 4);
  return f;
}

// Approximate functions: largest errors that the PTX ISA allows (9.7.3), in ulp of the exact result or absolute.
TEST_F(Snippets, approximations_keep_their_bounds) {
  struct Function {
    const char* op;
    double (*exact)(double);
    double low, high;  // range of operands
    double relative, absolute;
  };
  const Function functions[] = {
      {"rcp.approx.f32", [](double x) { return 1 / x; }, 1e-30, 1e30, 0x1p-23, 0},
      {"sqrt.approx.f32", [](double x) { return std::sqrt(x); }, 1e-30, 1e30, 0x1p-23, 0},
      {"rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }, 1e-30, 1e30, 0x1p-22, 0},
      {"ex2.approx.f32", [](double x) { return std::exp2(x); }, -125, 127, 0x1p-22, 0},
      {"lg2.approx.f32", [](double x) { return std::log2(x); }, 1e-30, 1e30, 0x1p-22, 0x1p-22},
      {"sin.approx.f32", [](double x) { return std::sin(x); }, -6.28, 6.28, 0, 0x1p-20},
      {"cos.approx.f32", [](double x) { return std::cos(x); }, -6.28, 6.28, 0, 0x1p-20},
      {"sin.approx.f32", [](double x) { return std::sin(x); }, -1e6, 1e6, 0, 0x1p-20},
      {"tanh.approx.f32", [](double x) { return std::tanh(x); }, -12, 12, 0x1p-11, 0},
  };
  std::vector<Snippet> list;
  for (const Function& f : functions) list.push_back({std::string(f.op) + " %d, %a;", {Operands::f32}, 32});
  Runner r(snippet_module(list));
  for (std::size_t k = 0; k < list.size(); ++k) {
    std::vector<std::uint64_t> in(snippet_threads);
    for (unsigned t = 0; t < snippet_threads; ++t) {
      const Function& f = functions[k];
      double u = double(mix(t) >> 11) / double(1ull << 53);
      float x = float(f.low > 0 ? f.low * std::pow(f.high / f.low, u) : f.low + u * (f.high - f.low));
      std::uint32_t b;
      std::memcpy(&b, &x, 4);
      in[t] = b;
    }
    std::memcpy(r.host(memory(r, 0)), in.data(), in.size() * 8);
    std::uint64_t none = memory(r, 1);
    r.launch("snippet_" + std::to_string(k), {snippet_threads / 128}, {128}, memory(r, 0), none, none, none,
             memory(r, 4));
    auto out = r.download<std::uint64_t>(memory(r, 4), snippet_threads);
    for (unsigned t = 0; t < snippet_threads; ++t) {
      double x = as_double(in[t]), got = as_double(out[t]), want = functions[k].exact(x);
      EXPECT_LE(std::fabs(got - want), std::max(std::fabs(want) * functions[k].relative, functions[k].absolute))
          << list[k].code << " of " << x;
    }
  }
}

// Packed and mixed-precision forms, which the GPU of the reference does not have: by the scalar ones.
TEST_F(Snippets, packed_and_mixed_floats_are_scalar_ones) {
  std::vector<Snippet> list;
  for (std::string op : {"add", "sub", "mul", "fma"})
    for (std::string how : {".rn", ".rz", ".rm.ftz", ".rp"}) {
      std::string scalar = op + how + ".f32", third = op == "fma" ? ", %c" : "";
      auto half = [&](const char* h) {
        return scalar + " %r" + h + ", %a" + h + ", %b" + h + (third.empty() ? "" : std::string(", %c") + h) + "; ";
      };
      list.push_back(
          {"{ .reg .b32 %al, %ah, %bl, %bh, %cl, %ch, %rl, %rh; .reg .b64 %w; mov.b64 {%al, %ah}, %a; "
           "mov.b64 {%bl, %bh}, %b; mov.b64 {%cl, %ch}, %c; " +
               half("l") + half("h") + "mov.b64 %w, {%rl, %rh}; " + op + how + ".f32x2 %d, %a, %b" + third +
               "; xor.b64 %d, %d, %w; }",
           {Operands::b64, Operands::b64, Operands::b64},
           64});
    }
  for (std::string type : {"f16", "bf16"})
    for (std::string how : {".rn", ".rz.sat", ".rm"}) {
      std::string wide = "cvt.f32." + type + " %x32, %a; ", check = " xor.b32 %d, %d, %y32;";
      Operands kind = type == "f16" ? Operands::f16 : Operands::bf16;
      for (std::string op : {"add", "sub"})
        list.push_back({wide + op + how + ".f32 %y32, %x32, %b; " + op + how + ".f32." + type + " %d, %a, %b;" + check,
                        {kind, Operands::f32},
                        32});
      list.push_back({wide + "{ .reg .b32 %z; cvt.f32." + type + " %z, %b; fma" + how +
                          ".f32 %y32, %x32, %z, %c; } fma" + how + ".f32." + type + " %d, %a, %b, %c;" + check,
                      {kind, kind, Operands::f32},
                      32});
    }
  Runner r(snippet_module(list));
  EXPECT_EQ(r.module().refusals(), std::vector<std::string>());
  for (std::size_t k = 0; k < list.size(); ++k)
    for (std::uint64_t word : run(r, list[k], k)) ASSERT_EQ(word, 0u) << list[k].code;
}

// Forms of later GPUs, by what the manual says of them.
TEST_F(Snippets, forms_of_later_gpus) {
  struct Case {
    Snippet snippet;
    std::uint64_t (*expected)(const std::uint64_t* operands);
  };
  static constexpr auto product = [](std::uint64_t a, std::uint64_t b, unsigned half) {
    std::uint64_t word = 0;  // of the 128 bits
    for (unsigned n = 0; n < 64; ++n) {
      if (!(b >> n & 1)) continue;
      word ^= half ? (n ? a >> (64 - n) : 0) : a << n;
    }
    return word;
  };
  static constexpr auto power = [](std::uint64_t bits, bool up, bool finite) -> std::uint64_t {
    float f;
    const std::uint32_t magnitude = std::uint32_t(bits) & 0x7fffffff;
    std::memcpy(&f, &magnitude, 4);
    if (std::isnan(f)) return 0xff;
    for (int e = -127; e <= 127; ++e) {
      const double here = std::ldexp(1.0, e);
      if (up ? double(f) <= here : double(f) < 2 * here) return std::uint64_t(e + 127);
    }
    return finite ? 0xfe : 0xff;
  };
  const Case cases[] = {
      {{"clmad.lo.u64 %d, %a, %b, %c;", {Operands::b64, Operands::b64, Operands::b64}, 64},
       [](const std::uint64_t* o) { return product(o[0], o[1], 0) ^ o[2]; }},
      {{"clmad.hi.u64 %d, %a, %b, %c;", {Operands::b64, Operands::b64, Operands::b64}, 64},
       [](const std::uint64_t* o) { return product(o[0], o[1], 1) ^ o[2]; }},
      {{"cvt.rz.ue8m0x2.f32 %d, %a, %b;", {Operands::f32, Operands::f32}, 16},
       [](const std::uint64_t* o) { return power(o[0], false, false) << 8 | power(o[1], false, false); }},
      {{"cvt.rp.satfinite.ue8m0x2.f32 %d, %a, %b;", {Operands::f32, Operands::f32}, 16},
       [](const std::uint64_t* o) { return power(o[0], true, true) << 8 | power(o[1], true, true); }},
      {{"cvt.rp.ue8m0x2.bf16x2 %d, %a;", {Operands::bf16x2}, 16},
       [](const std::uint64_t* o) {
         return power(o[0] & 0xffff0000, true, false) << 8 | power(o[0] << 16 & 0xffff0000, true, false);
       }},
      {{"cvt.rn.bf16x2.ue8m0x2 %d, %a;", {Operands::b16}, 32},
       [](const std::uint64_t* o) {
         auto one = [](std::uint64_t e) -> std::uint64_t { return e == 255 ? 0x7fff : e ? e << 7 : 0x40; };
         return one(o[0] >> 8) << 16 | one(o[0] & 255);
       }},
  };
  std::vector<Snippet> list;
  for (const Case& c : cases) list.push_back(c.snippet);
  Runner r(snippet_module(list));
  EXPECT_EQ(r.module().refusals(), std::vector<std::string>());
  for (std::size_t k = 0; k < list.size(); ++k) {
    const std::vector<std::uint64_t> found = run(r, list[k], k);
    for (unsigned t = 0; t < snippet_threads; ++t) {
      std::uint64_t operands[4] = {};
      for (unsigned n = 0; n < list[k].inputs.size(); ++n) operands[n] = operand_value(list[k].inputs[n], n, t);
      ASSERT_EQ(found[t], cases[k].expected(operands)) << list[k].code << " " << operands[0];
    }
  }
}

}  // namespace
}  // namespace deadheat::engine
