// Every matrix instruction against a GPU, bit by bit: fragments, products, loads and stores.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "deadheat/address.h"
#include "engine_matrix.h"
#include "engine_runner.h"
#include "engine_snippets.h"
#include "replay/engine/tensor.h"

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

// mma.sp: as the dense product of the matrix with its zeros, whose elements are small enough for exact sums. Here the
// metadata are written by the figures of PTX ISA 9.7.14.6.2: `words_of_row` lanes of a row's four have 32 bits of it,
// or 16 that they share with the row 8 below.
TEST(Matrices, sparse_products_are_dense_ones) {
  struct Case {
    TensorType type;
    unsigned k, chunk, unit, selectors; // elements of a chunk; of what a field names
  };
  const Case cases[] = {
      {TensorType::f16, 16, 4, 1, 4},  {TensorType::f16, 32, 4, 1, 2}, {TensorType::tf32, 8, 2, 1, 4},
      {TensorType::tf32, 16, 2, 1, 2}, {TensorType::s8, 32, 4, 1, 2},  {TensorType::s8, 64, 4, 1, 1},
      {TensorType::s4, 64, 8, 2, 2},   {TensorType::s4, 128, 8, 2, 1}, {TensorType::e4m3, 64, 4, 1, 1},
  };
  auto bits_of = [](TensorType type, int n) -> std::uint64_t { // of 0, 1, 2 and 3
    static constexpr std::uint64_t halves[] = {0, 0x3c00, 0x4000, 0x4200},
                                   floats[] = {0, 0x3f800000, 0x40000000, 0x40400000}, eights[] = {0, 0x38, 0x40, 0x44};
    return type == TensorType::f16    ? halves[n]
           : type == TensorType::tf32 ? floats[n]
           : type == TensorType::e4m3 ? eights[n]
                                      : std::uint64_t(n);
  };
  auto put = [](WarpWords& words, unsigned lane, unsigned first, unsigned width, unsigned element, std::uint64_t bits) {
    words[lane][first + element * width / 32] |= std::uint32_t(bits) << element * width % 32;
  };
  for (const Case& c : cases)
    for (unsigned selector = 0; selector < c.selectors; ++selector) {
      const bool integers = c.type == TensorType::s8 || c.type == TensorType::s4;
      TensorOp dense, sparse;
      dense.m = 16, dense.n = 8, dense.k = std::uint16_t(c.k);
      dense.a = dense.b = c.type;
      dense.c = dense.d = integers ? TensorType::s32 : TensorType::f32;
      sparse = dense;
      sparse.sparse = true;
      sparse.selector = std::uint8_t(selector);
      ASSERT_TRUE(TensorOp::from(sparse.code()).sparse);
      ASSERT_EQ(TensorOp::from(sparse.code()).selector, selector);
      const unsigned width = tensor_bits(c.type), a_dense = fragment_words(dense, 'a'),
                     a_sparse = fragment_words(sparse, 'a'), b_words = fragment_words(dense, 'b');
      EXPECT_EQ(a_sparse * 2, a_dense);
      std::vector<int> full(16 * c.k, 0), stored;
      WarpWords in_dense{}, in_sparse{};
      // Which fields of each chunk hold elements: two of four, one of two.
      const unsigned fields = c.chunk / c.unit, kept = fields / 2;
      for (unsigned row = 0; row < 16; ++row)
        for (unsigned chunk = 0; chunk < c.k / c.chunk; ++chunk) {
          unsigned nibble = 0;
          for (unsigned n = 0, field = mix(row * 1000 + chunk) % (fields == 2 ? 2 : 3); n < kept; ++n) {
            nibble |= fields == 2 ? (field ? 0xe : 0x4) : field << 2 * n;
            for (unsigned u = 0; u < c.unit; ++u) {
              const int value = 1 + int(mix(row * 7919 + chunk * 31 + n * 3 + u) % 3);
              full[row * c.k + chunk * c.chunk + field * c.unit + u] = value;
              stored.push_back(value);
            }
            field += 1 + mix(row * 77 + chunk) % (fields - field - 1 ? fields - field - 1 : 1);
          }
          const unsigned bit = chunk * 4, row_bits = c.k / c.chunk * 4;
          unsigned lane = selector, shift = bit;
          if (width >= 16) {
            if (row_bits == 32) lane = selector * 2 + bit / 16;
            shift = bit % 16 + (row < 8 ? 0 : 16);
          } else {
            lane = (row_bits == 32 ? selector * 2 : bit / 32 * 2) + row / 8;
            shift = bit % 32;
          }
          in_sparse[row % 8 * 4 + lane][a_sparse + b_words + 4] |= nibble << shift;
        }
      const auto dense_places = fragment_places(dense, 'a'), sparse_places = fragment_places(sparse, 'a'),
                 b_places = fragment_places(dense, 'b');
      auto each = [](const std::vector<std::uint32_t>& places, auto&& body) {
        const unsigned count = unsigned(places.size()) / tensor_lanes;
        for (unsigned n = 0; n < places.size(); ++n) body(n / count, n % count, places[n]);
      };
      each(dense_places, [&](unsigned lane, unsigned e, unsigned at) {
        put(in_dense, lane, 0, width, e, bits_of(c.type, full[at]));
      });
      each(sparse_places, [&](unsigned lane, unsigned e, unsigned at) {
        put(in_sparse, lane, 0, width, e, bits_of(c.type, stored[at]));
      });
      each(b_places, [&](unsigned lane, unsigned e, unsigned at) {
        const std::uint64_t value = bits_of(c.type, int(mix(at * 13 + selector) % 4));
        put(in_dense, lane, a_dense, width, e, value);
        put(in_sparse, lane, a_sparse, width, e, value);
      });
      WarpWords out_dense{}, out_sparse{};
      run_tensor(dense, in_dense, out_dense);
      run_tensor(sparse, in_sparse, out_sparse);
      for (unsigned lane = 0; lane < tensor_lanes; ++lane)
        for (unsigned n = 0; n < 4; ++n)
          ASSERT_EQ(out_sparse[lane][n], out_dense[lane][n])
              << "k " << c.k << ", " << width << " bits, selector " << selector << ", lane " << lane;
    }
}

