// The parser, construct by construct.
#include "ptx_support.h"

namespace deadheat::ptx {
namespace {

using Kind = Operand::Kind;

TEST(PtxParse, HeaderAndFiles) {
  Module m = module_of("  // a comment\n.file 1 \"/a b/x.cu\", 12, 34\n.file\t2 \"y.h\"\n/* end */");
  EXPECT_EQ(m.version, 90u);
  EXPECT_EQ(m.target, "sm_90a");
  EXPECT_EQ(m.address_size, 64u);
  EXPECT_EQ(m.files.at(1), "/a b/x.cu");
  EXPECT_EQ(m.files.at(2), "y.h");
  std::string text = ".version 8.3\n.target sm_80, texmode_independent, debug\n.address_size 64\n\0";
  Expected<Module> other = parse(std::string(text.c_str(), text.size() + 1), "x");  // embedded PTX ends in NUL
  ASSERT_TRUE(other);
  EXPECT_EQ(other->version, 83u);
  EXPECT_EQ(other->target, "sm_80");
}

TEST(PtxParse, GlobalVariables) {
  Module m = module_of(
      ".visible .global .align 4 .b8 table[16] = {1, 0, 0, 0, 0xff};\n"
      ".extern .shared .align 16 .b8 dynamic[];\n"
      ".common .global .s32 c;\n"
      ".const .align 8 .f32 cf[3] = {1.0, 0f40000000, -3};\n"
      ".global .f64 d = 0d3FF0000000000000;\n"
      ".global .v4 .f32 v[2];\n"
      ".global .attribute(.managed) .align 8 .u64 m;\n"
      ".global .texref t; .global .samplerref s = {addr_mode_0 = wrap, filter_mode = nearest};\n"
      ".global .b32 matrix[2][3] = {{1, 2}, {3}};\n"
      ".global .u32 a, b = 7;\n"
      ".global .b8 text[] = \"hey\";\n"
      ".global .b16 open[] = {1, 2, 3};\n"
      ".weak .global .b32 e = (3 + 4) * 2 - 1 << 1;\n");
  ASSERT_EQ(m.variables.size(), 15u);
  const Variable& table = m.variables[0];
  EXPECT_EQ(table.name, "table");
  EXPECT_EQ(table.linkage, Variable::Linkage::visible);
  EXPECT_EQ(table.space, Space::global);
  EXPECT_EQ(table.align, 4u);
  EXPECT_EQ(table.size, 16u);
  ASSERT_EQ(table.initializer.size(), 16u);
  EXPECT_EQ(table.initializer[4], 0xff);
  EXPECT_EQ(table.initializer[15], 0);
  EXPECT_EQ(m.variables[1].linkage, Variable::Linkage::extern_);
  EXPECT_EQ(m.variables[1].size, 0u);
  EXPECT_EQ(m.variables[1].dimensions, std::vector<std::uint64_t>{0});
  EXPECT_EQ(m.variables[2].linkage, Variable::Linkage::common);
  const std::vector<std::uint8_t> floats = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0xc0};
  EXPECT_EQ(m.variables[3].initializer, floats);
  EXPECT_EQ(m.variables[4].initializer[7], 0x3f);
  EXPECT_EQ(m.variables[5].size, 32u);
  EXPECT_EQ(m.variables[5].align, 16u);
  EXPECT_TRUE(m.variables[6].managed);
  EXPECT_TRUE(m.variables[7].opaque_reference);
  const Variable& matrix = *m.variable("matrix");
  EXPECT_EQ(matrix.initializer[4], 2);
  EXPECT_EQ(matrix.initializer[12], 3);
  EXPECT_TRUE(m.variable("a")->initializer.empty());
  EXPECT_EQ(m.variable("b")->initializer[0], 7);
  EXPECT_EQ(m.variable("text")->size, 3u);
  EXPECT_EQ(m.variable("open")->dimensions[0], 3u);
  EXPECT_EQ(m.variable("open")->size, 6u);
  EXPECT_EQ(m.variable("e")->initializer[0], 26);
}

TEST(PtxParse, InitializersWithAddresses) {
  Module m = module_of(
      ".global .b32 x[4];\n"
      ".global .align 8 .u64 p[4] = {generic(x), generic(x)+8, x+4, f};\n"
      ".global .align 1 .b8 packed[9] = {1, 0xFF(generic(x)), 0xFF00(generic(x)), 0xFF0000(generic(x+4))};\n"
      ".func f() { ret; }\n");
  const Variable& p = *m.variable("p");
  ASSERT_EQ(p.relocations.size(), 4u);
  EXPECT_TRUE(p.relocations[0].generic);
  EXPECT_EQ(p.relocations[1].offset, 8u);
  EXPECT_EQ(p.relocations[1].addend, 8);
  EXPECT_EQ(p.relocations[2].symbol, "x");
  EXPECT_FALSE(p.relocations[2].generic);
  EXPECT_EQ(p.relocations[3].symbol, "f");
  const Variable& packed = *m.variable("packed");
  ASSERT_EQ(packed.relocations.size(), 3u);
  EXPECT_EQ(packed.relocations[1].mask_shift, 8u);
  EXPECT_EQ(packed.relocations[1].bytes, 1u);
  EXPECT_EQ(packed.relocations[1].offset, 2u);
  EXPECT_EQ(packed.relocations[2].mask_shift, 16u);
  EXPECT_EQ(packed.relocations[2].addend, 4);
}

// .alias (PTX ISA 10.5.7): what is called by either name is the function that has a body. The text stays.
TEST(PtxParse, Aliases) {
  const std::string text =
      ".version 9.0\n.target sm_90\n.address_size 64\n.global .u64 table[1] = { b };\n.func a();\n.func b() { ret; }\n"
      ".entry k() { .reg .u64 %x; call a; mov.u64 %x, a; ret; }\n.alias a, b;\n";
  const Expected<Module> m = parse(text, "test");
  ASSERT_TRUE(m) << m.error().message();
  const auto all = instructions(m->functions[2]);
  EXPECT_EQ(all[0]->operands[1].text, "b");
  EXPECT_EQ(all[1]->operands[1].text, "b");
  EXPECT_EQ(print(*m), text);
  EXPECT_FALSE(parse(".version 9.0\n.target sm_90\n.address_size 64\n.alias a;\n", "test"));
}

TEST(PtxParse, Functions) {
  Module m = module_of(
      ".extern .func (.param .b32 retval) vprintf (.param .b64 f, .param .b64 a);\n"
      ".func (.reg .f32 %out) inr(.reg .b32 %in) { mov.b32 %out, %in; ret; }\n"
      ".weak .entry w(.param .u64 .ptr .global .align 16 q, .param .align 8 .b8 big[36])\n"
      ".maxntid 128, 2, 1\n.minnctapersm 3\n.maxnreg 64\n.reqnctapercluster 2\n.explicitcluster\n{ ret; }\n"
      ".func .attribute(.unified(1, 2)) stop() .noreturn { trap; }\n"
      ".visible .entry bare { exit; }\n"
      ".alias a, b;\n.pragma \"nounroll\";\n");
  ASSERT_EQ(m.functions.size(), 5u);
  EXPECT_FALSE(m.functions[0].has_body);
  EXPECT_EQ(m.functions[0].results.size(), 1u);
  EXPECT_EQ(m.functions[0].params[1].name, "a");
  EXPECT_EQ(m.functions[1].registers.size(), 2u);
  EXPECT_EQ(print(*instructions(m.functions[1])[0], m.functions[1]), "mov.b32 %out, %in;");
  const Function& w = m.functions[2];
  EXPECT_TRUE(w.entry);
  EXPECT_EQ(w.linkage, Variable::Linkage::weak);
  EXPECT_EQ(*w.maxntid, (Dim3{128, 2, 1}));
  EXPECT_EQ(w.minnctapersm, 3u);
  EXPECT_EQ(w.maxnreg, 64u);
  EXPECT_EQ(w.reqnctapercluster->x, 2u);
  EXPECT_TRUE(w.explicitcluster);
  EXPECT_TRUE(w.params[0].pointer);
  EXPECT_EQ(w.params[0].pointee_space, Space::global);
  EXPECT_EQ(w.params[0].pointee_align, 16u);
  EXPECT_EQ(w.params[0].space, Space::param);
  EXPECT_EQ(w.params[1].size, 36u);
  EXPECT_EQ(w.params[1].align, 8u);
  EXPECT_TRUE(m.functions[3].noreturn);
  EXPECT_EQ(m.function("vprintf"), &m.functions[0]);
}

TEST(PtxParse, OperandForms) {
  EXPECT_EQ(canonical("@!%p1 ld.global.v4.f32 {%f1, _, %f2, %f3}, [%rd1+-16];"),
            "@!%p1 ld.global.v4.f32 {%f1, _, %f2, %f3}, [%rd1+-16];");
  EXPECT_EQ(canonical("ld.shared.u32 %r1, [s+4];"), "ld.shared.u32 %r1, [s+4];");
  EXPECT_EQ(canonical("ld.param.u64 %rd1, [a];"), "ld.param.u64 %rd1, [a];");
  EXPECT_EQ(canonical("ld.global.u32 %r1, [16];"), "ld.global.u32 %r1, [16];");
  EXPECT_EQ(canonical("ld.global.u32 %r1, [g+4*2-1];"), "ld.global.u32 %r1, [g+7];");
  EXPECT_EQ(canonical("setp.lt.and.f32 %p1|%p2, %f1, 0f3F800000, !%p3;"),
            "setp.lt.and.f32 %p1|%p2, %f1, 0f3F800000, !%p3;");
  EXPECT_EQ(canonical("shfl.sync.bfly.b32 %r1|_, %r2, 0x10, 31, -1;"), "shfl.sync.bfly.b32 %r1|_, %r2, 16, 31, -1;");
  EXPECT_EQ(canonical("mov.u32 %r1, %tid.x;"), "mov.u32 %r1, %tid.x;");
  EXPECT_EQ(canonical("mov.u64 %rd1, s+8;"), "mov.u64 %rd1, s+8;");
  EXPECT_EQ(canonical("mov.u32 %r1, WARP_SZ;"), "mov.u32 %r1, 32;");
  EXPECT_EQ(canonical("add.f64 %fd1, %fd2, 1.5;"), "add.f64 %fd1, %fd2, 0d3FF8000000000000;");
  EXPECT_EQ(canonical("add.f32 %f1, %f2, -0f3F800000;"), "add.f32 %f1, %f2, 0fBF800000;");
  EXPECT_EQ(canonical("add.s32 %r1, 0x7f, 0b101;"), "add.s32 %r1, 127, 5;");
  EXPECT_EQ(canonical("add.s32 %r1, 017, ~0;"), "add.s32 %r1, 15, -1;");
  EXPECT_EQ(canonical("add.u64 %rd1, 18446744073709551615, 4U;"), "add.u64 %rd1, -1, 4;");
  EXPECT_EQ(canonical("mov.b64 {%r1, %r2}, %rd1;"), "mov.b64 {%r1, %r2}, %rd1;");
  EXPECT_EQ(canonical("vadd.s32.s32.s32 %r1, %r2.b0, %r3.h1;"), "vadd.s32.s32.s32 %r1, %r2.b0, %r3.h1;");
  EXPECT_EQ(
      canonical(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], "
          "[%r4];"),
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];");
  EXPECT_EQ(canonical("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%f5, %f6}];"),
            "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%f5, %f6}];");
  EXPECT_EQ(
      canonical("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
                "{%f1,%f2,%f3,%f4};"),
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, "
      "{%f1, %f2, %f3, %f4};");
  EXPECT_EQ(canonical("bar.sync 0;"), "bar.sync 0;");
  EXPECT_EQ(canonical("membar.gl;"), "membar.gl;");
}

