// Finding races in a stream of records, wherever they come from: a log, or memory.
//
// Two passes: the first finds the words that races may touch, the second, if there are any, the pairs. Each is made by
// as many workers as there are jobs; what does not fit into memory at once is looked at in another go. The result
// depends neither on the jobs nor on the limit, but for what Findings::unchecked counts, and for which of a race's
// occurrences are its instances, where a part of memory alone had no room (Findings::halved).
//
// Thread-safety: none; several findings may run at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/pipeline.h"

namespace deadheat::detect {

// Plays all records of one log to the visitor, in order; the same records every time.
using Feed = std::function<void(trace::RecordVisitor&)>;

// What is being done, and how far it is: from 0 to 1. Called from any thread, one call at a time.
using Progress = std::function<void(const std::string& what, double share)>;

struct FindOptions {
  unsigned jobs = 1;
  std::uint64_t memory_limit = 0; // bytes for what is remembered of memory; 0: half of what the machine has
  std::uint64_t most_bytes_ahead = std::uint64_t(64) << 20; // decoded; less where there are few workers
  std::uint64_t piece_bytes = Routing{}.piece_bytes;
  std::uint32_t most_operations = order::largest_operation; // that are looked at
  Progress progress;
  Detector::Flagged flagged;
  Shadow::Taken taken;
  WordBounds bounds;
};

struct Findings {
  std::unique_ptr<Detector> detector; // what it learned about launches, allocations, faults
  std::vector<FoundRace> races; // ranked
  std::map<PlaceId, std::uint64_t> order_dependent, additions; // PartFindings
  std::uint64_t unknown = 0; // records that name what the trace does not have
  std::uint64_t unchecked = 0; // accesses that came after memory ran out, in either pass
  std::set<std::pair<SideId, SideId>> uncertain; // that may race, the smaller first: accesses too many to be remembered
  std::uint64_t slot_stretches = 0; // Detector::stretches
  std::uint64_t suspect_words = 0; // words of memory that the second pass had to look at
  std::vector<order::Stamp> chunk_stamps; // before each chunk
  bool peers = false; // Detector::peers
  unsigned goes = 0; // over the records, in all passes
  unsigned halved = 0; // parts of memory, and slices of such, that alone had no room
};

Findings find_races(const Source& source, const FindOptions& options = {});
Findings find_races(const Feed& feed, const FindOptions& options = {});

} // namespace deadheat::detect
