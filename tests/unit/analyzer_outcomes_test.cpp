// Which sites of a trace's modules are marked as waits, and as strong reads, that nobody looks at the outcome of.
#include <gtest/gtest.h>

#include "analyzer/detect/outcomes.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/sites.h"

namespace deadheat::test {
namespace {

const std::string text =
    ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\n"
    "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;\n"
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r2;\n@!%p2 bra WAIT;\nret;\n}\n";

trace::Module module_of(std::uint32_t id, std::uint8_t image) {
  trace::Module module;
  module.id = id;
  module.image = {image};
  module.sites = ptx::sites(*ptx::parse(text, "a.ptx"));
  return module;
}
std::string marked(const trace::Module& module) {
  std::string numbers;
  for (const Site& site : module.sites) numbers += site.outcome_unused ? std::to_string(site.id) + ' ' : "";
  return numbers;
}

TEST(Outcomes, OfTheModulesText) {
  int asked = 0;
  detect::Outcomes outcomes([&](const trace::Module&) {
    ++asked;
    return text;
  });
  for (const std::uint32_t id : {1u, 2u}) {
    trace::Module module = module_of(id, 1);
    outcomes.mark(module);
    EXPECT_EQ(marked(module), "0 ");
  }
  EXPECT_EQ(asked, 1);
}
// Modules are read where it may matter: in others nothing synchronizes by what is read.
TEST(Outcomes, OfStrongReads) {
  const auto marked_of = [](const std::string& body) {
    const std::string text =
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
        ".reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n" +
        body + "ret;\n}\n";
    int asked = 0;
    detect::Outcomes outcomes([&](const trace::Module&) {
      ++asked;
      return text;
    });
    trace::Module module;
    module.sites = ptx::sites(*ptx::parse(text, "a.ptx"));
    outcomes.mark(module);
    return (asked ? "read: " : "not read: ") + marked(module);
  };
  EXPECT_EQ(marked_of("ld.acquire.gpu.u32 %r1, [%rd1];\n"), "read: 0 ");
  EXPECT_EQ(marked_of("atom.add.acq_rel.gpu.u32 %r1, [%rd1], 1;\n"), "read: 0 ");
  EXPECT_EQ(marked_of("atom.add.u32 %r1, [%rd1], 1;\nmembar.gl;\nld.volatile.u32 %r2, [%rd1];\n"), "read: 0 2 ");
  EXPECT_EQ(marked_of("atom.add.u32 %r1, [%rd1], 1;\nld.volatile.u32 %r2, [%rd1];\n"), "not read: ");
  EXPECT_EQ(marked_of("ld.u32 %r1, [%rd1];\nred.add.u32 [%rd1], 1;\nmembar.gl;\n"), "not read: ");
  EXPECT_EQ(marked_of("atom.add.u32 %r1, [%rd1], 1;\nfence.release.gpu;\n"), "not read: ");
}
TEST(Outcomes, NoneWhereTheTextIsNotToBeHad) {
  detect::Outcomes outcomes([](const trace::Module& module) { return module.image[0] == 1 ? "" : "no PTX"; });
  for (const std::uint8_t image : {std::uint8_t(1), std::uint8_t(2)}) {
    trace::Module module = module_of(1, image);
    outcomes.mark(module);
    EXPECT_EQ(marked(module), "");
  }
}
TEST(Outcomes, NoneWhereTheSitesAreOthers) {
  detect::Outcomes outcomes([](const trace::Module&) { return text; });
  trace::Module other = module_of(1, 1), fewer = module_of(2, 2), opaque = module_of(3, 3);
  other.sites[1].opcode = "mbarrier.test_wait.shared::cta.b64";
  fewer.sites.pop_back();
  opaque.kind = trace::Module::Kind::cubin;
  for (trace::Module* module : {&other, &fewer, &opaque}) {
    outcomes.mark(*module);
    EXPECT_EQ(marked(*module), "");
  }
}

} // namespace
} // namespace deadheat::test