TEST(PtxParse, OperandContents) {
  Module m =
      kernel_of("ld.global.v2.u32 {%r1, %r2}, [%rd3+8];\nst.shared.u32 [s+4], 0xffffffff;\n@%p1 bra L;\nL: ret;");
  auto all = instructions(kernel(m));
  const Operand& vector = all[0]->operands[0];
  ASSERT_EQ(vector.kind, Kind::vector);
  EXPECT_EQ(kernel(m).registers[vector.elements[1].reg].name, "%r2");
  EXPECT_EQ(kernel(m).registers[vector.elements[1].reg].type, Type::b32);
  const Operand& address = all[0]->operands[1];
  EXPECT_EQ(address.kind, Kind::address);
  EXPECT_EQ(address.offset, 8);
  EXPECT_EQ(address.elements[0].kind, Kind::reg);
  const Operand& shared = all[1]->operands[0];
  EXPECT_EQ(shared.elements[0].kind, Kind::symbol);
  EXPECT_EQ(shared.elements[0].text, "s");
  EXPECT_EQ(shared.elements[0].variable, 0);
  EXPECT_EQ(shared.offset, 4);
  EXPECT_EQ(all[1]->operands[1].bits, 0xffffffffu);
  EXPECT_TRUE(all[2]->guard);
  EXPECT_EQ(all[2]->operands[0].kind, Kind::label);
  EXPECT_EQ(kernel(m).labels.at("L"), kernel(m).body.size() - 2);
  EXPECT_EQ(kernel(m).registers.size(), 4u);  // only those that are used
}

