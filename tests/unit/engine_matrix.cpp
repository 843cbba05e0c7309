#include "engine_matrix.h"

#include <cstring>

#include "engine_snippets.h"

namespace deadheat::engine {

namespace {

std::string number(unsigned n) { return std::to_string(n); }

std::string list(const std::string& name, unsigned count) {
  std::string s = "{";
  for (unsigned n = 0; n < count; ++n) s += (n ? ", %" : "%") + name + number(n);
  return s + "}";
}

// What a type of matrix element is called, how it is generated and how many bits it has.
struct ElementType {
  const char* name;
  Element element;
  unsigned bits;
};
constexpr ElementType f16{"f16", Element::f16, 16}, bf16{"bf16", Element::bf16, 16}, tf32{"tf32", Element::tf32, 32},
    f32{"f32", Element::f32, 32}, f64{"f64", Element::f64, 64}, e4m3{"e4m3", Element::e4m3, 8},
    e5m2{"e5m2", Element::e5m2, 8}, s8{"s8", Element::bits, 8}, u8{"u8", Element::bits, 8}, s4{"s4", Element::bits, 4},
    u4{"u4", Element::bits, 4}, b1{"b1", Element::bits, 1}, s32{"s32", Element::bits, 32};

struct Shape {
  unsigned m, n, k;
  std::string name() const { return "m" + number(m) + "n" + number(n) + "k" + number(k); }
};

class List {
 public:
  std::vector<MatrixCase> all;

  // mma: operands and results are fragments, lane by lane.
  void mma(Shape s, std::string layouts, ElementType d, ElementType a, ElementType b, ElementType c,
           const std::string& before = "", const std::string& after = "", int selector = -1) {
    const bool sparse = selector >= 0;
    bool volta = s.m == 8 && a.bits == 16;  // four products of 8×8×4: quad pairs
    unsigned copies = volta ? 4 : 1;
    auto words = [&](unsigned rows, unsigned columns, ElementType t) {
      return rows * columns * t.bits / 32 * copies / 32;  // of a lane
    };
    unsigned na = words(s.m, s.k, a) / (sparse ? 2 : 1), nb = words(s.k, s.n, b), nc = words(s.m, s.n, c),
             nd = words(s.m, s.n, d);
    MatrixCase out;
    const std::string mma = std::string(sparse ? "mma.sp::ordered_metadata" : "mma") + ".sync.aligned." + s.name() +
                            "." + layouts + before + "." + d.name + "." + a.name + "." + b.name + "." + c.name + after;
    out.code = mma + (sparse ? " selector " + number(unsigned(selector)) : "");
    out.inputs = {{a.element, 32 * na}, {b.element, 32 * nb}, {c.element, 32 * nc, true}};
    if (sparse) out.inputs.push_back({a.bits == 32 ? Element::chosen_half : Element::chosen, 32});
    out.output_words = 32 * nd;
    out.result = d.element;
    bool wide = a.bits == 64;
    std::string type = wide ? "b64" : "b32", f = wide ? ".f64 %" : c.element == Element::f32 ? ".f32 %" : ".b32 %";
    unsigned width = wide ? 2 : 1, bytes = 4 * width;
    std::string& k = out.kernel;
    k = "  .reg ." + std::string(wide ? "f64" : "b32") + " %a<32>, %b<32>;\n  .reg" + f + "c<32>;\n  .reg" +
        (wide                        ? ".f64 %"
         : d.element == Element::f32 ? ".f32 %"
                                     : ".b32 %") +
        "d<32>;\n";
    unsigned base = 0;
    auto load = [&](const char* name, unsigned n) {
      k += "  mad.lo.u32 %r1, %r0, " + number(4 * n) + ", " + number(base) +
           ";\n  cvt.u64.u32 %rd2, %r1;\n  add.u64 %rd2, %rd0, %rd2;\n";
      for (unsigned i = 0; i < n / width; ++i)
        k += "  ld.global." + type + " %" + name + number(i) + ", [%rd2+" + number(bytes * i) + "];\n";
      base += 32 * 4 * n;
    };
    load("a", na);
    load("b", nb);
    load("c", nc);
    if (sparse) {
      k += "  .reg .b32 %e<1>;\n";
      load("e", 1);
    }
    k += "  " + mma + " " + list("d", nd / width) + ", " + list("a", na / width) + ", " + list("b", nb / width) + ", " +
         list("c", nc / width) + (sparse ? ", %e0, " + number(unsigned(selector)) : "") + ";\n";
    k += "  mul.wide.u32 %rd2, %r0, " + number(4 * nd) + ";\n  add.u64 %rd2, %rd1, %rd2;\n";
    for (unsigned i = 0; i < nd / width; ++i)
      k += "  st.global." + type + " [%rd2+" + number(bytes * i) + "], %d" + number(i) + ";\n";
    all.push_back(std::move(out));
  }

