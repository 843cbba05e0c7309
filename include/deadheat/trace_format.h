// How the bytes of a trace lie on disk: names, headers, chunk kinds, record tags, limits.
// tracer/recorder/FORMAT.md is the specification; this header is what code needs of it.
//
// Invariants: all numbers are little-endian. Numbers of kinds and tags are never reused. Any change that an older
// reader would misread raises format_version. A chunk decodes on its own: its delta state starts fresh.
//
// Thread-safety: constants and plain values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deadheat::trace {

inline constexpr std::uint16_t format_version = 1;

// Names in the trace directory. A log is written as PID.log.incomplete (PID-2.log.incomplete … when a process runs
// another program in its place) and renamed when its recording ends cleanly.
inline constexpr char log_suffix[] = ".log";
inline constexpr char incomplete_suffix[] = ".incomplete";
inline constexpr char blob_directory[] = "blobs"; // blobs/HH/HASH: 32 hexadecimal digits, HH the first two

inline constexpr std::uint64_t log_magic = 0x0A45434152544844;   // "DHTRACE\n"
inline constexpr std::uint64_t chunk_magic = 0xF1C7A59E4B4E4843; // "CHNK" and four bytes that text does not have
inline constexpr std::uint64_t blob_magic = 0x0A424F4C42544844;  // "DHTBLOB\n"
inline constexpr std::uint32_t endian_mark = 0x01020304;

// Offset 0 of a log. Magic, endian mark and version keep their places in every version.
struct LogHeader {
  std::uint64_t magic = log_magic;
  std::uint32_t endian = endian_mark;
  std::uint16_t version = format_version;
  std::uint16_t header_bytes = 48; // the first chunk follows
  std::uint32_t pid = 0;
  std::uint32_t reserved = 0;
  std::uint64_t start_nanoseconds = 0; // since the epoch
  std::uint64_t reserved2 = 0;
  std::uint64_t checksum = 0; // XXH3-64 of the bytes before it
};
static_assert(sizeof(LogHeader) == 48);
static_assert(offsetof(LogHeader, checksum) == 40);

enum class ChunkKind : std::uint16_t {
  events = 1,    // records of trace.h
  conflicts = 2, // reserved: colliding pairs found on the device
  snapshots = 3, // reserved: memory at a consistent cut
  effects = 4,   // reserved: bytes that opaque operations changed
  devices = 5,   // reserved: what several devices share (peer mappings, multicast)
  end = 6        // EndChunk: the recording ended cleanly
};

enum class Codec : std::uint32_t { stored = 0, zstd = 1 };

struct ChunkHeader {
  std::uint64_t magic = chunk_magic;
  std::uint16_t version = format_version;
  ChunkKind kind = ChunkKind::events;
  std::uint32_t number = 0;       // of the chunk in its log, from 0, without gaps
  std::uint32_t stored_bytes = 0; // that follow this header
  std::uint32_t raw_bytes = 0;    // after decompression
  std::uint32_t records = 0;
  std::uint32_t accesses = 0;     // lane accesses in those records
  Codec codec = Codec::stored;
  std::uint32_t reserved = 0;
  std::uint64_t payload_checksum = 0; // XXH3-64 of the stored bytes
  std::uint64_t checksum = 0;         // XXH3-64 of the bytes of this header before it
};
static_assert(sizeof(ChunkHeader) == 56);
static_assert(offsetof(ChunkHeader, checksum) == 48);

// Payload of the end chunk.
struct EndChunk {
  std::uint64_t records = 0, accesses = 0; // in chunks of this log
  std::uint64_t lost_records = 0;          // could not be written
  std::uint64_t raw_bytes = 0;             // of chunk payloads
  std::uint32_t chunks = 0;                // before this one
  std::int32_t status = 0;                 // the process's, as far as the recorder knows
};
static_assert(sizeof(EndChunk) == 40);

// Offset 0 of a blob file; the bytes follow, one zstd frame or as they are.
struct BlobHeader {
  std::uint64_t magic = blob_magic;
  std::uint32_t version = format_version;
  Codec codec = Codec::zstd;
  std::uint64_t raw_bytes = 0;
};
static_assert(sizeof(BlobHeader) == 24);

// Limits that writers keep and readers enforce.
inline constexpr std::size_t chunk_target_bytes = std::size_t(1)
                                                  << 20;  // raw; a chunk is flushed once it has reached it
inline constexpr std::size_t max_chunk_bytes = std::size_t(64) << 20;    // raw and stored
inline constexpr std::size_t max_record_bytes = std::size_t(48) << 20;   // encoded
inline constexpr std::size_t max_string_bytes = std::size_t(1) << 30; // of one record's strings, repetitions included
inline constexpr std::uint64_t max_blob_bytes = std::uint64_t(1) << 36;
inline constexpr std::size_t inline_bytes = 4096; // larger byte strings become blobs

// Record tags. Below 64 a record is framed: tag, u32 length, body; unknown ones can be skipped. From 64 on records are
// compact and lean on the chunk's delta state. Tags from 128 on are accesses (their low bits are modes).
// X(type, tag)
// clang-format off
#define DEADHEAT_TRACE_FRAMED(X)                                                                                  \
  X(Process, 1) X(Device, 2) X(Module, 3) X(Symbol, 4) X(Allocate, 5) X(Free, 6) X(StreamCreate, 7)               \
  X(StreamDestroy, 8) X(EventRecord, 9) X(StreamWait, 10) X(HostWait, 11) X(Operation, 12) X(GraphLaunch, 13)     \
  X(GraphEnd, 14) X(OperationBegin, 15) X(OperationEnd, 16) X(HostRead, 17) X(HostWrite, 18) X(MemoryError, 19)   \
  X(SyncError, 20) X(Incident, 21) X(ProgramEnd, 22) X(Window, 23) X(Snapshot, 24) X(Effects, 25)     \
  X(HeapBlock, 26) X(StreamMaker, 27) X(HostWaitBegin, 28) X(HeapFree, 29) X(TensorMap, 30)
#define DEADHEAT_TRACE_COMPACT(X)                                                                                 \
  X(Fence, 80) X(BarrierArrive, 81) X(BarrierComplete, 82) X(BlockBarrier, 83) X(WarpBarrier, 84) X(WarpValue, 85) \
  X(AsyncCopy, 86) X(AsyncCommit, 87) X(AsyncWait, 88) X(Mbarrier, 89) X(ClusterBarrier, 90) X(ThreadExit, 91) X(BulkCopy, 92)
// clang-format on
inline constexpr std::uint8_t context_tag = 64; // … 79: the low bits say which parts of the context change
inline constexpr std::uint8_t access_tag = 128;

} // namespace deadheat::trace
