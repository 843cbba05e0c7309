// The driver's functions that make tensor maps (Driver API, "Tensor Map Object Management"): tensor_map_api.h does it.
#include "replay/embedded/driver/driver.h"
#include "replay/embedded/tensor_map_api.h"

using namespace deadheat::embedded;

extern "C" {

DEADHEAT_VISIBLE CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                                         void* address, const cuuint64_t* size,
                                                         const cuuint64_t* strides, const cuuint32_t* box,
                                                         const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                                         CUtensorMapFloatOOBfill fill) {
  return tensor_map_encode_tiled(map, type, rank, address, size, strides, box, steps, interleave, swizzle, promotion,
                                 fill);
}

DEADHEAT_VISIBLE CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                                          void* address, const cuuint64_t* size,
                                                          const cuuint64_t* strides, const int* lower, const int* upper,
                                                          cuuint32_t channels, cuuint32_t pixels,
                                                          const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                                          CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                                          CUtensorMapFloatOOBfill fill) {
  return tensor_map_encode_im2col(map, type, rank, address, size, strides, lower, upper, channels, pixels, steps,
                                  interleave, swizzle, promotion, fill);
}

DEADHEAT_VISIBLE CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return tensor_map_replace_address(map, address);
}

} // extern "C"