  // wmma: matrices from memory to memory. Registers of a fragment as the manual counts them (9.7.14.4.1).
  static unsigned fragment(Shape s, ElementType t, char which) {  // registers
    unsigned rows = which == 'b' ? s.k : s.m, columns = which == 'a' ? s.k : s.n;
    if (t.bits == 64) return rows * columns / 32;
    if (t.element == Element::f16 && (which == 'a' || which == 'b')) return 8;
    return rows * columns * t.bits / 32 / 32;
  }
  struct Matrix {
    unsigned words = 0, stride = 0;
  };
  static Matrix memory(unsigned rows, unsigned columns, bool row, ElementType t) {
    unsigned padding = t.bits == 1 ? 128 : t.bits == 4 ? 32 : t.bits == 64 ? 2 : 128 / t.bits;
    unsigned length = (row ? columns : rows) + padding;
    return {(row ? rows : columns) * length * t.bits / 32, length};
  }
  void wmma(Shape s, bool a_row, bool b_row, bool c_row, bool d_row, ElementType d, ElementType a, ElementType b,
            ElementType c, const std::string& before = "", const std::string& after = "", bool shared = false) {
    MatrixCase out;
    auto layout = [](bool row) { return std::string(row ? "row" : "col"); };
    bool plain = a.element == Element::f16;
    std::string types = std::string(".") + d.name + "." + a.name + "." + b.name + "." + c.name;
    if (plain) types = std::string(".") + d.name + "." + c.name;
    const std::string mma =
        "wmma.mma" + before + ".sync.aligned." + layout(a_row) + "." + layout(b_row) + "." + s.name() + types + after;
    out.code = mma + (c_row ? " c row" : " c col") + (d_row ? " d row" : " d col") + (shared ? " shared" : "");
    unsigned na = fragment(s, a, 'a'), nb = fragment(s, b, 'b'), nc = fragment(s, c, 'c'), nd = fragment(s, d, 'c');
    Matrix ma = memory(s.m, s.k, a_row, a), mb = memory(s.k, s.n, b_row, b), mc = memory(s.m, s.n, c_row, c),
           md = memory(s.m, s.n, d_row, d);
    out.inputs = {{a.element, ma.words}, {b.element, mb.words}, {c.element, mc.words, true}};
    out.output_words = md.words;
    out.result = d.element;
    std::string& k = out.kernel;
    auto reg = [&](ElementType t, bool accumulator) {
      return t.bits == 64 ? ".f64" : accumulator && t.element == Element::f32 ? ".f32" : ".b32";
    };
    k = std::string("  .reg ") + reg(a, false) + " %a<32>, %b<32>;\n  .reg " + reg(c, true) + " %c<32>;\n  .reg " +
        reg(d, true) + " %d<32>;\n";
    // The bytes between columns and rows of d are written too: zeros.
    k += "  mov.u32 %r1, %r0;\nZERO:\n  setp.ge.u32 %p, %r1, " + number(md.words) +
         ";\n  @%p bra ZEROED;\n  mul.wide.u32 %rd2, %r1, 4;\n  add.u64 %rd2, %rd1, %rd2;\n  st.global.u32 [%rd2], 0;\n"
         "  add.u32 %r1, %r1, 32;\n  bra ZERO;\nZEROED:\n  bar.sync 0;\n";
    unsigned total = ma.words + mb.words + mc.words;
    std::string in = "%rd0", space;
    if (shared) {
      space = ".shared";
      k += "  .shared .align 32 .b8 tile[" + number(4 * total) +
           "];\n  mov.u32 %r1, %r0;\nCOPY:\n  setp.ge.u32 %p, %r1, " + number(total) +
           ";\n  @%p bra COPIED;\n  mul.wide.u32 %rd2, %r1, 4;\n  add.u64 %rd2, %rd0, %rd2;\n  ld.global.u32 %r2, "
           "[%rd2];\n  mov.u32 %r3, tile;\n  mad.lo.u32 %r3, %r1, 4, %r3;\n  st.shared.u32 [%r3], %r2;\n"
           "  add.u32 %r1, %r1, 32;\n  bra COPY;\nCOPIED:\n  bar.sync 0;\n  mov.u32 %r3, tile;\n"
           "  cvt.u64.u32 %rd3, %r3;\n";
      in = "%rd3";
    }
    auto load = [&](char which, bool row, ElementType t, unsigned n, Matrix m, unsigned at) {
      k += std::string("  wmma.load.") + which + ".sync.aligned." + layout(row) + "." + s.name() + space + "." +
           t.name + " " + list(std::string(1, which), n) + ", [" + in + "+" + number(4 * at) + "], " +
           number(m.stride) + ";\n";
    };
    load('a', a_row, a, na, ma, 0);
    load('b', b_row, b, nb, mb, ma.words);
    load('c', c_row, c, nc, mc, ma.words + mb.words);
    k += "  " + mma + " " + list("d", nd) + ", " + list("a", na) + ", " + list("b", nb) + ", " + list("c", nc) + ";\n";
    k += "  wmma.store.d.sync.aligned." + layout(d_row) + "." + s.name() + "." + d.name + " [%rd1], " + list("d", nd) +
         ", " + number(md.stride) + ";\n";
    all.push_back(std::move(out));
  }

