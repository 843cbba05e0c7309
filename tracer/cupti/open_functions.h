// Host functions that are not over, and what comes behind them, while the journal is written.
//
// Of other operations the log reads as if they had run when they were submitted (journal.h). Of a host function that
// will not do: what the host had waited for when it began, it may have been told. So it begins and ends in the log
// where it did, among the host's waits; and what comes behind it, by its stream, by events, by the edges of graphs or
// by the default stream's rule, is submitted where it was, and begins when the function is over.
//
// Thread-safety: none; it belongs to who writes the journal.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/cupti/awaited.h"
#include "tracer/recorder/writer.h"

namespace deadheat::cupti {

// What is told of a host function's end, before it is in the trace.
struct FunctionOver {
  std::uint32_t operation = 0;
  bool told = false; // it may have been told what the host has waited for by now
  std::vector<trace::Effects::Change> wrote;
};

class OpenFunctions {
 public:
  OpenFunctions();
  void stream_made(const trace::StreamCreate& stream);
  void opens(std::uint32_t operation) { opening_ = operation; } // a host function that is submitted next
  // Without any, and nothing that is due, there is nothing to do.
  bool any() const { return opening_ || !open_.empty() || !due_.empty(); }

  void graph_begins(const trace::GraphLaunch& launch);
  void graph_ends(const trace::GraphEnd& end);
  // Records that are written, in the log's order; while there are any.
  void submitted(const trace::Operation& operation);
  void wait(const trace::StreamWait& wait);
  // The host has waited: what that covers is over, whether or not that was heard.
  void host_begins_to_wait(const trace::HostWaitBegin& wait);
  void host_waited(const trace::HostWait& wait, trace::TraceWriter& writer);

  // The operation begins, with these accesses to come, and ends: now, or once what it comes behind is over. True: the
  // latter, and it is kept until then.
  bool keeps_begin(std::uint32_t operation);
  bool keeps(std::uint32_t operation, std::shared_ptr<Awaited>& accesses);
  bool keeps_end(std::uint32_t operation);

  // It has begun, or is over: so is what it comes behind, and that is to be flushed before this is said.
  void comes(std::uint32_t function, trace::TraceWriter& writer) { are_over(behind(function), writer); }
  void begun(std::uint32_t function, trace::TraceWriter& writer);
  void over(const FunctionOver& function, trace::TraceWriter& writer);
  // They count as over, and as having written nothing: of some, or of the process, no more will be heard.
  void all_over(trace::TraceWriter& writer);
  // Writes what is due. False: accesses are to come.
  bool flush(trace::TraceWriter& writer, bool last_chance);

 private:
  using Functions = std::vector<std::uint32_t>; // operations, in order
  struct Behind { // an operation that comes behind functions
    Functions functions;
    bool begins = false, ends = false;
    std::shared_ptr<Awaited> accesses;
  };
  struct Open {
    bool begun = false;
    std::vector<std::uint32_t> behind; // operations that wait for it first, in order
  };
  struct Due {
    std::uint32_t operation = 0;
    bool begins = false, ends = false;
    std::shared_ptr<Awaited> accesses;
  };
  struct Stream {
    trace::StreamCreate::Kind kind = trace::StreamCreate::Kind::blocking;
    std::uint32_t device = 0;
    Functions behind; // what is submitted there next
  };
  struct Graph {
    std::uint32_t stream = 0;
    Functions entered, left; // what its first nodes come behind, and what follows it
  };
  Functions still_open(const Functions& functions) const;
  Functions functions_before(std::uint32_t operation) const; // what comes behind it, comes behind those
  Functions in_stream(std::uint32_t stream);
  void join(Functions& functions, const Functions& more) const;
  void ends(std::map<std::uint32_t, Open>::iterator function, trace::TraceWriter& writer);
  void is_over(std::uint32_t function, trace::TraceWriter& writer); // and has written nothing
  void are_over(Functions functions, trace::TraceWriter& writer); // and those that they come behind
  Functions behind(std::uint32_t operation) const; // what it comes behind

  std::uint32_t opening_ = 0;
  std::map<std::uint32_t, Open> open_; // by operation
  std::unordered_map<std::uint32_t, Behind> behind_; // by operation
  std::deque<Due> due_;
  std::unordered_map<std::uint32_t, Stream> streams_;
  std::unordered_map<std::uint32_t, Graph> graphs_; // launches under way
  std::unordered_map<std::uint32_t, Functions> waited_for_; // by host thread
};

} // namespace deadheat::cupti
