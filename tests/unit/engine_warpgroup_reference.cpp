// Runs the kernels of engine_warpgroup.h on a GPU and prints "hash code" lines: data/engine_gpu_warpgroups.txt. Not
// part of the test run: made once, on a machine that has a GPU of compute capability 9.0.
//
//   engine_warpgroup_reference --ptx       the module, for ptxas
//   engine_warpgroup_reference [RESULTS]   the hashes; all results, case after case, to the file RESULTS
#include <string>

#include "engine_gpu.h"
#include "engine_warpgroup.h"

using namespace deadheat::engine;

namespace {

std::vector<std::uint32_t> run(void* module, const WarpgroupCase& c, std::size_t index) {
  const std::vector<std::uint32_t> in = warpgroup_operands(c);
  std::vector<std::uint32_t> out(std::size_t(c.trials) * 128 * c.sums());
  std::uint64_t from = 0, to = 0;
  gpu_call("cuMemAlloc_v2", &from, in.size() * 4);
  gpu_call("cuMemAlloc_v2", &to, out.size() * 4);
  gpu_call("cuMemcpyHtoD_v2", from, static_cast<const void*>(in.data()), in.size() * 4);
  void* function = nullptr;
  const std::string name = "warpgroup_" + std::to_string(index);
  gpu_call("cuModuleGetFunction", &function, module, name.c_str());
  void* arguments[] = {&from, &to};
  gpu_call("cuLaunchKernel", function, c.trials, 1u, 1u, 128u, 1u, 1u, 0u, static_cast<void*>(nullptr),
           static_cast<void**>(arguments), static_cast<void**>(nullptr));
  gpu_call("cuMemcpyDtoH_v2", static_cast<void*>(out.data()), to, out.size() * 4);
  gpu_call("cuMemFree_v2", from);
  gpu_call("cuMemFree_v2", to);
  return out;
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<WarpgroupCase> all = all_warpgroup_cases();
  const std::string text = warpgroup_module(all);
  if (argc > 1 && std::string(argv[1]) == "--ptx") {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  void* module = gpu_module(text.c_str());
  std::FILE* results = argc > 1 ? std::fopen(argv[1], "wb") : nullptr;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::vector<std::uint32_t> out = run(module, all[k], k);
    std::printf("%016llx %s\n", static_cast<unsigned long long>(hash_words(out)), all[k].code.c_str());
    if (results) std::fwrite(out.data(), 4, out.size(), results);
  }
  if (results) std::fclose(results);
  return 0;
}
