// How often the bodies of a graph's conditional nodes run in one launch, and what their kernels do then.
//
// Only the device decides that (CUDA Runtime API, cudaConditionalNodeParams), and clones tell: of each recorded kernel
// in a body the threads that end are counted, and where all of a launch's have ended the next one begins. That no
// further turn comes the event behind the graph's launch tells, once what had been reserved by then has been read.
// Turns of different kernels are put in order by where the first blocks begin to write: into one ring, in which kernels
// that come one after the other do so.
//
// A graph's launches come one after the other, but nothing in the rings tells one's last turn from the next one's
// first. So a launch waits, for a time, until its graph's last one is over; where it is not, neither is recorded
// (`spoiled`): a condition counts as one opaque kernel then.
//
// Thread-safety: the recorder adds turns, under its lock, until `over`; nobody changes them afterwards.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tracer/cupti/recorded_launch.h"

namespace deadheat::cupti {

// The launches of one kernel node of a body, in one launch of the graph.
struct KernelTurns {
  device_log::Shape shape; // of each, but for its number
  std::vector<std::shared_ptr<RecordedLaunch>> turns;
  std::vector<std::uint64_t>
      began; // where in the ring of block 0, in the order of `turns`; 0: its block 0 was not seen
  std::size_t first_open = 0; // of turns: those before have ended
  std::shared_ptr<Unfinished::Launch> unfinished; // of the graph's launch
  bool all_ended() const { return first_open == turns.size(); }
};

// Those of all bodies, in one launch of the graph.
struct BodyTurns {
  std::vector<std::pair<std::uint32_t, std::shared_ptr<KernelTurns>>> kernels; // by their control numbers
  CUcontext context = nullptr; // of the rings that they write into
  CUevent end = nullptr; // recorded behind the launch; null: it was not, or is over
  bool endless = false; // none could be: it is never known to be over
  std::vector<std::uint64_t> reserved; // by ring, when it had ended: all of its own is before that
  std::shared_ptr<Unfinished::Launch> unfinished;
  std::atomic<bool> spoiled{false}; // what came may be of several launches, or is not all
  std::atomic<bool> over{false}; // nothing more comes
};

} // namespace deadheat::cupti
