// What the functions for tensor maps accept and refuse: each answer is one that a driver (CUDA 13.0, 580) gave on an
// H100. It does not survive to replace the address of no map.
#include "replay/embedded/tensor_map_api.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tracer/ptx/tensor_map.h"

namespace deadheat::embedded {
namespace {

struct Arguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT32;
  unsigned rank = 2;
  std::uint64_t address = 0x7000'0000'0000;
  cuuint64_t size[6] = {64, 64, 4, 4, 4, 4}, stride[5] = {256, 16384, 65536, 262144, 1048576};
  cuuint32_t box[6] = {16, 16, 1, 1, 1, 1}, step[6] = {1, 1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  int lower[4] = {}, upper[4] = {};
  unsigned channels = 16, pixels = 32;
};
CUresult tiled(const Arguments& a, CUtensorMap* map) {
  return tensor_map_encode_tiled(map, a.type, a.rank, reinterpret_cast<void*>(a.address), a.size, a.stride, a.box,
                                 a.step, a.interleave, a.swizzle, a.promotion, a.fill);
}
CUresult im2col(const Arguments& a, CUtensorMap* map) {
  return tensor_map_encode_im2col(map, a.type, a.rank, reinterpret_cast<void*>(a.address), a.size, a.stride, a.lower,
                                  a.upper, a.channels, a.pixels, a.step, a.interleave, a.swizzle, a.promotion, a.fill);
}

struct Try {
  const char* what;
  bool good;
  std::function<void(Arguments&)> change;
};

Arguments deep() { // of 16 bits, as interleaved layouts have them
  Arguments a;
  a.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
  a.rank = 3;
  a.size[1] = a.size[2] = 16;
  a.stride[0] = 128, a.stride[1] = 2048;
  a.box[1] = a.box[2] = 4;
  return a;
}
Arguments images() {
  Arguments a;
  a.rank = 4;
  a.size[1] = a.size[2] = 16;
  a.stride[1] = 4096;
  return a;
}

void expect(const Arguments& base, const std::vector<Try>& tries, CUresult (*encode)(const Arguments&, CUtensorMap*)) {
  for (const Try& t : tries) {
    Arguments a = base;
    if (t.change) t.change(a);
    alignas(64) CUtensorMap map;
    EXPECT_EQ(encode(a, &map), t.good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE) << t.what;
  }
}

template <typename T>
T number(int n) {
  return static_cast<T>(n);
}

TEST(TensorMapFunctions, Tiles) {
  constexpr cuuint64_t two_32 = cuuint64_t(1) << 32, two_40 = cuuint64_t(1) << 40;
  expect({},
         {{"good", true, {}},
          {"type -1", false, [](auto& a) { a.type = number<CUtensorMapDataType>(-1); }},
          {"a packed type", false, [](auto& a) { a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B; }},
          {"type 16", false, [](auto& a) { a.type = number<CUtensorMapDataType>(16); }},
          {"rank 0", false, [](auto& a) { a.rank = 0; }},
          {"rank 1", true, [](auto& a) { a.rank = 1; }},
          {"rank 5", true, [](auto& a) { a.rank = 5; }},
          {"rank 6", false, [](auto& a) { a.rank = 6; }},
          {"address + 8", false, [](auto& a) { a.address += 8; }},
          {"address + 16", true, [](auto& a) { a.address += 16; }},
          {"address 0", true, [](auto& a) { a.address = 0; }},
          {"size 0", false, [](auto& a) { a.size[1] = 0; }},
          {"size 2^32", true, [](auto& a) { a.size[1] = two_32; }},
          {"size 2^32 + 1", false, [](auto& a) { a.size[1] = two_32 + 1; }},
          {"size[0] beyond the stride", true, [](auto& a) { a.size[0] = two_32; }},
          {"stride 8", false, [](auto& a) { a.stride[0] = 8; }},
          {"stride 0", true, [](auto& a) { a.stride[0] = 0; }},
          {"stride 16", true, [](auto& a) { a.stride[0] = 16; }},
          {"stride 264", false, [](auto& a) { a.stride[0] = 264; }},
          {"stride 2^40 - 16", true, [](auto& a) { a.stride[0] = two_40 - 16; }},
          {"stride 2^40", false, [](auto& a) { a.stride[0] = two_40; }},
          {"box[0] 0", false, [](auto& a) { a.box[0] = 0; }},
          {"box[0] of 12 bytes", false, [](auto& a) { a.box[0] = 3; }},
          {"box[0] 256", true, [](auto& a) { a.box[0] = 256; }},
          {"box[0] 257", false, [](auto& a) { a.box[0] = 260; }},
          {"box[1] 0", false, [](auto& a) { a.box[1] = 0; }},
          {"box[1] 257", false, [](auto& a) { a.box[1] = 257; }},
          {"a box of 228 KiB", true, [](auto& a) { a.box[0] = 228, a.box[1] = 256; }},
          {"a box of more", false, [](auto& a) { a.box[0] = 232, a.box[1] = 256; }},
          {"a box of 256 KiB, of which half is taken", true, [](auto& a) { a.box[0] = a.box[1] = 256, a.step[1] = 2; }},
          {"no address that there is", false, [](auto& a) { a.address = 0x7000'0000'0000'0000; }},
          {"a box larger than the tensor", true, [](auto& a) { a.size[0] = a.size[1] = 4; }},
          {"step[1] 0", false, [](auto& a) { a.step[1] = 0; }},
          {"step[1] 8", true, [](auto& a) { a.step[1] = 8; }},
          {"step[1] 9", false, [](auto& a) { a.step[1] = 9; }},
          {"step[0] 0", false, [](auto& a) { a.step[0] = 0; }},
          {"step[0] 9", false, [](auto& a) { a.step[0] = 9; }},
          {"promotion 3", true, [](auto& a) { a.promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B; }},
          {"promotion 4", false, [](auto& a) { a.promotion = number<CUtensorMapL2promotion>(4); }},
          {"NaNs of integers", false, [](auto& a) { a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }},
          {"fill 2", false, [](auto& a) { a.fill = number<CUtensorMapFloatOOBfill>(2); }},
          {"interleaved, of two dimensions", false, [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }},
          {"rows of 64 bytes, swizzle of 32", false, [](auto& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; }},
          {"rows of 64 bytes, swizzle of 64", true, [](auto& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; }},
          {"rows of 64 bytes, swizzle of 128", true, [](auto& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B; }},
          {"a later architecture's swizzle", false, [](auto& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B; }}},
         tiled);
}

TEST(TensorMapFunctions, InterleavedTiles) {
  expect(deep(),
         {{"not interleaved", true, {}},
          {"slices of 16 bytes", true, [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }},
          {"slices of 32 bytes", true, [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; }},
          {"interleave 3", false, [](auto& a) { a.interleave = number<CUtensorMapInterleave>(3); }},
          {"rows of half a slice", false, [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B, a.box[0] = 4; }},
          {"rows of one slice", true, [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B, a.box[0] = 8; }},
          {"slices of 32 bytes, stride 48", false,
           [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B, a.stride[0] = 48; }},
          {"slices of 32 bytes, address + 16", false,
           [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B, a.address += 16; }},
          {"rows of 128 bytes, slices of 16, swizzle of 32", true,
           [](auto& a) {
             a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B, a.box[0] = 64, a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
           }},
          {"step[0] 2", true, [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B, a.step[0] = 2; }}},
         tiled);
}

TEST(TensorMapFunctions, Images) {
  expect(images(),
         {{"good", true, {}},
          {"rank 2", false, [](auto& a) { a.rank = 2; }},
          {"rank 3", true, [](auto& a) { a.rank = 3; }},
          {"rank 5", true, [](auto& a) { a.rank = 5; }},
          {"channels 0", false, [](auto& a) { a.channels = 0; }},
          {"channels of 12 bytes", false, [](auto& a) { a.channels = 3; }},
          {"channels 256", true, [](auto& a) { a.channels = 256; }},
          {"channels 257", false, [](auto& a) { a.channels = 260; }},
          {"pixels 0", false, [](auto& a) { a.pixels = 0; }},
          {"pixels 1024", true, [](auto& a) { a.pixels = 1024; }},
          {"pixels 1025", false, [](auto& a) { a.pixels = 1025; }},
          {"lower -128", true, [](auto& a) { a.lower[0] = -128; }},
          {"lower -129", false, [](auto& a) { a.lower[0] = -129; }},
          {"upper 127", true, [](auto& a) { a.upper[1] = 127; }},
          {"upper 128", false, [](auto& a) { a.upper[1] = 128; }},
          {"one pixel", true, [](auto& a) { a.upper[0] = -15; }},
          {"no pixel", false, [](auto& a) { a.upper[0] = -16; }}},
         im2col);
}

TEST(TensorMapFunctions, PlacesOfTheMap) {
  alignas(64) unsigned char room[256];
  Arguments a;
  EXPECT_EQ(tiled(a, nullptr), CUDA_ERROR_INVALID_VALUE);
  for (int at : {8, 16, 32, 64}) EXPECT_EQ(tiled(a, reinterpret_cast<CUtensorMap*>(room + at)), CUDA_SUCCESS) << at;
  auto* map = reinterpret_cast<CUtensorMap*>(room + 64);
  EXPECT_EQ(tensor_map_replace_address(map, reinterpret_cast<void*>(0x1008)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(tensor_map_replace_address(map, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(tensor_map_replace_address(map, reinterpret_cast<void*>(0x1000)), CUDA_SUCCESS);
  EXPECT_EQ(ptx::decoded(room + 64)->address, 0x1000u);
  EXPECT_EQ(tensor_map_replace_address(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(tensor_map_encode_tiled(map, a.type, 1, nullptr, a.size, nullptr, a.box, a.step, a.interleave, a.swizzle,
                                    a.promotion, a.fill),
            CUDA_ERROR_INVALID_VALUE);
  std::memset(room, 0, sizeof room);
  EXPECT_EQ(tensor_map_replace_address(map, reinterpret_cast<void*>(0x1000)), CUDA_ERROR_INVALID_VALUE);
}

} // namespace
} // namespace deadheat::embedded