TEST(PtxParse, ModifiersAreASet) {
  Module m = kernel_of(
      "ld.global.acquire.gpu.u32 %r1, [%rd1];\nld.acquire.gpu.global.u32 %r1, [%rd1];\ncvt.f32.s32 %f1, %r1;\n");
  auto all = instructions(kernel(m));
  EXPECT_EQ(all[0]->modifiers, all[1]->modifiers);
  EXPECT_NE(all[0]->modifier_texts, all[1]->modifier_texts);
  EXPECT_TRUE(all[0]->has(Modifier::acquire));
  EXPECT_EQ(all[2]->types, (std::vector<Type>{Type::f32, Type::s32}));
  EXPECT_EQ(all[2]->full_opcode(), "cvt.f32.s32");
}

TEST(PtxParse, UnknownInstructionsAreKept) {
  Module m = kernel_of("frobnicate.hard.u32 %r1, [%rd1], <odd @ thing>, {%r2};\nld.global.telepathic.u32 %r1, [%rd1];");
  auto all = instructions(kernel(m));
  EXPECT_EQ(all[0]->opcode, Opcode::unknown);
  EXPECT_EQ(all[0]->opcode_text, "frobnicate");
  ASSERT_EQ(all[0]->operands.size(), 4u);
  EXPECT_EQ(all[0]->operands[1].kind, Kind::address);
  EXPECT_EQ(all[0]->operands[2].kind, Kind::tokens);
  EXPECT_EQ(all[0]->operands[2].text, "<odd @ thing>");
  EXPECT_TRUE(all[1]->has(Modifier::unknown));
  EXPECT_EQ(all[1]->modifier_texts[1], "telepathic");
}

