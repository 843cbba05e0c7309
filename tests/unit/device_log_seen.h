// What a log of instrumented kernels came to: records as they were given, and the addresses of accesses.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "tracer/device_log/launch_log.h"

namespace deadheat::device_log {

struct Seen final : Output {
  std::vector<trace::Record> records;
  std::vector<std::uint64_t> accessed; // of each lane
  void access(const trace::AccessView& view) override {
    for (unsigned lane = 0; lane < 32; ++lane)
      if (view.mask >> lane & 1) accessed.push_back(view.address[lane]);
  }
  void record(const trace::Record& record) override { records.push_back(record); }
  template <typename T> std::vector<T> all() const {
    std::vector<T> found;
    for (const trace::Record& r : records)
      if (auto* one = std::get_if<T>(&r)) found.push_back(*one);
    return found;
  }
};

} // namespace deadheat::device_log
