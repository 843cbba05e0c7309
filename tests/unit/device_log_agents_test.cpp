// What agents beside the threads touch, from instrumented code to records: boxes of tensors, matrices of wgmma, values
// of st.async, memory that st.bulk fills.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "deadheat/address.h"
#include "tests/unit/device_log_seen.h"
#include "tracer/device_log/launch_log.h"
#include "tracer/device_log/tensor_map.h"
#include "tracer/ptx/instrument.h"
#include "tracer/ptx/matrix_descriptor.h"
#include "tracer/ptx/parse.h"

namespace deadheat::device_log {
namespace {

constexpr std::uint64_t tensor = 0x7000'0000'0000;

ptx::TensorMap matrix_map(std::uint64_t columns, std::uint64_t rows, std::uint32_t box_columns,
                          std::uint32_t box_rows) {
  ptx::TensorMap map;
  map.address = tensor;
  map.rank = 2;
  map.type = ptx::TensorType::u32;
  map.size = {columns, rows};
  map.stride = {4, columns * 4};
  map.box = {box_columns, box_rows};
  map.step = {1, 1};
  return map;
}
// ---- matrices

std::uint64_t descriptor(std::uint32_t start, std::uint32_t leading, std::uint32_t stride, std::uint64_t swizzle) {
  return start >> 4 | std::uint64_t(leading >> 4) << 16 | std::uint64_t(stride >> 4) << 32 | swizzle << 62;
}
std::set<std::uint32_t> bytes_of(const std::vector<ptx::MatrixStretch>& stretches) {
  std::set<std::uint32_t> bytes;
  for (const ptx::MatrixStretch& s : stretches) {
    for (std::uint32_t b = 0; b < s.bytes; ++b) bytes.insert(s.address + b);
  }
  return bytes;
}

TEST(MatrixStretches, Shapes) {
  const ptx::MatrixShape half = ptx::matrix_shape("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16");
  EXPECT_EQ(half.n, 128u);
  EXPECT_EQ(half.a_row_bytes, 32u);
  EXPECT_EQ(half.b_row_bytes, 32u);
  const ptx::MatrixShape sparse = ptx::matrix_shape("wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e5m2");
  EXPECT_EQ(sparse.a_row_bytes, 32u);
  EXPECT_EQ(sparse.b_row_bytes, 64u);
  const ptx::MatrixShape bits = ptx::matrix_shape("wgmma.mma_async.sync.aligned.m64n16k256.s32.b1.b1.and.popc");
  EXPECT_EQ(bits.n, 16u);
  EXPECT_EQ(bits.b_row_bytes, 32u);
  const ptx::MatrixShape clamped = ptx::matrix_shape("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8.satfinite");
  EXPECT_EQ(clamped.n, 8u);
  EXPECT_EQ(clamped.b_row_bytes, 32u);
  EXPECT_EQ(ptx::matrix_shape("wgmma.wait_group.sync.aligned").n, 0u);
}

// The steps along K of a tile take disjoint parts of it, and together all of it.
TEST(MatrixStretches, StepsOfASwizzledTileMakeItUp) {
  for (unsigned swizzle : {1u, 2u, 3u}) { // of 128, 64, 32 bytes
    const std::uint32_t row = 128u >> (swizzle - 1), start = 4096, rows = 64;
    std::set<std::uint32_t> all;
    for (std::uint32_t k = 0; k < row / 32; ++k) {
      const auto d = ptx::matrix_descriptor(descriptor(start + 32 * k, 16, 8 * row, swizzle));
      const std::set<std::uint32_t> part = bytes_of(ptx::stretches_of(d, 0, rows, 32, false, 2));
      EXPECT_EQ(part.size(), rows * 32u);
      for (std::uint32_t byte : part) EXPECT_TRUE(all.insert(byte).second) << byte;
    }
    EXPECT_EQ(all.size(), rows * row);
    EXPECT_EQ(*all.begin(), start);
    EXPECT_EQ(*all.rbegin(), start + rows * row - 1);
  }
}
TEST(MatrixStretches, TheSwizzlePermutesUnitsOfARow) {
  // The second step of row 1: units 2 and 3, which lie where 3 and 2 would, since the row's number is XORed to them.
  const auto d = ptx::matrix_descriptor(descriptor(1024 + 32, 16, 1024, 1));
  const auto row_4 = ptx::stretches_of(d, 4, 5, 32, false, 2);
  ASSERT_EQ(row_4.size(), 1u);
  EXPECT_EQ(row_4[0].address, 1024u + 4 * 128 + (2 ^ 4) * 16);
}
TEST(MatrixStretches, WithoutASwizzleCoreMatricesLieWhereTheDescriptorSays) {
  const auto d = ptx::matrix_descriptor(descriptor(0, 128, 256, 0)); // along K, along M
  EXPECT_EQ(bytes_of(ptx::stretches_of(d, 0, 64, 32, false, 2)).size(), 2048u);
  const auto second = ptx::stretches_of(d, 8, 16, 16, false, 2); // the first unit of rows 8 to 15
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].address, 256u);
  EXPECT_EQ(second[0].bytes, 128u);
}
TEST(MatrixStretches, TransposedTilesAreMadeUpToo) {
  for (unsigned swizzle : {1u, 2u, 3u}) {
    const std::uint32_t width = 128u >> (swizzle - 1), mn = 128, k = 64;
    const std::uint32_t atom = 8 * width, atoms = mn * 2 / width; // [k / 8][mn / width][8][width]
    std::set<std::uint32_t> all;
    for (std::uint32_t step = 0; step < k / 16; ++step) {
      const auto d = ptx::matrix_descriptor(descriptor(step * 2 * atoms * atom, atom, atoms * atom, swizzle));
      for (std::uint32_t byte : bytes_of(ptx::stretches_of(d, 0, mn, 32, true, 2))) {
        EXPECT_TRUE(all.insert(byte).second) << byte;
      }
    }
    EXPECT_EQ(all.size(), mn * k * 2u);
    EXPECT_EQ(*all.rbegin(), mn * k * 2u - 1);
  }
}

