#include "replay/embedded/tensor_map_api.h"

#include <cstdint>
#include <cstring>

#include "tracer/ptx/tensor_map.h"

namespace deadheat::embedded {

namespace {

// False: the numbers name nothing that a device of compute capability 9.0 has. What they name may still not go
// together.
bool describe(ptx::TensorMap& map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* size,
              const cuuint64_t* strides, const cuuint32_t* steps, CUtensorMapInterleave interleave,
              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (!size || !steps || rank == 0 || rank > ptx::most_dimensions || !strides) return false;
  if (unsigned(type) >= ptx::tensor_types || unsigned(interleave) > CU_TENSOR_MAP_INTERLEAVE_32B ||
      unsigned(swizzle) > CU_TENSOR_MAP_SWIZZLE_128B || unsigned(promotion) > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
      unsigned(fill) > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return false;
  map.address = reinterpret_cast<std::uintptr_t>(address);
  map.rank = std::uint8_t(rank);
  map.type = ptx::TensorType(type);
  map.interleave = ptx::Interleave(interleave);
  map.swizzle = ptx::Swizzle(swizzle);
  map.fills_nan = fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  for (unsigned d = 0; d < rank; ++d) {
    map.size[d] = size[d];
    map.stride[d] = d ? strides[d - 1] : map.element_bytes();
    map.step[d] = steps[d];
  }
  return true;
}

CUresult make(CUtensorMap* to, const ptx::TensorMap& map) {
  if (ptx::objection_to(map)) return CUDA_ERROR_INVALID_VALUE;
  const ptx::TensorMapBytes bytes = ptx::encoded(map);
  static_assert(sizeof *to == sizeof bytes);
  std::memcpy(to, bytes.data(), sizeof bytes);
  return CUDA_SUCCESS;
}

} // namespace

CUresult tensor_map_encode_tiled(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* size, const cuuint64_t* strides, const cuuint32_t* box,
                                 const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) noexcept {
  ptx::TensorMap map;
  if (!to || !box || !describe(map, type, rank, address, size, strides, steps, interleave, swizzle, promotion, fill))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned d = 0; d < rank; ++d) map.box[d] = box[d];
  return make(to, map);
}

CUresult tensor_map_encode_im2col(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                  const cuuint64_t* size, const cuuint64_t* strides, const int* lower, const int* upper,
                                  cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) noexcept {
  ptx::TensorMap map;
  if (!to || !lower || !upper || rank < 3 ||
      !describe(map, type, rank, address, size, strides, steps, interleave, swizzle, promotion, fill))
    return CUDA_ERROR_INVALID_VALUE;
  map.im2col = true;
  for (unsigned n = 0; n + 2 < rank; ++n) {
    map.lower[n] = lower[n];
    map.upper[n] = upper[n];
  }
  map.channels = channels;
  map.pixels = pixels;
  return make(to, map);
}

CUresult tensor_map_replace_address(CUtensorMap* to, void* address) noexcept {
  std::optional<ptx::TensorMap> map;
  if (to && address) map = ptx::decoded(reinterpret_cast<const std::uint8_t*>(to));
  if (!map) return CUDA_ERROR_INVALID_VALUE;
  map->address = reinterpret_cast<std::uintptr_t>(address);
  return make(to, *map);
}

} // namespace deadheat::embedded
