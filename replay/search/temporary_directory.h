// A directory that goes away with its owner.
//
// Thread-safety: none.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "deadheat/expected.h"

namespace deadheat::search {

class TemporaryDirectory {
 public:
  static Expected<TemporaryDirectory> create() {
    std::string pattern = (std::filesystem::temp_directory_path() / "deadheat-XXXXXX").string();
    if (!mkdtemp(pattern.data())) return Error{"cannot make a temporary directory", pattern};
    return TemporaryDirectory(pattern);
  }
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

} // namespace deadheat::search