TEST(PtxParse, Calls) {
  Module m = module_of(
      ".func (.param .b32 r) f(.param .b32 x);\n.func h();\n"
      ".entry k() {\n.reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n"
      "{ .param .b32 param0; st.param.b32 [param0+0], %r1; .param .b32 retval0;\n"
      "call.uni (retval0), f, (param0);\nld.param.b32 %r2, [retval0+0]; }\n"
      "{ .param .align 8 .b8 param0[24]; .param .b64 retval0;\n"
      "prototype_0 : .callprototype (.param .b64 _) _ (.param .align 8 .b8 _[24]);\n"
      "call (retval0), %rd1, (param0), prototype_0; }\n"
      "call h;\ncall h, ();\n"
      "targets: .calltargets f, h;\ncall (_), %rd2, (%r1), targets;\ncall %rd3, (%r1), table;\n"
      "}\n");
  const Function& k = kernel(m);
  std::vector<const Instruction*> calls;
  for (const Instruction* i : instructions(k)) {
    if (i->opcode == Opcode::call) calls.push_back(i);
  }
  ASSERT_EQ(calls.size(), 6u);
  for (const Instruction* call : calls) ASSERT_GE(call->operands.size(), 3u);
  EXPECT_EQ(print(*calls[0], k), "call.uni (retval0), f, (param0);");
  EXPECT_EQ(calls[0]->operands[1].text, "f");
  EXPECT_EQ(calls[0]->operands[2].elements[0].variable, 0);
  EXPECT_EQ(calls[1]->operands[2].elements[0].variable, 2);  // the inner scope's param0
  EXPECT_EQ(k.variables[2].size, 24u);
  EXPECT_EQ(calls[1]->operands[1].kind, Kind::reg);
  ASSERT_EQ(calls[1]->operands.size(), 4u);
  EXPECT_EQ(calls[1]->operands[3].kind, Kind::label);
  const Directive& prototype = std::get<Directive>(k.body[k.labels.at("prototype_0")].node);
  EXPECT_EQ(prototype.params[0].size, 24u);
  EXPECT_EQ(prototype.results[0].type, Type::b64);
  EXPECT_EQ(print(*calls[2], k), "call h;");
  EXPECT_EQ(print(*calls[3], k), "call h;");
  EXPECT_EQ(print(*calls[4], k), "call (_), %rd2, (%r1), targets;");
  EXPECT_EQ(calls[5]->operands[3].kind, Kind::symbol);
}