// ---- from PTX to records

constexpr const char* source = R"(
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
{
 .reg .b64 %rd<10>; .reg .b32 %r<10>; .reg .f32 %f<10>; .reg .pred %p<3>;
 .shared .align 1024 .b8 tile[4096];
 mov.b64 %rd1, map;
 cvta.param.u64 %rd2, %rd1;
 mov.u32 %r1, tile;
 @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r2, %r3}], [%r4];
 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r2, %r3}], [%r1];
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd4, %rd5, 1, 1, 1, 0, 1;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, {%r5,%r6,%r7,%r8}, %rd5, 1, 1, 1, 0;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0;
 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r1], {%r2, %r3}, [%r4];
 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r4];
 st.bulk.weak.shared::cta [%r1], %rd7, 0;
 ret;
}
)";

class Agents : public testing::Test {
 protected:
  Agents() {
    Expected<ptx::Module> module = ptx::parse(source, "test");
    EXPECT_TRUE(module) << (module ? "" : module.error().message());
    sites_ = ptx::site_table(*module);
    Expected<ptx::Instrumentation> made = ptx::instrument(*module, sites_);
    EXPECT_TRUE(made) << (made ? "" : made.error().message());
    code_ = std::move(*made);
    Expected<ptx::Module> again = ptx::parse(code_.text, "instrumented");
    EXPECT_TRUE(again) << (again ? "" : again.error().message());
    shape_.launch = 1;
    shape_.threads = 128;
    shape_.strong = true;
    shape_.segments = &code_.segments;
    shape_.sites = &sites_.sites;
    shape_.tensor_maps = &maps_;
    for (unsigned i = 0; i < sizeof encoded_; ++i) encoded_[i] = std::uint8_t(7 * i);
    maps_.made(encoded_, matrix_map(100, 50, 8, 3));
  }

