#include "tracer/cupti/assembly_plan.h"

#include <algorithm>

namespace deadheat::cupti {

// As measured with ptxas 13.0 over kernels of cuSOLVER and of the tests: 50 sites take 0.2 s, 850 some 6 s, 1320 18 s,
// 2300 84 s, 3800 170 s. What is unrolled lies in few, long basic blocks, over which ptxas takes quadratic time.
double assembly_seconds(const ptx::KernelSites& kernel) {
  const double sites = kernel.sites;
  return 4e-3 * sites + 1e-5 * sites * sites;
}

AssemblyPlan plan_assembly(std::vector<ptx::KernelSites> kernels, unsigned processors, double most_seconds) {
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const ptx::KernelSites& a, const ptx::KernelSites& b) { return a.sites > b.sites; });
  double sum = 0;
  for (const ptx::KernelSites& kernel : kernels) sum += assembly_seconds(kernel);
  const auto together = [&](std::size_t first) { // of those from there on
    const double longest = first < kernels.size() ? assembly_seconds(kernels[first]) : 0;
    return std::max(longest, sum / std::max(processors, 1u));
  };
  AssemblyPlan plan;
  const double all = together(0);
  std::size_t first = 0;
  for (; most_seconds > 0 && first < kernels.size() && together(first) > most_seconds; ++first) {
    plan.left_out.push_back(kernels[first].name);
    sum -= assembly_seconds(kernels[first]);
  }
  plan.seconds = together(first);
  plan.seconds_left_out = all - plan.seconds;
  for (; first < kernels.size(); ++first) plan.kernels.insert(kernels[first].name);
  return plan;
}

} // namespace deadheat::cupti
