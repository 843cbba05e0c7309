// Lists of tensors in kernels' parameters: which words are addresses, and which were left there by others.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracer/cupti/tensor_lists.h"

namespace deadheat::cupti {
namespace {

// As a compiler lays them out: `lists` lists of `most` tensors, what else each tensor has, and 320 blocks.
template <int lists, int most>
struct Plain {
  const void* addresses[lists][most];
  std::int64_t sizes[most];
  unsigned char tensor_of_block[320];
  int part_of_block[320];
  int first;
};
template <int lists, int most, int states>
struct WithStates {
  const void* addresses[lists][most];
  std::int64_t sizes[most];
  const void* of_state[states];
  unsigned char tensor_of_block[320];
  int part_of_block[320];
  int first;
};
template <typename Scalar, int lists, int most>
struct WithScalars {
  const void* addresses[lists][most];
  std::int64_t sizes[most];
  Scalar scalars[most];
  unsigned char tensor_of_block[320];
  int part_of_block[320];
};
struct alignas(16) ComplexDouble {
  double parts[2];
};

std::string kernel_of(const std::string& type) { // its mangled name
  return "_ZN2at6native55_GLOBAL__N__3fe80d3d_18_ForeachUnaryOp_cu_4c6b92c525multi_tensor_apply_kernelINS1_" + type +
         "NS1_14UnaryOpFunctorIfLi1ELi1ELi0EEEJNS0_4SqrtIfEEEEEvT_T0_DpT1_";
}

// The offsets that are addresses, of lists filled with pointers everywhere, in a launch of four blocks over three
// tensors.
template <typename Lists>
std::vector<std::size_t> addresses_in(const std::string& type) {
  const auto lists = std::make_unique<Lists>();
  std::memset(lists.get(), 0x7f, sizeof(Lists));
  const unsigned char tensors[] = {0, 1, 1, 2};
  std::memcpy(lists->tensor_of_block, tensors, sizeof tensors);
  const std::optional<TensorLists> found = TensorLists::of(kernel_of(type), sizeof(Lists));
  if (!found) return {};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(lists.get());
  EXPECT_FALSE(found->used(bytes, 5)); // the fifth block's tensor is none
  EXPECT_FALSE(found->used(bytes, 0));
  EXPECT_FALSE(found->used(bytes, 321));
  const std::optional<std::uint32_t> used = found->used(bytes, 4);
  EXPECT_EQ(used, 3u);
  std::vector<std::size_t> offsets;
  for (std::size_t offset = 0; used && offset + 8 <= sizeof(Lists); offset += 8)
    if (found->is_address(offset, *used)) offsets.push_back(offset);
  return offsets;
}

TEST(TensorLists, OnlyTheTensorsThatBlocksName) {
  EXPECT_EQ((addresses_in<Plain<1, 110>>("18TensorListMetadataILi1EEE")), (std::vector<std::size_t>{0, 8, 16}));
  EXPECT_EQ((addresses_in<Plain<2, 64>>("18TensorListMetadataILi2EEE")),
            (std::vector<std::size_t>{0, 8, 16, 512, 520, 528}));
}
TEST(TensorLists, StatesOfOptimizers) {
  std::vector<std::size_t> expected;
  for (std::size_t list = 0; list < 6; ++list) // the fifth is the sizes
    for (std::size_t tensor = 0; tensor < 3; ++tensor)
      if (list != 4) expected.push_back((list * 36 + tensor) * 8);
  EXPECT_EQ((addresses_in<WithStates<4, 36, 36>>("32FusedOptimizerTensorListMetadataILi4EEE")), expected);
}
TEST(TensorLists, Scalars) {
  const std::vector<std::size_t> one{0, 8, 16};
  EXPECT_EQ((addresses_in<WithScalars<float, 1, 96>>("28TensorListScalarListMetadataIfLi1EEE")), one);
  EXPECT_EQ((addresses_in<WithScalars<double, 1, 96>>("28TensorListScalarListMetadataIdLi1EEE")), one);
  EXPECT_EQ((addresses_in<WithScalars<bool, 1, 96>>("28TensorListScalarListMetadataIbLi1EEE")), one);
  EXPECT_EQ((addresses_in<WithScalars<ComplexDouble, 1, 72>>("28TensorListScalarListMetadataIN3c107complexIdEELi1EEE")),
            one);
  EXPECT_EQ((addresses_in<WithScalars<float, 4, 36>>("28TensorListScalarListMetadataIfLi4EEE")).size(), 12u);
}
TEST(TensorLists, WhatIsNotKnown) {
  EXPECT_FALSE(
      TensorLists::of(kernel_of("18TensorListMetadataILi2EEE"), sizeof(Plain<2, 64>) + 8)); // of another version
  EXPECT_FALSE(TensorLists::of(kernel_of("18TensorListMetadataILi6EEE"), sizeof(Plain<2, 64>)));
  EXPECT_FALSE(TensorLists::of(kernel_of("18TensorListMetadataILi"), sizeof(Plain<2, 64>)));
  EXPECT_FALSE(TensorLists::of(kernel_of("f"), sizeof(Plain<2, 64>)));
  EXPECT_FALSE(TensorLists::of("_Z4copyN18TensorListMetadataILi2EEE", sizeof(Plain<2, 64>)));
}

} // namespace
} // namespace deadheat::cupti
