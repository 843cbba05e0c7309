// A window of a GPU's run, made into a run of the embedded device.
//
// What comes before the window is left out, but for what still lives: modules, streams, and the memory that the window
// touches, with the bytes that it had. Behind the window's end the host copies what the window touched: its outputs.
// Memory lies elsewhere here, since the addresses of a GPU are anything that the driver likes. Addresses in arguments
// and in memory are found by their values: words of 8 bytes at multiples of 8 that point into live memory. Tensor maps
// are found by theirs, too: where the driver's bytes lie that the trace explains (trace::TensorMap), the embedded
// device's take their place.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/trace.h"

namespace deadheat::search {

using Commands = std::vector<std::shared_ptr<const trace::Record>>;

// Where memory that is live on the GPU lies on the embedded device.
class Relocation {
 public:
  // Gives the allocation its place, the same whenever it is asked for, and writes it into the record.
  void allocated(trace::Allocate& record);
  void freed(const trace::Free& record);
  Relocation again() const;  // the same places, and nothing live: for another walk over the records
  // The address here; 0: not in live memory.
  std::uint64_t here(std::uint64_t address) const;
  bool move(trace::MemoryRange& range) const;  // false: it does not begin in live memory
  // `at`: where the bytes lie, modulo 64.
  void move_words(std::vector<std::uint8_t>& bytes, std::uint64_t at = 0) const;
  void explain(const trace::TensorMap& map); // from now on its bytes are known

 private:
  static std::uint64_t first_device();
  static std::uint64_t first_host();
  struct Memory {
    std::uint64_t bytes = 0, here = 0;
    std::uint32_t allocation = 0;
  };
  std::vector<std::uint8_t> map_here(const std::vector<std::uint8_t>& described) const;
  std::map<std::vector<std::uint8_t>, std::vector<std::uint8_t>> tensor_maps_; // by the driver's bytes
  std::map<std::uint64_t, Memory> live_;            // by address on the GPU
  std::map<std::uint32_t, std::uint64_t> places_;   // by allocation: address here
  std::map<std::uint32_t, std::uint64_t> addresses_;  // by allocation: address on the GPU
  std::uint64_t next_device_ = first_device(), next_host_ = first_host();
};

struct MovedRun {
  Commands commands;
  Relocation relocation;  // as after the last record
  std::map<std::uint32_t, trace::Allocate> moved;  // the allocations that have a place
};
using ReadBytes = std::function<Expected<std::vector<std::uint8_t>>(const trace::Bytes&)>;

// Records that Device::apply() executes, and what a capsule must hold to be replayed.
bool is_command(const trace::Record& record);
// Whether from_window looks at the record: not at accesses, nor at what orders them.
bool is_of_windows(const trace::Record& record);
// `records`: of the whole log, those that are of windows. An error says why they cannot be run again.
Expected<MovedRun> from_window(std::vector<trace::Record> records, const ReadBytes& bytes);

}  // namespace deadheat::search
