// Fuzz target: witness files. The first byte says how much of the input is made right, so that mutations reach what is
// behind the checks: nothing, header and checksum, or a payload that is compressed here and holds the input as
// manifest.
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "replay/search/witness.h"
#include "tests/fuzz/log_bytes.h"

namespace {

using namespace deadheat::search;

std::string packed(std::string payload_raw, bool compress) {
  std::string payload = payload_raw;
  if (compress) {
    payload.resize(ZSTD_compressBound(payload_raw.size()));
    payload.resize(ZSTD_compress(payload.data(), payload.size(), payload_raw.data(), payload_raw.size(), 1));
  }
  WitnessHeader header{};
  std::memcpy(header.magic, witness_magic, sizeof header.magic);
  header.version = witness_version;
  header.header_bytes = sizeof header;
  header.payload_bytes = payload.size();
  header.raw_bytes = compress ? payload_raw.size() : 1 << 16;
  header.checksum = XXH3_64bits_withSeed(payload.data(), payload.size(), header.raw_bytes);
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  return file + payload;
}

std::string entry(const std::string& name, const std::string& bytes) {
  const std::uint32_t length = std::uint32_t(name.size());
  const std::uint64_t size = bytes.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  return out + name + bytes;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string input(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0: break;
    case 1: input = packed(input, false); break;
    case 2: input = packed(input, true); break;
    case 3: input = packed(entry("manifest.json", input), true); break;
  }
  const std::string& directory = deadheat::fuzz::directory();
  const std::string file = directory + "/a.witness", unpacked = directory + "/unpacked";
  std::filesystem::create_directory(unpacked);
  deadheat::fuzz::write_file(file, {reinterpret_cast<const std::uint8_t*>(input.data()), input.size()});
  const auto witness = read_witness(file, unpacked);
  if (!witness && witness.error().what.empty()) std::abort();
  std::filesystem::remove_all(unpacked);
  for (const auto& left : std::filesystem::directory_iterator(directory)) { // nothing leaves the directory
    if (left.path() != file) std::abort();
  }
  return 0;
}
