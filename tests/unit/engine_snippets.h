// Small pieces of PTX, each with generated operands: run by the engine and, once, by a GPU, whose results are kept as
// hashes (data/engine_gpu_results.txt). So "exact" means what the hardware does, not what a second reading of the
// manual says. engine_reference.cpp makes the file.
//
// Registers: %a %b %c %e inputs, %d result, %p %q predicates, %x16 %x32 %x64 and %y16 %y32 %y64 temporaries.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace deadheat::engine {

// What operands look like: mostly random, often special values of the kind.
enum class Operands : std::uint8_t { none, b16, b32, b64, small, f32, f64, f16, f16x2, bf16, bf16x2, fp8x2 };

struct Snippet {
  std::string code;
  std::vector<Operands> inputs;
  unsigned result_bits = 32;
  bool exact = true;              // the GPU's bits are wanted; else results are unspecified or approximate
  Operands nan = Operands::none;  // of this type of result all NaNs are one: the engine's are canonical
};

inline constexpr unsigned snippet_threads = 2048;

inline unsigned operand_bits(Operands kind) {
  switch (kind) {
    case Operands::b16:
    case Operands::f16:
    case Operands::bf16:
    case Operands::fp8x2: return 16;
    case Operands::b64:
    case Operands::f64: return 64;
    default: return 32;
  }
}

