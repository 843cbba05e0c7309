// Witness files: a run that goes wrong, in one file that replays anywhere without the program, the GPU or the trace.
//
// Layout, little-endian: WitnessHeader, then `payload_bytes` of zstd, which holds entries one after another:
//   u32 length of the name, u64 size, the name, the bytes.
// Entry "manifest.json" holds the race, both schedules and what their outputs must be; the others are the files of a
// trace of the commands (FORMAT.md of tracer/recorder), their names relative paths. A reader checks the checksum,
// every length, and that no name leaves the directory it unpacks to.
//
// Thread-safety: plain functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/race.h"
#include "deadheat/schedule.h"

namespace deadheat::search {

// 2: schedules with old values, uniform walks and orders of blocks; 3: driven lists, absent threads and smaller runs;
// 4: prompt ones; 5: always prompt ones. Versions from 1 are read.
inline constexpr std::uint32_t witness_version = 5, oldest_witness_version = 1;
inline constexpr char witness_magic[8] = {'D', 'H', 'W', 'I', 'T', 'N', 'S', '\n'};

struct WitnessHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;  // of this struct
  std::uint64_t payload_bytes; // compressed
  std::uint64_t raw_bytes;     // uncompressed
  std::uint64_t checksum;      // XXH3-64 of the compressed payload, seeded with raw_bytes
};
static_assert(sizeof(WitnessHeader) == 40);

struct Witness {
  Race race;
  Schedule a, b;
  std::optional<Race::Instance> instance; // that changes places; without: the race's sides
  struct Smaller { // runs of fewer threads whose outputs differ as well
    Schedule a, b;
    SmallerRun size;
  };
  std::optional<Smaller> smaller;
  std::string digest_a, digest_b;
  std::uint32_t last_operation = ~0u; // digests cover the outputs up to this operation
  std::vector<std::pair<std::uint32_t, std::string>> value_types; // allocation, element type
  bool weak = false; // in one of the runs an access returns what was there before a write that was performed
  std::uint64_t budget = 0;           // visible operations after which a run counts as hanging
};

// Packs the files under `capsule` with the manifest into `file`.
Expected<void> write_witness(const std::string& file, const Witness& witness, const std::string& capsule);
// Unpacks the capsule into `directory`, which exists and is empty.
Expected<Witness> read_witness(const std::string& file, const std::string& directory);

} // namespace deadheat::search
