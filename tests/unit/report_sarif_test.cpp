// SARIF: what a viewer finds in the file. That the file keeps to the format is checked in tests/cli, over real reports.
#include "analyzer/report/sarif.h"

#include <gtest/gtest.h>

#include "tests/unit/report_races.h"

namespace deadheat::report {
namespace {

json run_of(const Analysis& analysis) {
  json log = json::parse(to_sarif(analysis, "1.2").dump());
  EXPECT_EQ(log["version"], "2.1.0");
  EXPECT_EQ(log["runs"].size(), 1u);
  return log["runs"][0];
}

TEST(ReportSarif, RaceHasBothSides) {
  json run = run_of(analysis_of({shared_race()}));
  EXPECT_EQ(run["tool"]["driver"]["name"], "deadheat");
  EXPECT_EQ(run["tool"]["driver"]["version"], "1.2");
  json result = run["results"][0];
  EXPECT_EQ(result["ruleId"], "race/shared");
  EXPECT_EQ(run["tool"]["driver"]["rules"][result["ruleIndex"].get<int>()]["id"], "race/shared");
  EXPECT_EQ(result["level"], "error");
  EXPECT_EQ(result["occurrenceCount"], 512);
  json first = result["locations"][0], second = result["relatedLocations"][0];
  EXPECT_EQ(first["physicalLocation"]["artifactLocation"]["uri"], "file:///src/kernels/softmax.cu");
  EXPECT_EQ(first["physicalLocation"]["region"]["startLine"], 12);
  EXPECT_EQ(second["physicalLocation"]["region"]["startLine"], 15);
  EXPECT_EQ(first["logicalLocations"][0]["fullyQualifiedName"], "softmax(float const*, float*)");
  EXPECT_TRUE(contains(result["message"]["text"], "no barrier orders them"));
  EXPECT_FALSE(result.contains("suppressions"));
}

TEST(ReportSarif, OperationsHaveOnlyTheirName) {
  json side = run_of(analysis_of({stream_race()}))["results"][0]["relatedLocations"][0];
  EXPECT_FALSE(side.contains("physicalLocation"));
  EXPECT_EQ(side["logicalLocations"][0]["fullyQualifiedName"], "cudaFreeAsync");
}

TEST(ReportSarif, LevelsSayHowSureItIs) {
  Race possible = shared_race(2), benign = shared_race(3), hidden = shared_race(4);
  possible.certainty = Certainty::possible;
  benign.verdict = Verdict::benign;
  hidden.suppressed = true;
  json results = run_of(analysis_of({harmful_race(), possible, benign, hidden}))["results"];
  EXPECT_EQ(results[0]["level"], "error");
  EXPECT_EQ(results[0]["properties"]["verdict"], "harmful");
  EXPECT_EQ(results[0]["properties"]["witness"], "out/race-1.witness");
  EXPECT_EQ(results[1]["level"], "warning");
  EXPECT_EQ(results[2]["level"], "note");
  EXPECT_EQ(results[3]["suppressions"][0]["kind"], "external");
}

TEST(ReportSarif, FingerprintIsThatOfTheLinesAlone) {
  Race other = shared_race(5), line = shared_race();
  other.occurrences = 1;
  other.address = 0x80;
  other.first.block = {9, 9, 9};
  line.second.source[0].line = 16;
  auto fingerprint = [](const Race& race) {
    return run_of(analysis_of({race}))["results"][0]["partialFingerprints"]["deadheatRace/v1"].get<std::string>();
  };
  EXPECT_EQ(fingerprint(shared_race()), fingerprint(other));
  EXPECT_NE(fingerprint(shared_race()), fingerprint(line));
}

TEST(ReportSarif, PathsAreUris) {
  Race race = shared_race();
  race.first.source[0].file = "my src/100%.cu";
  json result = run_of(analysis_of({race}))["results"][0];
  EXPECT_EQ(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "my%20src/100%25.cu");
}

TEST(ReportSarif, EverythingElse) {
  Analysis analysis = analysis_of({});
  OrderDependent sum;
  sum.site = kernel_side(AccessKind::atomic, 30);
  sum.atomic = "add.f32";
  sum.occurrences = 7;
  analysis.order_dependent.push_back(sum);
  analysis.memory_errors.push_back(out_of_bounds());
  analysis.sync_errors.push_back({"sync", "barrier \xff", kernel_side(AccessKind::read, 31), 0, 0, {}});
  analysis.warnings.push_back("cut short");
  analysis.summary.complete = false;
  json run = run_of(analysis);
  ASSERT_EQ(run["results"].size(), 3u);
  EXPECT_EQ(run["results"][0]["ruleId"], "order-dependent");
  EXPECT_EQ(run["results"][1]["ruleId"], "memory-error");
  EXPECT_EQ(run["results"][2]["ruleId"], "sync-error");
  for (const json& result : run["results"]) {
    EXPECT_EQ(run["tool"]["driver"]["rules"][result["ruleIndex"].get<int>()]["id"], result["ruleId"]);
  }
  EXPECT_EQ(run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"], "cut short");
  EXPECT_EQ(run["properties"]["complete"], false);
}

} // namespace
} // namespace deadheat::report