  // wmma.load: the fragment itself, lane by lane; and a store of one.
  void fragment_of(Shape s, char which, bool row, ElementType t) {
    unsigned n = fragment(s, t, which), width = t.bits == 64 ? 2 : 1;
    unsigned rows = which == 'b' ? s.k : s.m, columns = which == 'a' ? s.k : s.n;
    Matrix m = memory(rows, columns, row, t);
    MatrixCase out;
    out.code = std::string("wmma.load.") + which + ".sync.aligned." + (row ? "row." : "col.") + s.name() + "." + t.name;
    out.inputs = {{Element::bits, m.words}};
    out.output_words = 32 * n * width;
    std::string& k = out.kernel;
    k = std::string("  .reg .") + (t.bits == 64 ? "f64" : "b32") + " %a<32>;\n  " + out.code + " " + list("a", n) +
        ", [%rd0], " + number(m.stride) + ";\n  mul.wide.u32 %rd2, %r0, " + number(4 * n * width) +
        ";\n  add.u64 %rd2, %rd1, %rd2;\n";
    for (unsigned i = 0; i < n; ++i)
      k += std::string("  st.global.b") + (width == 2 ? "64" : "32") + " [%rd2+" + number(4 * i * width) + "], %a" +
           number(i) + ";\n";
    all.push_back(std::move(out));
  }

