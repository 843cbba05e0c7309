// cudaMemcpy* and cudaMemset* (Runtime API, "Memory Management").
#include <algorithm>

#include "replay/embedded/arrays.h"

using namespace deadheat::embedded;

DEADHEAT_STREAM_API(cudaMemcpy, _ptds, device, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                    (to, from, bytes, kind)) {
  return copy_now(call, line(to, from, bytes, kind));
}

DEADHEAT_STREAM_API(cudaMemcpyAsync, _ptsz, device,
                    (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
                    (to, from, bytes, kind, stream)) {
  return copy_async(call, line(to, from, bytes, kind), stream);
}

DEADHEAT_STREAM_API(cudaMemcpy2D, _ptds, device,
                    (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                     cudaMemcpyKind kind),
                    (to, to_pitch, from, from_pitch, width, rows, kind)) {
  return copy_now(call, plane(to, to_pitch, from, from_pitch, width, rows, kind));
}

DEADHEAT_STREAM_API(cudaMemcpy2DAsync, _ptsz, device,
                    (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    (to, to_pitch, from, from_pitch, width, rows, kind, stream)) {
  return copy_async(call, plane(to, to_pitch, from, from_pitch, width, rows, kind), stream);
}

DEADHEAT_STREAM_API(cudaMemcpy3D, _ptds, device, (const cudaMemcpy3DParms* parameters), (parameters)) {
  CopyShape shape;
  const cudaError_t status = volume(parameters, &shape);
  return status == cudaSuccess ? copy_now(call, shape) : status;
}

DEADHEAT_STREAM_API(cudaMemcpy3DAsync, _ptsz, device, (const cudaMemcpy3DParms* parameters, cudaStream_t stream),
                    (parameters, stream)) {
  CopyShape shape;
  const cudaError_t status = volume(parameters, &shape);
  return status == cudaSuccess ? copy_async(call, shape, stream) : status;
}

// There is one device: a peer copy is a copy on it.
static cudaError_t volume(const cudaMemcpy3DPeerParms* peer, CopyShape* shape) {
  if (!peer) return cudaErrorInvalidValue;
  if (peer->srcDevice != 0 || peer->dstDevice != 0) return cudaErrorInvalidDevice;
  const cudaMemcpy3DParms parameters{peer->srcArray, peer->srcPos, peer->srcPtr, peer->dstArray,
                                     peer->dstPos,   peer->dstPtr, peer->extent, cudaMemcpyDeviceToDevice};
  return volume(&parameters, shape);
}

DEADHEAT_STREAM_API(cudaMemcpy3DPeer, _ptds, device, (const cudaMemcpy3DPeerParms* parameters), (parameters)) {
  CopyShape shape;
  const cudaError_t status = volume(parameters, &shape);
  return status == cudaSuccess ? copy_now(call, shape) : status;
}

DEADHEAT_STREAM_API(cudaMemcpy3DPeerAsync, _ptsz, device,
                    (const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream), (parameters, stream)) {
  CopyShape shape;
  const cudaError_t status = volume(parameters, &shape);
  return status == cudaSuccess ? copy_async(call, shape, stream) : status;
}

DEADHEAT_API(cudaMemcpyPeer, device, (void* to, int to_device, const void* from, int from_device, size_t bytes),
             (to, to_device, from, from_device, bytes)) {
  if (to_device != 0 || from_device != 0) return cudaErrorInvalidDevice;
  return copy_now(call, line(to, from, bytes, cudaMemcpyDeviceToDevice));
}

DEADHEAT_API(cudaMemcpyPeerAsync, device,
             (void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream),
             (to, to_device, from, from_device, bytes, stream)) {
  if (to_device != 0 || from_device != 0) return cudaErrorInvalidDevice;
  return copy_async(call, line(to, from, bytes, cudaMemcpyDeviceToDevice), stream);
}

// The part of a symbol that a copy means.
static cudaError_t symbol_part(Call& call, const void* symbol, size_t bytes, size_t offset, void** address) {
  std::uint64_t start = 0, size = 0;
  const cudaError_t status = find_symbol(call, symbol, &start, &size);
  if (status != cudaSuccess) return status;
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  *address = reinterpret_cast<void*>(start + offset);
  return cudaSuccess;
}

cudaError_t deadheat::embedded::copy_to_symbol(Call& call, const void* symbol, const void* from, std::uint64_t bytes,
                                               std::uint64_t offset, cudaMemcpyKind kind, CopyShape* shape) {
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  void* to = nullptr;
  const cudaError_t status = symbol_part(call, symbol, bytes, offset, &to);
  *shape = line(to, from, bytes, kind);
  return status;
}

cudaError_t deadheat::embedded::copy_from_symbol(Call& call, void* to, const void* symbol, std::uint64_t bytes,
                                                 std::uint64_t offset, cudaMemcpyKind kind, CopyShape* shape) {
  if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  void* from = nullptr;
  const cudaError_t status = symbol_part(call, symbol, bytes, offset, &from);
  *shape = line(to, from, bytes, kind);
  return status;
}

DEADHEAT_STREAM_API(cudaMemcpyToSymbol, _ptds, device,
                    (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
                    (symbol, from, bytes, offset, kind)) {
  CopyShape shape;
  const cudaError_t status = copy_to_symbol(call, symbol, from, bytes, offset, kind, &shape);
  return status == cudaSuccess ? copy_now(call, shape) : status;
}

DEADHEAT_STREAM_API(cudaMemcpyToSymbolAsync, _ptsz, device,
                    (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    (symbol, from, bytes, offset, kind, stream)) {
  CopyShape shape;
  const cudaError_t status = copy_to_symbol(call, symbol, from, bytes, offset, kind, &shape);
  return status == cudaSuccess ? copy_async(call, shape, stream) : status;
}

DEADHEAT_STREAM_API(cudaMemcpyFromSymbol, _ptds, device,
                    (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
                    (to, symbol, bytes, offset, kind)) {
  CopyShape shape;
  const cudaError_t status = copy_from_symbol(call, to, symbol, bytes, offset, kind, &shape);
  return status == cudaSuccess ? copy_now(call, shape) : status;
}

DEADHEAT_STREAM_API(cudaMemcpyFromSymbolAsync, _ptsz, device,
                    (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    (to, symbol, bytes, offset, kind, stream)) {
  CopyShape shape;
  const cudaError_t status = copy_from_symbol(call, to, symbol, bytes, offset, kind, &shape);
  return status == cudaSuccess ? copy_async(call, shape, stream) : status;
}

DEADHEAT_STREAM_API(cudaMemcpyBatchAsync, _ptsz, device,
                    (void* const* to, const void* const* from, const size_t* bytes, size_t count,
                     cudaMemcpyAttributes* attributes, size_t* attribute_indices, size_t attribute_count,
                     cudaStream_t stream),
                    (to, from, bytes, count, attributes, attribute_indices, attribute_count, stream)) {
  if (!to || !from || !bytes || count == 0) return cudaErrorInvalidValue;
  std::vector<CopyShape> shapes;
  std::size_t entry = 0; // of the attributes: each holds from its index on
  for (std::size_t i = 0; i < count; ++i) {
    shapes.push_back(line(to[i], from[i], bytes[i], cudaMemcpyDefault));
    if (!attributes || !attribute_indices || !attribute_count) continue;
    while (entry + 1 < attribute_count && attribute_indices[entry + 1] <= i) ++entry;
    shapes.back().source_order = attributes[entry].srcAccessOrder;
  }
  return copy_batch(call, shapes, stream);
}

// As a copy of a volume. Lengths of zero are those of the extent; lengths and extents count elements, of which a
// pointer's are bytes where no array takes part.
static cudaError_t batch_shape(const cudaMemcpy3DBatchOp& op, CopyShape* shape) {
  if (!op.extent.width || !op.extent.height || !op.extent.depth) return cudaErrorInvalidValue;
  std::uint64_t element = 1;
  for (const cudaMemcpy3DOperand* side : {&op.src, &op.dst}) {
    if (side->type == cudaMemcpyOperandTypePointer) continue;
    const Array* array = side->type == cudaMemcpyOperandTypeArray ? array_of(side->op.array.array) : nullptr;
    if (!array) return cudaErrorInvalidValue;
    element = array->layout.format.bytes();
  }
  cudaMemcpy3DParms p = {};
  auto fill = [&](const cudaMemcpy3DOperand& side, cudaArray_t& array, cudaPos& at, cudaPitchedPtr& pointer) {
    if (side.type == cudaMemcpyOperandTypeArray) {
      array = side.op.array.array;
      at = {side.op.array.offset.x, side.op.array.offset.y, side.op.array.offset.z};
      return;
    }
    const std::uint64_t length = side.op.ptr.rowLength ? side.op.ptr.rowLength : op.extent.width;
    const std::uint64_t height = side.op.ptr.layerHeight ? side.op.ptr.layerHeight : op.extent.height;
    pointer = {side.op.ptr.ptr, length * element, length, height};
  };
  fill(op.dst, p.dstArray, p.dstPos, p.dstPtr);
  fill(op.src, p.srcArray, p.srcPos, p.srcPtr);
  p.extent = op.extent;
  p.kind = cudaMemcpyDefault;
  return volume(&p, shape);
}

DEADHEAT_STREAM_API(cudaMemcpy3DBatchAsync, _ptsz, device,
                    (size_t count, cudaMemcpy3DBatchOp* list, unsigned long long flags, cudaStream_t stream),
                    (count, list, flags, stream)) {
  if (!list || count == 0 || flags) return cudaErrorInvalidValue;
  std::vector<CopyShape> shapes;
  for (size_t i = 0; i < count; ++i) {
    const cudaMemcpy3DBatchOp& op = list[i];
    CopyShape shape;
    if (const cudaError_t status = batch_shape(op, &shape); status != cudaSuccess) return status;
    shape.source_order = op.srcAccessOrder;
    shapes.push_back(shape);
  }
  return copy_batch(call, shapes, stream);
}

// ---- Sets. Asynchronous with respect to the host except where the memory is pinned host memory ("API synchronization
// behavior", Memset).

cudaError_t deadheat::embedded::set(Call& call, const SetShape& shape, cudaStream_t handle, bool synchronous) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  deadheat::trace::Set set;
  const cudaError_t status = make_set(call, shape, &set);
  if (status != cudaSuccess || shape.width == 0 || shape.rows == 0 || shape.slices == 0) return status;
  const bool waits = synchronous && place_of(call, shape.destination).kind == Place::Kind::pinned;
  std::uint32_t operation = 0;
  if (waits && !stream->capture) call.device().next_is_waited_for();
  const cudaError_t submitted = submit(call, *stream, {std::move(set)}, &operation);
  if (submitted != cudaSuccess || !waits || operation == 0) return submitted;
  return call.wait_operation(operation);
}

static SetShape set_shape(void* to, int value, size_t pitch, size_t width, size_t rows, size_t slices, size_t slice) {
  return {to, pitch, width, rows, slices, slice, std::uint32_t(value & 0xFF), 1};
}
static SetShape set_shape(const cudaPitchedPtr& to, int value, const cudaExtent& extent) {
  return set_shape(to.ptr, value, to.pitch, extent.width, extent.height, extent.depth, to.pitch * to.ysize);
}

DEADHEAT_STREAM_API(cudaMemset, _ptds, device, (void* to, int value, size_t bytes), (to, value, bytes)) {
  return set(call, set_shape(to, value, bytes, bytes, 1, 1, bytes), nullptr, true);
}

DEADHEAT_STREAM_API(cudaMemsetAsync, _ptsz, device, (void* to, int value, size_t bytes, cudaStream_t stream),
                    (to, value, bytes, stream)) {
  return set(call, set_shape(to, value, bytes, bytes, 1, 1, bytes), stream, false);
}

DEADHEAT_STREAM_API(cudaMemset2D, _ptds, device, (void* to, size_t pitch, int value, size_t width, size_t rows),
                    (to, pitch, value, width, rows)) {
  return set(call, set_shape(to, value, pitch, width, rows, 1, pitch * rows), nullptr, true);
}

DEADHEAT_STREAM_API(cudaMemset2DAsync, _ptsz, device,
                    (void* to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream),
                    (to, pitch, value, width, rows, stream)) {
  return set(call, set_shape(to, value, pitch, width, rows, 1, pitch * rows), stream, false);
}

DEADHEAT_STREAM_API(cudaMemset3D, _ptds, device, (cudaPitchedPtr to, int value, cudaExtent extent),
                    (to, value, extent)) {
  return set(call, set_shape(to, value, extent), nullptr, true);
}

DEADHEAT_STREAM_API(cudaMemset3DAsync, _ptsz, device,
                    (cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream),
                    (to, value, extent, stream)) {
  return set(call, set_shape(to, value, extent), stream, false);
}

// ---- Symbols

DEADHEAT_API(cudaGetSymbolAddress, device, (void** address, const void* symbol), (address, symbol)) {
  if (!address) return cudaErrorInvalidValue;
  std::uint64_t start = 0, bytes = 0;
  const cudaError_t status = find_symbol(call, symbol, &start, &bytes);
  if (status == cudaSuccess) *address = reinterpret_cast<void*>(start);
  return status;
}

DEADHEAT_API(cudaGetSymbolSize, device, (size_t* bytes, const void* symbol), (bytes, symbol)) {
  if (!bytes) return cudaErrorInvalidValue;
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  const cudaError_t status = find_symbol(call, symbol, &start, &size);
  if (status == cudaSuccess) *bytes = size;
  return status;
}
