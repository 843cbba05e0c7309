#include "tracer/recorder/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "deadheat/own_files.h"

namespace deadheat::trace {

Error system_error(int number, std::string what, std::string where) {
  Error error{std::move(what) + ": " + std::strerror(number), std::move(where), {}};
  if (number == ENOSPC || number == EDQUOT) error.hint = "free some space, or record less with --launch-count";
  if (number == EFBIG) error.hint = "raise the file size limit: ulimit -f";
  return error;
}

Expected<File> File::open(const std::string& path) {
  // Without O_NONBLOCK a pipe that nobody writes to holds up whoever opens it.
  const int descriptor = above_standard(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor < 0) return system_error(errno, "cannot open it", path);
  File file(descriptor);
  struct stat status{};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return Error{"is not a regular file", path, {}};
  return file;
}

Expected<File> File::create(const std::string& path) {
  const int descriptor = above_standard(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor < 0) return system_error(errno, "cannot create it", path);
  return File(descriptor);
}

int File::write(const void* data, std::size_t bytes) {
  const NoFileSizeSignal guard;
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(descriptor_, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int number = n < 0 ? errno : ENOSPC;
      if (number == EFBIG) guard.take();
      return number;
    }
    p += n;
    bytes -= std::size_t(n);
  }
  return 0;
}

int File::truncate(std::uint64_t bytes) {
  if (::ftruncate(descriptor_, off_t(bytes)) != 0) return errno;
  return ::lseek(descriptor_, off_t(bytes), SEEK_SET) < 0 ? errno : 0;
}

std::size_t File::read_at(std::uint64_t offset, void* data, std::size_t bytes) const {
  char* p = static_cast<char*>(data);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(descriptor_, p + done, bytes - done, off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += std::size_t(n);
  }
  return done;
}

std::uint64_t File::size() const {
  struct stat status{};
  return ::fstat(descriptor_, &status) == 0 && status.st_size > 0 ? std::uint64_t(status.st_size) : 0;
}

void File::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Expected<void> make_directory(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    struct stat status{};
    if (::mkdir(part.c_str(), 0777) != 0) {
      const int number = errno;
      if (::stat(part.c_str(), &status) != 0) return system_error(number, "cannot make the directory", part);
      if (!S_ISDIR(status.st_mode)) return Error{"is not a directory", part, "choose another trace with -o"};
    }
    if (end == std::string::npos) return {};
  }
}

std::string unused_trace_name() {
  std::string folder;
  if (char* working = ::getcwd(nullptr, 0)) {
    folder = std::string(working) + "/";
    ::free(working);
  }
  for (int number = 1;; ++number) {
    const std::string name = number == 1 ? "run.deadheat" : "run-" + std::to_string(number) + ".deadheat";
    if (::access(name.c_str(), F_OK) != 0) return folder + name;
  }
}

} // namespace deadheat::trace