  // ldmatrix, stmatrix: rows in shared memory, each 16 bytes, at addresses that are a permutation.
  void rows(bool store, unsigned count, bool trans) {
    MatrixCase out;
    std::string x = "x" + number(count);
    out.code = std::string(store ? "stmatrix" : "ldmatrix") + ".sync.aligned.m8n8." + x + (trans ? ".trans" : "") +
               ".shared.b16";
    out.inputs = {{Element::bits, store ? 32 * count : 32 * 4}};
    out.output_words = store ? 32 * 4 : 32 * count;
    std::string& k = out.kernel;
    k = "  .shared .align 16 .b8 tile[512];\n  .reg .b32 %a<4>;\n  mov.u32 %r3, tile;\n";
    // Lane l's row lies at 16 * (5 * l + 3 mod 32).
    std::string row = "  mad.lo.u32 %r4, %r0, 5, 3;\n  and.b32 %r4, %r4, 31;\n  mad.lo.u32 %r4, %r4, 16, %r3;\n";
    auto words = [&](unsigned n, bool from_shared) {
      k += "  mul.lo.u32 %r1, %r0, " + number(4 * n) + ";\n  add.u32 %r2, %r3, %r1;\n  cvt.u64.u32 %rd2, %r1;\n" +
           std::string("  add.u64 %rd2, ") + (from_shared ? "%rd1" : "%rd0") + ", %rd2;\n";
    };
    if (store) {
      words(4, true);
      for (unsigned i = 0; i < 4; ++i) k += "  st.shared.b32 [%r2+" + number(4 * i) + "], 0;\n";
      k += "  bar.sync 0;\n";
      words(count, false);
      for (unsigned i = 0; i < count; ++i) k += "  ld.global.b32 %a" + number(i) + ", [%rd2+" + number(4 * i) + "];\n";
      k += row + "  " + out.code + " [%r4], " + list("a", count) + ";\n  bar.sync 0;\n";
      words(4, true);
      for (unsigned i = 0; i < 4; ++i)
        k += "  ld.shared.b32 %a" + number(i) + ", [%r2+" + number(4 * i) + "];\n  st.global.b32 [%rd2+" +
             number(4 * i) + "], %a" + number(i) + ";\n";
    } else {
      words(4, false);
      for (unsigned i = 0; i < 4; ++i)
        k += "  ld.global.b32 %a" + number(i) + ", [%rd2+" + number(4 * i) + "];\n  st.shared.b32 [%r2+" +
             number(4 * i) + "], %a" + number(i) + ";\n";
      k += "  bar.sync 0;\n" + row + "  " + out.code + " " + list("a", count) + ", [%r4];\n";
      words(count, true);
      for (unsigned i = 0; i < count; ++i) k += "  st.global.b32 [%rd2+" + number(4 * i) + "], %a" + number(i) + ";\n";
    }
    all.push_back(std::move(out));
  }

  void movmatrix() {
    MatrixCase out;
    out.code = "movmatrix.sync.aligned.m8n8.trans.b16";
    out.inputs = {{Element::bits, 32}};
    out.output_words = 32;
    out.kernel =
        "  .reg .b32 %a<4>;\n  mul.wide.u32 %rd2, %r0, 4;\n  add.u64 %rd3, %rd0, %rd2;\n  add.u64 %rd4, %rd1, %rd2;\n"
        "  ld.global.b32 %a0, [%rd3];\n  movmatrix.sync.aligned.m8n8.trans.b16 %a1, %a0;\n  st.global.b32 [%rd4], "
        "%a1;\n";
    all.push_back(std::move(out));
  }

  // One product for each lane, pair of lanes or warp that may give the metadata.
  void sparse(Shape s, unsigned selectors, ElementType d, ElementType a, ElementType b, ElementType c,
              const std::string& before = "") {
    for (unsigned n = 0; n < selectors; ++n) mma(s, "row.col", d, a, b, c, before, "", int(n));
  }

  void sparse_products() {
    for (ElementType d : {f16, f32}) {
      sparse({16, 8, 16}, 4, d, f16, f16, d);
      sparse({16, 8, 32}, 2, d, f16, f16, d);
    }
    sparse({16, 8, 16}, 4, f32, bf16, bf16, f32);
    sparse({16, 8, 32}, 2, f32, bf16, bf16, f32);
    sparse({16, 8, 8}, 4, f32, tf32, tf32, f32);
    sparse({16, 8, 16}, 2, f32, tf32, tf32, f32);
    for (ElementType a : {e4m3, e5m2})
      for (ElementType b : {e4m3, e5m2}) sparse({16, 8, 64}, 1, f32, a, b, f32);
    for (std::string saturated : {"", ".satfinite"}) {
      for (ElementType a : {s8, u8})
        for (ElementType b : {s8, u8}) {
          sparse({16, 8, 32}, 2, s32, a, b, s32, saturated);
          sparse({16, 8, 64}, 1, s32, a, b, s32, saturated);
        }
      for (ElementType a : {s4, u4})
        for (ElementType b : {s4, u4}) {
          sparse({16, 8, 64}, 2, s32, a, b, s32, saturated);
          sparse({16, 8, 128}, 1, s32, a, b, s32, saturated);
        }
    }
  }

