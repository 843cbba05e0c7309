// Control flow, dominators, loops, liveness, operand roles.
#include "tracer/ptx/flow.h"

#include <algorithm>
#include <random>

#include "ptx_support.h"
#include "tracer/ptx/operands.h"

namespace deadheat::ptx {
namespace {

std::uint32_t statement_of(const Function& f, const Instruction* i) {
  for (std::uint32_t s = 0; s < f.body.size(); ++s) {
    if (f.body[s].instruction() == i) return s;
  }
  return ~0u;
}

std::vector<std::string> names(const Function& f, const std::vector<RegisterId>& registers) {
  std::vector<std::string> result;
  for (RegisterId r : registers) result.push_back(f.registers[r].name);
  std::sort(result.begin(), result.end());
  return result;
}
using Names = std::vector<std::string>;

TEST(PtxFlow, BlocksAndEdges) {
  Module m = kernel_of(
      "setp.eq.s32 %p1, %r1, 0;\n"  // block 0
      "@%p1 bra ELSE;\n"
      "mov.u32 %r2, 1;\n"  // block 1
      "bra.uni JOIN;\n"
      "ELSE: mov.u32 %r2, 2;\n"  // block 2
      "JOIN: @%p1 exit;\n"       // block 3
      "trap;\n"                  // block 4
      "ret;\n");                 // block 5, unreachable
  Flow flow(kernel(m));
  ASSERT_EQ(flow.blocks().size(), 6u);
  auto successors = [&](std::size_t b) { return flow.blocks()[b].successors; };
  using V = std::vector<std::uint32_t>;
  EXPECT_EQ(successors(0), (V{1, 2}));
  EXPECT_EQ(successors(1), (V{3}));
  EXPECT_EQ(successors(2), (V{3}));
  EXPECT_EQ(successors(3), (V{4}));
  EXPECT_EQ(successors(4), V{});
  EXPECT_EQ(flow.blocks()[3].predecessors, (V{1, 2}));
  EXPECT_FALSE(flow.blocks()[5].reachable);
  EXPECT_EQ(flow.blocks()[3].dominator, 0u);
  EXPECT_TRUE(flow.dominates(0, 4));
  EXPECT_TRUE(flow.dominates(3, 4));
  EXPECT_FALSE(flow.dominates(1, 3));
  EXPECT_TRUE(flow.natural_loops().empty());
}

TEST(PtxFlow, LoopsAndIndexedBranches) {
  Module m = kernel_of(
      "ts: .branchtargets A, B, A;\n"
      "mov.u32 %r1, 0;\n"          // 0
      "A: add.s32 %r1, %r1, 1;\n"  // 1
      "brx.idx %r1, ts;\n"
      "B: setp.lt.s32 %p1, %r1, 9;\n"  // 2
      "@%p1 bra B;\n"
      "ret;\n");  // 3
  const Function& k = kernel(m);
  Flow flow(k);
  auto all = instructions(k);
  EXPECT_EQ(flow.blocks()[1].successors, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_FALSE(flow.on_cycle(statement_of(k, all[0])));
  EXPECT_TRUE(flow.on_cycle(statement_of(k, all[1])));
  EXPECT_TRUE(flow.on_cycle(statement_of(k, all[3])));
  EXPECT_FALSE(flow.on_cycle(statement_of(k, all[5])));
  auto loops = flow.natural_loops();
  ASSERT_EQ(loops.size(), 2u);
  EXPECT_EQ(loops[0].header, 1u);
  EXPECT_EQ(loops[1].blocks, std::vector<std::uint32_t>{2});
}

TEST(PtxFlow, NestedLoopsContainEachOther) {
  Module m = kernel_of("O: add.s32 %r1, %r1, 1;\nI: add.s32 %r2, %r2, 1;\n@%p1 bra I;\n@%p2 bra O;\nret;");
  Flow flow(kernel(m));
  auto loops = flow.natural_loops();
  ASSERT_EQ(loops.size(), 2u);
  EXPECT_EQ(loops[0].blocks, (std::vector<std::uint32_t>{1, 2, 3}));  // block 0 holds the declarations
  EXPECT_EQ(loops[1].blocks, std::vector<std::uint32_t>{2});
}

TEST(PtxFlow, OperandRoles) {
  auto roles = [](const std::string& text) {
    Module m = kernel_of(text);
    const Function& k = kernel(m);
    RegisterUse use = register_use(*instructions(k)[0]);
    std::string out;
    for (const std::string& n : names(k, use.writes)) out += n + " ";
    out += "<-";
    for (const std::string& n : names(k, use.reads)) out += " " + n;
    return out;
  };
  EXPECT_EQ(roles("@%p1 add.s32 %r1, %r2, %r3;"), "%r1 <- %p1 %r2 %r3");
  EXPECT_EQ(roles("ld.global.v2.u32 {%r1, %r2}, [%rd1+8];"), "%r1 %r2 <- %rd1");
  EXPECT_EQ(roles("st.shared.v2.u32 [%r1], {%r2, %r3};"), "<- %r1 %r2 %r3");
  EXPECT_EQ(roles("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;"), "%p1 %p2 <- %p3 %r1 %r2");
  EXPECT_EQ(roles("atom.global.cas.b32 %r1, [%rd1], %r2, %r3;"), "%r1 <- %r2 %r3 %rd1");
  EXPECT_EQ(roles("atom.global.add.u32 _, [%rd1], %r2;"), "<- %r2 %rd1");
  EXPECT_EQ(roles("red.global.add.u32 [%rd1], %r2;"), "<- %r2 %rd1");
  EXPECT_EQ(roles("bar.red.popc.u32 %r1, 0, %p1;"), "%r1 <- %p1");
  EXPECT_EQ(roles("barrier.sync %r1, %r2;"), "<- %r1 %r2");
  EXPECT_EQ(roles("bar.warp.sync %r1;"), "<- %r1");
  EXPECT_EQ(roles("mov.b64 {%r1, %r2}, %rd1;"), "%r1 %r2 <- %rd1");
  EXPECT_EQ(roles("call (%r1), %rd1, (%r2, %r3);"), "%r1 <- %r2 %r3 %rd1");
  EXPECT_EQ(roles("mbarrier.arrive.shared.b64 %rd1, [%r1];"), "%rd1 <- %r1");
  EXPECT_EQ(roles("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], %r2;"), "<- %r1 %r2");
  EXPECT_EQ(roles("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;"), "%p1 <- %r1 %r2");
  EXPECT_EQ(roles("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;"), "<- %r1 %r2 %rd1");
  EXPECT_EQ(roles("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;"),
            "%f1 %f2 %f3 %f4 <- %f1 %f2 %f3 %f4 %p1 %rd1 %rd2");
  EXPECT_EQ(roles("nanosleep.u32 %r1;"), "<- %r1");
  EXPECT_EQ(roles("elect.sync %r1|%p1, %r2;"), "%p1 %r1 <- %r2");
  EXPECT_EQ(roles("wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], {%f1, %f2}, %r1;"), "<- %f1 %f2 %r1 %rd1");
}

TEST(PtxFlow, LiveAfter) {
  Module m = kernel_of(
      "mov.u32 %r1, 1;\nmov.u32 %r2, 2;\nsetp.eq.s32 %p1, %r1, %r2;\n@%p1 mov.u32 %r2, 7;\n"
      "@%p1 bra L;\nst.shared.u32 [s], %r1;\nL: st.shared.u32 [s], %r2;\nret;");
  const Function& k = kernel(m);
  Flow flow(k);
  Liveness live(k, flow);
  auto all = instructions(k);
  auto after = [&](std::size_t i) { return names(k, live.live_after(statement_of(k, all[i])).list()); };
  EXPECT_EQ(after(0), (Names{"%r1"}));
  EXPECT_EQ(after(1), (Names{"%r1", "%r2"}));
  EXPECT_EQ(after(2), (Names{"%p1", "%r1", "%r2"}));  // the guarded write keeps the old %r2 alive
  EXPECT_EQ(after(4), (Names{"%r1", "%r2"}));
  EXPECT_EQ(after(5), (Names{"%r2"}));
  EXPECT_EQ(after(6), Names{});
}

TEST(PtxFlow, LiveAroundLoops) {
  Module m = kernel_of(
      "mov.u32 %r1, 0;\nmov.u32 %r2, 5;\nL: add.s32 %r1, %r1, %r2;\nsetp.lt.s32 %p1, %r1, 9;\n@%p1 bra L;\nret;");
  const Function& k = kernel(m);
  Flow flow(k);
  Liveness live(k, flow);
  auto all = instructions(k);
  EXPECT_EQ(names(k, live.live_after(statement_of(k, all[4])).list()), (Names{"%r1", "%r2"}));
}

// Against the definition: a register is live after i when some path from i reads it before surely writing it.
TEST(PtxFlow, LivenessAgreesWithItsDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    std::string body;
    int labels = 6;
    for (int b = 0; b < labels; ++b) {
      body += "L" + std::to_string(b) + ":\n";
      for (int i = 0; i < 4; ++i) {
        auto r = [&] { return "%r" + std::to_string(random() % 8); };
        std::string guard = random() % 3 == 0 ? "@%p1 " : "";
        body += guard + "add.s32 " + r() + ", " + r() + ", " + r() + ";\n";
      }
      if (random() % 3) body += (random() % 2 ? "@%p1 bra L" : "bra L") + std::to_string(random() % labels) + ";\n";
    }
    Module m = kernel_of(body + "ret;");
    const Function& k = kernel(m);
    Flow flow(k);
    Liveness live(k, flow);
    // Statement-level fixed point, one bit a register.
    std::vector<std::uint64_t> in(k.body.size() + 1, 0);
    auto next = [&](std::uint32_t s) {
      std::vector<std::uint32_t> result;
      const Instruction* i = k.body[s].instruction();
      bool falls = true;
      if (i && i->opcode == Opcode::bra) {
        result.push_back(k.labels.find(i->operands[0].text)->second);
        falls = i->guard.has_value();
      }
      if (i && i->opcode == Opcode::ret) falls = false;
      if (falls && s + 1 < k.body.size()) result.push_back(s + 1);
      return result;
    };
    auto out = [&](std::uint32_t s) {
      std::uint64_t bits = 0;
      for (std::uint32_t t : next(s)) bits |= in[t];
      return bits;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (std::uint32_t s = std::uint32_t(k.body.size()); s-- > 0;) {
        std::uint64_t bits = out(s);
        if (const Instruction* i = k.body[s].instruction()) {
          RegisterUse use = register_use(*i);
          if (!i->guard) {
            for (RegisterId r : use.writes) bits &= ~(1ull << r);
          }
          for (RegisterId r : use.reads) bits |= 1ull << r;
        }
        changed |= bits != in[s];
        in[s] = bits;
      }
    }
    std::size_t visited = 0;
    live.sweep([&](std::uint32_t s, const RegisterSet& set) {
      ++visited;
      for (RegisterId r = 0; r < k.registers.size(); ++r) EXPECT_EQ(set.contains(r), (out(s) >> r & 1) != 0);
      EXPECT_EQ(set, live.live_after(s));
    });
    EXPECT_EQ(visited, instructions(k).size());
  }
}

TEST(PtxFlow, LargeFunctions) {
  std::string body;
  for (int i = 0; i < 10000; ++i) {
    std::string n = std::to_string(i % 5000);
    body += "add.s32 %q" + n + ", %q" + std::to_string((i * 7) % 5000) + ", 1;\n";
    if (i % 10 == 0) body += "@%p1 bra L" + std::to_string(i) + ";\nL" + std::to_string(i) + ":\n";
  }
  Module m = kernel_of(".reg .b32 %q<5000>;\n" + body + "ret;");
  Flow flow(kernel(m));
  Liveness live(kernel(m), flow);
  std::size_t total = 0;
  live.sweep([&](std::uint32_t, const RegisterSet& set) { total += set.size(); });
  EXPECT_GT(total, 0u);
}

TEST(PtxFlow, EmptyBodies) {
  Module m = module_of(".func f() { }");
  Flow flow(m.functions[0]);
  EXPECT_TRUE(flow.blocks().empty());
  Liveness live(m.functions[0], flow);
  EXPECT_TRUE(flow.natural_loops().empty());
}

}  // namespace
}  // namespace deadheat::ptx
