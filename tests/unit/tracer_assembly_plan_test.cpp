// Which kernels are worth assembling.
#include "tracer/cupti/assembly_plan.h"

#include <gtest/gtest.h>

namespace deadheat::cupti {
namespace {

using Kernels = std::vector<ptx::KernelSites>;

TEST(AssemblyPlanTest, TakesAllWhereThereIsTime) {
  const AssemblyPlan plan = plan_assembly(Kernels{{"a", 10}, {"b", 500}}, 2, 60);
  EXPECT_EQ(plan.kernels, (std::set<std::string>{"a", "b"}));
  EXPECT_TRUE(plan.left_out.empty());
  EXPECT_GT(plan.seconds, 0);
  EXPECT_EQ(plan.seconds_left_out, 0);
}

TEST(AssemblyPlanTest, LeavesOutTheCostliestFirst) {
  const AssemblyPlan plan =
      plan_assembly(Kernels{{"small", 10}, {"large", 4000}, {"larger", 4100}, {"middle", 900}}, 4, 60);
  EXPECT_EQ(plan.kernels, (std::set<std::string>{"small", "middle"}));
  EXPECT_EQ(plan.left_out, (std::vector<std::string>{"larger", "large"}));
  EXPECT_LT(plan.seconds, 60);
  EXPECT_GT(plan.seconds_left_out, 100); // two processors' work, side by side
}

TEST(AssemblyPlanTest, ProcessorsShareWhatIsManyKernels) {
  const Kernels many(100, {"k", 800});
  EXPECT_FALSE(plan_assembly(many, 1, 60).left_out.empty());
  EXPECT_TRUE(plan_assembly(many, 100, 60).left_out.empty());
}

TEST(AssemblyPlanTest, NoLimit) {
  EXPECT_EQ(plan_assembly(Kernels{{"huge", 100'000}}, 1, 0).kernels.size(), 1u);
  EXPECT_TRUE(plan_assembly({}, 1, 60).kernels.empty());
}

} // namespace
} // namespace deadheat::cupti
