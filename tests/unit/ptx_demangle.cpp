#include "tracer/ptx/demangle.h"

#include <cxxabi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace deadheat::ptx {
namespace {

std::string by_the_runtime(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

TEST(PtxDemangle, Names) {
  EXPECT_EQ(demangle("_Z7softmaxPKfPf"), "softmax(float const*, float*)");
  EXPECT_EQ(demangle("plain"), "plain");
  EXPECT_EQ(demangle("_Znonsense"), "_Znonsense");
  EXPECT_EQ(demangle("_ZN29_INTERNAL_4bdbfe0a_4_a_cu_tab1fEi"), "f(int)");
}

// Names of every kind that CUDA code has: read as the runtime reads them.
TEST(PtxDemangle, AgreesWithTheRuntime) {
  for (const char* name : {
           "_Z7softmaxPKfPf",
           "_ZN3cub6detail6reduce18DeviceReduceKernelINS0_15policy_selectorEPKijEEvT0_T1_",
           "_ZSt4swapIiENSt9enable_ifIXsr6__and_ISt6__not_ISt15__is_tuple_likeIT_EEEE5valueEvE4typeERS3_S7_",
           "_ZNK4cute6TensorINS_6LayoutINS_5tupleIJNS_1CILi8EEEiEEES4_EEE4dataEv",
           "_ZN4cute4copyIJNS_1CILi1EEEfEEEvDpRKT_",
           "_ZN4cute6detail5applyIRZNS_4copyEvEUlT_E_EEvS3_i",
           "_ZZN5flash3runIfLb1EEEvRNS_6ParamsEENKUlvE_clEv",
           "_ZN4half4RealC1Ef",
           "_ZN4half4RealD0Ev",
           "_ZNK4half4RealcvfEv",
           "_ZN4half4RealpLERKS0_",
           "_ZlsRSoRK4half",
           "_Z4tilePA4_A8_fRA2_Ki",
           "_Z4callPFviPKcEM4halfFvvE",
           "_ZN12_GLOBAL__N_14growILin3ELj4ELm5ELc65EEEvv",
           "_Z4sizeIJidEEvDpT_PKNSt6vectorIiSaIiEEE",
           "_ZN1aIN1bIiEEE1cILNS_4KindE2EEEvT_S4_",
           "_ZNVK1a1bEv",
           "_ZNO1a1bEv",
           "_ZZ4namevE5table",
       }) {
    EXPECT_EQ(demangled_name(name).value_or(""), by_the_runtime(name)) << name;
  }
}

// The runtime does not come to an end with it.
TEST(PtxDemangle, NamesThatTakeTheRuntimeLong) {
  const std::string name = "_Z4ruleIdAsss" + std::string(33, 'r') + "z" + std::string(24, 's') + "]sssssssrrrrrrrDpr";
  EXPECT_EQ(demangle(name), name);
  const std::string without_pack = "_Z4ruleIdAsssrrrrrrrzssssssssssssssssrrrrrrrDsrr~\377/rrr\237";
  EXPECT_EQ(demangle(without_pack), without_pack);
  EXPECT_EQ(demangle("_Z3addI6ArraysEvT_"), "void add<Arrays>(Arrays)");
  EXPECT_EQ(demangle("_ZN4cute4copyIJNS_1CILi1EEEfEEEvDpRKT_"),
            "void cute::copy<cute::C<1>, float>(cute::C<1> const&, float const&)");
}

// The runtime refuses what has more than 1024 characters.
TEST(PtxDemangle, LongNames) {
  std::string name = "_ZN4gemm6KernelI", text;
  for (int i = 0; i < 60; ++i) {
    name += "N4wide4TileILi" + std::to_string(i) + "EfEE";
    text += (i ? ", wide::Tile<" : "wide::Tile<") + std::to_string(i) + ", float>";
  }
  name += "E3runEPKfi";
  ASSERT_GT(name.size(), 1024u);
  ASSERT_EQ(by_the_runtime(name), name);
  EXPECT_EQ(demangle(name), "gemm::Kernel<" + text + " >::run(float const*, int)");
}

// Text from elsewhere: neither deep, nor wide, nor cut short may it do harm.
TEST(PtxDemangle, HostileNames) {
  EXPECT_EQ(demangled_name("_Z1f" + std::string(10000, 'P') + "i"), std::nullopt);
  for (const char* nobody : {"_ZNE", "_ZNKE", "_ZNE1f", "_ZC5", "_ZND1Ev"})
    EXPECT_EQ(demangled_name(nobody), std::nullopt) << nobody;
  std::string doubling = "_Z1fI1aE", packs = "_Z1fIJ";
  for (int i = 0; i < 40; ++i) doubling += "1bIS" + (i ? std::to_string(i % 10) : "") + "_S_E";
  demangled_name(doubling);
  for (int i = 0; i < 200; ++i) packs += "i";
  packs += "EEv";
  for (int i = 0; i < 60; ++i) packs += "Dp";
  demangled_name(packs + "T_");
  const std::string whole = "_ZN4cute4copyIJNS_1CILi1EEEfEEEvDpRKT_";
  for (std::size_t length = 0; length < whole.size(); ++length) demangled_name(whole.substr(0, length));
}

TEST(PtxDemangle, ShortenedFromTheInside) {
  const std::string name = "void gemm::Kernel<gemm::Tile<128, 64>, 4>::run(gemm::Tile<128, 64> const*, int)";
  EXPECT_EQ(shortened(name, 100), name);
  EXPECT_EQ(shortened(name, 75), "void gemm::Kernel<gemm::Tile<...>, 4>::run(gemm::Tile<...> const*, int)");
  EXPECT_EQ(shortened(name, 60), "void gemm::Kernel<...>::run(...)");
  EXPECT_EQ(shortened("a::operator<(b<c, d> const&, b<c, d> const&)", 43),
            "a::operator<(b<...> const&, b<...> const&)");
  EXPECT_EQ(shortened("a::operator()(b<c, d> const&) const", 34), "a::operator()(b<...> const&) const");
  EXPECT_EQ(shortened("nothing_to_leave_out", 10), "nothing_to_leave_out");
}

}  // namespace
}  // namespace deadheat::ptx
