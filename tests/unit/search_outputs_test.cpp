// Comparing what two runs delivered to the host.
#include "replay/search/outputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace deadheat::search {
namespace {

template <typename T>
Output output(std::uint32_t operation, std::uint64_t address, std::vector<T> values) {
  Output result{operation, address, {}};
  result.bytes.resize(values.size() * sizeof(T));
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

ValueTypes types_of(const char* type) {
  ValueTypes types;
  trace::Allocate allocation;
  allocation.allocation = 7;
  allocation.address = 0x1000;
  allocation.bytes = 256;
  types.allocated(allocation);
  types.wrote(0x1010, 4, type);
  return types;
}

TEST(Outputs, EqualRunsAgree) {
  Outputs a{{output<float>(3, 0x1000, {1, 2})}, Ending::finished, ""};
  EXPECT_FALSE(compare(a, a, nullptr).differ);
  EXPECT_EQ(a.digest(), a.digest());
}

TEST(Outputs, DifferenceIsTypedAndPlaced) {
  ValueTypes types = types_of("f32");
  Outputs a{{output<float>(3, 0x1010, {1, 2, 4})}, Ending::finished, ""};
  Outputs b{{output<float>(3, 0x1010, {1, std::nextafterf(2, 3), 4.5f})}, Ending::finished, ""};
  Comparison comparison = compare(a, b, &types);
  ASSERT_TRUE(comparison.differ);
  EXPECT_EQ(comparison.operation, 3u);
  ASSERT_EQ(comparison.differences.size(), 1u);
  const Difference& difference = comparison.differences[0];
  EXPECT_EQ(difference.allocation, 7u);
  EXPECT_EQ(difference.offset, 0x14u);
  EXPECT_EQ(difference.type, "f32");
  EXPECT_EQ(difference.elements, 2u);
  EXPECT_EQ(difference.max_abs, 0.5);
  EXPECT_EQ(difference.max_ulp, 1u << 20); // 4.5 is 2^20 floats above 4
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_EQ(a.digest(2), b.digest(2));
}

TEST(Outputs, UlpsAreCountedAcrossZero) {
  ValueTypes types = types_of("f32");
  float tiny = std::numeric_limits<float>::denorm_min();
  Outputs a{{output<float>(3, 0x1010, {-tiny})}, Ending::finished, ""};
  Outputs b{{output<float>(3, 0x1010, {tiny})}, Ending::finished, ""};
  EXPECT_EQ(compare(a, b, &types).differences[0].max_ulp, 2u);
}

TEST(Outputs, NarrowFloatsAreDecoded) {
  ValueTypes types = types_of("bf16");
  Outputs a{{output<std::uint16_t>(3, 0x1010, {0x3f80})}, Ending::finished, ""}; // 1.0
  Outputs b{{output<std::uint16_t>(3, 0x1010, {0x4040})}, Ending::finished, ""}; // 3.0
  const Difference difference = compare(a, b, &types).differences[0];
  EXPECT_EQ(difference.example.a, 1.0);
  EXPECT_EQ(difference.example.b, 3.0);
}

TEST(Outputs, SignedIntegersKeepTheirSign) {
  ValueTypes types = types_of("s32");
  Outputs a{{output<int>(3, 0x1010, {-5})}, Ending::finished, ""};
  Outputs b{{output<int>(3, 0x1010, {5})}, Ending::finished, ""};
  EXPECT_EQ(compare(a, b, &types).differences[0].example.a, -5.0);
  EXPECT_EQ(compare(a, b, &types).differences[0].max_abs, 10.0);
}

TEST(Outputs, NanIsSaid) {
  ValueTypes types = types_of("f32");
  Outputs a{{output<float>(3, 0x1010, {1})}, Ending::finished, ""};
  Outputs b{{output<float>(3, 0x1010, {NAN})}, Ending::finished, ""};
  EXPECT_EQ(compare(a, b, &types).differences[0].note, "NaN appears");
}

TEST(Outputs, AHangDiffers) {
  ValueTypes types;
  Outputs a{{output<int>(3, 0x1010, {1}), output<int>(5, 0x1010, {1})}, Ending::finished, ""};
  Outputs b{{output<int>(3, 0x1010, {1})}, Ending::hang, "thread 0 waits"};
  Comparison comparison = compare(a, b, &types);
  ASSERT_TRUE(comparison.differ);
  EXPECT_EQ(comparison.differences[0].note, "hang: thread 0 waits");
}

TEST(Outputs, BytesNobodyWroteAreBytes) {
  ValueTypes types;
  Outputs a{{output<std::uint8_t>(3, 0x9000, {1, 2, 3})}, Ending::finished, ""};
  Outputs b{{output<std::uint8_t>(3, 0x9000, {1, 0, 3})}, Ending::finished, ""};
  const Difference difference = compare(a, b, &types).differences[0];
  EXPECT_EQ(difference.type, "u8");
  EXPECT_EQ(difference.elements, 1u);
}

// A copy of three rows of two words each, 16 bytes apart, out of slices of two rows 64 bytes apart.
TEST(Outputs, RowsOfACopyAreFoundByAddress) {
  Output output{5, 0x1000, std::vector<std::uint8_t>(32), {}};
  output.rows = {.address = 0x1000, .pitch = 16, .width = 8, .height = 2, .depth = 2, .slice = 64};
  EXPECT_EQ(output.address_at(4), 0x1004u);
  EXPECT_EQ(output.address_at(8), 0x1010u);
  EXPECT_EQ(output.address_at(20), 0x1044u);
  for (std::uint64_t offset = 0; offset < 32; ++offset) EXPECT_EQ(output.offset_of(output.address_at(offset)), offset);
  for (const std::uint64_t outside : {0xFFFu, 0x1008u, 0x1018u, 0x1020u, 0x1048u, 0x1080u})
    EXPECT_FALSE(output.offset_of(outside)) << outside;
  // What differs in the second row is named by where it lies, and read as the type that was written there.
  ValueTypes types;
  trace::Allocate allocation;
  allocation.allocation = 7;
  allocation.address = 0xF00;
  allocation.bytes = 0x400;
  types.allocated(allocation);
  types.wrote(0x1010, 4, "f32");
  Outputs a{{output}, Ending::finished, ""}, b = a;
  const float one = 1.5f;
  std::memcpy(&b.outputs[0].bytes[12], &one, 4);
  const Comparison compared = compare(a, b, &types);
  ASSERT_EQ(compared.differences.size(), 1u);
  EXPECT_EQ(compared.differences[0].type, "f32");
  EXPECT_EQ(compared.differences[0].offset, 0x1014u - 0xF00u);
  EXPECT_EQ(compared.differences[0].example.b, 1.5);
}

} // namespace
} // namespace deadheat::search
