// When the operations of a race ran, and for how long both did at once, in the JSON report.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "deadheat/trace_times.h"
#include "tools/times.h"
#include "tracer/recorder/writer.h"

namespace deadheat::tools {
namespace {

nlohmann::json races_with_times(const std::vector<trace::OperationTime>& times,
                                const std::vector<std::pair<unsigned, unsigned>>& races) {
  std::string root = (std::filesystem::temp_directory_path() / "times-test-XXXXXX").string();
  if (!mkdtemp(root.data())) std::abort();
  const std::string directory = root + "/trace";
  {
    auto writer = trace::TraceWriter::create(directory, trace::Process{});
    EXPECT_TRUE(writer);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(times.data());
    if (!times.empty()) (*writer)->write_chunk(trace::times_chunk, {bytes, times.size() * sizeof times[0]});
    EXPECT_TRUE((*writer)->finish(0));
  }
  nlohmann::json report;
  report["races"] = nlohmann::json::array();
  for (const auto& [first, second] : races) {
    report["races"].push_back({{"first", {{"operation", first}}}, {"second", {{"operation", second}}}});
  }
  add_times(report, directory);
  std::filesystem::remove_all(root);
  return report["races"];
}

trace::OperationTime ran(std::uint32_t operation, std::uint64_t begin, std::uint64_t end) {
  return {operation, 0, begin, end};
}

TEST(TimesOfRaces, Overlap) {
  const auto races = races_with_times({ran(1, 1000, 1500), ran(2, 1300, 2000), ran(3, 1100, 1200), ran(4, 1500, 1600)},
                                      {{1, 2}, {2, 1}, {1, 3}, {1, 4}, {3, 4}});
  EXPECT_EQ(races[0]["overlap_ns"], 200);
  EXPECT_EQ(races[1]["overlap_ns"], 200);
  EXPECT_EQ(races[2]["overlap_ns"], 100); // one within the other
  EXPECT_EQ(races[3]["overlap_ns"], 0);   // one ends as the other begins
  EXPECT_EQ(races[4]["overlap_ns"], 0);   // one after the other
  EXPECT_EQ(races[0]["first"]["device_time"]["begin"], 0); // from the first operation on
  EXPECT_EQ(races[0]["second"]["device_time"]["end"], 1000);
}
TEST(TimesOfRaces, OnlyWhereBothAreKnownAndTwo) {
  const auto races = races_with_times({ran(1, 1000, 1500)}, {{1, 1}, {1, 2}, {2, 3}});
  for (const auto& race : races) EXPECT_FALSE(race.contains("overlap_ns")) << race;
  EXPECT_TRUE(races[1]["first"].contains("device_time"));
  EXPECT_FALSE(races[1]["second"].contains("device_time"));
}
TEST(TimesOfRaces, NoneInATraceWithoutTimes) {
  const auto races = races_with_times({}, {{1, 2}});
  EXPECT_EQ(races[0].dump(), R"({"first":{"operation":1},"second":{"operation":2}})");
}

} // namespace
} // namespace deadheat::tools