TEST(PtxParse, BranchTargets) {
  Module m = kernel_of("ts: .branchtargets A, B,\n C;\n@%p1 brx.idx.uni %r1, ts;\nA: B:\nC: ret;");
  const Function& k = kernel(m);
  const Directive& list = std::get<Directive>(k.body[k.labels.at("ts")].node);
  EXPECT_EQ(list.targets, (std::vector<std::string>{"A", "B", "C"}));
  const Instruction& brx = *instructions(k)[0];
  EXPECT_EQ(brx.operands[1].kind, Kind::label);
  EXPECT_EQ(brx.operands[1].text, "ts");
}

TEST(PtxParse, ScopesHideNames) {
  Module m = kernel_of(
      "{ .reg .pred p; .reg .f32 %r1; setp.eq.f32 p, %r1, %r1; { .reg .f64 %r<3>; mov.f64 %r1, %r2; } mov.f32 %r1, "
      "%r1; }\n"
      "mov.b32 %r1, %r2;\n{ .reg .pred p; mov.pred p, 1; }");
  const Function& k = kernel(m);
  auto all = instructions(k);
  auto type = [&](std::size_t i, std::size_t o) { return k.registers[all[i]->operands[o].reg].type; };
  EXPECT_EQ(type(0, 0), Type::pred);
  EXPECT_EQ(type(0, 1), Type::f32);
  EXPECT_EQ(type(1, 0), Type::f64);
  EXPECT_EQ(type(1, 1), Type::f64);
  EXPECT_EQ(type(2, 0), Type::f32);
  EXPECT_EQ(type(3, 0), Type::b32);
  EXPECT_EQ(type(3, 1), Type::b32);
  EXPECT_NE(all[0]->operands[0].reg, all[4]->operands[0].reg);
}

TEST(PtxParse, LabelsInScopesAreRenamedApart) {
  std::string wait =
      "{ .reg .pred P1;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2;\n@P1 bra DONE;\nbra "
      "WAIT;\nDONE: }\n";
  Module m = kernel_of(wait + wait + "bra WAIT$1;\nWAIT$1: ret;");
  const Function& k = kernel(m);
  auto all = instructions(k);
  EXPECT_EQ(all[1]->operands[0].text, "DONE");
  EXPECT_EQ(all[2]->operands[0].text, "WAIT");
  EXPECT_EQ(all[4]->operands[0].text, "DONE$1");
  EXPECT_EQ(all[5]->operands[0].text, "WAIT$2");  // WAIT$1 is taken
  EXPECT_EQ(all[6]->operands[0].text, "WAIT$1");
  EXPECT_LT(k.labels.at("WAIT"), k.labels.at("WAIT$2"));
  EXPECT_EQ(std::get<Label>(k.body[k.labels.at("WAIT$2")].node).name, "WAIT$2");
}

TEST(PtxParse, VectorRegisters) {
  Module m = kernel_of(
      ".reg .v4 .f32 %v; .reg .v2 .b32 w<2>;\nld.global.v4.f32 %v, [%rd1];\nmov.f32 %f1, %v.y;\nmov.b32 %r1, w1.x;");
  const Function& k = kernel(m);
  auto all = instructions(k);
  ASSERT_EQ(all[0]->operands[0].kind, Kind::vector);
  EXPECT_EQ(all[0]->operands[0].elements.size(), 4u);
  EXPECT_EQ(all[1]->operands[1].reg, all[0]->operands[0].elements[1].reg);
  EXPECT_EQ(k.registers[all[2]->operands[1].reg].name, "w1.x");
}

TEST(PtxParse, Locations) {
  Module m = module_of(
      ".entry k() {\n.loc 1 10 5\nmembar.gl;\n"
      ".loc 2 20 3, function_name $L__name, inlined_at 1 10 5\n.loc 3 30 0, function_name $L__name+4, inlined_at 2 20 "
      "3\n"
      "bar.sync 0;\n.loc 4 1 1, function_name $L__none, inlined_at 9 9 9\nret; }\n"
      ".file 1 \"a.cu\"\n.file 2 \"b.h\"\n.file 3 \"c.h\"\n"
      ".section .debug_str\n{\n$L__name:\n.b8 95,90,49,102\n.b8 118,0\n}\n"
      ".section .debug_info { .b32 12 .b8 1 .b32 .debug_abbrev .b64 $L__name+4, $L__name }\n");
  auto all = instructions(m.functions[0]);
  const Location& outer = m.locations[all[0]->location];
  EXPECT_EQ(outer.file, 1u);
  EXPECT_EQ(outer.line, 10u);
  EXPECT_EQ(outer.column, 5u);
  const Location& inner = m.locations[all[1]->location];
  EXPECT_EQ(inner.function, "v");
  EXPECT_EQ(inner.line, 30u);
  const Location& middle = m.locations[inner.inlined_at];
  EXPECT_EQ(middle.function, "_Z1fv");
  EXPECT_EQ(middle.inlined_at, all[0]->location);
  const Location& last = m.locations[all[2]->location];
  EXPECT_EQ(last.function, "");
  EXPECT_EQ(m.locations[last.inlined_at].line, 9u);
  EXPECT_EQ(all[0]->source_line, 6u);
}

