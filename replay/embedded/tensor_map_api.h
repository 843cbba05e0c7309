// The driver's tensor maps (CUDA driver API, Tensor Map Object Management), behind its entry points. The bytes of a map
// are the embedded device's own (ptx/tensor_map.h).
//
// Thread-safety: pure functions of their arguments; they need no device.
#pragma once

#include <cuda.h>

namespace deadheat::embedded {

CUresult tensor_map_encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* size, const cuuint64_t* strides, const cuuint32_t* box,
                                 const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) noexcept;
CUresult tensor_map_encode_im2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                  const cuuint64_t* size, const cuuint64_t* strides, const int* lower, const int* upper,
                                  cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) noexcept;
CUresult tensor_map_replace_address(CUtensorMap* map, void* address) noexcept;

} // namespace deadheat::embedded