inline std::uint64_t mix(std::uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Operand `position` of thread `n`.
inline std::uint64_t operand_value(Operands kind, unsigned position, unsigned n) {
  static const std::uint64_t integers[] = {0,
                                           1,
                                           2,
                                           31,
                                           32,
                                           0x7f,
                                           0x80,
                                           0xff,
                                           0x7fff,
                                           0x8000,
                                           0xffff,
                                           0x7fffffff,
                                           0x80000000,
                                           0xffffffff,
                                           0x7fffffffffffffff,
                                           0x8000000000000000,
                                           ~0ull,
                                           0x100000000};
  static const std::uint32_t singles[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                          0x7fc00000, 0xffc12345, 0x7f812345, 0x00000001, 0x807fffff, 0x00800000,
                                          0x80800001, 0x7f7fffff, 0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000,
                                          0x3f000000, 0x3fc00000, 0xc0200000, 0x4b000001};
  static const std::uint64_t doubles[] = {0,
                                          0x8000000000000000,
                                          0x3ff0000000000000,
                                          0xbff0000000000000,
                                          0x7ff0000000000000,
                                          0xfff0000000000000,
                                          0x7ff8000000000000,
                                          0x0000000000000001,
                                          0x800fffffffffffff,
                                          0x0010000000000000,
                                          0x7fefffffffffffff,
                                          0x41e0000000000000,
                                          0xc1e0000000000000,
                                          0x43e0000000000000,
                                          0x3fe0000000000000,
                                          0x47efffffe0000000,
                                          0x47effffff0000000,
                                          0x3690000000000000,
                                          0x380fffffe0000000};
  static const std::uint16_t halves[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7c01,
                                         0xfe12, 1,      0x83ff, 0x0400, 0x7bff, 0x3555, 0x5640};
  static const std::uint16_t brains[] = {0,      0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0x7f81,
                                         0xffc1, 1,      0x807f, 0x0080, 0x7f7f, 0x3eab, 0x4b00};
  std::uint64_t r = mix(n * 8ull + position + 1), s = mix(r);
  bool special = s % 4 == 0;
  s >>= 8;
  auto pick = [&](const auto& list) { return std::uint64_t(list[s % (sizeof list / sizeof list[0])]); };
  switch (kind) {
    case Operands::small: return special ? r % 300 : r % 34;
    case Operands::b16: return (special ? pick(integers) : r) & 0xffff;
    case Operands::b32: return (special ? pick(integers) : s % 3 == 0 ? r & 0xff : r) & 0xffffffff;
    case Operands::b64: return special ? pick(integers) : s % 3 == 0 ? r & 0xffffffff : r;
    case Operands::f32:
      if (special) return pick(singles);
      if (s % 2) return r & 0xffffffff;
      return (r & 0x807fffff) | (std::uint64_t(100 + s / 2 % 64) << 23);  // 2^-27 .. 2^36
    case Operands::f64:
      if (special) return pick(doubles);
      if (s % 2) return (r >> 52 & 0x7ff) == 0x7ff ? r & ~0x000fffffffffffffull : r;
      return (r & 0x800fffffffffffffull) | (std::uint64_t(1003 + s / 2 % 64) << 52);
    case Operands::f16: return special ? pick(halves) : r & 0xffff;
    case Operands::bf16:
      return special ? pick(brains) : s % 2 ? r & 0xffff : (r & 0x807f) | (std::uint64_t(110 + s / 2 % 32) << 7);
    case Operands::f16x2:
      return operand_value(Operands::f16, position + 16, n) | operand_value(Operands::f16, position + 32, n) << 16;
    case Operands::bf16x2:
      return operand_value(Operands::bf16, position + 16, n) | operand_value(Operands::bf16, position + 32, n) << 16;
    case Operands::fp8x2: return r & 0xffff;
    case Operands::none: break;
  }
  return 0;
}

// The module: kernels snippet_0 … ; inputs and results are arrays of 64-bit words.
inline std::string snippet_module(const std::vector<Snippet>& all) {
  std::string text = ".version 8.1\n.target sm_90\n.address_size 64\n";
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Snippet& s = all[k];
    const char* names[] = {"a", "b", "c", "e"};
    text += ".visible .entry snippet_" + std::to_string(k) +
            "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pe, .param .u64 pd)\n{\n"
            "  .reg .pred %p, %q;\n  .reg .b16 %x16, %y16;\n  .reg .b32 %i<4>, %x32, %y32;\n  .reg .b64 %o, %rd<8>, "
            "%x64, %y64;\n";
    for (std::size_t n = 0; n < s.inputs.size(); ++n)
      text += "  .reg .b" + std::to_string(operand_bits(s.inputs[n])) + " %" + names[n] + ";\n";
    text += "  .reg .b" + std::to_string(s.result_bits) +
            " %d;\n"
            "  mov.u32 %i0, %tid.x;\n  mov.u32 %i1, %ctaid.x;\n  mov.u32 %i2, %ntid.x;\n"
            "  mad.lo.u32 %i0, %i1, %i2, %i0;\n  mul.wide.u32 %o, %i0, 8;\n";
    for (std::size_t n = 0; n < s.inputs.size(); ++n) {
      std::string bits = std::to_string(operand_bits(s.inputs[n])), r = "%rd" + std::to_string(n);
      text += std::string("  ld.param.u64 ") + r + ", [p" + names[n] + "];\n  add.u64 " + r + ", " + r +
              ", %o;\n  ld.global.b" + bits + " %" + names[n] + ", [" + r + "];\n";
    }
    text += "  " + s.code +
            "\n  ld.param.u64 %rd6, [pd];\n  add.u64 %rd6, %rd6, %o;\n  mov.b64 %rd7, 0;\n"
            "  st.global.b64 [%rd6], %rd7;\n  st.global.b" +
            std::to_string(s.result_bits) + " [%rd6], %d;\n  ret;\n}\n";
  }
  return text;
}

std::vector<Snippet> all_snippets();

// A result for comparison.
inline std::uint64_t normal_result(const Snippet& s, std::uint64_t r) {
  bool nan = false;
  switch (s.nan) {
    case Operands::f64: nan = (r & 0x7fffffffffffffff) > 0x7ff0000000000000; break;
    case Operands::f32: nan = (r & 0x7fffffff) > 0x7f800000; break;
    case Operands::f16: nan = (r & 0x7fff) > 0x7c00; break;
    case Operands::bf16: nan = (r & 0x7fff) > 0x7f80; break;
    default: break;
  }
  return nan ? 0x7ff8000000000000 : r;
}

inline std::uint64_t hash_results(const Snippet& s, const std::vector<std::uint64_t>& results) {
  std::uint64_t h = 0;
  for (std::uint64_t r : results) h = mix(h ^ normal_result(s, r)) * 0x9e3779b97f4a7c15ull;
  return h;
}

}  // namespace deadheat::engine
