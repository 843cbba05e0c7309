// Content-addressed byte strings of a trace: blobs/HH/HASH, named by the XXH3-128 of their bytes, compressed, shared by
// all processes of the trace.
//
// A blob appears whole or not at all: it is written under a name of its own and renamed. Writers of the same bytes at
// the same time both succeed. Stray names ("*.new.*") are what a killed process left; readers never look at them.
//
// Thread-safety: read_blob and hash_blob may be called from any thread; a BlobWriter belongs to one thread at a time.
// Memory: about 2.5 MiB however large the blob, besides the caller's bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/trace.h"

struct ZSTD_CCtx_s;

namespace deadheat::trace {

BlobHash hash_blob(std::span<const std::uint8_t> bytes);
std::string to_text(const BlobHash& hash); // 32 hexadecimal digits

// Where a blob lies in the trace directory.
std::string blob_path(const std::string& directory, const BlobHash& hash);

class BlobWriter {
 public:
  BlobWriter(std::string directory, int level);
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;
  ~BlobWriter();

  // Writes the blob unless it is there already.
  Expected<BlobHash> add(std::span<const std::uint8_t> bytes);

 private:
  Expected<void> write(const std::string& path, std::span<const std::uint8_t> bytes);

  std::string directory_;
  int level_;
  ZSTD_CCtx_s* context_ = nullptr;
  std::vector<BlobHash> known_; // a table of recently seen hashes, by their low bits
  std::uint64_t serial_ = 0;
};

// The bytes of a blob, checked against its hash.
Expected<std::vector<std::uint8_t>> read_blob(const std::string& directory, const BlobHash& hash);

} // namespace deadheat::trace
