// Fat binaries as nvcc -rdc=true leaves them in a program: a wrapper of version 2 over one container a source file
// (tracer/ptx/fatbin.h has the format). Payloads are stored as they are.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace fake {

class FatBinary {
 public:
  enum class Kind : std::uint16_t { ptx = 1, machine_code = 2 };

  FatBinary() { add({}); } // machine code for all of them together: there is none
  // `options`: of ptxas, as nvcc was given them.
  void part(Kind kind, const std::string& payload, const std::string& options = "") {
    add(entry(kind, payload, options));
  }

  const void* wrapper() { // lives as long as this does; no parts may be added afterwards
    for (std::size_t i = 1; i < containers_.size(); ++i) prelinked_.push_back(containers_[i].data());
    prelinked_.push_back(nullptr);
    wrapper_ = {0x466243B1, 2, containers_[0].data(), prelinked_.data()};
    return &wrapper_;
  }

 private:
  template <typename T>
  static void put(std::string& bytes, std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  static std::string entry(Kind kind, std::string payload, const std::string& options) {
    constexpr std::uint32_t fixed_bytes = 64, architecture = 90;
    const std::uint32_t header_bytes =
        fixed_bytes + (options.empty() ? 0 : (8 + std::uint32_t(options.size()) + 7) / 8 * 8);
    std::string header(header_bytes, '\0');
    if (!options.empty()) {
      put(header, 20, fixed_bytes);
      put(header, fixed_bytes, fixed_bytes + 8);
      put(header, fixed_bytes + 4, std::uint32_t(options.size()));
      std::memcpy(header.data() + fixed_bytes + 8, options.data(), options.size());
    }
    payload.resize((payload.size() + 8) / 8 * 8, '\0');
    put(header, 0, kind);
    put(header, 2, std::uint16_t(0x101));
    put(header, 4, header_bytes);
    put(header, 8, std::uint64_t(payload.size()));
    put(header, 28, architecture);
    put(header, 40, std::uint64_t(0x11)); // 64 bits, Linux
    return header + payload;
  }
  void add(const std::string& entries) {
    std::string container(16, '\0');
    put(container, 0, std::uint32_t(0xBA55ED50));
    put(container, 4, std::uint16_t(1));
    put(container, 6, std::uint16_t(16));
    put(container, 8, std::uint64_t(entries.size()));
    containers_.push_back(container + entries);
  }

  struct Wrapper {
    std::uint32_t magic, version;
    const void* container;
    const void* const* prelinked;
  } wrapper_{};
  std::vector<std::string> containers_;
  std::vector<const void*> prelinked_;
};

} // namespace fake
