// Runs the snippets of engine_snippets.h on a GPU and prints "hash code" lines: data/engine_gpu_results.txt. Not part
// of the test run: made once, on a machine that has a GPU.
//
//   engine_reference --ptx                the module, for ptxas
//   engine_reference [RESULTS]            the hashes; all results, as 64-bit words, to the file RESULTS
//   engine_reference --hash RESULTS       the hashes of such a file
//
// The driver is loaded by name, so that it builds without one.
#include <cstdio>
#include <string>

#include "engine_gpu.h"
#include "engine_snippets.h"

using namespace deadheat::engine;

using Address = std::uint64_t;

int main(int argc, char** argv) {
  std::vector<Snippet> all = all_snippets();
  std::string text = snippet_module(all);
  if (argc > 1 && std::string(argv[1]) == "--ptx") {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  if (argc > 2 && std::string(argv[1]) == "--hash") {
    std::FILE* file = std::fopen(argv[2], "rb");
    if (!file) return 1;
    std::vector<std::uint64_t> words(snippet_threads);
    for (const Snippet& s : all) {
      if (std::fread(words.data(), 8, words.size(), file) != words.size()) return 1;
      std::printf("%016llx %s\n", static_cast<unsigned long long>(hash_results(s, words)), s.code.c_str());
    }
    std::fclose(file);
    return 0;
  }
  std::FILE* results = argc > 1 ? std::fopen(argv[1], "wb") : nullptr;
  void* module = gpu_module(text.c_str());
  Address memory[5];
  for (Address& a : memory) gpu_call("cuMemAlloc_v2", &a, std::size_t(snippet_threads * 8));
  std::vector<std::uint64_t> words(snippet_threads);
  for (std::size_t k = 0; k < all.size(); ++k) {
    for (unsigned n = 0; n < all[k].inputs.size(); ++n) {
      for (unsigned t = 0; t < snippet_threads; ++t) words[t] = operand_value(all[k].inputs[n], n, t);
      gpu_call("cuMemcpyHtoD_v2", memory[n], static_cast<const void*>(words.data()), std::size_t(snippet_threads * 8));
    }
    void* function = nullptr;
    std::string name = "snippet_" + std::to_string(k);
    gpu_call("cuModuleGetFunction", &function, module, name.c_str());
    void* arguments[5];
    for (unsigned n = 0; n < 5; ++n) arguments[n] = &memory[n];
    gpu_call("cuLaunchKernel", function, snippet_threads / 128, 1u, 1u, 128u, 1u, 1u, 0u, static_cast<void*>(nullptr),
             static_cast<void**>(arguments), static_cast<void**>(nullptr));
    gpu_call("cuMemcpyDtoH_v2", static_cast<void*>(words.data()), memory[4], std::size_t(snippet_threads * 8));
    std::printf("%016llx %s\n", static_cast<unsigned long long>(hash_results(all[k], words)), all[k].code.c_str());
    if (results) std::fwrite(words.data(), 8, words.size(), results);
  }
  if (results) std::fclose(results);
  return 0;
}
