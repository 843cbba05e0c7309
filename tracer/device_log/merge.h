// One order of what the warps of a launch did, in which reads see what they read (launch_log.h).
//
// Thread-safety: none.
#pragma once

#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "tracer/device_log/launch_log.h"

namespace deadheat::device_log {

class Merge {
 public:
  explicit Merge(LaunchLog& log) : log_(log), places_(log.shape_.places ? *log.shape_.places : log.own_places_) {}
  void run();

 private:
  struct Location {
    std::uint64_t block = 0, address = 0;  // block: of shared memory, + 1; 0: global
    friend bool operator==(const Location&, const Location&) = default;
  };
  struct LocationHash {
    std::size_t operator()(const Location& l) const {
      return std::size_t((l.address * 0x9e3779b97f4a7c15u) ^ (l.block * 0xc2b2ae3d27d4eb4fu));
    }
  };
  struct Value {
    std::uint64_t bits = 0;
    bool known = false;
  };
  struct Lane {
    Location location;
    bool reads = false, writes = false, wrote = false, valued = false;
    std::uint64_t read = 0;
    std::optional<std::uint64_t> written;
  };
  struct Head {  // the strong access that a warp's queue begins with
    const ptx::Slot* slot = nullptr;
    LaunchLog::Warp* warp = nullptr;
    std::uint64_t before = 0, after = 0;  // tickets
    std::uint32_t left = 0;               // lanes that are not in the order yet
    std::uint64_t turn = 0;               // which head of its warp it is
    Lane lanes[32];
  };

  void advance(std::size_t warp);  // writes what can be written; ends at a strong access, a gate or the end
  void open(std::size_t warp);     // makes the head of the strong access at the front
  void settle(std::size_t warp, int depth);
  std::uint32_t apply(Head& head, std::uint32_t wanted);  // lanes of `wanted` whose reads the order explains
  void readers_first(std::size_t warp, const Head& head, int depth);
  void emit(Head& head, std::uint32_t lanes, const std::uint64_t (&first)[32], const std::uint64_t (&last)[32]);
  void done(std::size_t warp);
  template <typename Each>
  void others(std::size_t warp, const Location& location, Each&& each);

  LaunchLog& log_;
  std::uint64_t& places_;  // last given out
  std::vector<LaunchLog::Warp*> warps_;
  std::vector<std::unique_ptr<Head>> heads_;
  std::vector<std::uint64_t> turns_;
  struct Entry {
    std::uint64_t after, turn;
    std::size_t warp;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.after != b.after ? a.after > b.after : a.warp > b.warp;
    }
  };
  std::priority_queue<Entry> queue_;
  std::unordered_map<Location, std::vector<std::size_t>, LocationHash> at_;  // heads by location
  std::unordered_map<Location, Value, LocationHash> values_;
  std::unordered_map<const LaunchLog::Gate*, std::vector<std::size_t>> waiting_;
};

}  // namespace deadheat::device_log
