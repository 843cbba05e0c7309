// The device while nothing runs on it: waiting until it is at rest, copies of its memory, and what has changed since.
//
// Thread-safety: one thread at a time; it has the device for itself.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "deadheat/trace.h"

namespace deadheat::cupti {

class Session;

struct Memory {  // of the program
  std::uint64_t address = 0, bytes = 0;
  bool on_host = false;   // page-locked
  bool never_read = false;  // reading it may have effects
  bool managed = false;
  bool variable = false;  // of a module
};

// Bytes that memory had, kept on the device or on the host.
struct Kept {
  Memory of;
  CUdeviceptr device = 0;  // one of them
  std::vector<std::uint8_t> host;
};

class QuietDevice {
 public:
  explicit QuietDevice(Session& session) : session_(session) {}

  // The device's context that own work runs in: the first that is given.
  bool use(CUcontext context);
  // Waits until all streams that are known have nothing to do. False: they did not come to rest.
  bool rest();
  bool rest(CUstream stream);

  // A copy of memory; false: it cannot be read, or there is no room.
  bool keep(const Memory& memory, Kept& kept);
  void drop(Kept& kept);
  bool read(const Kept& kept, std::uint64_t offset, std::uint64_t bytes, std::uint8_t* to);

  // Room on the device that is not needed just now, but for memory that is kept; and what of it the caller is to free.
  bool is_of(CUcontext context) const; // the context is of the device that copies lie on
  std::uint64_t spare() const;
  std::vector<CUdeviceptr> give_back();
  // Moves what is kept to the host; what the caller is to free. 0: it is there, or could not be copied.
  CUdeviceptr move_to_host(Kept& kept);

  // Memory that may change now; changes() says what did, and forgets it.
  bool remember(const std::vector<Memory>& memory);
  using Changed = std::function<bool(std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes)>;
  bool changes(const Changed& changed); // false: it cannot be told, or `changed` said so

 private:
  class Current;
  bool prepare();
  bool room(std::uint64_t bytes);
  bool same_device(std::uint64_t address) const;
  bool compare(std::uint64_t live, std::uint64_t before, std::uint64_t bytes, const Changed& changed);
  bool compare_pages(std::uint64_t live, std::uint64_t before, std::uint64_t pages, const Changed& changed);

  Session& session_;
  CUcontext context_ = nullptr;
  CUdevice ordinal_ = 0;
  CUstream stream_ = nullptr;
  CUfunction changed_pages_ = nullptr;
  bool tried_ = false;
  CUdeviceptr scratch_ = 0; // what memory was before
  std::uint64_t scratch_bytes_ = 0;
  CUdeviceptr found_ = 0; // a count, and numbers of pages
  std::uint64_t found_bytes_ = 0;
  std::uint8_t* staging_ = nullptr; // page-locked: half for before, half for now
  struct Before {
    Memory memory;
    std::uint64_t at = 0; // in the scratch memory
    std::vector<std::uint8_t> host;
  };
  std::vector<Before> before_;
};

} // namespace deadheat::cupti
