#include "tracer/recorder/blobs.h"

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <xxhash.h>
#include <zstd.h>

#include "deadheat/trace_format.h"
#include "tracer/recorder/files.h"

namespace deadheat::trace {
namespace {

constexpr std::size_t known_hashes = 1 << 14;
constexpr std::size_t piece_bytes = std::size_t(1) << 20;

std::size_t slot_of(const BlobHash& hash) { return (hash[0] | hash[1] << 8) % known_hashes; }

} // namespace

BlobHash hash_blob(std::span<const std::uint8_t> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  BlobHash hash;
  static_assert(sizeof canonical.digest == sizeof hash);
  std::memcpy(hash.data(), canonical.digest, hash.size());
  return hash;
}

std::string to_text(const BlobHash& hash) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : hash) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string blob_path(const std::string& directory, const BlobHash& hash) {
  const std::string name = to_text(hash);
  return directory + '/' + blob_directory + '/' + name.substr(0, 2) + '/' + name;
}

BlobWriter::BlobWriter(std::string directory, int level)
    : directory_(std::move(directory)), level_(level), known_(known_hashes) {}

BlobWriter::~BlobWriter() { ZSTD_freeCCtx(context_); }

Expected<BlobHash> BlobWriter::add(std::span<const std::uint8_t> bytes) {
  const BlobHash hash = hash_blob(bytes);
  BlobHash& known = known_[slot_of(hash)];
  if (known == hash && hash != BlobHash{}) return hash;
  const std::string path = blob_path(directory_, hash);
  if (::access(path.c_str(), F_OK) != 0) {
    if (Expected<void> done = write(path, bytes); !done) return done.error();
  }
  known = hash;
  return hash;
}

Expected<void> BlobWriter::write(const std::string& path, std::span<const std::uint8_t> bytes) {
  if (Expected<void> made = make_directory(path.substr(0, path.rfind('/'))); !made) return made;
  if (!context_) context_ = ZSTD_createCCtx();
  if (!context_) return Error{"no memory to compress a blob", path, {}};
  ZSTD_CCtx_reset(context_, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level_);
  ZSTD_CCtx_setPledgedSrcSize(context_, bytes.size());

  const std::string fresh = path + ".new." + std::to_string(::getpid()) + '.' + std::to_string(serial_++);
  Expected<File> file = File::create(fresh);
  if (!file) return file.error();
  const auto fail = [&](int number) -> Expected<void> {
    file->close();
    ::unlink(fresh.c_str());
    return system_error(number, "cannot write a blob", path);
  };

  BlobHeader header;
  header.raw_bytes = bytes.size();
  if (const int number = file->write(&header, sizeof header)) return fail(number);
  const std::size_t room = ZSTD_CStreamOutSize();
  const std::unique_ptr<std::uint8_t[]> out(new std::uint8_t[room]);
  ZSTD_inBuffer input{bytes.data(), 0, 0};
  bool last = false;
  while (!last) { // piece by piece: bounded memory
    input.size = std::min(bytes.size(), input.pos + piece_bytes);
    last = input.size == bytes.size();
    for (bool more = true; more;) {
      ZSTD_outBuffer output{out.get(), room, 0};
      const std::size_t left = ZSTD_compressStream2(context_, &output, &input, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left)) return fail(ENOMEM);
      if (const int number = file->write(out.get(), output.pos)) return fail(number);
      more = last ? left != 0 : input.pos < input.size;
    }
  }
  file->close();
  if (::rename(fresh.c_str(), path.c_str()) != 0) return fail(errno);
  return {};
}

Expected<std::vector<std::uint8_t>> read_blob(const std::string& directory, const BlobHash& hash) {
  const std::string path = blob_path(directory, hash);
  Expected<File> file = File::open(path);
  if (!file && ::access(path.c_str(), F_OK) != 0) {
    return Error{"a blob of the trace is missing", path, "was the whole directory copied?"};
  }
  if (!file) return file.error();
  const Error damaged{"a blob is damaged: its bytes are not those that were recorded", path, "record again"};
  BlobHeader header;
  if (file->read_at(0, &header, sizeof header) != sizeof header || header.magic != blob_magic) return damaged;
  if (header.version != format_version) {
    return Error{"blob format version " + std::to_string(header.version) + ", this deadheat reads version " +
                     std::to_string(format_version),
                 path, "use the deadheat that recorded it"};
  }
  if (header.raw_bytes > max_blob_bytes) return damaged;
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  if (!context) return Error{"no memory to decompress a blob", path, {}};

  // The size in the header is not trusted: memory grows with the bytes that come out.
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> stored(ZSTD_DStreamInSize());
  std::uint64_t offset = sizeof header;
  std::size_t filled = 0, state = 1;
  for (bool more = true; more;) {
    const std::size_t n = file->read_at(offset, stored.data(), stored.size());
    if (n == 0) break;
    offset += n;
    if (header.codec == Codec::stored) {
      bytes.insert(bytes.end(), stored.begin(), stored.begin() + std::ptrdiff_t(n));
      filled = bytes.size();
      state = 0;
      more = filled <= header.raw_bytes;
      continue;
    }
    ZSTD_inBuffer input{stored.data(), n, 0};
    while (more && (input.pos < input.size || filled == bytes.size())) {
      if (filled == bytes.size()) {
        const std::size_t room = std::max(filled, piece_bytes);
        bytes.resize(filled + std::size_t(std::min<std::uint64_t>(room, header.raw_bytes - filled + 1)));
      }
      ZSTD_outBuffer output{bytes.data(), bytes.size(), filled};
      state = ZSTD_decompressStream(context.get(), &output, &input);
      filled = output.pos;
      if (ZSTD_isError(state) || filled > header.raw_bytes) return damaged;
      if (state == 0) more = false;
      if (input.pos == input.size && filled < bytes.size()) break;
    }
  }
  bytes.resize(filled);
  if (state != 0 || filled != header.raw_bytes || hash_blob(bytes) != hash) return damaged;
  return bytes;
}

} // namespace deadheat::trace
