// Races and analyses for the tests of reports.
//
// Thread-safety: pure functions.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/report/json.h"
#include "deadheat/race.h"

namespace deadheat::report {

using nlohmann::json;

inline constexpr const char* toolkit_header = "/usr/local/cuda-13.0/targets/x86_64-linux/include/sm_30_intrinsics.hpp";

inline RaceSide kernel_side(AccessKind op, std::uint32_t line) {
  RaceSide side;
  side.name.operation = 4;
  side.name.launch = 2;
  side.name.site = 7;
  side.name.nth = 3;
  side.op = op;
  side.kernel = "_Z7softmaxPKfPf";
  side.source = {{"_Z7softmaxPKfPf", "/src/kernels/softmax.cu", line, 5}};
  side.opcode = op == AccessKind::read ? "ld.shared.f32" : "st.shared.f32";
  side.block = {1, 2, 0};
  side.thread = {5, 0, 0};
  return side;
}

inline RaceSide api_side(AccessKind op, const char* call) {
  RaceSide side;
  side.name.operation = 9;
  side.op = op;
  side.kernel = call;
  side.stream = 3;
  return side;
}

inline Race shared_race(std::uint32_t id = 1) {
  Race race;
  race.id = id;
  race.level = RaceLevel::shared;
  race.first = kernel_side(AccessKind::write, 12);
  race.second = kernel_side(AccessKind::read, 15);
  race.address = 0x40;
  race.bytes = 4;
  race.occurrences = 512;
  race.why = "no barrier orders them";
  return race;
}

inline Race stream_race(std::uint32_t id = 2) {
  Race race = shared_race(id);
  race.level = RaceLevel::stream;
  race.second = api_side(AccessKind::free, "cudaFreeAsync");
  race.address = 0x7f0000000080;
  race.allocation = Race::AllocationRef{2, 128, 1024};
  return race;
}

inline Race harmful_race() {
  Race race = shared_race();
  race.verdict = Verdict::harmful;
  race.schedules = 40;
  race.witness = "out/race-1.witness";
  Difference difference;
  difference.allocation = 3;
  difference.offset = 16;
  difference.type = "f32";
  difference.elements = 128;
  difference.max_abs = 0.5;
  difference.max_relative = std::numeric_limits<double>::infinity();
  difference.max_ulp = 4000000;
  difference.example = {20, 1.0, std::nan("")};
  difference.note = "NaN appears";
  race.differences.push_back(difference);
  return race;
}

inline Analysis analysis_of(std::vector<Race> races) {
  Analysis analysis;
  analysis.summary.launches = 3;
  analysis.summary.instrumented = 2;
  analysis.summary.opaque = 1;
  analysis.summary.accesses = 4096;
  analysis.races = std::move(races);
  return analysis;
}

inline Fault out_of_bounds() {
  Fault fault;
  fault.kind = "out-of-bounds";
  fault.text = "4 bytes behind the end";
  fault.side = kernel_side(AccessKind::write, 20);
  fault.address = 0x7f0000000400;
  fault.bytes = 4;
  fault.nearest = Race::AllocationRef{2, 1024, 1024};
  return fault;
}

// What a reader of the file sees.
inline json written(const Analysis& analysis) { return json::parse(to_json(analysis).dump(2)); }

inline std::set<std::string> keys(const json& object) {
  std::set<std::string> result;
  for (const auto& item : object.items()) result.insert(item.key());
  return result;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::string last_line(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

} // namespace deadheat::report
