#include "tracer/cupti/copy_ends.h"

#include "tracer/cupti/libraries.h"

namespace deadheat::cupti {

trace::MemoryRange range(Session& session, const Side& side, std::uint64_t width, std::uint64_t rows,
                         std::uint64_t slices) {
  if (side.type == CU_MEMORYTYPE_ARRAY) {
    std::lock_guard hold(session.lock);
    return range_of(session.arrays.find(side.array), side.x, side.y, side.z, width, rows, slices);
  }
  trace::MemoryRange out;
  const std::uint64_t base = side.type == CU_MEMORYTYPE_HOST ? side.host : side.device;
  out.pitch = side.pitch ? side.pitch : width;
  out.slice = out.pitch * (side.height ? side.height : rows);
  out.width = width;
  out.height = rows;
  out.depth = slices;
  out.address = base + side.z * out.slice + side.y * out.pitch + side.x;
  return out;
}

trace::MemoryRange line(Session& session, CUarray array, std::uint64_t offset, std::uint64_t bytes) {
  std::lock_guard hold(session.lock);
  return range_of(session.arrays.find(array), offset, 0, 0, bytes, 1, 1);
}

std::uint64_t element_bytes(const CUmemcpy3DOperand& operand) {
  CUDA_ARRAY3D_DESCRIPTOR array{};
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY || !driver().cuArray3DGetDescriptor_v2 ||
      driver().cuArray3DGetDescriptor_v2(&array, operand.op.array.array) != CUDA_SUCCESS) {
    return 1;
  }
  const std::optional<ptx::TexelFormat> format = texel_format(array.Format, array.NumChannels);
  return format ? format->bytes() : 1;
}

} // namespace deadheat::cupti
