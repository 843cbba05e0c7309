// From the driver's descriptions of copies to shapes (Driver API, CUDA_MEMCPY2D, CUDA_MEMCPY3D).
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include "replay/embedded/copies.h"
#include "replay/embedded/driver/driver.h"

namespace deadheat::embedded {

cudaError_t shape_of(const Call& call, const CUDA_MEMCPY2D* given, CopyShape* shape);
cudaError_t shape_of(const Call& call, const CUDA_MEMCPY3D* given, CopyShape* shape);
cudaError_t shape_of(const Call& call, const CUDA_MEMCPY3D_PEER* given, CopyShape* shape);

} // namespace deadheat::embedded