TEST(PtxParse, LineZeroIsTheLineBefore) {
  Module m = kernel_of(
      ".loc 1 0 3\nmembar.gl;\n.loc 1 10 5\nmembar.gl;\n.loc 1 0 5\nmembar.gl;\n"
      ".loc 2 20 3, function_name $L__f, inlined_at 1 10 5\nmembar.gl;\n"
      ".loc 2 0 0, function_name $L__f, inlined_at 1 10 5\nmembar.gl;\n.loc 1 0 0\nmembar.gl;\n"
      ".loc 1 11 5\n.loc 3 0 0, function_name $L__f, inlined_at 1 11 5\nmembar.gl;\n");
  std::vector<std::uint32_t> lines;
  for (const Instruction* at : instructions(kernel(m))) lines.push_back(m.locations[at->location].line);
  lines.resize(7);
  EXPECT_EQ(lines, (std::vector<std::uint32_t>{0, 10, 10, 20, 20, 20, 11}));
}

TEST(PtxParse, StatementsKeepTheirText) {
  Module m = kernel_of(";\n.pragma \"nounroll\";\n/* c */ add.s32 %r1 , %r2,3 ; // end");
  const Function& k = kernel(m);
  EXPECT_EQ(print(k.body.back(), k), "\n/* c */ add.s32 %r1 , %r2,3 ;");
  EXPECT_EQ(std::get<Directive>(k.body[k.body.size() - 2].node).name, ".pragma");
  EXPECT_EQ(std::get<Directive>(k.body[k.body.size() - 3].node).name, "");
}

TEST(PtxParse, AddedNodesArePrinted) {
  Module m = kernel_of("membar.gl;\nret;");
  Function& k = m.functions.back();
  std::size_t at = k.body.size() - 1;
  k.registers.push_back({"%new0", Type::b32});
  Instruction i;
  i.opcode = Opcode::mov;
  i.opcode_text = "mov";
  i.modifier_texts = {"u32"};
  Operand destination, source;
  destination.kind = Kind::reg;
  destination.reg = RegisterId(k.registers.size() - 1);
  source.kind = Kind::special;
  source.text = "%laneid";
  i.operands = {destination, source};
  Directive declaration{".reg", ".reg .b32 %new<1>;"};
  k.body.insert(k.body.begin() + std::ptrdiff_t(at),
                {Statement{ScopeBegin{}, {}}, Statement{declaration, {}}, Statement{Label{"L9"}, {}}, Statement{i, {}},
                 Statement{ScopeEnd{}, {}}});
  m.pieces.push_back({{}, -1, "\n.global .b32 added;"});
  std::string text = print(m);
  EXPECT_NE(text.find("membar.gl;\n\t{\n\t.reg .b32 %new<1>;\nL9:\n\tmov.u32 %new0, %laneid;\n\t}\nret;"),
            std::string::npos)
      << text;
  Expected<Module> again = parse(text, "again");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_NE(again->variable("added"), nullptr);
}

TEST(PtxParse, HeadsArePrintedFromStructure) {
  Module m = module_of(
      ".visible .entry k(.param .u64 .ptr .global .align 16 q, .param .align 8 .b8 b[36]) .maxntid 128, 1, 1 .maxnreg "
      "32 { ret; }");
  m.functions[0].head.clear();
  EXPECT_EQ(print_head(m.functions[0]),
            ".visible .entry k(.param .u64 .ptr .global .align 16 q, .param .align 8 .b8 b[36]) .maxntid 128, 1, 1 "
            ".maxnreg 32");
  Expected<Module> again = parse(print(m), "again");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->functions[0].params[1].size, 36u);
}

}  // namespace
}  // namespace deadheat::ptx
