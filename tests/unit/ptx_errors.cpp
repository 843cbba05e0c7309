// Malformed and hostile text: a clear error with its place, in bounded time and depth.
#include <chrono>

#include "ptx_support.h"

namespace deadheat::ptx {
namespace {

std::string in_kernel(const std::string& body) { return ".entry k() {\n.reg .b32 %r<4>;\n" + body + "\n}\n"; }

TEST(PtxErrors, NameThePlace) {
  EXPECT_EQ(error_of(".version nine"), "test.ptx:1:10: expected a version number, found 'nine'");
  EXPECT_EQ(error_of("hello"), "test.ptx:1:1: expected a directive, found 'hello'");
  EXPECT_EQ(error_of(".visible ret;"), "test.ptx:1:10: expected a directive, found 'ret'");
  EXPECT_EQ(error_of(".global .b32;"), "test.ptx:1:13: expected a name, found ';'");
  EXPECT_EQ(error_of(".global x;"), "test.ptx:1:9: expected a type, found 'x'");
  EXPECT_EQ(error_of(".global .b32 x"), "test.ptx:1:15: expected ';', found the end");
  EXPECT_EQ(error_of(".global .b32 x = {1, 2};"),
            "test.ptx:1:22: expected no more values than the array has elements, found '2'");
  EXPECT_EQ(error_of(".entry k( {"), "test.ptx:1:11: expected a type, found '{'");
  EXPECT_EQ(error_of(".entry k() {\n  ret"), "test.ptx:2:6: expected an operand, found the end");
  EXPECT_EQ(error_of(".entry k() {\n  ret;"), "test.ptx:2:7: expected '}', found the end");
  EXPECT_EQ(error_of(in_kernel("  add.s32 %r1, %r2 %r3;")), "test.ptx:3:20: expected ';', found '%r3'");
  EXPECT_EQ(error_of(in_kernel("ld.global.u32 %r1, [%r2;")), "test.ptx:3:24: expected ']', found ';'");
  EXPECT_EQ(error_of(in_kernel("add.s32 %r1, , 1;")), "test.ptx:3:14: expected an operand, found ','");
  EXPECT_EQ(error_of(in_kernel("@%q bra L;")), "test.ptx:3:2: expected a declared predicate register, found '%q'");
  EXPECT_EQ(error_of(in_kernel("bra nowhere;")), "test.ptx:3:5: expected a label of this function, found 'nowhere'");
  EXPECT_EQ(error_of(in_kernel("{ L: }\n{ L: }\nbra L;")), "test.ptx:5:5: expected a label of this scope, found 'L'");
  EXPECT_EQ(error_of(in_kernel("L:\nL: ret;")), "test.ptx:4:1: label 'L' is declared twice in one scope");
  EXPECT_EQ(error_of(in_kernel("add.f32 %r1, 0f12, %r2;")),
            "test.ptx:3:14: expected 0f and 8 hexadecimal digits, found '0f12'");
  EXPECT_EQ(error_of(in_kernel("add.u32 %r1, 99999999999999999999, 1;")),
            "test.ptx:3:14: expected a number below 2^64, found '99999999999999999999'");
  EXPECT_EQ(error_of(in_kernel("add.u32 %r1, 1/0, 1;")), "test.ptx:3:15: expected a divisor other than 0, found '/'");
  EXPECT_EQ(error_of("/* never"), "test.ptx:1:1: expected '*/' at the end of this comment");
  EXPECT_EQ(error_of(".file 1 \"x\n"), "test.ptx:1:9: expected '\"' at the end of this string");
  EXPECT_EQ(error_of("\n \x80"), "test.ptx:2:2: expected PTX, found a character it does not have");
  EXPECT_EQ(error_of(in_kernel(".reg .v8 .b32 %v;")),
            "test.ptx:3:10: expected a vector of two or four registers, found '.b32'");
  EXPECT_EQ(error_of(".global .b8 x[1 << 50];"), "test.ptx:1:15: expected an array of less than 2^48 bytes, found '1'");
}

// Times are generous: they tell linear from quadratic, not fast from slow.
void expect_quick(const std::string& text) {
  auto start = std::chrono::steady_clock::now();
  Expected<Module> module = parse(text, "hostile");
  if (module) {
    EXPECT_EQ(print(*module).size(), text.size());
  }
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 5.0) << text.substr(0, 80);
}

std::string repeat(const std::string& text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(PtxErrors, HostileTextEndsQuickly) {
  const std::size_t n = 200000;
  expect_quick(in_kernel(repeat("{", n)));
  expect_quick(in_kernel(repeat("{ L: bra L; }", n / 10)));
  expect_quick(in_kernel("mov.b32 %r1, " + repeat("(", n) + "1;"));
  expect_quick(in_kernel("mov.b32 %r1, " + repeat("-", n) + "1;"));
  expect_quick(in_kernel("mov.b32 %r1, " + repeat("{", n)));
  expect_quick(in_kernel("mov.b32 %r1, " + repeat("[", n)));
  expect_quick(in_kernel("mov.b32 %r1, %r1" + repeat("|%r1", n) + ";"));
  expect_quick(in_kernel("mov.b32 %r1, 1" + repeat("+1", n) + ";"));
  expect_quick(in_kernel("mov.b32 %r1, " + repeat("1 ? 2 : ", n) + "3;"));
  expect_quick(in_kernel("mystery " + repeat("<,", n) + ";"));
  expect_quick(".global .b32 x = " + repeat("{", n));
  expect_quick(".global .b32 x" + repeat("[2]", n) + ";");
  expect_quick(".global .b32 " + repeat("x, ", n) + "y;");
  expect_quick(repeat(".func f() { ret; }\n", n / 20));
  expect_quick(".entry k() { .reg .b32 %r<4294967295>; mov.b32 %r4294967294, %r1; }");
  expect_quick(in_kernel(repeat(".reg .b64 %q<4294967295>;", n / 20)));
  expect_quick(in_kernel(repeat("add.s32 %r1", n) + ";"));
  expect_quick(in_kernel(repeat("@", n)));
  expect_quick(repeat(".section x { a: }", n / 20));
  expect_quick(in_kernel(repeat(".loc 1 1 1, function_name a, inlined_at 1 1 1\n", n / 20)) +
               ".section .debug_str { a: .b8 " + repeat("65,", n) + "0 }");
  expect_quick(std::string(n, '\0'));
  expect_quick(repeat("/*", n));
  expect_quick(".entry k(" + repeat(".param .b32 x, ", n / 10) + ".param .b32 y) { ret; }");
  expect_quick(in_kernel(repeat("t: .branchtargets t", n / 20)));
  expect_quick(
      in_kernel(repeat(".shared .b8 v"
                       "[4], w; { .reg .b32 %r<9>; mov.b32 %r8, v; ",
                       250)));
}

TEST(PtxErrors, LargeInitializersAreBounded) {
  EXPECT_NE(error_of(".global .b8 x[1000000000] = {1};").find("256 MiB"), std::string::npos);
  EXPECT_EQ(error_of(".global .b8 x[1000000000];"), "");
}

TEST(PtxErrors, EveryPrefixParsesOrFails) {
  std::string text = print(kernel_of(
      "ts: .branchtargets A, B;\n.loc 1 2 3, function_name a, inlined_at 1 1 1\n@%p1 brx.idx %r1, ts;\nA: B:\n"
      "{ .param .b32 q; call (q), f, (q, 1+(2<<3)); }\nld.global.v2.f32 {%f1, %f2}, [g+-4];\nmov.b32 %r1, 0x1F;\n"));
  for (std::size_t length = 0; length <= text.size(); ++length) {
    Expected<Module> module = parse(text.substr(0, length), "prefix");
    if (module) {
      EXPECT_EQ(print(*module), text.substr(0, length));
    } else {
      EXPECT_NE(module.error().where.find("prefix:"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace deadheat::ptx
