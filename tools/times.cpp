#include "tools/times.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "deadheat/trace_times.h"
#include "tracer/recorder/describe.h"
#include "tracer/recorder/reader.h"

namespace deadheat::tools {

void add_times(nlohmann::json& report, const std::string& trace) {
  Expected<trace::TraceReader> reader = trace::TraceReader::open(trace);
  if (!reader || reader->logs().size() != 1) return;
  Expected<trace::LogReader> log = reader->open_log(0);
  if (!log) return;
  std::unordered_map<std::uint64_t, trace::OperationTime> times;
  std::uint64_t origin = ~std::uint64_t(0);
  trace::each_time(*log, [&](const trace::OperationTime& time) {
    times[time.operation] = time;
    origin = std::min(origin, time.begin);
  });
  if (times.empty()) return;
  for (nlohmann::json& race : report["races"]) {
    const trace::OperationTime* found[2] = {};
    unsigned number = 0;
    for (const char* name : {"first", "second"}) {
      nlohmann::json& side = race[name];
      const auto time = times.find(side["operation"].get<std::uint64_t>());
      if (time != times.end()) {
        found[number] = &time->second;
        side["device_time"] = {{"begin", time->second.begin - origin}, {"end", time->second.end - origin}};
      }
      ++number;
    }
    if (!found[0] || !found[1] || found[0] == found[1]) continue;
    const std::uint64_t begin = std::max(found[0]->begin, found[1]->begin);
    const std::uint64_t end = std::min(found[0]->end, found[1]->end);
    race["overlap_ns"] = end > begin ? end - begin : 0;
  }
}

} // namespace deadheat::tools
