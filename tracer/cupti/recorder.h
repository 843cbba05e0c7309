// Recording of accesses: which launches, the ring buffers of each context, and the thread that drains them.
//
// The drain copies what kernels have written while they run (on a stream of its own, from a thread of its own), hands
// each segment to the launch that it belongs to, and makes room in the rings (rings.h). Launches are decoded when the
// journal comes to them. When the budget is used up, later segments are thrown away: kernels wait for this thread only,
// and for long (device_log::patience) only where the process stands still, or where the driver lets nobody copy, as it
// does while it assembles a module. Rings in which a warp gave up are abandoned, and so are rings that hold what makes
// no sense: nothing more is recorded in their context.
//
// What was drained is numbered by rounds, of some 32 MiB. Once everything that warps had reserved when a round began
// has arrived, the accesses of older rounds can be put in order although the kernel still runs (launch_log.h): so
// the launch that is being written takes a limited amount of memory, however long it runs. What launches behind it
// write waits in memory, within the budget.
//
// Thread-safety: every member locks for itself.
#pragma once

#include <cuda.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tracer/cupti/body_turns.h"
#include "tracer/cupti/journal.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorded_launch.h"
#include "tracer/cupti/unfinished.h"
#include "tracer/device_log/launch_log.h"

namespace deadheat::cupti {

class Session;

class Recorder {
 public:
  explicit Recorder(Session& session);
  ~Recorder();

  void start();
  void stop(); // drains what there is, if the driver still answers
  // The thread that drains ends, and finishes the session before. False: there is none. Async-signal-safe.
  bool finish_there(int status);
  void wake() { wake_.notify_all(); } // it looks sooner
  // Before a call in that context that keeps the driver to itself until the kernels that run have ended, or may do so:
  // waits until the launches that write have ended, as long as there is sense in it (unfinished.h).
  void let_kernels_end(CUcontext context, std::chrono::seconds most);
  // After a call that put work in a queue, before a launch that will write. The driver keeps its lock while it waits
  // for room in a queue, of which there is enough for about a thousand launches: the reader of a kernel that waits for
  // room in the buffer of accesses would wait for it. So few are let queue up around recorded launches.
  void queued(CUcontext context);
  void before_launch(CUcontext context, CUstream stream);
  // Too much is to be written: waits until it is less, as long as its thread makes headway, and records nothing more
  // where it makes none. Nothing may be held that the thread needs: no lock, nor the device.
  void let_write();
  void caught_up(); // the host waited: what had been reserved by then is fetched, up to what is not finished

  // Whether the accesses of this launch are to be recorded. Counts it.
  bool wants(const std::string& kernel);
  bool is_paused(); // accesses of none are: outside of the range, or once the budget is used up
  bool asked_for(const std::string& kernel); // by its (mangled) name: perhaps not this launch of it
  // A range of that name begins or ends: "cudaProfilerApi", "nvtx=NAME". Only the one that was asked for counts.
  void capture_range(const std::string& name, bool begins);

  void context_gone(CUcontext context); // it was destroyed, with all that was in it
  void prepare(CUcontext context) { buffers(context); } // which the first launch would do
  // The job needs the device's memory. What is taken of it there and can be given back, in bytes; and giving it back,
  // but for what little recording goes on with: true where that was done. Waits for recorded launches, and the device.
  std::uint64_t spare_memory(CUcontext context);
  bool give_back_memory(CUcontext context);

  // A number for a launch (or a graph's node, which is launched again and again), and the parameter to hand to it.
  // False when there are no buffers.
  bool control(CUcontext context, const Kernel& kernel, device_log::Control& parameter, bool again);
  // A launch that will write under that number; after the ones before it.
  std::shared_ptr<RecordedLaunch> expect(std::uint32_t control, const device_log::Shape& shape);
  void cancel(std::uint32_t control, const std::shared_ptr<RecordedLaunch>& launch); // it was not made
  // A graph is launched of which bodies of conditional nodes have kernels with these numbers: whatever turns they make
  // are its, until it ends. Where an earlier launch with such may not be over, both are spoiled (body_turns.h). False:
  // nobody reads what they write, or not together.
  bool expect(const std::shared_ptr<BodyTurns>& turns);
  // It was launched, and an event was recorded behind it; null: none could be. Or it was not launched.
  void ends_with(const std::shared_ptr<BodyTurns>& turns, CUevent end);
  void not_launched(const std::shared_ptr<BodyTurns>& turns);
  void cut_off(const BodyTurns& turns); // what comes of it from here on is of no use
  // Waits until no launch with kernels of these numbers is under way, as long as there is sense in it; false: one is.
  bool let_end(const std::vector<std::uint32_t>& controls);
  // Another graph's node, or executable, has the number of a node, or one that had it is gone: whoever asked for it is
  // the first. Where more may have it than is known, it is kept for ever.
  void also_has(std::uint32_t control);
  void keeps(std::uint32_t control);
  void no_longer_has(std::uint32_t control);

