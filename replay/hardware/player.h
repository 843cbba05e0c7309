// Plays the commands of a witness to the driver, with the order of its two accesses as asked for.
//
// create() loads modules and finds memory once; every run() starts from the same memory: fresh allocations hold the
// embedded device's pattern, module variables their first values. Turnstiles and gates give up after a bounded wait,
// so a run ends unless the program itself hangs: whoever calls must watch from another process.
//
// Graph launches are played node by node, each in a stream of its own, with events for edges. Copies go through
// page-locked memory and never block the host.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "replay/device/host_memory.h"
#include "replay/hardware/address_map.h"
#include "replay/hardware/capsule.h"
#include "replay/hardware/driver.h"
#include "replay/hardware/plan.h"
#include "replay/search/outputs.h"

namespace deadheat::hardware {

struct PlayRequest {
  Order order = Order::unknown; // unknown: nothing waits
  std::uint32_t delay = 0;      // ns: warps sleep in front of the sites, at most so long; 0: they do not
  std::uint32_t seed = 0;       // of the delays
};

struct Played {
  search::Outputs outputs;
  Order had = Order::unknown;   // the order in which the accesses came, where it is known
  bool first_reached = false, second_reached = false;
  bool gave_up = false;         // a wait reached its bound
  bool broken = false;          // a fault: the context is of no more use
};

class Player {
 public:
  static Expected<std::unique_ptr<Player>> create(const Driver& driver, const Capsule& capsule, const Plan& plan);
  Expected<Played> run(const PlayRequest& request);
  const std::string& device() const { return device_name_; }
  const std::vector<std::string>& notes() const { return notes_; } // what limits the replay: one line each

 private:
  Player(const Driver& driver, const Capsule& capsule, const Plan& plan)
      : driver_(driver), capsule_(capsule), plan_(plan) {}

  struct Variable { // of a module, with its first value
    std::uint64_t at = 0;
    std::vector<std::uint8_t> first;
  };
  struct Module {
    CUmodule handle = nullptr;
    std::map<std::string, Variable> variables;
  };
  struct Delivery { // a copy to the host
    std::uint32_t operation = 0;
    std::uint64_t source = 0;  // recorded address
    std::uint8_t* bytes = nullptr;
    std::uint64_t size = 0;
  };

  // player.cpp: preparation
  Expected<void> prepare();
  Expected<void> load_module(const trace::Module& record);
  Expected<void> place_memory();
  Expected<void> make_room();
  Expected<CUfunction> own_kernel(const char* text, const char* name);
  Expected<void> make_gate();
  Expected<void> make_wipe();
  void find_freed();
  Expected<void> look_at_residency();
  std::vector<std::uint32_t> named_launches() const;
  Expected<std::uint8_t*> stage(std::uint64_t bytes);
  Expected<CUfunction> function(const trace::Operation& operation, const trace::Launch& launch);
  Expected<void> reset(const PlayRequest& request);
  Expected<void> read_control(const PlayRequest& request, Played& played);

  // player_commands.cpp: one command each
  Expected<void> apply(const trace::Record& record);
  Expected<void> allocate(const trace::Allocate& record);
  Expected<void> fill(std::uint64_t recorded, std::uint64_t bytes, CUstream stream);
  Expected<void> submit(const trace::Operation& operation);
  Expected<void> launch(const trace::Operation& operation, const trace::Launch& launch, CUstream stream);
  Expected<void> wipe_before(const trace::Operation& operation, const trace::Launch& launch, CUstream stream);
  Expected<void> copy(const trace::Operation& operation, const trace::Copy& copy, CUstream stream);
  Expected<void> set(const trace::Set& set, CUstream stream);
  Expected<void> effects(const trace::Effects& effects, CUstream stream); // of a launch that is not executed
  Expected<void> pool(const trace::PoolOperation& pool, std::uint32_t operation, CUstream stream);
  Expected<void> take_freed(const trace::Allocate& record, CUstream stream);
  Expected<void> give_freed(CUstream stream);
  Expected<void> wait(const trace::HostWait& wait);
  Expected<void> host_write(const trace::HostWrite& record);
  Expected<void> gate_before(std::uint32_t operation, CUstream stream);
  Expected<void> gate_behind(std::uint32_t operation, CUstream stream);
  Expected<CUstream> stream(std::uint32_t id);
  Expected<CUstream> node_stream(std::size_t number);
  Expected<void> mark(std::uint32_t operation, CUstream stream);
  void look_at_host_memory();
  Expected<void> check(CUresult result, const std::string& what);

  const Driver& driver_;
  const Capsule& capsule_;
  Plan plan_;
  CUdevice device_ = 0;
  std::string device_name_;
  std::vector<std::string> notes_;
  AddressMap map_;
  const std::uint8_t* pattern_ = nullptr; // of fresh memory, page-locked: a segment of it
  CUstream own_ = nullptr;                // for what the program did not submit
  std::map<std::uint32_t, Module> modules_;
  std::uint64_t control_ = 0;    // TurnstileControl, and behind it the gate's two words
  CUfunction gate_ = nullptr, wipe_ = nullptr;
  int processors_ = 0, shared_memory_ = 0; // of the device; bytes a block may have
  // A free that is one of the two accesses: its allocation is the driver's to free, and to take away.
  std::uint32_t freed_ = 0; // allocation; 0: there is none
  CUmemoryPool pool_ = nullptr;
  std::map<std::uint32_t, trace::StreamCreate> stream_records_;
  std::map<std::uint32_t, CUstream> streams_;
  std::vector<CUstream> node_streams_;
  struct Staging {
    std::uint8_t* at = nullptr;
    std::uint64_t bytes = 0, used = 0;
  };
  std::vector<Staging> staging_;

  // ---- of the run
  Order order_ = Order::unknown;
  std::map<std::uint32_t, CUevent> ended_;   // operation → recorded behind it
  std::map<std::uint32_t, CUevent> started_; // graph launch → recorded where its nodes may begin
  std::map<std::uint32_t, std::uint32_t> graph_stream_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> graph_nodes_;
  std::map<std::uint32_t, CUstream> stream_of_; // operation
  std::map<std::uint32_t, trace::Allocate> allocations_;
  std::set<std::uint32_t> submitted_;
  std::map<std::uint32_t, trace::Effects> effects_; // by operation
  std::vector<Delivery> deliveries_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> delivered_into_; // host memory written by copies: here, bytes
  std::vector<search::Output> outputs_;
  std::optional<device::HostMemory> host_memory_;
  CUdeviceptr freed_at_ = 0; // 0: not there now
  CUresult sticky_ = CUDA_SUCCESS;
};

} // namespace deadheat::hardware
