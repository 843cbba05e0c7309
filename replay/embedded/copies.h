// Copies: from pointers and shapes to a trace::Copy, and how far the host waits for it.
//
// How copies behave towards the host follows the Runtime API's page "API synchronization behavior":
//   synchronous   host to device: from pageable memory the stream is synchronized, then the bytes are staged and the
//                 call returns; up to 64 KB it does not synchronize (CUDA C++ Programming Guide, "Asynchronous
//                 Concurrent Execution": such copies are asynchronous with respect to the host); from pinned memory it
//                 returns when the copy is complete. Device to host: returns when complete. Device to device: no wait.
//                 Host to host: returns when complete.
//   asynchronous  from pageable memory: staged, then returns; to pageable memory, and host to host: returns when
//                 complete; everything else returns at once.
//   batches       the same, once all copies are submitted. "The batch as a whole executes in stream order but copies
//                 within a batch are not guaranteed to execute in any specific order" (cudaMemcpyBatchAsync): they are
//                 the nodes of a graph without edges (trace::GraphLaunch of graph 0). A source that may be read out of
//                 the stream's order (cudaMemcpySrcAccessOrder: DuringApiCall until the call returns, Any until the
//                 copy is complete) is copied first, in a stream of its own, to memory that the batch then copies from.
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include "replay/embedded/work.h"

namespace deadheat::embedded {

// What a pointer points to.
struct Place {
  enum class Kind : std::uint8_t { host, pinned, managed, device, bad } kind = Kind::host; // bad: not allocated
  const trace::Allocate* allocation = nullptr; // of all but host
  std::uint64_t address = 0; // for the device: registered host memory has another one there
  bool on_host() const { return kind == Kind::host || kind == Kind::pinned; }
};
Place place_of(Call& call, const void* pointer);
// The place that stands for an address in registered host memory; other addresses as they are.
std::uint64_t registered_place(const Runtime& runtime, std::uint64_t address);

// `rows` and `slices` of `width` bytes; pitches in bytes.
struct CopyShape {
  void* destination = nullptr;
  const void* source = nullptr;
  std::uint64_t width = 0, rows = 1, slices = 1;
  std::uint64_t destination_pitch = 0, source_pitch = 0, destination_slice = 0, source_slice = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  cudaMemcpySrcAccessOrder source_order = cudaMemcpySrcAccessOrderStream; // of batches
};
CopyShape line(void* destination, const void* source, std::uint64_t bytes, cudaMemcpyKind kind);
CopyShape plane(void* destination, std::uint64_t destination_pitch, const void* source, std::uint64_t source_pitch,
                std::uint64_t width, std::uint64_t rows, cudaMemcpyKind kind);
cudaError_t volume(const cudaMemcpy3DParms* parameters, CopyShape* shape);

// Checks pointers and extents and infers the direction.
cudaError_t make_copy(Call& call, const CopyShape& shape, trace::Copy* copy);
cudaError_t copy_now(Call& call, const CopyShape& shape); // waits as a synchronous copy does
cudaError_t copy_async(Call& call, const CopyShape& shape, cudaStream_t stream); // as an asynchronous one
cudaError_t copy_batch(Call& call, const std::vector<CopyShape>& shapes, cudaStream_t stream);

struct SetShape {
  void* destination = nullptr;
  std::uint64_t pitch = 0, width = 0, rows = 1, slices = 1, slice = 0; // width in bytes
  std::uint32_t value = 0;
  std::uint8_t element_bytes = 1;
};
cudaError_t make_set(Call& call, const SetShape& shape, trace::Set* set);
// `synchronous`: waits as cudaMemset does.
cudaError_t set(Call& call, const SetShape& shape, cudaStream_t stream, bool synchronous);

// A copy to or from the part of a variable that begins at `offset`.
cudaError_t copy_to_symbol(Call& call, const void* symbol, const void* from, std::uint64_t bytes, std::uint64_t offset,
                           cudaMemcpyKind kind, CopyShape* shape);
cudaError_t copy_from_symbol(Call& call, void* to, const void* symbol, std::uint64_t bytes, std::uint64_t offset,
                             cudaMemcpyKind kind, CopyShape* shape);

// Device address and size of a registered variable.
cudaError_t find_symbol(Call& call, const void* symbol, std::uint64_t* address, std::uint64_t* bytes);

} // namespace deadheat::embedded
