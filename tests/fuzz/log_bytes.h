// Logs made by hand: chunk after chunk, uncompressed, with right checksums, so that fuzzed bytes reach what is behind
// them.
//
// Thread-safety: none.
#pragma once

#include <stdlib.h>
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "deadheat/trace_format.h"

namespace deadheat::fuzz {

class LogBytes {
 public:
  LogBytes() {
    trace::LogHeader header;
    header.checksum = XXH3_64bits(&header, offsetof(trace::LogHeader, checksum));
    append(&header, sizeof header);
  }
  void chunk(std::span<const std::uint8_t> payload) {
    trace::ChunkHeader header;
    header.number = number_++;
    header.stored_bytes = header.raw_bytes = std::uint32_t(payload.size());
    header.payload_checksum = XXH3_64bits(payload.data(), payload.size());
    header.checksum = XXH3_64bits(&header, offsetof(trace::ChunkHeader, checksum));
    append(&header, sizeof header);
    append(payload.data(), payload.size());
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  void append(const void* from, std::size_t size) {
    const auto* begin = static_cast<const std::uint8_t*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  std::vector<std::uint8_t> bytes_;
  std::uint32_t number_ = 0;
};

// A directory of this process's own, in memory where there is such a place.
inline const std::string& directory() {
  static const std::string made = [] {
    for (const char* pattern : {"/dev/shm/deadheat-fuzz-XXXXXX", "/tmp/deadheat-fuzz-XXXXXX"}) {
      std::string name = pattern;
      if (::mkdtemp(name.data())) return name;
    }
    std::abort();
  }();
  return made;
}

inline void write_file(const std::string& path, std::span<const std::uint8_t> bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) std::abort();
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) std::abort();
  std::fclose(file);
}

} // namespace deadheat::fuzz
