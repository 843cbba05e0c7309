// Arbitrary bytes as a log and as the records of a chunk. The first byte says which: as they are (the reader's
// resynchronisation), with the checksums of headers and payloads made right (so that mutations reach what is behind
// them), or straight into the decoder.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <xxhash.h>

#include "tests/fuzz/log_bytes.h"
#include "tracer/recorder/describe.h"
#include "tracer/recorder/reader.h"

namespace {

using namespace deadheat::trace;

// Makes the log's header and every chunk that follows from it pass its checks.
void mend(std::vector<std::uint8_t>& bytes) {
  LogHeader log;
  if (bytes.size() < sizeof log) return;
  log.checksum = XXH3_64bits(&log, offsetof(LogHeader, checksum));
  std::memcpy(bytes.data(), &log, sizeof log);
  std::size_t at = sizeof log;
  for (std::uint32_t number = 0; bytes.size() - at >= sizeof(ChunkHeader); number++) {
    ChunkHeader header;
    std::memcpy(&header, &bytes[at], sizeof header);
    const std::size_t left = bytes.size() - at - sizeof header;
    header.magic = chunk_magic;
    header.version = format_version;
    header.kind = ChunkKind(1 + unsigned(header.kind) % 7);
    header.number = number;
    header.stored_bytes = std::uint32_t(left ? header.stored_bytes % (left + 1) : 0);
    header.codec = Codec(unsigned(header.codec) % 2);
    header.raw_bytes = header.codec == Codec::stored ? header.stored_bytes : header.raw_bytes % (1 << 20);
    header.payload_checksum = XXH3_64bits(&bytes[at] + sizeof header, header.stored_bytes);
    header.checksum = XXH3_64bits(&header, offsetof(ChunkHeader, checksum));
    std::memcpy(&bytes[at], &header, sizeof header);
    at += sizeof header + header.stored_bytes;
  }
}

void decode(const std::uint8_t* data, std::size_t size) {
  const Payload payload = Payload::copy_of({data, size});
  Decoder decoder(payload, std::size_t(1) << 20);
  for (;;) {
    const Decoder::Item item = decoder.next();
    if (item == Decoder::Item::access) {
      (void)describe(decoder.access());
    } else if (item == Decoder::Item::record) {
      (void)describe(decoder.record());
    } else {
      return;
    }
  }
}

void read(const std::string& directory) {
  (void)summarize(directory);
  const auto trace = TraceReader::open(directory);
  if (!trace) std::abort(); // the log is there, whatever is in it
  auto log = trace->open_log(0);
  if (!log) return;
  Record record;
  while (log->next(record)) (void)describe(record);
  log->verify();
  if (!log->complete() && log->warnings().empty()) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::uint8_t> bytes(data + 1, data + size);
  if (data[0] % 3 == 0) {
    decode(bytes.data(), bytes.size());
    return 0;
  }
  if (data[0] % 3 == 1) mend(bytes);
  deadheat::fuzz::write_file(deadheat::fuzz::directory() + "/1.log", bytes);
  read(deadheat::fuzz::directory());
  return 0;
}
