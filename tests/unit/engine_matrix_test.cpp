// Every matrix instruction against a GPU, bit by bit: fragments, products, loads and stores.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "deadheat/address.h"
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

// What loads and stores of matrices say about memory. Rows of 16 bytes, 32 apart, from `base` in shared memory: of
// ldmatrix.x2 and stmatrix.x2 lanes 0 to 15 give one each; of wmma each lane has 16 bytes of a, 32 of d.
constexpr const char* accesses = R"(
.version 8.4
.target sm_90
.address_size 64
.visible .entry rows(.param .u32 base, .param .u32 unused)
{
  .shared .align 32 .b8 tile[1024];
  .reg .b32 %r<8>;
  mov.u32 %r0, %laneid;
  ld.param.u32 %r1, [base];
  mad.lo.u32 %r1, %r0, 32, %r1;
  mov.u32 %r2, tile;
  add.u32 %r1, %r1, %r2;
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r3, %r4}, [%r1];
  stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r1], {%r4, %r3};
  ret;
}
.visible .entry matrices(.param .u64 in, .param .u64 out)
{
  .reg .b32 %a<8>;
  .reg .f32 %c<8>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd0, [in];
  ld.param.u64 %rd1, [out];
  wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [%rd0], 24;
  wmma.load.c.sync.aligned.col.m16n16k16.global.f32 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, [%rd0];
  wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7},
    {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7},
    {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7};
  wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, 20;
  ret;
}
)";

TEST(MatrixAccesses, belong_to_the_lanes_that_make_them) {
  for (bool control : {false, true}) {
    Runner r(accesses);
    r.mode.record = true;
    r.mode.control = control;
    r.mode.check = true;
    r.launch("rows", {1}, {32}, 16u, 0u);
    ASSERT_EQ(r.fault, "");
    EXPECT_EQ(r.visible, control ? 32u : 0u);
    ASSERT_EQ(r.log.size(), 32u);
    for (const auto& [thread, entry] : r.log) {
      ASSERT_LT(thread, 16u);
      EXPECT_EQ(entry.address, shared_window + 16 + 32 * thread);
      const Site& site = r.module().sites()[entry.site];
      EXPECT_EQ(site.element_bytes * site.elements, 16);
      EXPECT_EQ(site.ordering, Ordering::weak);
      EXPECT_EQ(entry.digest != 0, site.access == AccessKind::write);
    }

    std::uint64_t in = r.allocate(1024), out = r.allocate(2048);
    std::memset(r.host(in), 0, 1024);
    r.launch("matrices", {1}, {32}, in, out);
    ASSERT_EQ(r.fault, "");
    EXPECT_EQ(r.visible, control ? 96u : 0u);
    ASSERT_EQ(r.log.size(), 96u);
    std::map<unsigned, unsigned> of_lane;
    for (const auto& [t, entry] : r.log) {
      unsigned number = of_lane[t]++, bytes = number == 0 ? 16 : 32;
      const std::uint64_t expected[] = {in + t / 2 * 48 + t % 2 * 16, in + t * 32, out + t / 2 * 80 + t % 2 * 32};
      EXPECT_EQ(entry.address, expected[number]) << "lane " << t;
      const Site& site = r.module().sites()[entry.site];
      EXPECT_EQ(unsigned(site.element_bytes) * site.elements, bytes);
    }
  }
}

TEST(MatrixAccesses, are_stops_of_single_lanes) {
  Runner r(accesses);
  r.mode.control = true;
  r.quantum = 0;  // stops before each
  r.launch("rows", {1}, {32}, 0u, 0u);
  ASSERT_EQ(r.fault, "");
  std::map<std::uint64_t, unsigned> at;
  for (const auto& [step, address] : r.stops) {
    EXPECT_EQ(step, Step::visible);
    ++at[address];
  }
  EXPECT_EQ(at.size(), 16u);
  for (unsigned lane = 0; lane < 16; ++lane) EXPECT_EQ(at[shared_window + 32 * lane], 2u) << "lane " << lane;
}

TEST(MatrixAccesses, are_checked) {
  Runner r(accesses);
  r.mode.check = true;
  std::uint64_t in = r.allocate(1024), out = r.allocate(2048);
  auto faults = [&](const char* kernel, auto... arguments) {
    r.launch(kernel, {1}, {32}, arguments...);
    return r.fault;
  };
  EXPECT_EQ(faults("rows", 528u, 0u), "");  // lane 15's row ends with the tile
  EXPECT_NE(faults("rows", 544u, 0u), "");
  EXPECT_NE(faults("rows", 8u, 0u), "");  // misaligned
  EXPECT_EQ(faults("matrices", in, out), "");
  EXPECT_EQ(faults("matrices", in, out + 2048 - 1264), "");  // 15 lines of 80 bytes and one of 64
  EXPECT_NE(faults("matrices", in, out + 2048 - 1248), "");
  EXPECT_NE(faults("matrices", in, out + 8), "");
}

}  // namespace
}  // namespace deadheat::engine
