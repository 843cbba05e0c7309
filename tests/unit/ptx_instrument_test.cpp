// What the instrumenter makes of instructions that few programs have.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tracer/ptx/instrument.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {
namespace {

struct Made {
  Instrumentation instrumentation;
  std::string clone; // its text
  const Slot& slot() const { return instrumentation.segments[0].slots[0]; }
};

// Of a kernel with one instruction.
Made made_of(const std::string& instruction) {
  const std::string text =
      ".version 8.8\n.target sm_90\n.address_size 64\n\n.visible .entry k(.param .u64 p)\n{\n"
      "\t.reg .b16 %h<8>;\n\t.reg .b32 %r<8>;\n\t.reg .b64 %d<8>;\n\tld.param.u64 %d1, [p];\n\t" +
      instruction + "\n\tret;\n}\n";
  const Expected<Module> module = parse(text, "test");
  EXPECT_TRUE(module) << module.error().message();
  Expected<Instrumentation> made = instrument(*module, site_table(*module));
  EXPECT_TRUE(made) << made.error().message();
  EXPECT_TRUE(parse(made->text, "instrumented"));
  const std::size_t begin = made->text.find(clone_prefix);
  EXPECT_NE(begin, std::string::npos);
  std::string clone = made->text.substr(begin);
  return {std::move(*made), std::move(clone)};
}

// Kernels, a function of both, and one of the second.
TEST(InstrumentTest, KernelsThatAreAskedFor) {
  const char* text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".func both(.param .u64 p)\n{\n.reg .b64 %a;\n.reg .b32 %r;\nld.param.u64 %a, [p];\nld.global.u32 %r, [%a];\n"
      "st.global.u32 [%a+4], %r;\nret;\n}\n"
      ".func its_own(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\nst.global.u32 [%a], 1;\nret;\n}\n"
      ".visible .entry first(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\n{\n.param .u64 q;\n"
      "st.param.u64 [q], %a;\ncall both, (q);\n}\nret;\n}\n"
      ".visible .entry second(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\n{\n.param .u64 q;\n"
      "st.param.u64 [q], %a;\ncall both, (q);\ncall its_own, (q);\n}\nst.global.u32 [%a], 2;\nret;\n}\n";
  const Expected<Module> module = parse(text, "test");
  ASSERT_TRUE(module) << module.error().message();
  const SiteTable sites = site_table(*module);
  std::map<std::string, std::uint32_t> counted;
  for (const KernelSites& kernel : sites_of_kernels(*module, sites)) counted[kernel.name] = kernel.sites;
  const std::uint32_t more = counted["second"] - counted["first"]; // its own store, that of its_own, and that one's end
  EXPECT_EQ(counted.size(), 2u);
  EXPECT_GE(counted["first"], 2u);
  EXPECT_GE(more, 2u);
  EXPECT_EQ(kernels_that_reach(*module, "both"), (std::set<std::string>{"first", "second"}));
  EXPECT_EQ(kernels_that_reach(*module, "its_own"), std::set<std::string>{"second"});
  EXPECT_EQ(kernels_that_reach(*module, "first"), std::set<std::string>{"first"});

  const std::set<std::string> wanted{"first"};
  const Expected<Instrumentation> made = instrument(*module, sites, {.kernels = &wanted});
  ASSERT_TRUE(made) << made.error().message();
  ASSERT_EQ(made->kernels.size(), 1u);
  EXPECT_EQ(made->kernels[0].name, "first");
  EXPECT_NE(made->text.find("__deadheat_both"), std::string::npos);
  EXPECT_EQ(made->text.find("__deadheat_its_own"), std::string::npos);
  EXPECT_EQ(made->text.find("__deadheat_second"), std::string::npos);
  EXPECT_EQ(instrument(*module, sites)->kernels.size(), 2u);
}

// Constants lie in memory of the device, where their generic address says.
// malloc and free are called by functions that record it, the ones of a device function too; what is called free and
// has a body is a function as any other.
TEST(InstrumentTest, CallsOfTheHeap) {
  const std::string head =
      ".version 8.8\n.target sm_90\n.address_size 64\n.extern .func (.param .b64 r) malloc(.param .b64 n);\n";
  const std::string body =
      ".func helper(.param .b64 p)\n{\n.reg .b64 %a;\nld.param.b64 %a, [p];\n{\n.param .b64 q;\n"
      "st.param.b64 [q], %a;\ncall.uni free, (q);\n}\nret;\n}\n"
      ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %a;\n{\n.param .b64 q;\n.param .b64 m;\n"
      "st.param.b64 [q], 64;\ncall.uni (m), malloc, (q);\nld.param.b64 %a, [m];\n}\nst.global.u32 [%a], 1;\n"
      "{\n.param .b64 q;\nst.param.b64 [q], %a;\ncall.uni helper, (q);\n}\nret;\n}\n";
  const std::string declared = head + ".extern .func free(.param .b64 p);\n" + body;
  const Expected<Module> module = parse(declared, "test");
  ASSERT_TRUE(module) << module.error().message();
  const SiteTable sites = site_table(*module);
  ASSERT_EQ(sites.sites.size(), 4u); // a store, the kernel's end, and behind them free and malloc
  EXPECT_EQ(sites.sites[1].kind, SiteKind::exit);
  EXPECT_EQ(sites.sites[2].kind, SiteKind::heap);
  EXPECT_EQ(sites.sites[2].access, AccessKind::free);
  EXPECT_EQ(sites.sites[3].kind, SiteKind::heap);
  EXPECT_EQ(sites.sites[3].access, AccessKind::write);
  const Expected<Instrumentation> made = instrument(*module, sites);
  ASSERT_TRUE(made) << made.error().message();
  ASSERT_TRUE(parse(made->text, "instrumented"));
  const std::string clones = made->text.substr(made->text.find(std::string(heap_prefix)));
  EXPECT_NE(clones.find(std::string("call.uni ") + heap_prefix + "2, (q, "), std::string::npos);
  EXPECT_NE(clones.find(std::string("call.uni (m), ") + heap_prefix + "3, (q, "), std::string::npos);
  ASSERT_EQ(made->kernels.size(), 1u);
  EXPECT_TRUE(made->kernels[0].strong);
  EXPECT_EQ(made->kernels[0].left_out, 0u);
  unsigned calls = 0;
  for (const Segment& segment : made->segments) calls += segment.slots[0].kind == Slot::Kind::heap;
  EXPECT_EQ(calls, 2u);

  const std::string own = head + ".func free(.param .b64 p)\n{\nret;\n}\n" + body;
  const Expected<Module> with_own = parse(own, "test");
  ASSERT_TRUE(with_own) << with_own.error().message();
  unsigned heaps = 0;
  for (const Site& site : site_table(*with_own).sites) heaps += site.kind == SiteKind::heap;
  EXPECT_EQ(heaps, 1u); // malloc
}

TEST(InstrumentTest, ReadsOfConstantsHaveGenericAddresses) {
  const Made made = made_of("ld.const.u32 %r1, [%d1+8];");
  EXPECT_EQ(made.slot().kind, Slot::Kind::read);
  const std::size_t at = made.clone.find("cvta.const.u64 %dh_a, %dh_a;");
  EXPECT_NE(at, std::string::npos) << made.clone;
  EXPECT_LT(at, made.clone.find("st.global.b64 [%dh_wide"));
  EXPECT_EQ(made_of("ld.global.u32 %r1, [%d1+8];").clone.find("cvta.const"), std::string::npos);
}

// Values of vectors tell their places in the order of strong accesses: all elements are needed.
TEST(InstrumentTest, ElementsThatAreDroppedHaveRegisters) {
  const Made words = made_of("ld.volatile.global.v4.u32 {_, %r1, _, %r2}, [%d1];");
  EXPECT_TRUE(words.slot().valued);
  EXPECT_NE(words.clone.find("ld.volatile.global.v4.u32 {%do_e32_0, %r1, %do_e32_2, %r2}, [%do_a];"), std::string::npos)
      << words.clone;
  EXPECT_NE(words.clone.find(".reg .b32 %do_e32_<8>;"), std::string::npos);
  EXPECT_NE(words.clone.find("mov.b32 %dh_t1, %do_e32_2;"), std::string::npos); // is part of the value that is stored

  const Made long_words = made_of("ld.acquire.gpu.global.v2.u64 {%d2, _}, [%d1];");
  EXPECT_TRUE(long_words.slot().valued);
  EXPECT_NE(long_words.clone.find("{%d2, %do_e64_1}, [%do_a];"), std::string::npos) << long_words.clone;

  const Made bytes = made_of("ld.volatile.shared.v4.u8 {%h1, _, %h3, %h4}, [%r1];");
  EXPECT_TRUE(bytes.slot().valued);
  EXPECT_NE(bytes.clone.find("{%h1, %do_e16_1, %h3, %h4}, [%do_s];"), std::string::npos) << bytes.clone;
}

// Textures and surfaces by their handles, with as many words as say which texels are meant; others are left out.
TEST(InstrumentTest, TexturesAndSurfaces) {
  const auto words = [](const std::string& instruction) {
    const Made made = made_of(instruction);
    EXPECT_EQ(made.instrumentation.kernels[0].left_out, 0u) << instruction;
    EXPECT_TRUE(made.instrumentation.kernels[0].textures) << instruction;
    EXPECT_EQ(made.slot().kind, Slot::Kind::texture) << instruction;
    return (made.instrumentation.segments[0].bytes - segment_header_bytes - 256) / 128; // behind the handle
  };
  const std::string four = "{%r1, %r2, %r1, %r2}";
  EXPECT_EQ(words("tex.1d.v4.s32.s32 " + four + ", [%d1, {%r1}];"), 1u);
  EXPECT_EQ(words("tex.2d.v4.s32.f32 " + four + ", [%d1, {%r1, 0f3F800000}];"), 2u);
  EXPECT_EQ(words("tex.a2d.v4.s32.f32 " + four + ", [%d1, " + four + "];"), 3u);
  EXPECT_EQ(words("tex.level.cube.v4.s32.f32 " + four + ", [%d1, " + four + "], %r1;"), 4u);
  EXPECT_EQ(words("tex.grad.2d.v4.s32.f32 " + four + ", [%d1, {%r1, %r2}], {%r1, %r2}, {%r1, %r2}, {1, -1};"), 8u);
  EXPECT_EQ(words("tld4.r.2d.v4.s32.f32 " + four + ", [%d1, {%r1, %r2}];"), 2u);
  EXPECT_EQ(words("suld.b.3d.v2.b32.trap {%r1, %r2}, [%d1, " + four + "];"), 3u);
  EXPECT_EQ(words("sust.b.1d.v2.b32.trap [%d1, {%r1}], {%r1, %r2};"), 2u); // and a digest
  EXPECT_EQ(words("sust.p.1d.v4.b32.trap [%d1, {%r1}], " + four + ";"), 5u); // and the values
  for (const std::string& left : {"tex.2d.v4.s32.f32 " + four + ", [%d1, %d1, {%r1, %r2}];",
                                  "tld4.r.cube.v4.s32.f32 " + four + ", [%d1, " + four + "];",
                                  "tex.2d.v4.f32.f32 " + four + ", [%d1, {%r1, %r2}], %r1;",
                                  std::string("sured.b.add.1d.u32.trap [%d1, {%r1}], %r2;")}) {
    const Made made = made_of(left);
    EXPECT_EQ(made.instrumentation.kernels[0].left_out, 1u) << left;
    EXPECT_FALSE(made.instrumentation.kernels[0].textures) << left;
  }
}

// From sm_100 on elements of a vector that is stored may be left out, and are not written then.
TEST(InstrumentTest, StoresOfPartsOfVectorsAreLeftOut) {
  for (const std::string opcode : {"st.global.v8.b32", "st.relaxed.gpu.global.v8.b32"}) {
    const std::string store = opcode + " [%d1], {%r1, _, %r2, %r1, _, _, %r1, %r2};";
    const Made made = made_of(store);
    EXPECT_EQ(made.instrumentation.kernels[0].left_out, 1u);
    EXPECT_NE(made.clone.find(store), std::string::npos) << made.clone;
    EXPECT_EQ(made.clone.find(", _;"), std::string::npos) << made.clone;
  }
  EXPECT_EQ(made_of("st.global.v4.b32 [%d1], {%r1, %r2, %r2, %r1};").instrumentation.kernels[0].left_out, 0u);
}

// Which bytes a masked copy writes, or one that ignores some reads, is not recorded.
TEST(InstrumentTest, CopiesOfSomeBytesAreLeftOut) {
  const std::string store = "cp.async.bulk.global.shared::cta.bulk_group";
  EXPECT_EQ(made_of(store + " [%d1], [%r1], 64;").instrumentation.kernels[0].left_out, 0u);
  EXPECT_EQ(made_of(store + ".cp_mask [%d1], [%r1], 64, %h1;").instrumentation.kernels[0].left_out, 1u);
  const std::string load = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes";
  EXPECT_FALSE(made_of(load + " [%r1], [%d1], 64, [%r2];").instrumentation.kernels[0].unseen_arrivals);
  const Made some = made_of(load + ".ignore_oob [%r1], [%d1], 64, %r3, %r4, [%r2];");
  EXPECT_EQ(some.instrumentation.kernels[0].left_out, 1u);
  EXPECT_TRUE(some.instrumentation.kernels[0].unseen_arrivals);
}

// A kernel with instructions that nobody knows is not recorded, and a line says so.
TEST(InstrumentTest, KernelsOfLaterPtxStayAsTheyAre) {
  const std::string text =
      ".version 9.0\n.target sm_90\n.address_size 64\n\n.func f()\n{\n\t.reg .b32 %r<4>;\n"
      "\tmbarrier.arrive.shared::cluster.multicast::cluster::32b.b64 _, [%r1], %r2;\n\tret;\n}\n"
      ".visible .entry k(.param .u64 p)\n{\n\tcall f;\n\tret;\n}\n"
      ".visible .entry other(.param .u64 p)\n{\n\tbar.sync 0;\n\tret;\n}\n";
  const Expected<Module> module = parse(text, "test");
  ASSERT_TRUE(module) << module.error().message();
  const Expected<Instrumentation> made = instrument(*module, site_table(*module));
  ASSERT_TRUE(made) << made.error().message();
  ASSERT_EQ(made->kernels.size(), 1u);
  EXPECT_EQ(made->kernels[0].name, "other");
  ASSERT_EQ(made->notes.size(), 1u);
  EXPECT_EQ(
      made->notes[0],
      "kernel k is not recorded: instructions such as mbarrier.arrive.shared::cluster.multicast::cluster::32b.b64 "
      "are not supported on the GPU yet");
}

TEST(InstrumentTest, RegistersAreAddedWhereElementsAreDropped) {
  const Made whole = made_of("ld.volatile.global.v2.u32 {%r1, %r2}, [%d1];");
  EXPECT_TRUE(whole.slot().valued);
  EXPECT_EQ(whole.clone.find("%do_e"), std::string::npos) << whole.clone;
  const Made weak = made_of("ld.global.v2.u32 {_, %r2}, [%d1];");
  EXPECT_NE(weak.clone.find("ld.global.v2.u32 {_, %r2}, [%d1];"), std::string::npos) << weak.clone;
}

// Of a module, with its kernels' names in `kernels`.
struct Modules {
  Instrumentation instrumentation;
  std::string kernels;
  std::uint32_t left_out(std::size_t kernel = 0) const { return instrumentation.kernels[kernel].left_out; }
};

Modules module_of(const std::string& text) {
  const Expected<Module> module = parse(".version 9.0\n.target sm_90\n.address_size 64\n" + text, "test");
  EXPECT_TRUE(module) << module.error().message();
  Expected<Instrumentation> made = instrument(*module, site_table(*module));
  EXPECT_TRUE(made) << made.error().message();
  std::string kernels;
  for (const InstrumentedKernel& kernel : made->kernels) kernels += kernel.name + ' ';
  return {std::move(*made), kernels};
}

const std::string stores = "{\n.reg .b64 %a;\nld.param.u64 %a, [p];\nst.global.u32 [%a], 1;\nret;\n}\n";

// What a kernel calls belongs to what its trace lacks.
TEST(InstrumentTest, SitesOfCalledFunctionsAreLeftOutOfTheirKernels) {
  const Modules made = module_of(
      ".func f(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\n"
      "multimem.red.relaxed.sys.global.add.u32 [%a], 1;\nret;\n}\n"
      ".entry k(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\n{\n.param .u64 q;\nst.param.u64 [q], %a;\n"
      "call f, (q);\n}\nret;\n}\n.entry other(.param .u64 p)\n" +
      stores);
  ASSERT_EQ(made.kernels, "k other ");
  EXPECT_EQ(made.left_out(0), 1u);
  EXPECT_EQ(made.left_out(1), 0u);
}

// A write of which nothing is told but where; the instruction itself stays.
TEST(InstrumentTest, DiscardsAreWrites) {
  for (const std::string opcode : {"discard.global.L2", "discard.L2"}) {
    const Modules made = module_of(".entry k(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\n" + opcode +
                                   " [%a+256], 128;\nret;\n}\n");
    ASSERT_EQ(made.kernels, "k ");
    EXPECT_EQ(made.left_out(), 0u);
    const std::string& text = made.instrumentation.text;
    const std::size_t first = text.find(opcode + " [%a+256], 128;");
    ASSERT_NE(first, text.npos);
    EXPECT_NE(text.find(opcode + " [%a+256], 128;", first + 1), text.npos);
    unsigned writes = 0;
    for (const Segment& segment : made.instrumentation.segments)
      for (const Slot& slot : segment.slots) writes += slot.kind == Slot::Kind::write && !slot.narrow;
    EXPECT_EQ(writes, 1u);
  }
}

// Whatever it calls by an address has no clone: its accesses are lost, and with what would order them, everything.
TEST(InstrumentTest, CallsByAddress) {
  const auto of = [](const std::string& body) {
    return module_of(".func f(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\n" + body +
                     "\nret;\n}\n.func elsewhere()\n{\nbar.sync 0;\nret;\n}\n"
                     ".entry k(.param .u64 p)\n{\n.reg .b64 %a<3>;\nld.param.u64 %a1, [p];\nmov.u64 %a2, f;\n{\n"
                     ".param .u64 q;\nst.param.u64 [q], %a1;\nP: .callprototype _ (.param .u64 _);\n"
                     "call %a2, (q), P;\n}\ncall elsewhere;\nret;\n}\n");
  };
  const Modules accesses = of("st.global.u32 [%a], 1;");
  ASSERT_EQ(accesses.kernels, "k ");
  EXPECT_EQ(accesses.left_out(), 1u);
  for (const char* body :
       {"bar.sync 0;", "st.release.gpu.global.u32 [%a], 1;", "red.global.add.u32 [%a], 1;", "exit;"}) {
    const Modules orders = of(body);
    EXPECT_EQ(orders.kernels, "") << body;
    EXPECT_EQ(orders.instrumentation.notes,
              std::vector<std::string>{"kernel k is not recorded: calls by address of functions that may synchronize "
                                       "are not supported on the GPU yet"});
  }
}

TEST(InstrumentTest, CallsByAnAliasAreOfItsFunction) {
  const Modules made = module_of(
      ".func f(.param .u64 p)\n" + stores +
      ".func g(.param .u64 p);\n.entry k(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\n{\n.param .u64 q;\n"
      "st.param.u64 [q], %a;\ncall g, (q);\n}\nret;\n}\n.alias g, f;\n");
  ASSERT_EQ(made.kernels, "k ");
  EXPECT_NE(made.instrumentation.text.find("call __deadheat_f, (q, "), std::string::npos) << made.instrumentation.text;
}

// A register of the program's in an inner scope would take the place of the clone's.
TEST(InstrumentTest, NamesOfTheProgramThatAreTheClones) {
  const std::string note =
      "kernel k is not recorded: names that recording uses itself are not supported on the GPU yet";
  for (const char* body :
       {"{\n.reg .b64 %dh_at;\nmov.u64 %dh_at, 0;\nst.global.u32 [%dh_at], 1;\n}\n", "$dh_wait_0:\nbar.sync 0;\n",
        ".shared .b32 __dh_control;\nst.shared.u32 [__dh_control], 1;\n"}) {
    const Modules made = module_of(std::string(".entry k()\n{\n") + body + "ret;\n}\n");
    EXPECT_EQ(made.kernels, "") << body;
    EXPECT_EQ(made.instrumentation.notes, std::vector<std::string>{note}) << body;
  }
}

// One that has no room for another parameter must not take the module's others along (PTX ISA 5.1.6.1).
TEST(InstrumentTest, KernelsWithTooManyParameters) {
  const auto of = [](unsigned bytes) {
    return module_of(".entry k(.param .align 8 .b8 p[" + std::to_string(bytes) + "])\n" + stores +
                     ".entry other(.param .u64 p)\n" + stores);
  };
  EXPECT_EQ(of(32728).kernels, "k other ");
  const Modules made = of(32736);
  EXPECT_EQ(made.kernels, "other ");
  ASSERT_EQ(made.instrumentation.notes.size(), 1u);
  EXPECT_NE(made.instrumentation.notes[0].find("parameters of so many bytes"), std::string::npos);
}

// Nothing would tell that its threads have ended, for whom barriers then wait.
TEST(InstrumentTest, KernelsThatEndWithoutAWord) {
  const auto recorded = [](const std::string& end) {
    return module_of(".func stop() .noreturn\n{\ntrap;\n}\n.entry k()\n{\n.reg .pred %p;\nL:\nbar.sync 0;\n" + end +
                     "\n}\n")
               .kernels == "k ";
  };
  for (const char* end :
       {"ret;", "exit;", "trap;", "bra L;", "bra.uni L;", "call stop;", "@%p bra L; ret;", "exit; mov.pred %p, %p;"})
    EXPECT_TRUE(recorded(end)) << end;
  for (const char* end : {"", "@%p bra L;", "@%p ret;", "@!%p exit;", "@%p call stop;", "@%p bra M; ret; M:"})
    EXPECT_FALSE(recorded(end)) << end;
  EXPECT_EQ(module_of(".entry k()\n{\n}\n").kernels, ""); // nor one that does nothing at all
}

// nvcc makes it of __block_size__: a launch's grid counts clusters, of a clone without it blocks (PTX ISA 11.4).
TEST(InstrumentTest, DirectivesThatClonesDoNotHave) {
  const auto notes = [](const std::string& directives) {
    return module_of(".visible .entry k(.param .u64 .ptr .global .align 16 p)\n" + directives + "\n" + stores)
        .instrumentation.notes;
  };
  EXPECT_EQ(
      notes(".blocksareclusters\n.reqntid 128, 1, 1\n.reqnctapercluster 2, 1, 1"),
      std::vector<std::string>{"kernel k is not recorded: directives such as .blocksareclusters are not supported "
                               "on the GPU yet"});
  EXPECT_EQ(notes(".maxntid 128, 2, 1\n.minnctapersm 3\n.maxnreg 64\n.reqnctapercluster 2\n.explicitcluster\n"
                  ".maxclusterrank 4\n.pragma \"nounroll\";"),
            std::vector<std::string>{});
}

// Constants of single precision may be written as if they were double (PTX ISA 4.5.2).
TEST(InstrumentTest, ValuesAsTheyAreStored) {
  EXPECT_NE(made_of("st.relaxed.gpu.global.f32 [%d1], 1.5;").clone.find("mov.u64 %dh_v, 1069547520;"),
            std::string::npos);
  EXPECT_NE(made_of("st.global.f32 [%d1], -1.5;").clone.find("mov.u64 %dh_v, 3217031168;"), std::string::npos);
  EXPECT_NE(made_of("st.global.f64 [%d1], 1.5;").clone.find("mov.b64 %dh_v, 0d3FF8000000000000;"), std::string::npos);
  const Made byte = made_of(".reg .u8 %c;\n\tld.volatile.global.u8 %c, [%d1];");
  EXPECT_NE(byte.clone.find("cvt.u64.u8 %dh_v, %c;"), std::string::npos) << byte.clone;
}

// They are about the next instruction, which is another one in a clone, or about what a launch has room for.
TEST(InstrumentTest, HintsThatAreNotForClones) {
  for (const std::string hint : {"used_bytes_mask 0x0fff", "enable_smem_spilling"}) {
    const std::string pragma = ".pragma \"" + hint + "\";";
    const Made made = made_of(pragma + "\n\tld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];");
    EXPECT_NE(made.instrumentation.text.find(pragma), std::string::npos);
    EXPECT_EQ(made.clone.find(pragma), std::string::npos) << made.clone;
  }
  EXPECT_NE(made_of(".pragma \"nounroll\";\n\tbar.sync 0;").clone.find("nounroll"), std::string::npos);
}

// The time is that of the function's length: of each segment that begins in a block it was that of the block's.
TEST(InstrumentTest, ManyProductsBetweenManyBarriers) {
  std::string body;
  for (int n = 0; n < 20000; ++n) {
    body += "ld.global.f32 %f1, [%a];\nmul.f32 %f2, %f1, %f1;\nst.global.f32 [%a], %f2;\n";
    if (n % 10 == 0) body += "bar.sync 0;\n";
  }
  const Modules made = module_of(
      ".entry k(.param .u64 p)\n{\n.reg .f32 %f<3>;\n.reg .b64 %a;\nld.param.u64 %a, [p];\n" + body + "ret;\n}\n");
  EXPECT_EQ(made.kernels, "k ");
}

// What a warp meets for comes behind the store that makes a segment valid, or before the room for one that holds it is
// taken: lanes that wait for others may hold nobody up who waits for room.
TEST(InstrumentTest, WarpsMeetWithNoSegmentOpen) {
  const std::string valid = "st.release.gpu.global.u64 [%dh_at], %dh_b;\n",
                    whole = "mov.b32 %dh_mask, 0xffffffff;\n\tbar.warp.sync %dh_mask;\n",
                    lanes = "bar.warp.sync %dh_mask;\n", room = "\tactivemask.b32 %dh_mask;\n";
  const std::string store = "st.shared.u32 [%r1], %r2;\n\t", guard = ".reg .pred %p;\n\tsetp.eq.u32 %p, %r1, 0;\n\t";
  const auto has = [](const Made& made, const std::string& text) { return made.clone.find(text) != std::string::npos; };
  for (const std::string barrier : {"bar.sync 0;", "barrier.sync.aligned 0;", "bar.red.popc.u32 %r3, 0, %p;"}) {
    const Made made = made_of(guard + store + barrier);
    EXPECT_TRUE(has(made, valid + "\t" + whole)) << made.clone;
    EXPECT_FALSE(has(made, whole + room)) << made.clone;
  }
  for (const std::string meeting : {"@%p bar.sync 0;", "barrier.sync 0;", "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;",
                                    "@%p mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r1, %r2, %r3, %r4}, "
                                    "{%r1, %r2}, {%r3}, {%r1, %r2, %r3, %r4};"}) {
    const Made made = made_of(guard + store + "bar.warp.sync -1;\n\t" + store + meeting);
    EXPECT_FALSE(has(made, whole)) << made.clone;
    EXPECT_TRUE(has(made, valid + "\t" + lanes)) << made.clone;
  }
  for (const std::string inside : {"bar.arrive 0, 64;", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];"}) {
    const Made made = made_of(store + inside + "\n\t" + store);
    EXPECT_TRUE(has(made, whole + room)) << made.clone;
    EXPECT_FALSE(has(made, valid + "\t" + whole) || has(made, valid + "\t" + lanes)) << made.clone;
  }
  EXPECT_FALSE(has(made_of(store), whole));
  EXPECT_FALSE(has(made_of(store), valid + "\t" + lanes));
}

// The driver's assembler crashes over a count that it knows to be 0, in originals too.
TEST(InstrumentTest, CountsOfMbarriersThatMayBeZeroAreHidden) {
  const std::string init = "mbarrier.init.shared::cta.b64 [%r1], ";
  for (const std::string count : {"0", "%r2"}) {
    const Made made = made_of("mov.u32 %r2, 0;\n\t" + init + count + ";");
    EXPECT_EQ(made.instrumentation.text.find("], " + count + ";"), std::string::npos) << made.instrumentation.text;
    EXPECT_NE(made.instrumentation.text.find("add.u32 %dh_count, %dh_count, " + count + ";\n\t" + init + "%dh_count;"),
              std::string::npos)
        << made.instrumentation.text;
    EXPECT_NE(made.clone.find("add.u32 %do_r32, %do_r32, " + count + ";"), std::string::npos) << made.clone;
    EXPECT_NE(made.clone.find("mbarrier.init.shared::cta.b64 [%do_s], %do_r32;"), std::string::npos) << made.clone;
  }
  for (const std::string count : {"3", "%r2"}) {
    const Made made = made_of("mov.u32 %r2, 1;\n\t" + init + count + ";");
    EXPECT_NE(made.instrumentation.text.find(init + count + ";"), std::string::npos) << made.instrumentation.text;
    EXPECT_EQ(made.instrumentation.text.find("%ctaid.x;\n\tshr"), std::string::npos) << made.instrumentation.text;
  }
}

} // namespace
} // namespace deadheat::ptx
