// The state behind the embedded CUDA runtime.
//
// One Runtime a process, made on the first CUDA call and never destroyed: the program may call CUDA from its own
// constructors, destructors and atexit handlers. The device inside it is made later, by the first call that needs one,
// so that a process that merely registers its kernels leaves no trace.
//
// Thread-safety: everything in it needs Runtime::lock but what is atomic. ThreadState belongs to its thread.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "deadheat/options.h"
#include "replay/device/device.h"
#include "replay/embedded/call_lock.h"
#include "replay/embedded/function_threads.h"
#include "replay/embedded/modules.h"
#include "replay/embedded/recording.h"

namespace deadheat::embedded {

class GraphNode;
class Graph;
class GraphExec;
struct Capture;
struct Context;

struct Stream {
  std::uint32_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  trace::StreamCreate::Kind kind = trace::StreamCreate::Kind::blocking;
  std::uint32_t launching = 0;        // thread that launches a graph which decides what runs: others' calls wait
  Capture* capture = nullptr;         // the capture that the stream takes part in
  std::vector<GraphNode*> tail;       // in it: what the next captured operation waits for
  GraphNode* edge_from = nullptr;     // of these one that the program gave an edge from
  cudaGraphEdgeData edge{};
};

struct Event {
  std::uint32_t id = 0;
  unsigned flags = 0;
  bool recorded = false;
  std::uint64_t position = 0;         // Runtime::submitted when it was recorded
  Capture* capture = nullptr;         // recorded in this capture …
  std::uint64_t capture_id = 0;       // … if that still has this number
  std::vector<GraphNode*> nodes;      // … behind these nodes
};

enum class DefaultStream : std::uint8_t { legacy, per_thread };

struct LaunchConfiguration {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};

// What a call leaves as it was: whether the thread may be cancelled (within calls it may not), and errno.
struct Undisturbed {
  int cancel_state = 0;
  int error_number = 0;
};

// What belongs to one host thread. Never freed: a few dozen bytes a thread.
struct ThreadState {
  std::uint32_t number = 0;           // from 1, by first CUDA call
  cudaError_t last_error = cudaSuccess;
  bool in_callback = false;
  unsigned open_calls = 0; // more than one: in a signal's handler, while the call had lent the lock
  Undisturbed before_call; // the first of them
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  cudaStream_t per_thread_stream = nullptr;
  std::vector<LaunchConfiguration> configurations;
  std::vector<Context*> contexts; // of the driver: the current one last …
  bool uses_runtime = false;      // … which makes the primary one current where there is none
  std::string unasked; // about a launch that failed, until the thread asks for the last error
};
ThreadState& thread_state();

struct Runtime {
  CallLock lock;
  TracerOptions options;
  Modules modules;
  std::unique_ptr<Recording> recording; // made with the device
  std::unique_ptr<device::Device> device;
  cudaError_t no_device = cudaSuccess;  // why there is none, once that was tried
  cudaError_t sticky = cudaSuccess;     // after a fault
  std::uint64_t submitted = 0;          // operations so far: the clock of cudaEventElapsedTime
  std::atomic<std::uint64_t> calls{0};  // for the watchdog
  std::uint32_t host_threads = 0;
  std::atomic<bool> begun{false}; // the device and the recording were asked for: children of a fork have neither
  std::atomic<bool> ended{false};
  std::atomic<unsigned> waits_at_end{0};
  std::vector<std::string> unasked;     // of all threads
  std::set<std::string> refused_calls;  // entry points that returned cudaErrorNotSupported
  std::unordered_map<std::uint32_t, std::string> allocation_sites; // "allocated by cudaMalloc at file:line"
  bool code_is_watched = false;
  bool host_can_watch = false;          // pinned or managed memory exists, or a host function was submitted
  std::atomic<unsigned> host_functions{0}; // submitted, and not begun
  FunctionThreads function_threads;        // on which they run

  std::unordered_map<cudaStream_t, std::unique_ptr<Stream>> streams; // a handle is its value's address
  std::unordered_map<cudaEvent_t, std::unique_ptr<Event>> events;
  std::map<std::uint64_t, unsigned> host_flags; // of pinned memory, by address
  struct Registered {
    std::uint64_t bytes, place; // the address of the pinned allocation that stands for it
  };
  std::map<std::uint64_t, Registered> registered; // host memory, by address
  Stream legacy;

  std::unordered_map<cudaGraph_t, std::unique_ptr<Graph>> graphs;
  std::unordered_map<cudaGraphExec_t, std::unique_ptr<GraphExec>> executables;
  std::vector<std::unique_ptr<Capture>> captures; // open ones
  std::uint64_t next_capture = 1;
  std::uint32_t next_graph = 1;
  std::uint64_t next_condition = 0, conditions_end = 0; // device memory for handles of conditions
  std::deque<std::uint32_t> decisions;                  // what conditional nodes read: an element each, for good

  bool driver_ready = false;                // cuInit was called
  std::string static_runtime;               // the file of one that asked for the driver's tables, and was not told of
  bool runtime_used = false;                // by the program: it holds the primary context
  std::deque<std::unique_ptr<Context>> contexts; // of the driver, the primary one first; they are kept

  std::size_t limits[8] = {1024, 8 << 20, 8 << 20, 0, 2048, 64, 0, 0}; // by cudaLimit
  unsigned device_flags = 0;
  cudaFuncCache cache_config = cudaFuncCachePreferNone;

  Runtime();
  ~Runtime();
  cudaError_t need_device(); // makes it on first use
  void watch_running_code();  // from the first launch on
  void watch_host_memory();  // from now on the host can follow the device without calling CUDA
  cudaStream_t add_stream(trace::StreamCreate::Kind kind, unsigned flags, int priority, std::uint32_t thread);
  void fault_seen();         // after anything that drives the device: reports a fault once and makes it stick
  void launch_failed(const std::string& kernel, cudaError_t status, ThreadState& thread);
  void note_unfinished();
  void note_kernel_leaks();
  // For what runs at the end of a process, which does not outlast a long kernel that another thread waits for, and may
  // run in a signal's handler within a call. False: the lock is this thread's already, or not to be had in 5 s.
  bool lock_at_end();
  void end(); // completes what is queued, closes the trace
};
Runtime& runtime();
bool in_forked_child();

// "deadheat: <line>" on standard error.
void say(const std::string& line);
// The same, once a process for each text.
void say_once(const std::string& line);

} // namespace deadheat::embedded
