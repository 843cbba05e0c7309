// Copies to, from and between arrays by rows and by counts of bytes (Runtime API, "Memory Management"; those by extents
// are in copies.cpp). A count of bytes runs on from row to row.
#include <algorithm>

#include "replay/embedded/arrays.h"

using namespace deadheat::embedded;
using deadheat::engine::LevelLayout;

namespace {

// The end of a copy that is an array: its rows, and where in them the copy begins.
struct End {
  std::uint64_t address = 0, pitch = 0, width = 0, rows = 0; // width in bytes
  std::uint64_t at = 0, row = 0;
};

cudaError_t end_of(cudaArray_const_t handle, size_t at, size_t row, End* end) {
  const Array* array = array_of(handle);
  if (!array) return cudaErrorInvalidResourceHandle;
  const LevelLayout l = level_layout(array->layout, 0);
  *end = {l.address, l.pitch, std::uint64_t(l.width) * array->layout.format.bytes(), l.height, at, row};
  return at > end->width || row > end->rows ? cudaErrorInvalidValue : cudaSuccess;
}

bool holds(const End& end, std::uint64_t width, std::uint64_t rows) {
  return width <= end.width - end.at && rows <= end.rows - end.row;
}

char* place(const End& end) { return reinterpret_cast<char*>(end.address + end.row * end.pitch + end.at); }

cudaError_t rows_to(cudaArray_t to, size_t at, size_t row, const void* from, size_t pitch, size_t width, size_t rows,
                    cudaMemcpyKind kind, CopyShape* shape) {
  End end;
  const cudaError_t status = end_of(to, at, row, &end);
  if (status != cudaSuccess) return status;
  if (!holds(end, width, rows)) return cudaErrorInvalidValue;
  *shape = plane(place(end), end.pitch, from, pitch, width, rows, kind);
  return cudaSuccess;
}

cudaError_t rows_from(void* to, size_t pitch, cudaArray_const_t from, size_t at, size_t row, size_t width, size_t rows,
                      cudaMemcpyKind kind, CopyShape* shape) {
  End end;
  const cudaError_t status = end_of(from, at, row, &end);
  if (status != cudaSuccess) return status;
  if (!holds(end, width, rows)) return cudaErrorInvalidValue;
  *shape = plane(to, pitch, place(end), end.pitch, width, rows, kind);
  return cudaSuccess;
}

// Calls copy(CopyShape) for each piece of `count` bytes that lies in one row of each end that is an array.
template <class Copy>
cudaError_t each_piece(End* to, char* to_memory, End* from, const char* from_memory, std::uint64_t count,
                       cudaMemcpyKind kind, Copy&& copy) {
  const auto left = [](const End& end) { return (end.rows - end.row) * end.width - end.at; };
  const auto advance = [](End& end, std::uint64_t bytes) {
    end.at += bytes;
    if (end.at != end.width) return;
    end.at = 0;
    ++end.row;
  };
  if ((to && (to->row >= to->rows || count > left(*to))) || (from && (from->row >= from->rows || count > left(*from))))
    return count ? cudaErrorInvalidValue : cudaSuccess;
  while (count) {
    std::uint64_t bytes = count;
    if (to) bytes = std::min(bytes, to->width - to->at);
    if (from) bytes = std::min(bytes, from->width - from->at);
    const cudaError_t status = copy(line(to ? place(*to) : to_memory, from ? place(*from) : from_memory, bytes, kind));
    if (status != cudaSuccess) return status;
    if (to)
      advance(*to, bytes);
    else
      to_memory += bytes;
    if (from)
      advance(*from, bytes);
    else
      from_memory += bytes;
    count -= bytes;
  }
  return cudaSuccess;
}

template <class Copy>
cudaError_t count_to(cudaArray_t to, size_t at, size_t row, const void* from, size_t count, cudaMemcpyKind kind,
                     Copy&& copy) {
  End end;
  const cudaError_t status = end_of(to, at, row, &end);
  if (status != cudaSuccess) return status;
  return each_piece(&end, nullptr, nullptr, static_cast<const char*>(from), count, kind, copy);
}

template <class Copy>
cudaError_t count_from(void* to, cudaArray_const_t from, size_t at, size_t row, size_t count, cudaMemcpyKind kind,
                       Copy&& copy) {
  End end;
  const cudaError_t status = end_of(from, at, row, &end);
  if (status != cudaSuccess) return status;
  return each_piece(nullptr, static_cast<char*>(to), &end, nullptr, count, kind, copy);
}

} // namespace

DEADHEAT_STREAM_API(cudaMemcpy2DToArray, _ptds, device,
                    (cudaArray_t to, size_t at, size_t row, const void* from, size_t pitch, size_t width, size_t rows,
                     cudaMemcpyKind kind),
                    (to, at, row, from, pitch, width, rows, kind)) {
  CopyShape shape;
  const cudaError_t status = rows_to(to, at, row, from, pitch, width, rows, kind, &shape);
  return status == cudaSuccess ? copy_now(call, shape) : status;
}