  void floats() {
    for (std::string layouts : {"row.col", "row.row", "col.col", "col.row"}) {
      mma({8, 8, 4}, layouts, f16, f16, f16, f16);
      mma({8, 8, 4}, layouts, f32, f16, f16, f16);
      mma({8, 8, 4}, layouts, f32, f16, f16, f32);
    }
    for (unsigned k : {8u, 16u}) {
      mma({16, 8, k}, "row.col", f16, f16, f16, f16);
      mma({16, 8, k}, "row.col", f32, f16, f16, f32);
      mma({16, 8, k}, "row.col", f32, bf16, bf16, f32);
    }
    mma({16, 8, 4}, "row.col", f32, tf32, tf32, f32);
    mma({16, 8, 8}, "row.col", f32, tf32, tf32, f32);
    for (ElementType a : {e4m3, e5m2})
      for (ElementType b : {e4m3, e5m2}) {
        mma({16, 8, 32}, "row.col", f32, a, b, f32);
        mma({16, 8, 32}, "row.col", f16, a, b, f16);
        mma({16, 8, 16}, "row.col", f32, a, b, f32);
        mma({16, 8, 16}, "row.col", f16, a, b, f16);
      }
    mma({8, 8, 4}, "row.col", f64, f64, f64, f64);
    for (unsigned k : {4u, 8u, 16u}) mma({16, 8, k}, "row.col", f64, f64, f64, f64);
    const Shape shapes[] = {{16, 16, 16}, {8, 32, 16}, {32, 8, 16}};
    for (const Shape& s : shapes)
      for (unsigned layout = 0; layout < 4; ++layout) {
        bool ar = layout & 1, br = layout & 2;
        wmma(s, ar, br, true, true, f32, f16, f16, f32);
        wmma(s, ar, br, true, false, f16, f16, f16, f16);
        wmma(s, ar, br, false, true, f32, bf16, bf16, f32, "", "", layout == 2);
        if (layout != 1) continue;
        wmma(s, ar, br, false, false, f32, f16, f16, f16, "", "", true);
        wmma(s, ar, br, false, true, f16, f16, f16, f32, "", "", true);
      }
    for (unsigned layout = 0; layout < 4; ++layout) {
      bool ar = layout & 1, br = layout & 2;
      wmma({16, 16, 8}, ar, br, ar, !br, f32, tf32, tf32, f32, "", "", layout == 3);
      wmma({8, 8, 4}, ar, br, !ar, br, f64, f64, f64, f64, "",
           layout == 0   ? ".rn"
           : layout == 1 ? ".rz"
           : layout == 2 ? ".rm"
                         : ".rp");
    }
  }

  void integers() {
    const Shape eights[] = {{8, 8, 16}, {16, 8, 16}, {16, 8, 32}};
    const Shape fours[] = {{8, 8, 32}, {16, 8, 32}, {16, 8, 64}};
    for (unsigned signs = 0; signs < 4; ++signs)
      for (std::string sat : {"", ".satfinite"}) {
        for (const Shape& s : eights) mma(s, "row.col", s32, signs & 1 ? s8 : u8, signs & 2 ? s8 : u8, s32, sat);
        for (const Shape& s : fours) mma(s, "row.col", s32, signs & 1 ? s4 : u4, signs & 2 ? s4 : u4, s32, sat);
      }
    for (Shape s : {Shape{8, 8, 128}, {16, 8, 128}, {16, 8, 256}})
      for (std::string op : {".xor.popc", ".and.popc"}) mma(s, "row.col", s32, b1, b1, s32, "", op);
    const Shape shapes[] = {{16, 16, 16}, {8, 32, 16}, {32, 8, 16}};
    for (const Shape& s : shapes)
      for (unsigned layout = 0; layout < 4; ++layout) {
        bool ar = layout & 1, br = layout & 2;
        wmma(s, ar, br, ar, br, s32, s8, s8, s32, "", layout == 1 ? ".satfinite" : "", layout == 2);
        wmma(s, ar, br, br, ar, s32, u8, u8, s32, "", layout == 2 ? ".satfinite" : "");
      }
    wmma({8, 8, 32}, true, false, true, false, s32, s4, s4, s32);
    wmma({8, 8, 32}, true, false, false, true, s32, u4, u4, s32, "", ".satfinite");
    wmma({8, 8, 128}, true, false, true, false, s32, b1, b1, s32, ".xor.popc");
    wmma({8, 8, 128}, true, false, false, true, s32, b1, b1, s32, ".and.popc");
  }

