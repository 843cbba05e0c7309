#include "tracer/ptx/code_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "deadheat/own_files.h"

namespace deadheat::ptx {

namespace fs = std::filesystem;

namespace {

struct Header {
  char magic[8];
  std::uint64_t format;
  std::uint64_t key[2];
  std::uint64_t payload_bytes, payload_hash;
};
static_assert(sizeof(Header) == 48);
constexpr char magic[9] = "DHKERNEL";
constexpr std::uint64_t format = 1;
constexpr std::string_view suffix = ".kernel";

Header header_of(std::string_view key, std::string_view payload) {
  Header h{};
  std::memcpy(h.magic, magic, sizeof h.magic);
  h.format = format;
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  h.key[0] = hash.low64;
  h.key[1] = hash.high64;
  h.payload_bytes = payload.size();
  h.payload_hash = XXH3_64bits(payload.data(), payload.size());
  return h;
}

std::string file_name(const Header& h) {
  char name[48];
  std::snprintf(name, sizeof name, "%016llx%016llx%s", static_cast<unsigned long long>(h.key[1]),
                static_cast<unsigned long long>(h.key[0]), suffix.data());
  return name;
}

}  // namespace

std::string code_cache_directory() {
  if (const char* asked = std::getenv("DEADHEAT_CACHE")) return std::string_view(asked) == "0" ? "" : asked;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return std::string(cache) + "/deadheat";
  if (const char* home = std::getenv("HOME"); home && *home == '/') return std::string(home) + "/.cache/deadheat";
  return {};
}

CodeCache::CodeCache(std::string directory, std::uint64_t limit_bytes)
    : directory_(std::move(directory)), limit_(limit_bytes) {
  if (directory_.empty()) return;
  std::error_code error;
  fs::create_directories(fs::path(directory_).parent_path(), error);
  mkdir(directory_.c_str(), 0700);
  struct stat about{};
  // Somebody else's directory could hold somebody else's code.
  if (stat(directory_.c_str(), &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != geteuid() ||
      about.st_mode & (S_IWGRP | S_IWOTH))
    directory_.clear();
}

std::optional<std::vector<char>> CodeCache::find(std::string_view key) const {
  if (!enabled() || key.empty()) return std::nullopt;
  const Header wanted = header_of(key, {});
  const fs::path path = fs::path(directory_) / file_name(wanted);
  std::ifstream in(path, std::ios::binary);
  Header h{};
  if (!in.read(reinterpret_cast<char*>(&h), sizeof h)) return std::nullopt;
  if (std::memcmp(&h, &wanted, offsetof(Header, payload_bytes)) != 0 || h.payload_bytes > limit_) return std::nullopt;
  std::vector<char> payload(h.payload_bytes);
  if (!in.read(payload.data(), std::streamsize(payload.size())) || in.peek() != std::ifstream::traits_type::eof())
    return std::nullopt;
  if (XXH3_64bits(payload.data(), payload.size()) != h.payload_hash) return std::nullopt;
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used just now
  return payload;
}

void CodeCache::keep(std::string_view key, std::string_view payload) const {
  if (!enabled() || key.empty() || payload.size() > limit_ / 4) return;
  static std::atomic<unsigned> count{0};
  const unsigned number = count++;
  const Header h = header_of(key, payload);
  const fs::path path = fs::path(directory_) / file_name(h);
  const fs::path beside = path.string() + "." + std::to_string(getpid()) + "." + std::to_string(number);
  std::error_code error;
  {
    const NoFileSizeSignal guard;
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&h), sizeof h);
    out.write(payload.data(), std::streamsize(payload.size()));
    out.close();
    if (!out) {
      guard.take();
      fs::remove(beside, error);
      return;
    }
  }
  fs::rename(beside, path, error);
  if (error) fs::remove(beside, error);
  if (number % 64 == 0) trim();
}

// Down to half the limit, when above it. Other processes may do the same at the same time.
void CodeCache::trim() const {
  struct Entry {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    Entry entry{at->last_write_time(gone), gone ? 0 : at->file_size(gone), at->path()};
    if (gone || entry.path.filename().string().find(suffix) == std::string::npos) continue;
    total += entry.bytes;
    entries.push_back(std::move(entry));
  }
  if (total <= limit_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_ / 2) break;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

}  // namespace deadheat::ptx
