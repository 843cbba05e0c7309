// Files as the recorder needs them: whole reads and writes with errors as values.
//
// Writing past a file size limit (RLIMIT_FSIZE) is an error like a full disk; the signal that the kernel sends for it
// never reaches the program.
//
// Thread-safety: a File may be read from several threads at once; everything else belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "deadheat/expected.h"

namespace deadheat::trace {

class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File() { close(); }

  static Expected<File> open(const std::string& path);   // for reading
  static Expected<File> create(const std::string& path); // for writing; the path must not exist

  bool is_open() const { return descriptor_ >= 0; }
  // errno of the first failure; 0 when all bytes were written.
  int write(const void* data, std::size_t bytes);
  int truncate(std::uint64_t bytes); // and go on writing there
  // Bytes read at `offset`: fewer than asked for only at the end of the file or on an error.
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t bytes) const;
  std::uint64_t size() const;
  void close();

 private:
  int descriptor_ = -1;
};

// Makes a directory and its parents; no error when it is there.
Expected<void> make_directory(const std::string& path);

// The first of run.deadheat, run-2.deadheat, … that the working directory does not have; absolute, where that directory
// has a name.
std::string unused_trace_name();

// "what: No space left on device", with advice where there is some.
Error system_error(int number, std::string what, std::string where);

} // namespace deadheat::trace
