// The ends of copies, as the driver's structures have them: host memory, the device's, arrays.
//
// Thread-safety: those that take the session take its lock.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "deadheat/trace.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

inline std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
inline trace::MemoryRange line(std::uint64_t address, std::uint64_t bytes) {
  return {address, bytes, bytes, 1, 1, bytes};
}
// Of an array of one dimension (CUDA driver API, cuMemcpyAtoH).
trace::MemoryRange line(Session& session, CUarray array, std::uint64_t offset, std::uint64_t bytes);

struct Side {
  CUmemorytype type;
  std::uint64_t host, device, pitch, height, x, y, z;
  CUarray array;
};
// Where nobody knows the array, its side is empty memory at 0.
trace::MemoryRange range(Session& session, const Side& side, std::uint64_t width, std::uint64_t rows,
                         std::uint64_t slices);
// -1 where the pointers tell.
inline int on_host(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST ? 1 : type == CU_MEMORYTYPE_UNIFIED ? -1 : 0;
}

// Copy: CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER, whose contexts its addresses tell, too.
template <typename Copy>
Side destination_of(const Copy& c) {
  return {c.dstMemoryType, number(c.dstHost), c.dstDevice, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY,
          c.dstZ,          c.dstArray};
}
template <typename Copy>
Side source_of(const Copy& c) {
  return {c.srcMemoryType, number(c.srcHost), c.srcDevice, c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY,
          c.srcZ,          c.srcArray};
}

// Of elements of an array; 1 where there is none, since those of memory are bytes, or its format is not followed.
std::uint64_t element_bytes(const CUmemcpy3DOperand& operand);

} // namespace deadheat::cupti
