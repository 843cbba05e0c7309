// From the segments of one launch to trace records.
//
// Segments of a block arrive in the order in which it reserved them. From that follow barriers, rendezvous and exits.
// Strong accesses of different warps are put in order by their tickets: each was performed between the two it carries;
// where these overlap, a read comes after the write whose value it read. Barriers hold that order together.
//
// While a kernel without strong accesses runs, records are written as segments arrive; else when they have all arrived.
//
// Thread-safety: none; the caller serializes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/device_log/layout.h"
#include "tracer/ptx/instrument.h"
#include "tracer/recorder/access_view.h"

namespace deadheat::device_log {

class Output {
 public:
  virtual ~Output() = default;
  virtual void access(const trace::AccessView& access) = 0;
  virtual void record(const trace::Record& record) = 0;
};

struct Shape {
  std::uint32_t launch = 0, module = 0;
  std::uint32_t blocks = 1, threads = 1;  // threads: of a block
  bool strong = false;                    // the kernel has strong accesses
  const std::vector<ptx::Segment>* segments = nullptr;
  const std::vector<Site>* sites = nullptr;
};

// Lanes that end their thread in this segment.
std::uint32_t exits(const ptx::Segment& segment, const std::vector<Site>& sites, const std::uint8_t* bytes);

class LaunchLog {
 public:
  LaunchLog(const Shape& shape, Output& output);
  ~LaunchLog();

  void segment(const std::uint8_t* bytes);  // header first; of this launch
  void finish();                            // writes what is left

  std::uint64_t damaged() const { return damaged_; }  // segments that made no sense
  std::uint64_t guessed() const { return guessed_; }  // reads whose value no known write explains

 private:
  struct Strong;
  struct Item;
  struct Warp;
  struct Block;
  struct Merge;

  void decode(const ptx::Slot& slot, const SegmentHeader& header, const std::uint8_t* bytes, Block& block);
  void weak(const ptx::Slot& slot, const SegmentHeader& header, const std::uint8_t* bytes, Block& block);
  void strong(const ptx::Slot& slot, const SegmentHeader& header, const std::uint8_t* bytes, Block& block);
  void arrive(const ptx::Slot& slot, const SegmentHeader& header, const std::uint8_t* bytes, std::uint32_t lanes,
              Block& block);
  void complete_barriers(std::uint32_t index, Block& block);
  void warp_sync(const ptx::Slot& slot, const SegmentHeader& header, const std::uint8_t* bytes, std::uint32_t lanes,
                 Block& block);
  void emit(Block& block, std::uint32_t warp, trace::Record record);
  Block& block(std::uint32_t index);
  void merge();

  const Shape shape_;
  Output& output_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Block>> blocks_;
  std::uint64_t damaged_ = 0, guessed_ = 0;
};

}  // namespace deadheat::device_log