  void fragments() {
    const Shape shapes[] = {{16, 16, 16}, {8, 32, 16}, {32, 8, 16}};
    for (bool row : {true, false}) {
      for (const Shape& s : shapes) {
        for (char which : {'a', 'b'})
          for (ElementType t : {f16, bf16, s8}) fragment_of(s, which, row, t);
        for (ElementType t : {f16, f32, s32}) fragment_of(s, 'c', row, t);
      }
      fragment_of({16, 16, 8}, 'a', row, tf32);
      fragment_of({16, 16, 8}, 'b', row, tf32);
      fragment_of({16, 16, 8}, 'c', row, f32);
      for (char which : {'a', 'b', 'c'}) fragment_of({8, 8, 4}, which, row, f64);
      fragment_of({8, 8, 32}, 'c', row, s32);
      fragment_of({8, 8, 128}, 'c', row, s32);
    }
    fragment_of({8, 8, 32}, 'a', true, s4);
    fragment_of({8, 8, 32}, 'b', false, s4);
    fragment_of({8, 8, 128}, 'a', true, b1);
    fragment_of({8, 8, 128}, 'b', false, b1);
    for (unsigned count : {1u, 2u, 4u})
      for (bool trans : {false, true}) {
        rows(false, count, trans);
        rows(true, count, trans);
      }
    movmatrix();
  }
};

struct Layout {
  unsigned bits, fraction, exponents;  // of the format; the lowest exponent's field is 0
};
constexpr Layout layout_of(Element e) {
  switch (e) {
    case Element::f16: return {16, 10, 5};
    case Element::bf16: return {16, 7, 8};
    case Element::e4m3: return {8, 3, 4};
    case Element::e5m2: return {8, 2, 5};
    case Element::f64: return {64, 52, 11};
    case Element::chosen:
    case Element::chosen_half: return {4, 0, 0};
    default: return {32, 23, 8};  // tf32 too: its lower 13 bits are there and ignored
  }
}

}  // namespace

unsigned element_width(Element e) { return layout_of(e).bits; }

// By trial: near one; over the whole range; with subnormals and zeros; few distinct magnitudes, so that
// sums cancel; with infinities and NaNs.
std::uint64_t element_bits(Element e, bool accumulator, unsigned trial, std::uint64_t r) {
  if (e == Element::chosen || e == Element::chosen_half) {
    static constexpr std::uint8_t two_of_four[] = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe};  // the lower index first
    return e == Element::chosen ? two_of_four[r % 6] : r & 1 ? 0xe : 0x4;
  }
  if (e == Element::bits) {
    if (accumulator && trial % 4 == 3) return 0x7fffff00 + (r & 0x80000100);  // near the ends of s32
    return trial % 4 == 0 ? r & r >> 32 : r;
  }
  Layout l = layout_of(e);
  std::uint64_t fraction = r & ((std::uint64_t(1) << l.fraction) - 1), sign = r >> 63 << (l.bits - 1);
  std::uint64_t top = (std::uint64_t(1) << l.exponents) - 1, bias = top / 2, s = mix(r);
  auto number = [&](std::uint64_t exponent, std::uint64_t f) { return sign | exponent << l.fraction | f; };
  // Accumulators have the exponents of products, and more.
  std::int64_t spread = trial % 6 == 0 ? 3 : trial % 6 == 1 ? std::int64_t(bias) : trial % 6 == 4 ? 7 : 12;
  if (accumulator) spread = spread * 2;
  if (e == Element::f64 && spread > 40) spread = 400;
  if (!accumulator && (e == Element::bf16 || e == Element::tf32) && trial % 6 == 1) spread = trial % 12 == 1 ? 20 : 63;
  if (accumulator && e == Element::f32 && trial % 6 == 1) spread = trial % 12 == 1 ? 40 : 126;
  std::int64_t exponent = std::int64_t(bias) + std::int64_t(s % std::uint64_t(2 * spread + 1)) - spread;
  exponent = exponent < 0 ? 0 : exponent >= std::int64_t(top) ? std::int64_t(top) - 1 : exponent;
  s = mix(s);
  switch (trial % 6) {
    case 2:
      if (s % 3 == 0) return number(0, s % 9 == 0 ? 0 : fraction);
      if (s % 3 == 1) return number(s / 3 % 4, fraction);
      return number(std::uint64_t(exponent), fraction);
    case 3:
      if (s % 5 == 0) return sign;
      return number(bias + s % 2, (s / 2 % 3 ? 0 : 1) + (s / 8 % 2 << (l.fraction - 1)));
    case 5:
      if (s % 64 == 0) return number(top, s / 64 % 3 == 0 ? fraction : 0);
      if (s % 64 == 1) return number(top - 1, fraction);
      return number(std::uint64_t(exponent), fraction);
    default: return number(std::uint64_t(exponent), fraction);
  }
}

