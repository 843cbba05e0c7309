// Conditional nodes of graphs (embedded/conditions.cu): what runs, and what is refused as CUDA refuses it.
#include <gtest/gtest.h>

#include "embedded_support.h"

namespace deadheat::embedded_test {

TEST(EmbeddedConditions, RefuseWhatTheManualForbids) {
  const Ran ran = run("conditions", {"refused"});
  std::string output;
  for (int i = 0; i < 8; ++i) output += "cudaErrorInvalidValue\n";
  output +=
      "1\ncudaSuccess\ncudaErrorInvalidValue\ncudaErrorInvalidValue\ncudaErrorInvalidValue\n1\ncudaSuccess\n"
      "cudaErrorInvalidValue\ncudaSuccess\ncudaErrorInvalidValue\n";
  EXPECT_EQ(ran.output, output);
  EXPECT_EQ(ran.errors,
            "deadheat: a graph's conditional handle belongs to no conditional node\n"
            "deadheat: cudaGraphClone: graphs with conditional nodes cannot be cloned\n"
            "deadheat: the body of a conditional node has a node of type 3: it may have kernels, copies, sets, empty "
            "nodes, child graphs and conditional nodes\n"
            "deadheat: cudaGraphInstantiate: a graph with conditional nodes is instantiated already\n");
  EXPECT_EQ(ran.status, 0);
}

TEST(EmbeddedConditions, LoopsRunAsOftenAsTheirKernelsSay) {
  const Ran ran = run("conditions", {"loops"});
  EXPECT_EQ(ran.output, "1\n6 turns\n5 turns\n1\ncudaSuccess\n4 turns\n");
  EXPECT_EQ(ran.errors, "");
}

TEST(EmbeddedConditions, ValuesChooseBodies) {
  const Ran ran = run("conditions", {"choices"});
  EXPECT_EQ(ran.output, "11 0 1 0\n111 1 1 0\n111 1 2 0\n");
  EXPECT_EQ(ran.errors, "");
}

TEST(EmbeddedConditions, LoopsThatNothingCanEndHang) {
  const Ran ran = run("conditions", {"endless"});
  EXPECT_EQ(ran.output, "cudaErrorLaunchTimeout\ncudaErrorLaunchTimeout\n");
  EXPECT_EQ(ran.errors, "deadheat: the device hangs: a WHILE node has no kernel that could end it\n");
}

} // namespace deadheat::embedded_test
