// Where the value of a load goes.
#include "tracer/ptx/uses.h"

#include "ptx_support.h"

namespace deadheat::ptx {
namespace {

// Of the first site, a load of %r1 from [%rd1]: lines of the stores that it feeds, or "elsewhere".
std::string fed(const std::string& body) {
  const Module module = kernel_of("ld.global.u32 %r1, [%rd1];\n" + body);
  const SiteTable table = site_table(module);
  const auto stores = stores_fed_by(module, table, {0});
  if (!stores) return "elsewhere";
  std::string text;
  for (const std::uint32_t site : *stores) text += (text.empty() ? "" : " ") + table.sites[site].opcode;
  return text;
}

TEST(PtxUses, StoresOfWhatIsComputedFromIt) {
  EXPECT_EQ(fed("ret;"), "");
  EXPECT_EQ(fed("st.global.u32 [%rd2], %r1;"), "st.global.u32");
  EXPECT_EQ(fed("add.u32 %r2, %r1, 1;\nmul.lo.u32 %r3, %r2, %r2;\n@%p1 st.shared.v2.u32 [%rd2], {%r4, %r3};"),
            "st.shared.v2.u32");
  EXPECT_EQ(fed("setp.eq.u32 %p1, %r1, 0;\nselp.u32 %r2, 1, 2, %p1;\nst.global.u32 [%rd2], %r2;"), "st.global.u32");
  EXPECT_EQ(fed("st.global.u32 [%rd2], %r2;"), ""); // of something else
  EXPECT_EQ(fed("AGAIN: add.u32 %r3, %r2, 1;\nmov.u32 %r2, %r1;\nst.global.u32 [%rd2], %r3;\nbra AGAIN;"),
            "st.global.u32");
}

TEST(PtxUses, OtherUses) {
  EXPECT_EQ(fed("cvt.u64.u32 %rd3, %r1;\nst.global.u32 [%rd3], %r2;"), "elsewhere"); // an address
  EXPECT_EQ(fed("cvt.u64.u32 %rd3, %r1;\nld.global.u32 %r2, [%rd3];"), "elsewhere");
  EXPECT_EQ(fed("setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.u32 [%rd2], %r2;"), "elsewhere"); // whether it is stored
  EXPECT_EQ(fed("setp.eq.u32 %p1, %r1, 0;\n@%p1 bra DONE;\nDONE: ret;"), "elsewhere");
  EXPECT_EQ(fed("shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;"), "elsewhere");
  EXPECT_EQ(fed("red.global.add.u32 [%rd2], %r1;"), "elsewhere");
  EXPECT_EQ(fed("st.local.u32 [%rd2], %r1;"), "elsewhere"); // not in traces
  EXPECT_EQ(fed("st.u32 [%rd2], %r1;"), "elsewhere"); // may be local
  EXPECT_EQ(fed("add.cc.u32 %r2, %r1, 1;\naddc.u32 %r3, %r4, 0;\nst.global.u32 [%rd2], %r3;"),
            "elsewhere"); // the carry
  EXPECT_EQ(fed("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %r1, [%r4];"), "elsewhere");
}

TEST(PtxUses, NoLoads) {
  const Module module = kernel_of("atom.global.add.u32 %r1, [%rd1], 1;\nst.global.u32 [%rd2], %r1;");
  EXPECT_FALSE(stores_fed_by(module, site_table(module), {0}));
  EXPECT_FALSE(stores_fed_by(module, site_table(module), {7}));
}

// Of the kernel's only wait, `wait`: does nothing depend on its outcome?
bool unused(const std::string& body,
            const std::string& wait = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;") {
  const Module module = kernel_of("ld.global.u32 %r9, [%rd1];\n" + wait + "\n" + body);
  const SiteTable table = site_table(module);
  const std::set<std::uint32_t> sites = unused_outcomes(module, table);
  EXPECT_TRUE(sites.empty() || *sites.begin() == 1);
  return !sites.empty();
}

TEST(PtxUses, OutcomesThatNobodyLooksAt) {
  EXPECT_TRUE(unused("ret;"));
  EXPECT_TRUE(unused("selp.u32 %r3, 1, 0, %p1;\nret;"));
  EXPECT_TRUE(unused("selp.u32 %r3, 1, 0, %p1;\nsetp.ne.u32 %p2, %r3, 0;\nmov.u32 %r4, %r3;\n@%p2 mov.u32 %r5, %r4;"));
  EXPECT_TRUE(
      unused("LOOP: selp.u32 %r3, 1, 0, %p1;\nadd.u32 %r4, %r4, %r3;\nsetp.eq.u32 %p3, %r9, 0;\n@%p3 bra LOOP;"));
  EXPECT_TRUE(unused("ret;", "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%r1], %r2; }"));
  EXPECT_TRUE(
      unused("setp.eq.u32 p, %r9, 0;\n@p st.global.u32 [%rd2], %r9;",
             ".reg .pred p;\n{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%r1], %rd3; }")); // another p
  EXPECT_TRUE(unused("ret;", "@%p2 mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %rd3, %r2;"));
}

TEST(PtxUses, OutcomesThatMatter) {
  EXPECT_FALSE(unused("@%p1 bra DONE;\nDONE: ret;"));
  EXPECT_FALSE(unused("@!%p1 trap;"));
  EXPECT_FALSE(unused("@%p1 st.global.u32 [%rd2], %r9;"));
  EXPECT_FALSE(unused("@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];"));
  EXPECT_FALSE(unused("selp.u32 %r3, 1, 0, %p1;\nst.local.u32 [%rd2], %r3;"));
  EXPECT_FALSE(unused("selp.u32 %r3, 1, 0, %p1;\ncvt.u64.u32 %rd4, %r3;\nld.global.u32 %r5, [%rd4];"));
  EXPECT_FALSE(unused("vote.sync.all.pred %p2, %p1, -1;"));
  EXPECT_FALSE(unused("selp.u32 %r3, 1, 0, %p1;\nshfl.sync.idx.b32 %r4, %r3, 0, 31, -1;"));
  EXPECT_FALSE(
      unused("selp.u32 %r3, 1, 0, %p1;\nadd.cc.u32 %r4, %r3, -1;\naddc.u32 %r5, 0, 0;\nst.global.u32 [%rd2], %r5;"));
  EXPECT_FALSE(unused("selp.u32 %r3, 1, 0, %p1;\n{ .param .b32 a;\nst.param.b32 [a], %r3;\n}"));
  EXPECT_FALSE(
      unused("mov.pred %p3, %p2;\n@%p3 bra DONE;\nmov.pred %p2, %p1;\nDONE: ret;")); // a turn later, or not at all
  // What compilers make of loops that wait.
  EXPECT_FALSE(
      unused("@%p1 bra.uni DONE;\nbra.uni WAIT;\nDONE: ret;", "WAIT: mbarrier.try_wait.parity.b64 %p1, [%rd2], %r2;"));
  EXPECT_FALSE(unused("selp.b32 %r3, 1, 0, %p1;\nsetp.eq.s32 %p2, %r3, 0;\n@%p2 bra WAIT;",
                      "WAIT: mbarrier.test_wait.shared.b64 %p1, [%r1], %rd3;"));
  EXPECT_FALSE(unused("ret;",
                      "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2;\n"
                      "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}"));
}

TEST(PtxUses, StrongReadsThatNobodyLooksAt) {
  for (const char* read :
       {"ld.acquire.gpu.global.u32 %r1, [%rd1];", "ld.relaxed.gpu.global.u32 %r1, [%rd1];",
        "ld.volatile.global.u32 %r1, [%rd1];", "ld.acquire.sys.u32 %r1, [%rd1];", "atom.global.add.u32 %r1, [%rd1], 1;",
        "atom.global.acq_rel.gpu.cas.b32 %r1, [%rd1], 0, 1;", "@%p3 atom.shared.exch.b32 %r1, [%r2], 0;"}) {
    EXPECT_TRUE(unused("ret;", read)) << read;
    EXPECT_TRUE(unused("add.u32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\nret;", read)) << read;
    EXPECT_FALSE(unused("setp.eq.u32 %p1, %r1, 0;\n@%p1 bra DONE;\nDONE: ret;", read)) << read;
    EXPECT_FALSE(unused("st.global.u32 [%rd2], %r1;", read)) << read;
    EXPECT_FALSE(unused("st.global.u32 [%rd2], %r3;", "AGAIN: " + std::string(read) + "\nadd.u32 %r3, %r3, %r1;"))
        << read;
  }
  EXPECT_TRUE(unused("ret;", "atom.global.add.u32 _, [%rd1], 1;"));
  EXPECT_TRUE(unused("ret;", "ld.volatile.global.v2.u32 {%r1, %r2}, [%rd1];"));
  EXPECT_FALSE(unused("st.global.u32 [%rd2], %r2;", "ld.volatile.global.v2.u32 {%r1, %r2}, [%rd1];")); // one is enough
  EXPECT_FALSE(unused("ret;", "ld.global.u32 %r1, [%rd1];")); // weak: it synchronizes nothing
  EXPECT_FALSE(unused("ret;", "red.global.add.u32 [%rd1], 1;")); // nor does this (8.8)
}

TEST(PtxUses, OutcomesThatFunctionsReturn) {
  const Module module = module_of(
      ".func (.reg .b32 %done) f(.reg .b32 %r1, .reg .b32 %r2)\n{\n.reg .pred %p<3>;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;\nselp.b32 %done, 1, 0, %p1;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r2;\nret;\n}\n");
  EXPECT_EQ(unused_outcomes(module, site_table(module)), std::set<std::uint32_t>{1});
}

} // namespace
} // namespace deadheat::ptx