DEADHEAT_STREAM_API(cudaMemcpy2DToArrayAsync, _ptsz, device,
                    (cudaArray_t to, size_t at, size_t row, const void* from, size_t pitch, size_t width, size_t rows,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    (to, at, row, from, pitch, width, rows, kind, stream)) {
  CopyShape shape;
  const cudaError_t status = rows_to(to, at, row, from, pitch, width, rows, kind, &shape);
  return status == cudaSuccess ? copy_async(call, shape, stream) : status;
}

DEADHEAT_STREAM_API(cudaMemcpy2DFromArray, _ptds, device,
                    (void* to, size_t pitch, cudaArray_const_t from, size_t at, size_t row, size_t width, size_t rows,
                     cudaMemcpyKind kind),
                    (to, pitch, from, at, row, width, rows, kind)) {
  CopyShape shape;
  const cudaError_t status = rows_from(to, pitch, from, at, row, width, rows, kind, &shape);
  return status == cudaSuccess ? copy_now(call, shape) : status;
}

DEADHEAT_STREAM_API(cudaMemcpy2DFromArrayAsync, _ptsz, device,
                    (void* to, size_t pitch, cudaArray_const_t from, size_t at, size_t row, size_t width, size_t rows,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    (to, pitch, from, at, row, width, rows, kind, stream)) {
  CopyShape shape;
  const cudaError_t status = rows_from(to, pitch, from, at, row, width, rows, kind, &shape);
  return status == cudaSuccess ? copy_async(call, shape, stream) : status;
}

DEADHEAT_STREAM_API(cudaMemcpy2DArrayToArray, _ptds, device,
                    (cudaArray_t to, size_t to_at, size_t to_row, cudaArray_const_t from, size_t from_at,
                     size_t from_row, size_t width, size_t rows, cudaMemcpyKind kind),
                    (to, to_at, to_row, from, from_at, from_row, width, rows, kind)) {
  End end;
  cudaError_t status = end_of(from, from_at, from_row, &end);
  if (status != cudaSuccess) return status;
  if (!holds(end, width, rows)) return cudaErrorInvalidValue;
  CopyShape shape;
  status = rows_to(to, to_at, to_row, place(end), end.pitch, width, rows, kind, &shape);
  return status == cudaSuccess ? copy_now(call, shape) : status;
}

DEADHEAT_STREAM_API(cudaMemcpyToArray, _ptds, device,
                    (cudaArray_t to, size_t at, size_t row, const void* from, size_t count, cudaMemcpyKind kind),
                    (to, at, row, from, count, kind)) {
  return count_to(to, at, row, from, count, kind, [&](const CopyShape& piece) { return copy_now(call, piece); });
}

DEADHEAT_STREAM_API(cudaMemcpyToArrayAsync, _ptsz, device,
                    (cudaArray_t to, size_t at, size_t row, const void* from, size_t count, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    (to, at, row, from, count, kind, stream)) {
  return count_to(to, at, row, from, count, kind,
                  [&](const CopyShape& piece) { return copy_async(call, piece, stream); });
}

DEADHEAT_STREAM_API(cudaMemcpyFromArray, _ptds, device,
                    (void* to, cudaArray_const_t from, size_t at, size_t row, size_t count, cudaMemcpyKind kind),
                    (to, from, at, row, count, kind)) {
  return count_from(to, from, at, row, count, kind, [&](const CopyShape& piece) { return copy_now(call, piece); });
}

DEADHEAT_STREAM_API(cudaMemcpyFromArrayAsync, _ptsz, device,
                    (void* to, cudaArray_const_t from, size_t at, size_t row, size_t count, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    (to, from, at, row, count, kind, stream)) {
  return count_from(to, from, at, row, count, kind,
                    [&](const CopyShape& piece) { return copy_async(call, piece, stream); });
}

DEADHEAT_STREAM_API(cudaMemcpyArrayToArray, _ptds, device,
                    (cudaArray_t to, size_t to_at, size_t to_row, cudaArray_const_t from, size_t from_at,
                     size_t from_row, size_t count, cudaMemcpyKind kind),
                    (to, to_at, to_row, from, from_at, from_row, count, kind)) {
  End target, source;
  cudaError_t status = end_of(to, to_at, to_row, &target);
  if (status == cudaSuccess) status = end_of(from, from_at, from_row, &source);
  if (status != cudaSuccess) return status;
  return each_piece(&target, nullptr, &source, nullptr, count, kind,
                    [&](const CopyShape& piece) { return copy_now(call, piece); });
}
