#include "engine_snippets.h"

namespace deadheat::engine {

namespace {

using O = Operands;

class List {
 public:
  std::vector<Snippet> all;

  void add(const std::string& code, std::vector<O> inputs, unsigned bits, bool exact = true) {
    Snippet s{code, std::move(inputs), bits, exact};
    // What f64 arithmetic gives, and conversions from and to f64, keep payloads on GPUs.
    bool from_f64 = code.starts_with("cvt") && code.find(".f64 ") != std::string::npos;
    if (bits == 64 && code.find("f64") != std::string::npos && !code.starts_with("cvt")) s.nan = O::f64;
    if (code.starts_with("cvt") && code.find(".f64.") != std::string::npos) s.nan = O::f64;
    if (from_f64 && code.find(".f32.f64") != std::string::npos) s.nan = O::f32;
    if (from_f64 && code.find(".f16.f64") != std::string::npos) s.nan = O::f16;
    if (from_f64 && code.find(".bf16.f64") != std::string::npos) s.nan = O::bf16;
    all.push_back(std::move(s));
  }
  static O integer(const std::string& type) {
    return type.ends_with("64") ? O::b64 : type.ends_with("16") ? O::b16 : O::b32;
  }
  static unsigned bits(O kind) { return operand_bits(kind); }

  void binary(const std::string& op, const std::string& type, O kind) {
    add(op + "." + type + " %d, %a, %b;", {kind, kind}, bits(kind));
  }

