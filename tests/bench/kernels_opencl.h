// Runs the kernels of kernels.cl on the CPU through OpenCL (POCL), one thread, for comparison.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

class OpenClDevice {
 public:
  virtual ~OpenClDevice() = default;
  // Null, with a line on stderr, when there is no CPU device or the program does not compile.
  static std::unique_ptr<OpenClDevice> create(const std::string& source_file);
  virtual std::uint64_t upload(const void* bytes, std::size_t size) = 0; // a buffer
  virtual void download(std::uint64_t buffer, void* bytes, std::size_t size) = 0;
  // Arguments in order; then launch, which waits.
  virtual void buffer_argument(const char* kernel, unsigned index, std::uint64_t buffer) = 0;
  virtual void value_argument(const char* kernel, unsigned index, const void* bytes, std::size_t size) = 0;
  virtual void launch(const char* kernel, const std::size_t (&blocks)[2], const std::size_t (&threads)[2]) = 0;
};
