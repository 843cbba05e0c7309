#include "engine_warpgroup.h"

#include <algorithm>

#include "engine_snippets.h"

namespace deadheat::engine {

namespace {

std::string number(std::uint64_t n) { return std::to_string(n); }

struct ElementType {
  const char* name;
  Element element;
  unsigned k; // of the dense instruction
};
constexpr ElementType f16{"f16", Element::f16, 16}, bf16{"bf16", Element::bf16, 16}, tf32{"tf32", Element::tf32, 8},
    e4m3{"e4m3", Element::e4m3, 32}, e5m2{"e5m2", Element::e5m2, 32}, s8{"s8", Element::bits, 32},
    u8{"u8", Element::bits, 32}, b1{"b1", Element::bits, 256};

std::string text_of(const Descriptor& d) {
  return number(d.start) + "+" + number(d.leading) + "+" + number(d.stride) + "/" + number(d.swizzle) + "/" +
         number(d.base);
}

class List {
 public:
  std::vector<WarpgroupCase> all;

  WarpgroupCase form(const char* d, ElementType a, ElementType b, bool sparse, unsigned n) {
    WarpgroupCase c;
    c.n = n;
    c.a = a.element;
    c.b = b.element;
    c.d = std::string(d) == "f16" ? Element::f16 : std::string(d) == "f32" ? Element::f32 : Element::bits;
    c.sparse = sparse;
    c.opcode = std::string(sparse ? "wgmma.mma_async.sp" : "wgmma.mma_async") + ".sync.aligned.m64n" + number(n) + "k" +
               number(a.k * (sparse ? 2 : 1)) + "." + d + "." + a.name + "." + b.name;
    if (a.k == 256) c.opcode += ".and.popc";
    // Core matrices of 8 rows of 16 bytes, those of one row of matrices behind each other.
    const unsigned b_units = sparse ? 4 : 2;
    c.a_at = {0, 128, 256};
    c.b_at = {2048, 128, 128 * b_units};
    c.shared_bytes = 2048 + n / 8 * 128 * b_units;
    c.b_begins = 2048;
    c.immediates = immediates_of(c, 1, 1, 0, 0);
    return c;
  }
  static std::string immediates_of(const WarpgroupCase& c, int scale_a, int scale_b, int trans_a, int trans_b) {
    if (c.a == Element::bits) return "";
    std::string s = ", " + std::to_string(scale_a) + ", " + std::to_string(scale_b);
    if (c.a != Element::f16 && c.a != Element::bf16) return s;
    if (!c.a_registers) s += ", " + std::to_string(trans_a);
    return s + ", " + std::to_string(trans_b);
  }
  void add(WarpgroupCase c, unsigned trials) {
    c.trials = trials;
    c.code = c.opcode + (c.a_registers ? " registers" : " " + text_of(c.a_at)) + " " + text_of(c.b_at) +
             (c.scale_d ? "" : " of zero") + c.immediates + (c.sparse ? " selector " + number(c.selector) : "");
    all.push_back(std::move(c));
  }

  // From shared memory and from registers.
  void product(const char* d, ElementType a, ElementType b, bool saturated = false) {
    for (bool sparse : {false, true}) {
      if (sparse && a.k == 256) continue;
      for (unsigned selector = 0; selector < (sparse && a.k <= 16 ? 2u : 1u); ++selector)
        for (bool registers : {false, true}) {
          WarpgroupCase c = form(d, a, b, sparse, 8);
          if (saturated) c.opcode += ".satfinite";
          c.selector = selector;
          c.a_registers = registers;
          c.immediates = immediates_of(c, 1, 1, 0, 0);
          add(c, registers || selector ? 12 : 48);
        }
    }
  }
  void products() {
    product("f32", f16, f16);
    product("f16", f16, f16);
    product("f32", bf16, bf16);
    product("f32", tf32, tf32);
    for (ElementType a : {e4m3, e5m2})
      for (ElementType b : {e4m3, e5m2}) {
        product("f32", a, b);
        product("f16", a, b);
      }
    for (ElementType a : {s8, u8})
      for (ElementType b : {s8, u8}) {
        product("s32", a, b);
        product("s32", a, b, true);
      }
    product("s32", b1, b1);
  }
  void scales() {
    for (ElementType t : {f16, bf16, tf32, e4m3})
      for (int signs = 1; signs < 4; ++signs) {
        WarpgroupCase c = form("f32", t, t, false, 8);
        c.immediates = immediates_of(c, signs & 1 ? -1 : 1, signs & 2 ? -1 : 1, 0, 0);
        c.scale_d = signs != 3;
        add(c, 12);
      }
    WarpgroupCase c = form("s32", s8, s8, false, 8);
    c.scale_d = false;
    add(c, 12);
  }
  void widths() {
    for (unsigned n : {16u, 24u, 40u, 64u, 96u, 128u, 248u, 256u}) {
      add(form("f32", f16, f16, false, n), 2);
      add(form("f16", f16, f16, true, n), 2);
      add(form("f32", e4m3, e4m3, false, n), 2);
      if (n != 40 && n != 248) add(form("s32", s8, u8, false, n), 2);
    }
  }

