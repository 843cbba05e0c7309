// What a recorded process is told: the environment variable DEADHEAT_OPTIONS, "key=value:key=value:…". One table
// gives the parser, the defaults and the help. Values cannot hold a colon.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "deadheat/expected.h"

// X(type, member, key, default, description)
#define DEADHEAT_OPTION_LIST(X)                                                                                       \
  X(std::string, output, "output", "", "trace directory; nothing is recorded when empty (GPU: when named and empty)") \
  X(std::uint64_t, seed, "seed", 1, "seed of the embedded device's choices and of the contents of fresh memory")      \
  X(std::string, kernel, "kernel", "", "record the accesses of kernels whose name matches this regular expression")   \
  X(std::uint64_t, launch_skip, "launch-skip", 0, "of those launches, skip the first N")                              \
  X(std::uint64_t, launch_count, "launch-count", 0, "and record N (0: all)")                                          \
  X(std::string, ptx, "ptx", "", "directory that PTX is put in when first loaded, and loaded from afterwards")        \
  X(bool, accesses, "accesses", true, "record accesses; 0: operations only")                                          \
  X(bool, check, "check", true,                                                                                       \
    "check the addresses of accesses; 0: run as fast as can be, where nothing is recorded")                           \
  X(std::uint64_t, cores, "cores", 0, "embedded: cores to use (0: all); results do not depend on it")                 \
  X(std::uint64_t, spread_after, "spread-after", 200,                                                                 \
    "embedded: microseconds that a launch runs, where nobody watches, before its blocks are spread over cores")       \
  X(std::string, capability, "capability", "9.0", "embedded: compute capability that the device says it has")         \
  X(bool, unwritten, "unwritten", true, "report uses of memory that nobody wrote, where accesses are recorded")       \
  X(bool, leak_check, "leak-check", false, "report memory that is never freed")                                       \
  X(std::string, device, "device", "embedded", "embedded or gpu")                                                     \
  X(std::string, cupti, "cupti", "", "GPU: libcupti.so, where it is not found by itself")                             \
  X(std::uint64_t, buffer, "buffer", 1024, "GPU: MiB of device memory for accesses that are on their way")            \
  X(std::uint64_t, budget, "budget", 8192,                                                                            \
    "GPU: MiB of accesses, as kernels write them, after which recording of accesses ends")                            \
  X(std::uint64_t, assemble, "assemble", 60,                                                                          \
    "GPU: seconds that assembling a module's instrumented code may take; costlier kernels are not recorded (0: any)") \
  X(std::string, capture_range, "capture-range", "none",                                                              \
    "GPU: accesses of launches in a range only: none, cudaProfilerApi (from cudaProfilerStart to Stop), nvtx=NAME")   \
  X(bool, window, "window", false,                                                                                    \
    "GPU: keep what it takes to replay the capture range, or the whole run: memory, copies, what opaque kernels did") \
  X(std::uint64_t, window_budget, "window-budget", 16384, "GPU: MiB of memory that are kept for that, at most")       \
  X(bool, host_writes, "host-writes", true,                                                                           \
    "GPU: look for what the host writes into page-locked memory that a copy has still to read")                       \
  X(bool, timestamps, "timestamps", false, "GPU: when each operation ran on the device (CUPTI activities)")           \
  X(std::uint64_t, patience, "patience", 2000,                                                                        \
    "milliseconds without a CUDA call after which queued work that the host can watch goes on by itself (0: never)")

namespace deadheat {

struct TracerOptions {
#define X(type, member, key, value, description) type member = value;
  DEADHEAT_OPTION_LIST(X)
#undef X
};

namespace options_detail {

inline bool read(std::string_view text, std::string& value) {
  value = text;
  return true;
}
inline bool read(std::string_view text, std::uint64_t& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}
inline bool read(std::string_view text, bool& value) {
  value = text == "1";
  return text == "0" || text == "1";
}

} // namespace options_detail

// Later settings of a key win; empty parts are skipped.
inline Expected<TracerOptions> parse_options(std::string_view text) {
  TracerOptions options;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(':'));
    text.remove_prefix(part.size() + (part.size() < text.size()));
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return Error{"expected key=value, not '" + std::string(part) + "'", "DEADHEAT_OPTIONS"};
    }
    const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
    bool known = false, good = true;
#define X(type, member, key, initial, description)      \
  if (name == key) {                                    \
    known = true;                                       \
    good = options_detail::read(value, options.member); \
  }
    DEADHEAT_OPTION_LIST(X)
#undef X
    if (!known) {
      std::string keys;
#define X(type, member, key, initial, description) keys += std::string(keys.empty() ? "" : ", ") + key;
      DEADHEAT_OPTION_LIST(X)
#undef X
      return Error{"unknown option '" + std::string(name) + "'", "DEADHEAT_OPTIONS", "known: " + keys};
    }
    if (!good) return Error{"'" + std::string(value) + "' is not a value of " + std::string(name), "DEADHEAT_OPTIONS"};
  }
  return options;
}

} // namespace deadheat
