// Plays a log to several workers at once: chunks are decoded by whoever has nothing to look at, and every worker sees
// what concerns it in the log's order.
//
// A chunk is decoded into pieces. Between two of them its decoder looks at what is ready for it, so that a piece is
// looked at while it lies in a cache, and no more of later chunks is decoded than there was time for.
//
// What a worker sees depends on their number, not on time: the results are the same in every run.
//
// Thread-safety: run() starts threads of its own and joins them; the caller's objects are used by one thread each. A
// Source's play() is called by several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analyzer/detect/batch.h"
#include "tracer/recorder/reader.h"

namespace deadheat::detect {

// Records in pieces that can be decoded apart.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::size_t chunks() const = 0;
  // Plays the records of one chunk, in order. The same records every time.
  virtual void play(std::size_t chunk, trace::RecordVisitor& visitor) const = 0;
};

using Consume = std::function<void(const Batch&)>;
// Called now and then, from any thread, one call at a time, with the number of chunks that are done.
using ChunksDone = std::function<void(std::size_t)>;

// Worker w's consumer is called by one thread, for the pieces of every chunk in order; a chunk has one at least.
void run(const Source& source, const Routing& routing, const std::vector<Consume>& workers, const ChunksDone& done);

// Calls each(chunk) for every chunk, on `threads` threads, in any order.
void for_each_chunk(const Source& source, unsigned threads, const std::function<void(std::size_t)>& each);

} // namespace deadheat::detect