  void integers() {
    for (std::string t : {"u16", "s16", "u32", "s32", "u64", "s64"}) {
      O k = integer(t);
      for (std::string op : {"add", "sub", "mul.lo", "mul.hi", "min", "max"}) binary(op, t, k);
      add("mad.lo." + t + " %d, %a, %b, %c;", {k, k, k}, bits(k));
      add("mad.hi." + t + " %d, %a, %b, %c;", {k, k, k}, bits(k));
      add("sad." + t + " %d, %a, %b, %c;", {k, k, k}, bits(k));
      // Not by zero: unspecified.
      std::string w = std::to_string(bits(k));
      add("setp.eq.b" + w + " %p, %b, 0; selp.b" + w + " %b, 3, %b, %p; div." + t + " %d, %a, %b;", {k, k}, bits(k));
      add("setp.eq.b" + w + " %p, %b, 0; selp.b" + w + " %b, 3, %b, %p; rem." + t + " %d, %a, %b;", {k, k}, bits(k));
      add("div." + t + " %d, %a, %b;", {k, k}, bits(k), false);
      if (bits(k) < 64) add("mul.wide." + t + " %d, %a, %b;", {k, k}, bits(k) * 2);
      if (bits(k) < 64) add("mad.wide." + t + " %d, %a, %b, %c;", {k, k, bits(k) == 16 ? O::b32 : O::b64}, bits(k) * 2);
      for (std::string c : {"eq", "ne", "lt", "le", "gt", "ge"})
        add("setp." + c + "." + t + " %p|%q, %a, %b; selp.b32 %d, 1, 2, %p; @%q add.u32 %d, %d, 4;", {k, k}, 32);
      if (t[0] == 'u')
        for (std::string c : {"lo", "ls", "hi", "hs"})
          add("setp." + c + "." + t + " %p, %a, %b; selp.b32 %d, 1, 2, %p;", {k, k}, 32);
      add("shr." + t + " %d, %a, %b;", {k, O::small}, bits(k));
    }
    for (std::string t : {"s16", "s32", "s64"}) {
      add("abs." + t + " %d, %a;", {integer(t)}, bits(integer(t)));
      add("neg." + t + " %d, %a;", {integer(t)}, bits(integer(t)));
    }
    for (std::string t : {"b16", "b32", "b64"}) {
      O k = integer(t);
      for (std::string op : {"and", "or", "xor"}) binary(op, t, k);
      add("not." + t + " %d, %a;", {k}, bits(k));
      add("cnot." + t + " %d, %a;", {k}, bits(k));
      add("shl." + t + " %d, %a, %b;", {k, O::small}, bits(k));
    }
    add("add.sat.s32 %d, %a, %b;", {O::b32, O::b32}, 32);
    add("sub.sat.s32 %d, %a, %b;", {O::b32, O::b32}, 32);
    add("mad.hi.sat.s32 %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
    for (std::string t : {"u16x2", "s16x2"})
      for (std::string op : {"add", "min", "max"}) binary(op, t, O::b32);
    add("min.relu.s16x2 %d, %a, %b;", {O::b32, O::b32}, 32);
    add("max.relu.s32 %d, %a, %b;", {O::b32, O::b32}, 32);
    for (std::string t : {"u32", "s32"}) {
      for (std::string m : {"lo", "hi"}) {
        add("mul24." + m + "." + t + " %d, %a, %b;", {O::b32, O::b32}, 32);
        add("mad24." + m + "." + t + " %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
      }
      for (std::string u : {"u32", "s32"}) {
        add("dp4a." + t + "." + u + " %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
        add("dp2a.lo." + t + "." + u + " %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
        add("dp2a.hi." + t + "." + u + " %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
      }
    }
    add("add.cc.u32 %d, %a, %b; addc.cc.u32 %x32, %c, %e; addc.u32 %y32, %a, 0; xor.b32 %d, %d, %x32; xor.b32 %d, %d, "
        "%y32;",
        {O::b32, O::b32, O::b32, O::b32}, 32);
    add("sub.cc.u32 %d, %a, %b; subc.cc.u32 %x32, %c, %e; subc.u32 %y32, %a, 0; xor.b32 %d, %d, %x32; xor.b32 %d, %d, "
        "%y32;",
        {O::b32, O::b32, O::b32, O::b32}, 32);
    add("mad.lo.cc.u32 %x32, %a, %b, %c; madc.hi.cc.u32 %y32, %a, %b, %e; addc.u32 %d, %x32, %y32;",
        {O::b32, O::b32, O::b32, O::b32}, 32);
    add("add.cc.u64 %d, %a, %b; addc.u64 %d, %d, %c;", {O::b64, O::b64, O::b64}, 64);
    for (std::string t : {"b32", "b64"}) {
      O k = integer(t);
      add("popc." + t + " %d, %a;", {k}, 32);
      add("clz." + t + " %d, %a;", {k}, 32);
      add("brev." + t + " %d, %a;", {k}, bits(k));
      add("bfi." + t + " %d, %a, %b, %c, %e;", {k, k, O::small, O::small}, bits(k));
    }
    for (std::string t : {"u32", "s32", "u64", "s64"}) {
      O k = integer(t);
      add("bfind." + t + " %d, %a;", {k}, 32);
      add("bfind.shiftamt." + t + " %d, %a;", {k}, 32);
      add("bfe." + t + " %d, %a, %b, %c;", {k, O::small, O::small}, bits(k));
    }
    for (std::string m : {"clamp", "wrap"}) {
      add("shf.l." + m + ".b32 %d, %a, %b, %c;", {O::b32, O::b32, O::small}, 32);
      add("shf.r." + m + ".b32 %d, %a, %b, %c;", {O::b32, O::b32, O::small}, 32);
      add("bmsk." + m + ".b32 %d, %a, %b;", {O::small, O::small}, 32);
      add("szext." + m + ".u32 %d, %a, %b;", {O::b32, O::small}, 32);
      add("szext." + m + ".s32 %d, %a, %b;", {O::b32, O::small}, 32);
    }
    for (std::string lut :
         {"0x96", "0xe8", "0x1b", "0x80", "0xfe", "0x78", "0xca", "0x00", "0xff", "0x2d", "0xf8", "0x6f"})
      add("lop3.b32 %d, %a, %b, %c, " + lut + ";", {O::b32, O::b32, O::b32}, 32);
    for (std::string m : {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"})
      add("prmt.b32" + m + " %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
    const std::vector<O> words = {O::b32, O::b32, O::b32};
    for (std::string op : {"vadd", "vsub", "vabsdiff", "vmin", "vmax"})
      for (std::string t : {"u32.u32.u32", "s32.s32.s32", "s32.u32.s32", "u32.s32.u32"}) {
        std::string name = op + "." + t;
        add(name + " %d, %a, %b;", words, 32);
        add(name + ".add %d, %a.b3, %b.h0, %c;", words, 32);
        add(name + " %d.b2, %a.h0, %b, %c;", words, 32);
        if (t[0] == 'u') continue;
        add(name + ".sat %d, %a.h1, %b.b2;", words, 32);
        add(name + ".sat %d, %a, %b;", words, 32);
      }
    for (std::string op : {"vshl", "vshr"})
      for (std::string t : {"u32.u32.u32", "s32.s32.u32"})
        for (std::string m : {"clamp", "wrap"}) {
          add(op + "." + t + "." + m + " %d, %a, %b;", {O::b32, O::small}, 32);
          add(op + "." + t + "." + m + ".add %d, %a.b2, %b, %c;", {O::b32, O::small, O::b32}, 32);
        }
    for (std::string t : {"u32.u32.u32", "s32.s32.s32", "s32.s32.u32"})
      for (std::string scale : {"", ".sat", ".shr7", ".sat.shr15"})
        if (t[0] == 's' || scale.empty()) add("vmad." + t + scale + " %d, %a.h1, %b.b0, %c;", words, 32);
    for (std::string t : {"u32.u32", "s32.u32"})
      for (std::string c : {"eq", "ne", "lt", "le", "gt", "ge"}) {
        add("vset." + t + "." + c + " %d, %a.b1, %b.b2;", words, 32);
        add("vset." + t + "." + c + ".add %d, %a, %b.h0, %c;", words, 32);
      }
    for (std::string t : {"u16", "s16"})
      add("shr.s32 %a, %a, 12; shr.s32 %b, %b, 16; cvt.pack.sat." + t + ".s32 %d, %a, %b;", {O::b32, O::b32}, 32);
    for (std::string t : {"u2", "s2"})
      add("shr.s32 %a, %a, 27; shr.s32 %b, %b, 29; cvt.pack.sat." + t + ".s32.b32 %d, %a, %b, %c;",
          {O::b32, O::b32, O::b32}, 32);
    for (std::string t : {"u8", "s8", "u4", "s4"})
      add("shr.s32 %a, %a, 22; shr.s32 %b, %b, 26; cvt.pack.sat." + t + ".s32.b32 %d, %a, %b, %c;",
          {O::b32, O::b32, O::b32}, 32);
    add("fns.b32 %d, %a, %b, %c;", {O::b32, O::small, O::small}, 32);
    add("rem.s32 %x32, %c, 5; rem.s32 %y32, %b, 31; abs.s32 %y32, %y32; fns.b32 %d, %a, %y32, %x32;",
        {O::b32, O::b32, O::b32}, 32);
    for (std::string op : {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"})
      for (std::string n : {"2", "4"})
        for (std::string t : {"u32", "s32"}) {
          add(op + n + "." + t + "." + t + "." + t + " %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
          add(op + n + "." + t + "." + t + "." + t + ".sat %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
          if (op == "vabsdiff")
            add(op + n + "." + t + "." + t + "." + t + ".add %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
        }
    add("vset4.u32.u32.eq %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
    add("vset2.s32.s32.gt %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
    add("slct.b32.s32 %d, %a, %b, %c;", {O::b32, O::b32, O::b32}, 32);
    add("slct.b32.f32 %d, %a, %b, %c;", {O::b32, O::b32, O::f32}, 32);
    add("slct.ftz.b32.f32 %d, %a, %b, %c;", {O::b32, O::b32, O::f32}, 32);
    add("setp.lt.and.s32 %p, %a, %b, !%q; setp.ne.b32 %q, %a, 0; setp.lt.xor.s32 %p, %a, %b, %q; selp.b32 %d, 5, 6, "
        "%p;",
        {O::b32, O::b32}, 32);
    add("set.lt.u32.s32 %d, %a, %b;", {O::b32, O::b32}, 32);
    add("set.lt.f32.u32 %d, %a, %b;", {O::b32, O::b32}, 32);
    add("mov.b32 {%x16, %y16}, %a; mov.b32 %d, {%y16, %x16};", {O::b32}, 32);
    add("mov.b64 {%x32, %y32}, %a; mov.b64 %d, {%y32, %x32};", {O::b64}, 64);
  }

  void floats() {
    for (std::string t : {"f32", "f64"}) {
      O k = t == "f32" ? O::f32 : O::f64;
      unsigned w = bits(k);
      for (std::string r : {"rn", "rz", "rm", "rp"}) {
        for (std::string ftz : {"", ".ftz"}) {
          if (t == "f64" && !ftz.empty()) continue;
          for (std::string op : {"add", "sub", "mul"}) binary(op + "." + r + ftz, t, k);
          add("fma." + r + ftz + "." + t + " %d, %a, %b, %c;", {k, k, k}, w);
          add("div." + r + ftz + "." + t + " %d, %a, %b;", {k, k}, w);
          add("rcp." + r + ftz + "." + t + " %d, %a;", {k}, w);
          add("sqrt." + r + ftz + "." + t + " %d, %a;", {k}, w);
        }
      }
      for (std::string ftz : {"", ".ftz"}) {
        if (t == "f64" && !ftz.empty()) continue;
        for (std::string op : {"min", "max"}) binary(op + ftz, t, k);
        if (t == "f32") {
          binary("min" + ftz + ".NaN", t, k);
          binary("max" + ftz + ".NaN.xorsign.abs", t, k);
          binary("max" + ftz + ".xorsign.abs", t, k);
          binary("add" + ftz + ".sat", t, k);
          binary("mul" + ftz + ".sat", t, k);
          add("fma.rn" + ftz + ".sat.f32 %d, %a, %b, %c;", {k, k, k}, w);
        }
        add("abs" + ftz + "." + t + " %d, %a;", {k}, w);
        add("neg" + ftz + "." + t + " %d, %a;", {k}, w);
        for (std::string c :
             {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"})
          add("setp." + c + ftz + "." + t + " %p|%q, %a, %b; selp.b32 %d, 1, 2, %p; @%q add.u32 %d, %d, 4;", {k, k},
              32);
      }
      for (std::string what : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"})
        add("testp." + what + "." + t + " %p, %a; selp.b32 %d, 1, 0, %p;", {k}, 32);
      add("copysign." + t + " %d, %a, %b;", {k, k}, w);
      add("mov." + t + " %d, %a;", {k}, w);
      add("set.gtu.u32." + t + " %d, %a, %b;", {k, k}, 32);
    }
    for (std::string f :
         {"rcp.approx", "rcp.approx.ftz", "sqrt.approx", "rsqrt.approx", "rsqrt.approx.ftz", "ex2.approx",
          "ex2.approx.ftz", "lg2.approx", "lg2.approx.ftz", "sin.approx", "cos.approx", "tanh.approx"})
      add(f + ".f32 %d, %a;", {O::f32}, 32, false);
    for (std::string f : {"div.approx", "div.approx.ftz", "div.full"})
      add(f + ".f32 %d, %a, %b;", {O::f32, O::f32}, 32, false);
    add("rcp.approx.ftz.f64 %d, %a;", {O::f64}, 64, false);
    add("rsqrt.approx.ftz.f64 %d, %a;", {O::f64}, 64, false);
    add("rsqrt.approx.f64 %d, %a;", {O::f64}, 64, false);
  }

  void halves() {
    for (std::string t : {"f16", "f16x2", "bf16", "bf16x2"}) {
      O k = t == "f16" ? O::f16 : t == "f16x2" ? O::f16x2 : t == "bf16" ? O::bf16 : O::bf16x2;
      unsigned w = bits(k);
      bool bf = t[0] == 'b';
      for (std::string op : {"add.rn", "sub.rn", "mul.rn", "min", "max", "min.NaN", "max.NaN", "min.NaN.xorsign.abs"})
        binary(op, t, k);
      add("fma.rn." + t + " %d, %a, %b, %c;", {k, k, k}, w);
      add("fma.rn.relu." + t + " %d, %a, %b, %c;", {k, k, k}, w);
      add("abs." + t + " %d, %a;", {k}, w);
      add("neg." + t + " %d, %a;", {k}, w);
      if (!bf) {
        for (std::string op : {"add.rn.ftz", "add.rn.sat", "mul.rn.ftz.sat", "sub.rn.ftz", "min.ftz"}) binary(op, t, k);
        add("fma.rn.ftz." + t + " %d, %a, %b, %c;", {k, k, k}, w);
        add("fma.rn.sat." + t + " %d, %a, %b, %c;", {k, k, k}, w);
        add("ex2.approx." + t + " %d, %a;", {k}, w, false);
      } else {
        add("ex2.approx.ftz." + t + " %d, %a;", {k}, w, false);
      }
      add("tanh.approx." + t + " %d, %a;", {k}, w, false);
      for (std::string c : {"lt", "equ", "nan", "ne"}) {
        if (w == 16)
          add("setp." + c + "." + t + " %p, %a, %b; selp.b32 %d, 1, 2, %p;", {k, k}, 32);
        else
          add("setp." + c + "." + t + " %p|%q, %a, %b; selp.b32 %d, 1, 2, %p; @%q add.u32 %d, %d, 4;", {k, k}, 32);
        if (w == 32) add("set." + c + "." + t + "." + t + " %d, %a, %b;", {k, k}, 32);
        if (w == 32) add("set." + c + ".u32." + t + " %d, %a, %b;", {k, k}, 32);
      }
    }
  }

  // Of all 65536 operands whether the result is +0: 32 a thread.
  void out_of_bounds() {
    unsigned number = 0;
    for (std::string t : {"f16", "bf16"})
      for (std::string relu : {"", ".relu"})
        for (std::string operands : {"%h, %one, %two", "%one, %h, %two", "%one, %two, %h", "%h, %h, %h"}) {
          const std::string label = "L" + std::to_string(number++);
          add("{ .reg .b32 %k, %m; .reg .pred %z; .reg .b16 %h, %one, %two, %r; mov.b32 %k, 0; mov.b32 %d, 0; "
              "mov.b16 %one, " +
                  std::string(t == "f16" ? "0x3c00" : "0x3f80") + "; mov.b16 %two, 0x4000; " + label +
                  ": mad.lo.u32 %m, %i0, 32, %k; cvt.u16.u32 %h, %m; fma.rn.oob" + relu + "." + t + " %r, " + operands +
                  "; setp.eq.b16 %z, %r, 0; shl.b32 %m, 1, %k; @%z or.b32 %d, %d, %m; add.u32 %k, %k, 1; "
                  "setp.lt.u32 %z, %k, 32; @%z bra " +
                  label + "; }",
              {}, 32);
        }
  }

  void conversions() {
    struct T {
      std::string name;
      O kind;
      bool f;
    };
    const T types[] = {{"u8", O::b16, false},  {"s8", O::b16, false},   {"u16", O::b16, false}, {"s16", O::b16, false},
                       {"u32", O::b32, false}, {"s32", O::b32, false},  {"u64", O::b64, false}, {"s64", O::b64, false},
                       {"f16", O::f16, true},  {"bf16", O::bf16, true}, {"f32", O::f32, true},  {"f64", O::f64, true}};
    auto narrower = [](const std::string& to, const std::string& from) {
      auto rank = [](const std::string& t) { return t == "f64" ? 3 : t == "f32" ? 2 : 1; };
      return rank(to) < rank(from);
    };
    for (const T& to : types)
      for (const T& from : types) {
        unsigned w = bits(to.kind);
        auto cvt = [&](const std::string& m) {
          add("cvt" + m + "." + to.name + "." + from.name + " %d, %a;", {from.kind}, w);
        };
        bool bf = to.name == "bf16" || from.name == "bf16";
        if (!to.f && !from.f) {
          cvt("");
          // .sat only where the source's range is not within the destination's.
          auto width = [](const std::string& t) { return std::stoi(t.substr(1)); };
          bool within = to.name[0] == from.name[0] ? width(to.name) >= width(from.name)
                                                   : to.name[0] == 's' && width(to.name) > width(from.name);
          if (!within) cvt(".sat");
        } else if (bf && (to.name.ends_with("8") || from.name.ends_with("8"))) {
          continue;  // not in the ISA
        } else if (!to.f) {
          for (std::string r : {".rni", ".rzi", ".rmi", ".rpi"}) cvt(r);
          if (from.name == "f32") cvt(".rzi.ftz");
        } else if (!from.f) {
          for (std::string r : {".rn", ".rz", ".rm", ".rp"}) cvt(r);
          if (to.name == "f32") cvt(".rn.sat");
        } else if (narrower(to.name, from.name)) {
          if (to.name == "bf16" && from.name == "f32") {
            for (std::string r : {".rn", ".rz", ".rn.relu"}) cvt(r);
          } else {
            for (std::string r : {".rn", ".rz", ".rm", ".rp"}) cvt(r);
            if (to.name == "f32") cvt(".rn.ftz");
            if (!bf) cvt(".rn.sat");
            if (to.name == "f16" && from.name == "f32") cvt(".rn.relu");
          }
        } else if (to.name == from.name) {
          if (to.name == "bf16") continue;
          for (std::string r : {".rni", ".rzi", ".rmi", ".rpi"}) cvt(r);
          cvt(".sat");
          if (to.name == "f32") cvt(".rni.ftz");
        } else if (!(bf && (to.name == "f16" || from.name == "f16"))) {
          cvt("");
          if (to.name == "f32" && from.name == "f16") cvt(".sat");
          if (from.name == "f32") cvt(".ftz");
        }
      }
    for (std::string r : {"rn", "rz", "rn.relu"}) {
      add("cvt." + r + ".f16x2.f32 %d, %a, %b;", {O::f32, O::f32}, 32);
      add("cvt." + r + ".bf16x2.f32 %d, %a, %b;", {O::f32, O::f32}, 32);
    }
    for (std::string r : {"rna", "rn", "rz", "rn.relu"}) add("cvt." + r + ".tf32.f32 %d, %a;", {O::f32}, 32);
    for (std::string t : {"e4m3x2", "e5m2x2"}) {
      add("cvt.rn.satfinite." + t + ".f32 %d, %a, %b;", {O::f32, O::f32}, 16);
      add("cvt.rn.satfinite.relu." + t + ".f32 %d, %a, %b;", {O::f32, O::f32}, 16);
      add("cvt.rn.satfinite." + t + ".f16x2 %d, %a;", {O::f16x2}, 16);
      add("cvt.rn.f16x2." + t + " %d, %a;", {O::fp8x2}, 32);
      add("cvt.rn.relu.f16x2." + t + " %d, %a;", {O::fp8x2}, 32);
    }
  }
};

}  // namespace

std::vector<Snippet> all_snippets() {
  List list;
  list.integers();
  list.floats();
  list.halves();
  list.conversions();
  list.out_of_bounds();
  return list.all;
}

}  // namespace deadheat::engine
