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

} // namespace
} // namespace deadheat::ptx
