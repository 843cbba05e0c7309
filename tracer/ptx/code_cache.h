// Machine code made of PTX, kept on disk by content: what a key finds was made of the same PTX, in the same way, by the
// same code generator or ptxas. Of kernels for the embedded device, and of instrumented modules for GPUs.
//
// A directory with a file an entry, named by the key's hash:
//   8 bytes "DHKERNEL", u64 format, 16 bytes the key's hash (XXH3-128), u64 payload size, u64 XXH3-64 of the payload,
//   payload.
// Entries are written beside and renamed into place: readers see whole ones. A file that does not fit is as good as
// none. The directory is the user's own (mode 0700), for what lies there is run. When it outgrows its limit, entries
// that were used longest ago go first. What cannot be read or written is no error: code is made anew.
//
// Thread-safety: all functions; several processes may share a directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deadheat::ptx {

// DEADHEAT_CACHE, or deadheat in the user's cache directory (XDG_CACHE_HOME, ~/.cache); empty: none ("0" turns it off).
std::string code_cache_directory();

class CodeCache {
 public:
  // An empty directory name: keeps nothing.
  explicit CodeCache(std::string directory, std::uint64_t limit_bytes = std::uint64_t(1) << 30);
  bool enabled() const { return !directory_.empty(); }
  // An empty key: nothing is kept under it.
  std::optional<std::vector<char>> find(std::string_view key) const;
  void keep(std::string_view key, std::string_view payload) const;

 private:
  void trim() const;
  std::string directory_;
  std::uint64_t limit_;
};

} // namespace deadheat::ptx