 private:
  struct Buffers; // of a context
  Buffers* buffers(CUcontext context);
  bool matches(const std::string& kernel); // what is asked for; under lock_
  void run();
  void ended(std::uint32_t control); // under lock_
  bool drain(Buffers& buffers); // true when something came
  void catch_up(Buffers& buffers);
  void release(); // all buffers: nobody will read them
  void begin_round(Buffers& buffers);
  void end_round(Buffers& buffers);
  std::uint64_t take(Buffers& buffers, std::uint64_t position, const std::uint8_t* bytes, std::uint64_t size);
  void abandon(Buffers& buffers, const char* why);
  bool end_launches(const Buffers& buffers); // nothing more comes from them; true: something was expected
  void say_budget();
  void segment(const device_log::SegmentHeader& header, std::uint64_t bytes, const std::uint8_t* at,
               std::uint32_t round, std::uint64_t position);
  const ptx::Segment* segment_of(const device_log::SegmentHeader& header);

  Session& session_;
  std::mutex lock_; // of controls_ and filters
  std::mutex draining_; // one drain at a time
  std::mutex giving_back_; // one thread at a time
  std::atomic<std::uint32_t> given_back_{0}; // how often
  std::atomic<int> waiting_{0}; // host threads that wait for it
  std::map<CUcontext, std::unique_ptr<Buffers>> buffers_;
  std::vector<std::unique_ptr<Buffers>> gone_; // of contexts that were destroyed
  struct Controlled {
    const Code* code = nullptr;
    bool again = false; // of a graph's node
    const Buffers* buffers = nullptr;
    std::vector<std::shared_ptr<RecordedLaunch>> launches;
    std::shared_ptr<KernelTurns> turns; // of a node in a condition's body, while its graph runs
    std::uint32_t holders = 1; // of a graph's node: nodes and executables; 0: it will not be launched any more
    std::size_t launch_of(
        std::uint32_t block) const; // whose a segment is that comes now; of `launches`, which has some
  };
  std::map<std::uint32_t, Controlled> controls_;
  void over(std::uint32_t control, const Controlled& controlled); // one of its launches; under lock_
  std::vector<std::shared_ptr<BodyTurns>> turning_; // that are not over; under lock_
  // Of a body's kernel: the turn that a segment belongs to, which may be a new one.
  std::size_t turn_of(const Controlled& controlled, const device_log::SegmentHeader& header, std::uint64_t position);
  void leave(const BodyTurns& turns); // its kernels' segments are nobody's; under lock_
  void end_turns(); // of graphs that have ended; with the drain's lock
  bool has_ended(BodyTurns& turns);
  // What came of a launch, of which so many threads have ended; true: all have.
  bool keep(RecordedLaunch& launch, const device_log::SegmentHeader& header, const Code& code, std::uint64_t bytes,
            const std::uint8_t* at, std::uint32_t round);
  std::deque<std::uint32_t> ended_;
  std::uint32_t next_control_ = 1;
  std::uint64_t matched_ = 0, kept_bytes_ = 0;
  bool budget_used_up_ = false, budget_said_ = false;
  std::uint32_t in_range_ = 0; // ranges that have begun
  std::unique_ptr<std::regex> filter_; // null: nothing was looked at
  std::unordered_map<std::string, bool> matches_; // by kernels' mangled names
  std::atomic<bool> stopping_{false}, running_{false};
  Unfinished unfinished_;
  std::atomic<std::uint32_t> queued_{0}; // calls that put work in queues since these were last known to be short
  std::atomic<bool> queue_stood_still_{false};
  std::atomic<bool> finishing_{false};
  std::atomic<int> status_{0};
  std::atomic<pthread_t> thread_{}; // that drains
  std::condition_variable wake_;
  std::mutex wake_lock_;
};

} // namespace deadheat::cupti
