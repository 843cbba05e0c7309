// Runs the kernels of engine_matrix.h on a GPU and prints "hash code" lines: data/engine_gpu_matrices.txt. Not part of
// the test run: made once, on a machine that has a GPU.
//
//   engine_matrix_reference --ptx       the module, for ptxas
//   engine_matrix_reference [RESULTS]   the hashes; all results, case after case, to the file RESULTS
#include <string>

#include "engine_gpu.h"
#include "engine_matrix.h"

using namespace deadheat::engine;

int main(int argc, char** argv) {
  std::vector<MatrixCase> all = all_matrix_cases();
  std::string text = matrix_module(all);
  if (argc > 1 && std::string(argv[1]) == "--ptx") {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  void* module = gpu_module(text.c_str());
  std::FILE* results = argc > 1 ? std::fopen(argv[1], "wb") : nullptr;
  for (std::size_t k = 0; k < all.size(); ++k) {
    std::vector<std::uint32_t> in = matrix_operands(all[k]), out(matrix_trials * all[k].output_words);
    std::uint64_t from = 0, to = 0;
    gpu_call("cuMemAlloc_v2", &from, in.size() * 4);
    gpu_call("cuMemAlloc_v2", &to, out.size() * 4);
    gpu_call("cuMemcpyHtoD_v2", from, static_cast<const void*>(in.data()), in.size() * 4);
    void* function = nullptr;
    gpu_call("cuModuleGetFunction", &function, module,
             static_cast<const char*>(("matrix_" + std::to_string(k)).c_str()));
    void* arguments[] = {&from, &to};
    gpu_call("cuLaunchKernel", function, matrix_trials, 1u, 1u, 32u, 1u, 1u, 0u, static_cast<void*>(nullptr),
             static_cast<void**>(arguments), static_cast<void**>(nullptr));
    gpu_call("cuMemcpyDtoH_v2", static_cast<void*>(out.data()), to, out.size() * 4);
    gpu_call("cuMemFree_v2", from);
    gpu_call("cuMemFree_v2", to);
    std::printf("%016llx %s\n", static_cast<unsigned long long>(hash_matrices(all[k], out)), all[k].code.c_str());
    if (results) std::fwrite(out.data(), 4, out.size(), results);
  }
  if (results) std::fclose(results);
  return 0;
}
