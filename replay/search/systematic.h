// All schedules of a small run (exploration.h): how many there are, and whether any changes the outputs.
//
// First every order of operations with the newest values; where that fits, then every order with every value that reads
// may return under the memory model.
//
// Thread-safety: as Session.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "replay/search/session.h"

namespace deadheat::search {

// Of runs that are explored without being asked for: visible operations of the natural run.
inline constexpr std::uint64_t small_run = 1024;

struct SystematicLimits {
  std::uint64_t schedules = 1000; // runs, those that repeat others included
  double seconds = 5;
  std::function<void(std::uint64_t)> progress; // schedules so far; may be empty
};

struct Systematic {
  std::uint64_t schedules = 0; // explored, none twice
  bool complete = false; // these are all, with the newest values
  bool old_values = false; // and with old values of memory, too
  std::size_t groups = 1; // of threads that share no memory, each explored by itself (exploration.h)
  std::string why; // why they are not: one phrase
  std::optional<Schedule> other; // the first whose outputs differ from the natural run's
};

Expected<Systematic> run_all(const Session& session, const Run& natural, std::uint64_t budget,
                             const SystematicLimits& limits);

// "no schedule of 24 changes the output: …", or why that is not known; empty where one does.
std::string in_words(const Systematic& all);

} // namespace deadheat::search
