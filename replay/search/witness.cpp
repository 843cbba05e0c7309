#include "replay/search/witness.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "replay/search/manifest.h"

namespace deadheat::search {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t largest_payload = std::uint64_t(16) << 30;
using Buffer = std::vector<std::uint8_t>;

Expected<Buffer> read_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return Error{"no such file", path};
  std::ifstream in(path, std::ios::binary);
  Buffer bytes(fs::file_size(path, error));
  if (error || !in.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(bytes.size()))) {
    return Error{"cannot read", path};
  }
  return bytes;
}

void append(Buffer& out, const void* data, std::size_t size) {
  out.insert(out.end(), static_cast<const std::uint8_t*>(data), static_cast<const std::uint8_t*>(data) + size);
}

void append_entry(Buffer& out, const std::string& name, const void* data, std::uint64_t size) {
  std::uint32_t length = std::uint32_t(name.size());
  append(out, &length, sizeof length);
  append(out, &size, sizeof size);
  append(out, name.data(), name.size());
  append(out, data, size);
}

// A relative path without "..": what may be written below the directory.
bool stays_below(const fs::path& name) {
  if (name.empty() || name.is_absolute()) return false;
  return std::none_of(name.begin(), name.end(), [](const fs::path& part) { return part == ".." || part.empty(); });
}

Expected<void> unpack_entry(const fs::path& directory, const std::string& name, const std::uint8_t* data,
                            std::uint64_t size) {
  std::error_code error;
  fs::path path = directory / name;
  fs::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(data), std::streamsize(size));
  out.flush();
  if (!out) return Error{"cannot write", path.string()};
  return {};
}

} // namespace

Expected<void> write_witness(const std::string& file, const Witness& witness, const std::string& capsule) {
  Buffer raw;
  std::string manifest = to_manifest(witness);
  append_entry(raw, "manifest.json", manifest.data(), manifest.size());
  std::vector<fs::path> paths; // in one order, so that the same witness is the same file
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(capsule, error)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  if (error) return Error{error.message(), capsule};
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    Expected<Buffer> bytes = read_file(path.string());
    if (!bytes) return bytes.error();
    append_entry(raw, fs::relative(path, capsule).string(), bytes->data(), bytes->size());
  }

  Buffer payload(ZSTD_compressBound(raw.size()));
  std::size_t compressed = ZSTD_compress(payload.data(), payload.size(), raw.data(), raw.size(), 9);
  if (ZSTD_isError(compressed)) return Error{ZSTD_getErrorName(compressed), file};
  WitnessHeader header{};
  std::memcpy(header.magic, witness_magic, sizeof header.magic);
  header.version = witness_version;
  header.header_bytes = sizeof header;
  header.payload_bytes = compressed;
  header.raw_bytes = raw.size();
  header.checksum = XXH3_64bits_withSeed(payload.data(), compressed, header.raw_bytes);

  std::string temporary = file + ".part"; // a file of this name is whole
  std::ofstream out(temporary, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  out.write(reinterpret_cast<const char*>(payload.data()), std::streamsize(compressed));
  out.flush();
  if (!out) return Error{"cannot write", temporary};
  fs::rename(temporary, file, error);
  if (error) return Error{error.message(), file};
  return {};
}

Expected<Witness> read_witness(const std::string& file, const std::string& directory) {
  Expected<Buffer> bytes = read_file(file);
  if (!bytes) return bytes.error();
  WitnessHeader header;
  if (bytes->size() < sizeof header || std::memcmp(bytes->data(), witness_magic, sizeof witness_magic) != 0) {
    return Error{"is not a witness", file};
  }
  std::memcpy(&header, bytes->data(), sizeof header);
  if (header.version < oldest_witness_version || header.version > witness_version) {
    return Error{"is a witness of version " + std::to_string(header.version) + ", this program reads version " +
                     std::to_string(witness_version),
                 file, "make it again with this version: deadheat replay TRACE"};
  }
  const std::uint8_t* payload = bytes->data() + sizeof header;
  if (header.header_bytes != sizeof header || header.payload_bytes != bytes->size() - sizeof header ||
      header.raw_bytes > largest_payload ||
      XXH3_64bits_withSeed(payload, header.payload_bytes, header.raw_bytes) != header.checksum) {
    return Error{"the witness is damaged", file, "make it again: deadheat replay TRACE"};
  }
  Buffer raw(header.raw_bytes);
  std::size_t size = ZSTD_decompress(raw.data(), raw.size(), payload, header.payload_bytes);
  if (ZSTD_isError(size) || size != raw.size()) return Error{"the witness is damaged", file};

  Expected<Witness> witness = Error{"the witness has no manifest", file};
  for (std::size_t at = 0; at < raw.size();) {
    std::uint32_t length;
    std::uint64_t bytes_of_entry;
    if (raw.size() - at < sizeof length + sizeof bytes_of_entry) return Error{"the witness is damaged", file};
    std::memcpy(&length, &raw[at], sizeof length);
    std::memcpy(&bytes_of_entry, &raw[at + sizeof length], sizeof bytes_of_entry);
    at += sizeof length + sizeof bytes_of_entry;
    if (raw.size() - at < length || raw.size() - at - length < bytes_of_entry) {
      return Error{"the witness is damaged", file};
    }
    std::string name(reinterpret_cast<const char*>(&raw[at]), length);
    const std::uint8_t* data = raw.data() + at + length;
    at += length + bytes_of_entry;
    if (name == "manifest.json") {
      witness = from_manifest(std::string(reinterpret_cast<const char*>(data), bytes_of_entry), file);
      if (!witness) return witness;
    } else if (!stays_below(name)) {
      return Error{"the witness is damaged: it names a file outside of itself", file};
    } else if (Expected<void> done = unpack_entry(directory, name, data, bytes_of_entry); !done) {
      return done.error();
    }
  }
  return witness;
}

} // namespace deadheat::search
