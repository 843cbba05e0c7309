// Reads traces: the logs of a directory, their chunks and records, and the blobs.
//
// Damage is not an error: a log is opened if anything of it can be read. Chunks that cannot be read are left out, the
// reader goes on with the next whole one, and says what is missing, one line each, in warnings() (one for all that it
// has no more lines for). Chunks that lie in another order are read in the order of their numbers, each once.
// Errors are for what cannot be read at all: no such trace, not a trace, another version.
//
// Thread-safety: a TraceReader is immutable. A LogReader's chunk() and the members marked const may be called from
// several threads at once, so that they can decode chunks in parallel, each with a Decoder of its own; next(),
// for_each() and rewind() belong to one thread at a time.
//
// Invariants: no byte of a trace is trusted (decoder.h). Memory: one chunk a thread, and 64 bytes a chunk of index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/trace.h"
#include "deadheat/trace_format.h"
#include "tracer/recorder/decoder.h"

namespace deadheat::trace {

struct ChunkInfo {
  std::uint64_t offset = 0; // of its header in the log
  ChunkKind kind = ChunkKind::events;
  Codec codec = Codec::stored;
  std::uint32_t number = 0, stored_bytes = 0, raw_bytes = 0, records = 0, accesses = 0;
  std::uint64_t checksum = 0;
};

// Bytes of a log that could not be read.
struct LostRange {
  std::uint64_t offset = 0, bytes = 0;
  std::uint32_t first_chunk = 0, chunks = 0; // chunk numbers; chunks 0: how many is not known
  std::uint64_t records = 0, accesses = 0;   // in them, where known
};

// What for_each() calls, record by record. Returning false stops.
class RecordVisitor {
 public:
  virtual ~RecordVisitor() = default;
  virtual bool access(const AccessView& access) = 0; // valid during the call
  virtual bool record(Record& record) = 0;           // every other record; may be moved from
  virtual void missing() {}                          // records that were here cannot be read
};

class LogReader {
 public:
  // Opens a log and finds its chunks by their headers.
  static Expected<LogReader> open(const std::string& path);
  LogReader(LogReader&&) noexcept;
  LogReader& operator=(LogReader&&) noexcept;
  ~LogReader();

  const std::string& path() const;
  std::uint32_t pid() const;
  std::uint64_t start_nanoseconds() const;

  // ---- One record after another, over all chunks.
  // False at the end of the log. Reuses what `record` holds where it can.
  bool next(Record& record);
  // The same without copying accesses; false when the visitor stopped it.
  bool for_each(RecordVisitor& visitor);
  void rewind();

  // ---- Chunk by chunk; events chunks in order, other kinds by kind.
  std::size_t chunk_count() const; // of events
  const ChunkInfo& chunk_info(std::size_t index) const;
  // The payload of events chunk `index`, verified and decompressed: decode it with a Decoder.
  Expected<Payload> chunk(std::size_t index) const;
  // Is there less than there was between this chunk of events and the one before?
  bool gap_before(std::size_t index) const;
  // What whoever decodes chunks himself found unreadable, or how much he found: noted as the functions above do, once a
  // chunk. Not for several threads at once.
  void note_damage(std::size_t index, const std::string& why);
  void note_skipped(std::size_t index, std::uint64_t records); // of unknown kinds
  void note_counts(std::size_t index, std::uint64_t records, std::uint64_t accesses);
  // Chunks that are not events (the end chunk included), for readers that know their kind.
  const std::vector<ChunkInfo>& other_chunks() const;
  Expected<Payload> payload(const ChunkInfo& info) const;

  // ---- What is missing. Grows while records are read; complete after for_each() or verify() reached the end.
  // True when the recording ended cleanly and nothing is missing.
  bool complete() const;
  const std::vector<std::string>& warnings() const;
  const std::vector<LostRange>& lost() const;
  // The end chunk; nullptr when there is none.
  const EndChunk* end() const;
  // Reads every chunk's bytes (does not decode them), so that complete() is final.
  void verify();

 private:
  struct State;
  explicit LogReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct LogInfo {
  std::string path, name; // name: "4711.log"
  std::uint32_t pid = 0;
  bool incomplete = false; // was not finished
  std::uint64_t bytes = 0;
};

class TraceReader {
 public:
  // Opens a trace directory; an error when it holds no log.
  static Expected<TraceReader> open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const std::vector<LogInfo>& logs() const { return logs_; } // by process id, then copy
  Expected<LogReader> open_log(std::size_t index) const { return LogReader::open(logs_[index].path); }
  // The bytes behind a hash, checked against it.
  Expected<std::vector<std::uint8_t>> blob(const BlobHash& hash) const;
  // The bytes, wherever they are.
  Expected<std::vector<std::uint8_t>> bytes(const Bytes& bytes) const;

 private:
  std::string directory_;
  std::vector<LogInfo> logs_;
};

} // namespace deadheat::trace
