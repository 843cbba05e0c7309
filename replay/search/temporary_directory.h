// A directory that goes away with its owner, or with the process when a signal ends it.
//
// Thread-safety: a directory is one thread's; several may be made at once.
#pragma once

#include <string>
#include <utility>

#include "deadheat/expected.h"

namespace deadheat::search {

class TemporaryDirectory {
 public:
  // Where TMPDIR says, or in /tmp; `what` becomes part of its name.
  static Expected<TemporaryDirectory> create(const std::string& what = "deadheat");
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// From now on SIGINT, SIGTERM and SIGHUP remove the directories that there are before they end the process (sixteen of
// them at most), unless they are ignored. For programs: a library does not decide on signals.
void remove_directories_on_signals();

} // namespace deadheat::search
