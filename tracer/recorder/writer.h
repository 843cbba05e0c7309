// Writes one process's log of a trace.
//
// The log is PID.log.incomplete until finish() renames it: a recording that was cut off can always be told. Chunks of
// about 1 MiB are compressed and written whole; what a killed process had not flushed is lost, nothing else.
//
// Thread-safety: every member may be called from any host thread; one mutex. Records appear in the order of the calls.
// Not for signal handlers.
//
// Invariants: nothing here throws, aborts or raises a signal. When the log cannot be written (disk full), the writer
// stops: the log ends at its last whole chunk, further records are counted as lost, and on_error is called once.
// Memory is bounded: about 4 MiB, and once the size of the largest record. After fork the child's copy of a writer is
// inert: it writes, renames and reports nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "deadheat/expected.h"
#include "deadheat/trace.h"
#include "deadheat/trace_format.h"
#include "tracer/recorder/access_view.h"
#include "tracer/recorder/warp_log.h"

namespace deadheat::trace {

struct WriterOptions {
  int level = 1;                             // of zstd
  std::size_t chunk_bytes = chunk_target_bytes;
  std::function<void(const Error&)> on_error = {}; // called once at most, from the thread whose call failed
};

struct WriterCounts {
  std::uint64_t records = 0, accesses = 0;   // accepted; accesses counts lanes
  std::uint64_t lost_records = 0;            // could not be written
  std::uint64_t raw_bytes = 0, file_bytes = 0; // of flushed chunks: before compression, and of the log
};

class TraceWriter {
 public:
  // Makes the trace directory if there is none, and the log with `process` as its first record. Zero pid and start time
  // are filled in.
  static Expected<std::unique_ptr<TraceWriter>> create(const std::string& directory, Process process,
                                                       WriterOptions options = {});
  // Flushes, and leaves the log incomplete unless finish() was called.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Any record of trace.h. An Access without lanes is not written; lanes outside a mask are not kept.
  template <class T> void write(const T& record) noexcept;
  void write(const Record& record) noexcept;
  void write(const Access& access) noexcept { write(view_of(access)); }
  void write(const AccessView& access) noexcept;

  // The weak accesses of a warp since its last sync (warp_log.h).
  void write_warp(const Warp& warp, std::uint32_t module, const LaneLog (&lanes)[32]) noexcept;

  // Keeps bytes under their hash, once for all processes of the trace. When they cannot be written, that counts as a
  // lost record and the hash is returned all the same.
  BlobHash add_blob(std::span<const std::uint8_t> bytes) noexcept;
  // Up to inline_bytes in the record, else a blob.
  Bytes bytes(std::span<const std::uint8_t> bytes) noexcept;
  void bytes(std::span<const std::uint8_t> bytes, Bytes& kept) noexcept; // into what has room already

  // Writes a chunk of a kind other than events; `payload` is stored as the reader will return it.
  void write_chunk(ChunkKind kind, std::span<const std::uint8_t> payload) noexcept;

  // Writes out what is buffered, as a chunk of its own: before something that may kill the process.
  void flush() noexcept;

  // Writes ProgramEnd and the end chunk and renames the log; later records are lost. The second call does nothing.
  Expected<void> finish(std::int32_t status, bool clean = true) noexcept;

  // Takes the log back, and the directory if nothing else is in it: the process did nothing worth keeping.
  void discard() noexcept;

  WriterCounts counts() const noexcept;
  const std::string& directory() const noexcept;
  const std::string& log_path() const noexcept; // while it is incomplete

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  template <class Body> void locked(Body&& body) noexcept;
  std::unique_ptr<State> state_;
};

} // namespace deadheat::trace