// Matrices of bytes (PTX ISA 9.7.14.5.15, 9.7.14.5.16): lane l gets or gives columns from 4 * (l % 4), or 2 * (l % 4),
// on.
TEST(Matrices, rows_of_bytes) {
  auto packed = [](WarpWords& rows, unsigned width) { // row r, column c: some number of that width
    for (unsigned r = 0; r < tensor_lanes; ++r)
      for (unsigned c = 0; c < 16; ++c)
        for (unsigned bit = 0; bit < width; ++bit)
          rows[r][(c * width + bit) / 32] |= std::uint32_t(mix(r * 16 + c) >> bit & 1) << (c * width + bit) % 32;
  };
  auto byte = [](const std::uint32_t* words, unsigned n) { return words[n / 4] >> n % 4 * 8 & 255; };
  for (RowFormat format : {RowFormat::b8, RowFormat::b6, RowFormat::b4}) {
    const unsigned width = format == RowFormat::b8 ? 8 : format == RowFormat::b6 ? 6 : 4;
    auto element = [&](unsigned r, unsigned c) {
      return std::uint32_t(mix(r * 16 + c) & ((1u << width) - 1)) << (width == 4 ? 2 : 0);
    };
    for (bool tall : {true, false}) {
      TensorOp op;
      op.kind = TensorKind::ldmatrix;
      op.rows = format;
      op.trans = tall;
      op.count = 4;
      WarpWords in{}, out{};
      packed(in, width);
      run_tensor(TensorOp::from(op.code()), in, out);
      for (unsigned lane = 0; lane < tensor_lanes; ++lane)
        for (unsigned n = 0; n < 16; ++n) {
          const unsigned word = n / 4, inner = lane % 4 * 4 + n % 4;
          const std::uint32_t expected =
              tall ? element(word / 2 * 16 + inner, lane / 4 + word % 2 * 8) : element(word * 8 + lane / 4, inner);
          ASSERT_EQ(byte(out[lane].data(), n), expected) << "lane " << lane << ", byte " << n << ", width " << width;
        }
    }
  }
  TensorOp op;
  op.kind = TensorKind::stmatrix;
  op.rows = RowFormat::b8;
  op.trans = true;
  op.count = 4;
  WarpWords in{}, out{};
  packed(in, 8);
  run_tensor(op, in, out);
  for (unsigned row = 0; row < tensor_lanes; ++row) // a column of the matrix row / 8
    for (unsigned n = 0; n < 16; ++n) {
      const unsigned column = row % 8, lane = n % 8 * 4 + column / 2;
      ASSERT_EQ(byte(out[row].data(), n), byte(&in[lane][row / 8], n / 8 * 2 + column % 2));
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