  // The warp runs all segments, with this in its slots.
  void run(LaunchLog& log, std::uint32_t warp, std::uint32_t mask) {
    std::uint64_t ticket = 1 + 100 * warp;
    for (std::uint32_t number = 0; number < code_.segments.size(); ++number) {
      const ptx::Segment& segment = code_.segments[number];
      std::vector<std::uint8_t> bytes(segment.bytes, 0);
      auto put = [&](std::uint32_t at, auto value) {
        ASSERT_LE(at + sizeof value, bytes.size());
        std::memcpy(bytes.data() + at, &value, sizeof value);
      };
      SegmentHeader head;
      head.segment = number;
      head.warp = warp;
      head.mask = mask;
      put(0, head);
      for (const ptx::Slot& slot : segment.slots) {
        if (slot.kind == ptx::Slot::Kind::matrix) {
          if (slot.first) put(slot.first, descriptor(4096, 16, 1024, 1));
          put(slot.second, descriptor(16384, 128, 256, 0));
        }
        if (slot.kind == ptx::Slot::Kind::bulk && slot.object) {
          put(slot.offset, ticket++);
          put(slot.offset + 8, ticket++);
        }
        for (unsigned lane = 0; lane < 32; ++lane) {
          if (slot.kind == ptx::Slot::Kind::bulk) {
            const bool out = slot.guarded && lane != 0;
            put(slot.address + 8 * lane, out ? ~std::uint64_t(0) : shared_mark | 1024);
            if (slot.object) put(slot.object + 8 * lane, shared_mark | 64);
            if (!slot.map) continue;
            put(slot.map + 8 * lane, known_ ? tensor_digest(encoded_) : 5);
            put(slot.coordinates + 4 * lane, std::int32_t(96));
            put(slot.coordinates + 128 + 4 * lane, std::int32_t(48));
          } else if (slot.kind == ptx::Slot::Kind::write) {
            put(slot.address + (slot.narrow ? 4 : 8) * lane, std::uint32_t(2048 + 64 * lane));
            put(slot.size + 4 * lane, std::uint32_t(lane == 1 ? 16 : 8));
          }
        }
      }
      log.segment(bytes.data());
    }
  }

  ptx::SiteTable sites_;
  ptx::Instrumentation code_;
  TensorMaps maps_;
  Shape shape_;
  std::uint8_t encoded_[128];
  bool known_ = true;
};

TEST_F(Agents, NothingIsLeftOut) {
  ASSERT_EQ(code_.kernels.size(), 1u);
  EXPECT_EQ(code_.kernels[0].left_out, 0u);
  EXPECT_FALSE(code_.kernels[0].unseen_arrivals);
  // The map's digest, as tensor_digest has it: over all 16 words.
  std::size_t words = 0;
  for (std::size_t at = code_.text.find("ld.v2.u64"); at != std::string::npos;
       at = code_.text.find("ld.v2.u64", at + 1))
    ++words;
  EXPECT_EQ(words, 2 * tensor_map_words / 2);
}

TEST_F(Agents, BoxesOfTensors) {
  Seen seen;
  LaunchLog log(shape_, seen);
  run(log, 0, 3);
  log.finish();
  EXPECT_EQ(log.unknown_maps(), 0u);
  EXPECT_EQ(log.damaged(), 0u);
  const std::vector<trace::BulkCopy> copies = seen.all<trace::BulkCopy>();
  ASSERT_GE(copies.size(), 4u);
  struct {
    std::uint64_t destination, source;
    std::uint32_t bytes;
  } expected[] = {{1024, 19584, 16}, {1040, 0, 16}, {1056, 19984, 16}, {1072, 0, 48}};
  for (unsigned i = 0; i < 4; ++i) { // the load, by its first lane only
    EXPECT_EQ(copies[i].mask, 1u);
    EXPECT_EQ(copies[i].further, i > 0);
    EXPECT_EQ(copies[i].destination[0] - shared_window, expected[i].destination);
    EXPECT_EQ(copies[i].source[0], expected[i].source ? tensor + expected[i].source : 0);
    EXPECT_EQ(copies[i].bytes[0], expected[i].bytes);
    EXPECT_EQ(copies[i].mbarrier[0] - shared_window, 64u);
  }
  std::uint32_t completed = 0;
  for (const trace::Mbarrier& r : seen.all<trace::Mbarrier>()) {
    if (r.site == copies[0].site) completed += r.count[0];
  }
  EXPECT_EQ(completed, 96u); // "complete_tx" of the whole box
  // The store, by both lanes: nothing is written outside.
  for (unsigned i = 4; i < 8; ++i) {
    EXPECT_EQ(copies[i].mask, i < 6 ? 1u : 2u);
    const unsigned lane = i < 6 ? 0 : 1;
    EXPECT_EQ(copies[i].destination[lane], tensor + (i % 2 ? 19984u : 19584u));
    EXPECT_EQ(copies[i].source[lane] - shared_window, i % 2 ? 1056u : 1024u);
    EXPECT_EQ(copies[i].mbarrier[lane], 0u);
    EXPECT_EQ(copies[i].digest[lane], copies[4].digest[0]); // one value, since both lanes copy the same
  }
  EXPECT_NE(copies[4].digest[0], copies[0].digest[0]);
}

