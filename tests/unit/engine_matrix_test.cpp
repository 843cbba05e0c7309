// Every matrix instruction against a GPU, bit by bit: fragments, products, loads and stores.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "engine_matrix.h"
#include "engine_runner.h"

namespace deadheat::engine {
namespace {

TEST(Matrices, equal_the_gpu) {
  std::map<std::string, std::string> expected;
  std::ifstream file(DEADHEAT_TEST_DATA "/engine_gpu_matrices.txt");
  ASSERT_TRUE(file) << "no reference results";
  for (std::string line; std::getline(file, line);)
    if (line.size() > 17 && line[0] != '#') expected[line.substr(17)] = line.substr(0, 16);
  std::vector<MatrixCase> all = all_matrix_cases();
  EXPECT_EQ(expected.size(), all.size());
  Runner r(matrix_module(all));
  EXPECT_EQ(r.module().refusals(), std::vector<std::string>());
  std::uint64_t in = r.allocate(1 << 20), out = r.allocate(1 << 20);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const MatrixCase& c = all[k];
    std::vector<std::uint32_t> words = matrix_operands(c);
    ASSERT_LE(words.size() * 4, std::size_t(1) << 20);
    ASSERT_LE(matrix_trials * c.output_words * 4, 1u << 20);
    std::memcpy(r.host(in), words.data(), words.size() * 4);
    r.launch("matrix_" + std::to_string(k), {matrix_trials}, {32}, in, out);
    EXPECT_EQ(r.fault, "") << c.code;
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx",
                  static_cast<unsigned long long>(
                      hash_matrices(c, r.download<std::uint32_t>(out, matrix_trials * c.output_words))));
    auto it = expected.find(c.code);
    if (it == expected.end())
      ADD_FAILURE() << "no reference for " << c.code;
    else
      EXPECT_EQ(hash, it->second) << c.code;
  }
}

}  // namespace
}  // namespace deadheat::engine
