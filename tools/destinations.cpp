// Whether what a command is to write can be written: asked before a long run, whose result would be lost else.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "tools/command.h"

namespace deadheat::tools {

namespace fs = std::filesystem;

namespace {

Error cannot_write(const std::string& path, int number) {
  return Error{std::string("cannot write: ") + std::strerror(number), path};
}

// That a file or a directory can be made there. Tried with a directory of its own, which is gone again: the rights do
// not tell it all (/proc, for who is root).
int can_make_in(const fs::path& directory) { // 0, or errno
  std::string name = (directory / ".deadheat-XXXXXX").string();
  if (!mkdtemp(name.data())) return errno;
  rmdir(name.c_str());
  return 0;
}

} // namespace

Expected<void> check_file(const std::string& path, const std::string& coming) {
  std::error_code error;
  if (path.empty() || path == "-") return {};
  if (fs::exists(path, error)) {
    if (fs::is_directory(path, error)) return cannot_write(path, EISDIR);
    if (access(path.c_str(), W_OK) != 0) return cannot_write(path, errno);
    return {};
  }
  const fs::path folder = fs::path(path).parent_path();
  const auto whole = [&error](const fs::path& at) { return (fs::absolute(at, error) / "").lexically_normal(); };
  if (!coming.empty() && whole(folder.empty() ? "." : folder) == whole(coming)) return {};
  if (const int number = can_make_in(folder.empty() ? "." : folder)) return cannot_write(path, number);
  return {};
}

Expected<void> check_directory(const std::string& path) {
  std::error_code error;
  if (path.empty()) return {};
  fs::path there = fs::absolute(path, error); // the part of the path that exists
  while (there.has_relative_path() && !fs::exists(there, error)) there = there.parent_path();
  if (const int number = can_make_in(there)) return cannot_write(path, number);
  return {};
}

} // namespace deadheat::tools