TEST_F(Agents, LayoutsThatAreNotKnownHaveSharedMemorysSide) {
  ptx::TensorMap map = matrix_map(100, 50, 8, 3);
  map.interleave = ptx::Interleave::bytes16;
  maps_.made(encoded_, map);
  Seen seen;
  LaunchLog log(shape_, seen);
  run(log, 0, 3);
  log.finish();
  EXPECT_EQ(log.unplaced(), 3u); // the load by one lane, the store by two
  const std::vector<trace::BulkCopy> copies = seen.all<trace::BulkCopy>();
  ASSERT_GE(copies.size(), 3u);
  EXPECT_EQ(copies[0].destination[0] - shared_window, 1024u);
  EXPECT_EQ(copies[0].source[0], 0u);
  for (unsigned lane = 0; lane < 2; ++lane) {
    EXPECT_EQ(copies[1 + lane].destination[lane], 0u);
    EXPECT_EQ(copies[1 + lane].source[lane] - shared_window, 1024u);
    EXPECT_EQ(copies[1 + lane].bytes[lane], 96u);
  }
}

TEST_F(Agents, MapsThatNobodySawAreCounted) {
  known_ = false;
  Seen seen;
  LaunchLog log(shape_, seen);
  run(log, 0, 3);
  log.finish();
  EXPECT_EQ(log.unknown_maps(), 3u);
  EXPECT_EQ(log.guessed(), 0u);
}

TEST_F(Agents, MatricesOfAWarpgroup) {
  std::set<std::uint32_t> of_a, of_b;
  std::vector<std::uint32_t> sites;
  for (std::uint32_t warp = 0; warp < 4; ++warp) {
    Seen seen;
    LaunchLog log(shape_, seen);
    run(log, warp, ~0u);
    log.finish();
    for (const trace::BulkCopy& read : seen.all<trace::BulkCopy>()) {
      if (sites_.sites[read.site].access != AccessKind::read) continue;
      EXPECT_EQ(read.mask, 1u);
      EXPECT_EQ(read.destination[0], 0u);
      const std::uint32_t at = std::uint32_t(read.source[0] - shared_window);
      for (std::uint32_t b = 0; b < read.bytes[0]; ++b) (at < 16384 ? of_a : of_b).insert(at + b);
      EXPECT_EQ(at >= 16384 ? 0 : (at - 4096) / 2048, warp) << at;
    }
    EXPECT_EQ(seen.all<trace::AsyncCommit>().size(), 1u);
    EXPECT_EQ(seen.all<trace::AsyncWait>().size(), 1u);
  }
  EXPECT_EQ(of_a.size(), 64u * 32);
  EXPECT_EQ(of_b.size(), 8u * 32); // twice the same; transposed or not, both core matrices
}

TEST_F(Agents, ValuesAndFilledMemory) {
  Seen seen;
  LaunchLog log(shape_, seen);
  run(log, 0, 3);
  log.finish();
  std::uint32_t values = 0;
  for (const trace::BulkCopy& copy : seen.all<trace::BulkCopy>()) {
    const std::string& opcode = sites_.sites[copy.site].opcode;
    if (opcode.rfind("st.async", 0) && opcode.rfind("red.async", 0)) continue;
    const unsigned lane = copy.mask == 1 ? 0 : 1;
    EXPECT_EQ(copy.bytes[lane], opcode[0] == 's' ? 8u : 4u);
    EXPECT_EQ(copy.source[lane], 0u);
    ++values;
  }
  EXPECT_EQ(values, 4u);
  EXPECT_EQ(seen.accessed, (std::vector<std::uint64_t>{2048, 2112, 2120}));
}

} // namespace
} // namespace deadheat::device_log