  void layout(unsigned n, Descriptor a, Descriptor b, int trans_a, int trans_b, bool sparse = false,
              bool registers = false) {
    WarpgroupCase c = form("f32", f16, f16, sparse, n);
    c.a_registers = registers;
    c.a_at = a;
    c.b_at = b;
    c.immediates = immediates_of(c, 1, 1, trans_a, trans_b);
    c.shared_bytes = 40960;
    c.b_begins = 0;
    add(c, 2);
  }
  void layouts() {
    const unsigned field[] = {0, 3, 2, 1}; // of no swizzle, and of 32, 64 and 128 bytes
    for (int trans_a : {0, 1})
      for (int trans_b : {0, 1})
        for (unsigned a = 0; a < 4; ++a)
          for (unsigned b = 0; b < 4; ++b) {
            if (a != b && (trans_a || trans_b)) continue;
            layout(64, {1024, 2048 + 256 * a, 1024 + 512 * a, field[a], 0},
                   {8192, 1024 + 2048 * b, 512 + 1024 * b, field[b], 0}, trans_a, trans_b);
          }
    for (unsigned swizzle = 0; swizzle < 4; ++swizzle)
      for (unsigned at : {32u, 64u, 96u, 128u, 256u, 640u}) {
        layout(8, {1024 + at, 2048, 1024, field[swizzle], 0}, {16384 + at, 2048, 1024, field[swizzle], 0}, 0, 0);
        layout(8, {1024 + at, 2048, 1024, field[swizzle], 0}, {16384 + at, 2048, 1024, field[swizzle], 0}, 1, 1);
      }
    for (unsigned swizzle = 1; swizzle < 4; ++swizzle)
      for (unsigned base = 1; base < 8; ++base) {
        layout(8, {1024 + 128 * base, 2048, 1024, field[swizzle], base},
               {16384 + 128 * base, 2048, 1024, field[swizzle], base}, 0, 0);
        layout(8, {1024, 2048, 1024, field[swizzle], base}, {16384, 2048, 1024, field[swizzle], 0}, 0, 0);
      }
    // Several atoms along both axes, in sparse products as well, and rows that are longer than a narrow atom.
    for (unsigned swizzle = 0; swizzle < 4; ++swizzle)
      for (int trans : {0, 1}) {
        layout(128, {1024, 4096, 1024, field[swizzle], 0}, {4096, 3072, 1024, field[swizzle], 0}, trans, 1);
        layout(64, {1024, 4096, 1024, field[swizzle], 0}, {4096, 3072, 1024, field[swizzle], 0}, trans, 0, true);
        layout(64, {1024, 4096, 1024, field[swizzle], 0}, {4096, 3072, 1024, field[swizzle], 0}, trans, 1, true);
        layout(64, {}, {4096, 3072, 1024, field[swizzle], 0}, 0, trans, trans, true);
      }
  }
};

std::string registers(const char* name, unsigned count) {
  std::string s = "{";
  for (unsigned n = 0; n < count; ++n) s += (n ? ", %" : "%") + std::string(name) + number(n);
  return s + "}";
}

std::string kernel(const WarpgroupCase& c, unsigned index) {
  const unsigned sums = c.sums(), image_words = c.shared_bytes / 4;
  const bool floats = c.d == Element::f32;
  std::string k = ".visible .entry warpgroup_" + number(index) + "(.param .u64 in, .param .u64 out)\n{\n" +
                  "  .shared .align 1024 .b8 image[" + number(c.shared_bytes) + "];\n  .reg .pred %p, %q;\n" +
                  "  .reg .b32 %r<8>, %a<4>, %e<1>;\n  .reg " + (floats ? ".f32" : ".b32") + " %d<" + number(sums) +
                  ">;\n  .reg .b64 %rd<8>;\n  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, %ctaid.x;\n" +
                  "  ld.param.u64 %rd0, [in];\n  ld.param.u64 %rd1, [out];\n  mul.wide.u32 %rd2, %r1, " +
                  number(4 * c.input_words()) + ";\n  add.u64 %rd0, %rd0, %rd2;\n  mul.wide.u32 %rd2, %r1, " +
                  number(4 * 128 * sums) + ";\n  add.u64 %rd1, %rd1, %rd2;\n  mov.u32 %r1, %r0;\n" +
                  "  mov.u32 %r3, image;\nCOPY:\n  setp.ge.u32 %p, %r1, " + number(image_words) +
                  ";\n  @%p bra COPIED;\n  mul.wide.u32 %rd2, %r1, 4;\n  add.u64 %rd2, %rd0, %rd2;\n" +
                  "  ld.global.u32 %r2, [%rd2];\n  mad.lo.u32 %r4, %r1, 4, %r3;\n  st.shared.u32 [%r4], %r2;\n" +
                  "  add.u32 %r1, %r1, 128;\n  bra COPY;\nCOPIED:\n  fence.proxy.async.shared::cta;\n  bar.sync 0;\n" +
                  "  mul.wide.u32 %rd2, %r0, " + number(4 * c.thread_words()) + ";\n  add.u64 %rd2, %rd0, %rd2;\n";
  unsigned at = c.shared_bytes;
  auto load = [&](const char* name, unsigned count) {
    for (unsigned n = 0; n < count; ++n, at += 4)
      k += "  ld.global.b32 %" + std::string(name) + number(n) + ", [%rd2+" + number(at) + "];\n";
  };
  if (c.a_registers) load("a", 4);
  load("d", sums);
  if (c.sparse) load("e", 1);
  auto descriptor = [&](const char* to, const Descriptor& d) {
    k += "  shr.u32 %r4, %r3, 4;\n  and.b32 %r4, %r4, 16383;\n  cvt.u64.u32 " + std::string(to) + ", %r4;\n  add.u64 " +
         to + ", " + to + ", " + number(d.bits()) + ";\n";
  };
  if (!c.a_registers) descriptor("%rd3", c.a_at);
  descriptor("%rd4", c.b_at);
  k += std::string("  setp.") + (c.scale_d ? "eq" : "ne") + ".u32 %q, %r0, %r0;\n  wgmma.fence.sync.aligned;\n  " +
       c.opcode + " " + registers("d", sums) + ", " + (c.a_registers ? registers("a", 4) : "%rd3") + ", %rd4" +
       (c.sparse ? ", %e0, " + number(c.selector) : "") + ", %q" + c.immediates +
       ";\n  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n  mul.wide.u32 %rd2, %r0, " +
       number(4 * sums) + ";\n  add.u64 %rd2, %rd1, %rd2;\n";
  for (unsigned n = 0; n < sums; ++n) k += "  st.global.b32 [%rd2+" + number(4 * n) + "], %d" + number(n) + ";\n";
  return k + "  ret;\n}\n";
}

} // namespace

std::uint64_t Descriptor::bits() const {
  auto field = [](std::uint32_t bytes) { return std::uint64_t(bytes >> 4 & 0x3fff); };
  return field(start) | field(leading) << 16 | field(stride) << 32 | std::uint64_t(base) << 49 |
         std::uint64_t(swizzle) << 62;
}

std::vector<WarpgroupCase> all_warpgroup_cases() {
  List list;
  list.products();
  list.scales();
  list.widths();
  list.layouts();
  return std::move(list.all);
}

std::string warpgroup_module(const std::vector<WarpgroupCase>& cases) {
  std::string text = ".version 8.7\n.target sm_90a\n.address_size 64\n";
  for (std::size_t k = 0; k < cases.size(); ++k) text += kernel(cases[k], unsigned(k));
  return text;
}

std::vector<std::uint32_t> warpgroup_operands(const WarpgroupCase& c) {
  std::vector<std::uint32_t> words;
  for (unsigned trial = 0; trial < c.trials; ++trial) {
    unsigned part = 0;
    auto append = [&](Element e, bool accumulator, unsigned count) {
      append_elements(words, e, accumulator, count, trial, (std::uint64_t(trial) * 1024 + part++) << 20);
    };
    append(c.a, false, c.b_begins / 4);
    append(c.b, false, (c.shared_bytes - c.b_begins) / 4);
    for (unsigned thread = 0; thread < 128; ++thread) {
      if (c.a_registers) append(c.a, false, 4);
      append(c.d, true, c.sums());
      if (c.sparse) append(c.a == Element::tf32 ? Element::chosen_half : Element::chosen, false, 1);
    }
  }
  return words;
}

std::uint64_t hash_words(const std::vector<std::uint32_t>& words) {
  std::uint64_t h = 0;
  for (const std::uint32_t v : words) h = mix(h ^ v) * 0x9e3779b97f4a7c15ull;
  return h;
}

} // namespace deadheat::engine