std::vector<MatrixCase> all_matrix_cases() {
  List list;
  list.floats();
  list.integers();
  list.fragments();
  list.sparse_products();
  return std::move(list.all);
}

std::string matrix_module(const std::vector<MatrixCase>& cases) {
  std::string text = ".version 8.7\n.target sm_90a\n.address_size 64\n";
  for (std::size_t k = 0; k < cases.size(); ++k) {
    unsigned words = 0;
    for (const MatrixInput& in : cases[k].inputs) words += in.words;
    text +=
        ".visible .entry matrix_" + number(unsigned(k)) +
        "(.param .u64 in, .param .u64 out)\n{\n  .reg .pred %p;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<8>;\n"
        "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, %ctaid.x;\n  ld.param.u64 %rd0, [in];\n  ld.param.u64 %rd1, [out];\n"
        "  mul.wide.u32 %rd2, %r1, " +
        number(4 * words) + ";\n  add.u64 %rd0, %rd0, %rd2;\n  mul.wide.u32 %rd2, %r1, " +
        number(4 * cases[k].output_words) + ";\n  add.u64 %rd1, %rd1, %rd2;\n" + cases[k].kernel + "  ret;\n}\n";
  }
  return text;
}

void append_elements(std::vector<std::uint32_t>& to, Element e, bool accumulator, unsigned words, unsigned trial,
                     std::uint64_t seed) {
  const unsigned bits = element_width(e);
  const std::size_t first = to.size();
  to.resize(first + words, 0);
  for (unsigned n = 0; n < words * 32 / bits; ++n) {
    const std::uint64_t v = element_bits(e, accumulator, trial, mix(seed + n));
    const std::size_t at = std::size_t(n) * bits;
    to[first + at / 32] |= std::uint32_t(bits < 32 ? (v & ((1u << bits) - 1)) << at % 32 : v);
    if (bits == 64) to[first + at / 32 + 1] = std::uint32_t(v >> 32);
  }
}

std::vector<std::uint32_t> matrix_operands(const MatrixCase& c) {
  std::vector<std::uint32_t> words;
  for (unsigned trial = 0; trial < matrix_trials; ++trial)
    for (std::size_t n = 0; n < c.inputs.size(); ++n)
      append_elements(words, c.inputs[n].element, c.inputs[n].accumulator, c.inputs[n].words, trial,
                      (std::uint64_t(trial) * 8 + n) << 20);
  return words;
}

std::uint64_t hash_matrices(const MatrixCase& c, std::vector<std::uint32_t> results) {
  std::uint64_t h = 0;
  if (c.result == Element::f64) {
    for (std::size_t n = 0; n + 1 < results.size(); n += 2) {
      std::uint64_t v = results[n] | std::uint64_t(results[n + 1]) << 32;
      if ((v & 0x7fffffffffffffffull) > 0x7ff0000000000000ull) v = 0x7ff8000000000000ull;
      h = mix(h ^ v) * 0x9e3779b97f4a7c15ull;
    }
    return h;
  }
  for (std::uint32_t v : results) h = mix(h ^ v) * 0x9e3779b97f4a7c15ull;
  return h;
}

}  // namespace deadheat::engine
