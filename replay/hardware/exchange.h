// What the worker and whoever started it tell each other, in a directory: "request.json", "runs" (a line of JSON a
// run), and for each digest that the worker has seen the outputs themselves.
//
// Thread-safety: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "replay/hardware/hardware.h"
#include "replay/search/outputs.h"

namespace deadheat::hardware {

struct WorkRequest {
  std::string driver;
  std::vector<Kind> kinds;        // run one after another, over and over
  std::uint64_t begin = 0, end = 0; // numbers of runs
};

struct RunLine { // what one run showed; or a device, a note, an error
  std::string device, note, error;
  bool is_run = false;
  std::uint64_t number = 0;
  Kind kind = Kind::free;
  Order had = Order::unknown;
  bool reached = false, gave_up = false;
  std::string digest;
  search::Ending ending = search::Ending::finished;
  std::string ending_text;
};

Expected<void> write_request(const std::string& directory, const WorkRequest& request);
Expected<WorkRequest> read_request(const std::string& directory);

Expected<void> append_line(const std::string& directory, const RunLine& line);
// Whole lines only: a worker that was killed may have left half a line.
std::vector<RunLine> read_lines(const std::string& directory);

Expected<void> keep_outputs(const std::string& directory, const std::string& digest, const search::Outputs& outputs);
Expected<search::Outputs> kept_outputs(const std::string& directory, const std::string& digest);

} // namespace deadheat::hardware
