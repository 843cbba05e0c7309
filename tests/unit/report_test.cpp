// Reports: JSON, text, and the names they show.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "analyzer/report/json.h"
#include "analyzer/report/names.h"
#include "analyzer/report/place.h"
#include "analyzer/report/text.h"
#include "tests/unit/report_races.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::report {
namespace {

// ---- names

TEST(ReportNames, KindNamesTheOpsInOneOrder) {
  Race race;
  race.first.op = AccessKind::write;
  race.second.op = AccessKind::read;
  EXPECT_EQ(race.kind(), "read-write");
  std::swap(race.first, race.second);
  EXPECT_EQ(race.kind(), "read-write");
  race.first.op = race.second.op = AccessKind::write;
  EXPECT_EQ(race.kind(), "write-write");
  race.first.op = AccessKind::atomic;
  race.second.op = AccessKind::read;
  EXPECT_EQ(race.kind(), "read-atomic");
  race.first.op = AccessKind::free;
  EXPECT_EQ(race.kind(), "read-free");
}

TEST(ReportNames, AreDemangled) {
  EXPECT_EQ(ptx::demangle("_Z7softmaxPKfPf"), "softmax(float const*, float*)");
  EXPECT_EQ(ptx::demangle("softmax(float*)"), "softmax(float*)");
  EXPECT_EQ(ptx::demangle("plain"), "plain");
  EXPECT_EQ(ptx::demangle("_Znonsense"), "_Znonsense");
  EXPECT_EQ(ptx::demangle(""), "");
  EXPECT_EQ(ptx::demangle("_INTERNAL_4bdbfe0a_4_a_cu_tab1::f(int)"), "f(int)");
  EXPECT_EQ(ptx::demangle("my_INTERNAL_thing"), "my_INTERNAL_thing");
}

TEST(ReportNames, BadUtf8IsReplaced) {
  EXPECT_EQ(valid_utf8("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(valid_utf8("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");                     // cut short
  EXPECT_EQ(valid_utf8("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");                     // overlong
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");     // surrogate
  EXPECT_EQ(valid_utf8("\xf0\x9f\x8f\x81"), "\xf0\x9f\x8f\x81");
}

TEST(ReportNames, PrintableHasNoControlCharacters) {
  EXPECT_EQ(printable("a\tb\x1b[31m\x7f\n"), "a b?[31m? ");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "?2J");
  EXPECT_EQ(printable("\xc2\xb5s"), "\xc2\xb5s");
}

// ---- which line

TEST(ReportPlace, SystemHeaders) {
  for (const char* file : {toolkit_header, "/usr/local/cuda/include/cooperative_groups.h", "/usr/include/c++/12/cmath",
                           "/usr/local/cuda/bin/../targets/x86_64-linux/include/crt/sm_90_rt.hpp",
                           "/home/me/cuda/targets/x86_64-linux/include/cub/block/block_reduce.cuh",
                           "/venv/lib/python3.12/site-packages/nvidia/cu13/include/cuda_fp16.hpp"}) {
    EXPECT_TRUE(is_system_header(file)) << file;
  }
  for (const char* file : {"a.cu", "/src/include/reduce.cuh", "/usr/local/cuda/samples/reduce.cu",
                           "/home/me/targets/reduce.cu", "include/a.h", ""}) {
    EXPECT_FALSE(is_system_header(file)) << file;
  }
}

TEST(ReportPlace, OwnFrameIsTheInnermostOfTheProgram) {
  SourceFrame header{"atomicAdd", toolkit_header, 40, 1}, helper{"add", "/src/add.cuh", 7, 1};
  SourceFrame kernel{"k", "/src/a.cu", 12, 1};
  std::vector<SourceFrame> chain{header, helper, kernel};
  EXPECT_EQ(own_frame(chain), &chain[1]);
  chain = {header};
  EXPECT_EQ(own_frame(chain), &chain[0]);
  chain = {{"f", "", 0, 0}, header, kernel};
  EXPECT_EQ(own_frame(chain), &chain[2]);
  chain = {{"f", "", 0, 0}};
  EXPECT_EQ(own_frame(chain), nullptr);
  EXPECT_EQ(own_frame({}), nullptr);
}

// ---- JSON

TEST(ReportJson, EmptyAnalysisHasEveryKey) {
  json report = written({});
  EXPECT_EQ(keys(report), (std::set<std::string>{"version", "summary", "races", "order_dependent", "memory_errors",
                                                 "sync_errors", "warnings"}));
  EXPECT_EQ(report["version"], 1);
  EXPECT_EQ(keys(report["summary"]),
            (std::set<std::string>{"launches", "instrumented", "opaque", "accesses", "races", "faults", "possible",
                                   "strong", "order_dependent", "assumed_edges", "complete"}));
  EXPECT_EQ(report["summary"]["complete"], true);
  for (const char* list : {"races", "order_dependent", "memory_errors", "sync_errors", "warnings"}) {
    EXPECT_EQ(report[list], json::array());
  }
}

TEST(ReportJson, RaceAsFound) {
  json race = written(analysis_of({shared_race()}))["races"][0];
  EXPECT_EQ(keys(race), (std::set<std::string>{"id", "level", "class", "certainty", "kind", "first", "second",
                                               "address", "bytes", "allocation", "occurrences", "same_value",
                                               "unused_read", "lacks_only_proxy_fence", "why"}));
  EXPECT_EQ(race["level"], "shared");
  EXPECT_EQ(race["class"], "data");
  EXPECT_EQ(race["certainty"], "certain");
  EXPECT_EQ(race["kind"], "read-write");
  EXPECT_EQ(race["address"], "0x40");
  EXPECT_TRUE(race["allocation"].is_null());
  EXPECT_EQ(race["occurrences"], 512);

  const json& first = race["first"];
  EXPECT_EQ(first["op"], "write");
  EXPECT_EQ(first["kernel"], "softmax(float const*, float*)");
  EXPECT_EQ(first["file"], "/src/kernels/softmax.cu");
  EXPECT_EQ(first["line"], 12);
  EXPECT_EQ(first["opcode"], "st.shared.f32");
  EXPECT_EQ(first["launch"], 2);
  EXPECT_EQ(first["operation"], 4);
  EXPECT_EQ(first["stream"], 0);
  EXPECT_EQ(first["block"], json({1, 2, 0}));
  EXPECT_EQ(first["thread"], json({5, 0, 0}));
  EXPECT_EQ(first["nth"], 3);
}

TEST(ReportJson, InlinedAccessShowsTheProgramsLine) {
  Race race = shared_race();
  race.first.source.insert(race.first.source.begin(), {"__shfl", toolkit_header, 40, 1});
  json first = written(analysis_of({race}))["races"][0]["first"];
  EXPECT_EQ(first["file"], "/src/kernels/softmax.cu");
  EXPECT_EQ(first["line"], 12);
  ASSERT_EQ(first["inlined"].size(), 2u);
  EXPECT_EQ(first["inlined"][0], json({{"file", toolkit_header}, {"line", 40}, {"function", "__shfl"}}));
  EXPECT_EQ(first["inlined"][1]["function"], "softmax(float const*, float*)");
}

TEST(ReportJson, OperationsHaveNoThread) {
  json race = written(analysis_of({stream_race()}))["races"][0];
  EXPECT_EQ(race["level"], "stream");
  EXPECT_EQ(race["kind"], "write-free");
  EXPECT_EQ(race["allocation"], json({{"id", 2}, {"offset", 128}, {"size", 1024}}));
  const json& second = race["second"];
  EXPECT_EQ(second["op"], "free");
  EXPECT_EQ(second["kernel"], "cudaFreeAsync");
  EXPECT_EQ(second["operation"], 9);
  EXPECT_EQ(second["stream"], 3);
  for (const char* key : {"file", "line", "launch", "block", "thread", "nth"}) {
    ASSERT_TRUE(second.contains(key)) << key;
    EXPECT_TRUE(second[key].is_null()) << key;
  }
}

TEST(ReportJson, VerdictWithNumbersThatJsonDoesNotHave) {
  json race = written(analysis_of({harmful_race()}))["races"][0];
  EXPECT_EQ(race["verdict"], "harmful");
  EXPECT_EQ(race["schedules"], 40);
  EXPECT_EQ(race["witness"], "out/race-1.witness");
  const json& difference = race["differences"][0];
  EXPECT_EQ(difference["type"], "f32");
  EXPECT_EQ(difference["elements"], 128);
  EXPECT_EQ(difference["max_abs"], 0.5);
  EXPECT_EQ(difference["max_relative"], "inf");
  EXPECT_EQ(difference["max_ulp"], 4000000);
  EXPECT_EQ(difference["example"], json({{"offset", 20}, {"a", 1.0}, {"b", "nan"}}));
  EXPECT_EQ(difference["note"], "NaN appears");
}

TEST(ReportJson, EveryVerdictHasItsWord) {
  Race benign = shared_race(1), unreached = shared_race(2);
  benign.verdict = Verdict::benign;
  unreached.verdict = Verdict::unreached;
  unreached.verdict_why = "a barrier stands between";
  json races = written(analysis_of({benign, unreached}))["races"];
  EXPECT_EQ(races[0]["verdict"], "benign");
  EXPECT_FALSE(races[0].contains("witness"));
  EXPECT_EQ(races[1]["verdict"], "unreached");
  EXPECT_EQ(races[1]["verdict_why"], "a barrier stands between");
}

TEST(ReportJson, SuppressedRacesAreNotCounted) {
  Analysis analysis = analysis_of({shared_race(1), stream_race(2)});
  analysis.races[0].suppressed = true;
  json report = written(analysis);
  EXPECT_EQ(report["summary"]["races"], 1);
  EXPECT_EQ(report["races"].size(), 2u);
  EXPECT_EQ(report["races"][0]["suppressed"], true);
  EXPECT_FALSE(report["races"][1].contains("suppressed"));
}

TEST(ReportJson, OrderDependentAndErrors) {
  Analysis analysis = analysis_of({});
  OrderDependent sum;
  sum.site = kernel_side(AccessKind::atomic, 30);
  sum.site.opcode = "red.global.add.f32";
  sum.atomic = "add.f32";
  sum.occurrences = 100;
  sum.max_ulp = 3;
  sum.schedules = 8;
  analysis.order_dependent.push_back(sum);
  analysis.memory_errors.push_back(out_of_bounds());
  analysis.sync_errors.push_back({"sync", "not all threads arrive", kernel_side(AccessKind::read, 22), 0, 0, {}});
  analysis.warnings.push_back("the trace ends early");

  json report = written(analysis);
  EXPECT_EQ(report["summary"]["order_dependent"], 1);
  const json& entry = report["order_dependent"][0];
  EXPECT_EQ(entry["site"]["line"], 30);
  EXPECT_EQ(entry["site"]["opcode"], "red.global.add.f32");
  EXPECT_EQ(entry["atomic"], "add.f32");
  EXPECT_EQ(entry["max_ulp"], 3);
  EXPECT_EQ(entry["schedules"], 8);

  const json& memory = report["memory_errors"][0];
  EXPECT_EQ(memory["kind"], "out-of-bounds");
  EXPECT_EQ(memory["op"], "write");
  EXPECT_EQ(memory["line"], 20);
  EXPECT_EQ(memory["launch"], 2);
  EXPECT_EQ(memory["address"], "0x7f0000000400");
  EXPECT_EQ(memory["nearest"]["offset"], 1024);
  const json& sync = report["sync_errors"][0];
  EXPECT_EQ(sync["text"], "not all threads arrive");
  EXPECT_EQ(sync["thread"], json({5, 0, 0}));
  EXPECT_TRUE(sync["nearest"].is_null());
  EXPECT_EQ(report["warnings"], json({"the trace ends early"}));
}

TEST(ReportJson, ErrorAgainstDoublePrecisionWhereItIsKnown) {
  Analysis analysis = analysis_of({});
  OrderDependent entry;
  entry.atomic = "add.f32";
  analysis.order_dependent.assign(2, entry);
  analysis.order_dependent[1].fp64_error = 0.25;
  json list = written(analysis)["order_dependent"];
  EXPECT_FALSE(list[0].contains("fp64_error"));
  EXPECT_EQ(list[1]["fp64_error"], 0.25);
}

TEST(ReportJson, Precision) {
  Analysis analysis = analysis_of({});
  EXPECT_FALSE(written(analysis).contains("precision"));
  Precision precision;
  precision.rightness = Rightness::by_schedule;
  precision.values = 8;
  precision.wrong = 1;
  precision.max_relative = std::numeric_limits<double>::infinity();
  precision.max_fp64_ulp = 12.5;
  precision.example = {3, 16, 1.5, 2.5, 12.5, 4, 16};
  precision.lost_at = kernel_side(AccessKind::atomic, 30);
  analysis.precision = PrecisionReport{9, 2, {{3, "bf16", precision}}};
  OrderDependent entry;
  entry.how = "load and store";
  entry.precision = precision;
  analysis.order_dependent.push_back(entry);
  const json report = written(analysis);
  EXPECT_EQ(report["precision"]["schedules"], 9);
  EXPECT_EQ(report["precision"]["restarts"], 2);
  const json& output = report["precision"]["outputs"][0];
  EXPECT_EQ(output["allocation"], 3);
  EXPECT_EQ(output["type"], "bf16");
  EXPECT_EQ(output["verdict"], "by schedule");
  EXPECT_EQ(output["wrong"], 1);
  EXPECT_EQ(output["fp64_error"], "inf");
  EXPECT_EQ(output["furthest"]["fp64"], 2.5);
  EXPECT_EQ(output["furthest"]["tolerance_ulp"], 4);
  EXPECT_EQ(output["lost_at"]["line"], 30);
  EXPECT_EQ(report["order_dependent"][0]["how"], "load and store");
  EXPECT_EQ(report["order_dependent"][0]["precision"]["verdict"], "by schedule");

  const std::string text = to_text(analysis, {});
  for (const char* part :
       {"allocation 3, bf16", "right or wrong by schedule (9): 1 of 8 values is", "1.5 for 2.5", "12.5 ULP",
        "16 roundings explain 4", "softmax.cu:30", "by load and store", "2 values started again"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(ReportJson, AnyBytesInNamesGiveValidJson) {
  Analysis analysis = analysis_of({harmful_race()});
  std::string bad = "x\xff\xc3\x1b\"\\";
  Race& race = analysis.races[0];
  race.first.kernel = race.first.opcode = race.why = race.verdict_why = race.witness = bad;
  race.first.source[0].file = race.first.source[0].function = bad;
  race.differences[0].type = race.differences[0].note = bad;
  analysis.memory_errors.push_back(out_of_bounds());
  analysis.memory_errors[0].kind = analysis.memory_errors[0].text = bad;
  analysis.warnings.push_back(bad);
  EXPECT_EQ(written(analysis)["races"].size(), 1u);
}

// ---- text

TEST(ReportText, NoRaces) {
  Analysis analysis = analysis_of({});
  EXPECT_EQ(last_line(to_text(analysis, {})), "deadheat: no races in 3 launches, 4096 accesses; trace complete");
  analysis.summary.complete = false;
  EXPECT_TRUE(contains(last_line(to_text(analysis, {})), "trace incomplete"));
}

TEST(ReportText, LastLineSumsUp) {
  Race benign = shared_race(2), unreached = shared_race(3), hidden = shared_race(4);
  benign.verdict = Verdict::benign;
  unreached.verdict = Verdict::unreached;
  hidden.suppressed = true;
  EXPECT_EQ(last_line(to_text(analysis_of({harmful_race(), benign, unreached, hidden}), {})),
            "deadheat: 3 races (1 harmful, 1 benign, 1 unreached, 1 suppressed besides) in 3 launches, 4096 accesses; "
            "trace complete");
  EXPECT_EQ(last_line(to_text(analysis_of({shared_race()}), {})),
            "deadheat: 1 race in 3 launches, 4096 accesses; trace complete");
  EXPECT_EQ(last_line(to_text(analysis_of({harmful_race(), shared_race(2)}), {})),
            "deadheat: 2 races (1 harmful, 1 not replayed) in 3 launches, 4096 accesses; trace complete");
}

TEST(ReportText, SummaryLinesOfScripts) {
  Race possible = shared_race(2), strong = shared_race(3), hidden = shared_race(4);
  possible.certainty = Certainty::possible;
  strong.race_class = RaceClass::strong;
  hidden.suppressed = true;
  Analysis analysis = analysis_of({shared_race(1), possible, strong, hidden});
  analysis.memory_errors.push_back(out_of_bounds());
  std::string text = to_text(analysis, {});
  EXPECT_TRUE(contains(text, "\n========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n")) << text;
  EXPECT_TRUE(contains(text, "\n========= ERROR SUMMARY: 2 errors\n")) << text;
  TextOptions limited;
  limited.limit = 1;
  text = to_text(analysis, limited);
  EXPECT_TRUE(contains(text, "SUMMARY: 1 hazard displayed (1 error, 2 warnings)\n")) << text;
  EXPECT_TRUE(contains(to_text(analysis_of({}), {}), "========= ERROR SUMMARY: 0 errors\n"));
}

TEST(ReportText, RaceSaysWhereWhoAndWhy) {
  std::string text = to_text(analysis_of({stream_race()}), {});
  for (const char* part :
       {"race 2: write-free between operations", "512 occurrences", "no barrier orders them",
        "softmax(float const*, float*)", "/src/kernels/softmax.cu:12", "block (1,2,0) thread (5,0,0)", "execution 4",
        "by cudaFreeAsync", "operation 9 of stream 3", "0x7f0000000080, byte 128 of allocation 2 (1024 bytes)"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
}

TEST(ReportText, WhoCreatedTheStream) {
  Race race = stream_race();
  race.second.stream_maker = "/opt/lib/libnn_graph.so.9";
  TextOptions wide;
  wide.width = 200;
  const std::string text = to_text(analysis_of({race}), wide);
  EXPECT_TRUE(contains(text, "operation 9 of stream 3, which libnn_graph.so.9 created")) << text;
}

TEST(ReportText, VerdictWithItsWitness) {
  Race race = harmful_race();
  race.witness = "my runs/race-1.witness";
  TextOptions wide;
  wide.width = 200;
  std::string text = to_text(analysis_of({race}), wide);
  for (const char* part :
       {"HARMFUL", "40 schedules", "allocation 3, from byte 16: 128 elements (f32) differ", "4000000 ULP",
        "at byte 20: 1 against nan", "NaN appears", "deadheat replay --witness 'my runs/race-1.witness'\n"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
}

TEST(ReportText, SourceIsQuoted) {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("report_test_" + std::to_string(getpid()) + ".cu");
  std::ofstream(file) << "one\n\ttile[i] = x;\r\nthree\n";
  Race race = shared_race();
  race.first.source = {{"f", file.string(), 2, 1}};
  race.second.source = {{"f", file.string(), 99, 1}}; // a line that the file does not have
  std::string text = to_text(analysis_of({race}), {});
  std::filesystem::remove(file);
  EXPECT_TRUE(contains(text, ">    2 | ")) << text;
  EXPECT_TRUE(contains(text, "tile[i] = x;")) << text;
  EXPECT_FALSE(contains(text, "\r"));
  EXPECT_FALSE(contains(text, "   99 | ")) << text;
}

TEST(ReportText, LongPathsStayWhole) {
  Race race = shared_race();
  race.first.source[0].file = "/a/" + std::string(150, 'd') + "/softmax.cu";
  std::string text = to_text(analysis_of({race}), {});
  EXPECT_TRUE(contains(text, race.first.source[0].file + ":12\n")) << text;
  EXPECT_TRUE(contains(text, "  second: read")) << text;
}

// Of a chain through a library one line; of one that goes deep the ends. JSON has them all.
TEST(ReportText, InliningFitsAScreen) {
  Race race = shared_race();
  const SourceFrame own = race.first.source[0];
  race.first.source.assign(6, {"_ZN4cuda3std5storeEi", toolkit_header, 80, 1});
  race.first.source.push_back(own);
  std::string text = to_text(analysis_of({race}), {});
  EXPECT_TRUE(contains(text, "at /src/kernels/softmax.cu:12 ")) << text;
  EXPECT_TRUE(contains(text, "through cuda::std::store(int),")) << text;
  EXPECT_TRUE(contains(text, "sm_30_intrinsics.hpp:80 and 5 frames deeper")) << text;
  EXPECT_FALSE(contains(text, toolkit_header)) << text;
  EXPECT_TRUE(contains(text, "at /src/kernels/softmax.cu:15\n")) << "not side by side\n" << text;

  race.first.source.assign(30, own);
  for (std::uint32_t i = 0; i < 30; ++i) race.first.source[i].line = 100 + i;
  text = to_text(analysis_of({race}), {});
  for (const char* part :
       {"at /src/kernels/softmax.cu:100", "softmax.cu:102", "and 26 frames more", "softmax.cu:129"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
  EXPECT_FALSE(contains(text, "softmax.cu:103")) << text;
  EXPECT_EQ(written(analysis_of({race}))["races"][0]["first"]["inlined"].size(), 30u);
}

TEST(ReportText, LongNamesAreCutAndColumnsCountCharacters) {
  Race race = shared_race();
  race.first.kernel = race.second.kernel = "sort<" + std::string(5000, 'x') + ">(int*)";
  const std::string text = to_text(analysis_of({race}), {});
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 30) << text;
  race.first.kernel = "\xc3\xa4\xc3\xb6\xc3\xbc(int*)";
  race.second.kernel = "aou(int*)";
  const std::string umlauts = to_text(analysis_of({race}), {});
  const std::size_t two = umlauts.find("in aou(int*)");
  ASSERT_NE(two, std::string::npos) << umlauts;
  const std::string head = umlauts.substr(umlauts.rfind('\n', two) + 1, two - umlauts.rfind('\n', two) - 1);
  EXPECT_EQ(head.size(), 56u + 3) << umlauts; // three characters of two bytes
}

TEST(ReportText, WhatCountsOnlyWhenStrictIsCountedApart) {
  Analysis analysis = analysis_of({shared_race(1), shared_race(2), stream_race(3)});
  analysis.races[1].race_class = RaceClass::strong;
  analysis.races[2].certainty = Certainty::possible;
  EXPECT_TRUE(contains(last_line(to_text(analysis, {})), "3 races (1 only possible, 1 of strong accesses)"));
  const json summary = written(analysis)["summary"];
  EXPECT_EQ(summary["possible"], 1);
  EXPECT_EQ(summary["strong"], 1);
  EXPECT_EQ(summary["races"], 3);
}

// Two of three races come of one fault: the second of them is told in short, behind the first.
TEST(ReportText, RacesOfOneFault) {
  Analysis analysis = analysis_of({shared_race(1), shared_race(2), shared_race(3)});
  analysis.races[2].same_fault_as = 1;
  for (Race& race : analysis.races) {
    race.verdict = Verdict::harmful;
    race.steps_a = race.steps_b = {WitnessStep{.op = "read", .place = "softmax.cu:15", .bytes = 4}};
  }
  const auto count = [&](const std::string& text) {
    const std::string report = to_text(analysis, {});
    std::size_t found = 0;
    for (std::size_t at = 0; (at = report.find(text, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("3 races of 2 faults (3 harmful)"), 1u);
  EXPECT_EQ(count("the same fault as race 1: what orders that orders this"), 1u);
  EXPECT_EQ(count("one run:"), 2u);
  EXPECT_EQ(to_json(analysis)["summary"]["faults"], 2u);
  EXPECT_EQ(to_json(analysis)["races"][2]["same_fault_as"], 1u);
  // Who counts: a fault is none where all that it makes is suppressed.
  analysis.races[1].suppressed = true;
  EXPECT_EQ(count("2 races of 1 fault (2 harmful, 1 suppressed besides)"), 1u);
  analysis.races[0].suppressed = true; // it is not shown: the other is, in full
  EXPECT_EQ(count("1 race (1 harmful, 2 suppressed besides)"), 1u);
  EXPECT_EQ(count("one run:"), 1u);
  EXPECT_EQ(to_json(analysis)["summary"]["faults"], 1u);
  // What was not replayed shows nothing.
  for (Race& race : analysis.races) race.suppressed = false;
  analysis.races[0].verdict = Verdict::none;
  EXPECT_EQ(count("one run:"), 2u);
}

TEST(ReportText, LimitAndColor) {
  Analysis analysis = analysis_of({harmful_race(), shared_race(2), shared_race(3)});
  TextOptions options;
  EXPECT_FALSE(contains(to_text(analysis, options), "\033"));
  options.limit = 1;
  options.color = true;
  std::string text = to_text(analysis, options);
  EXPECT_TRUE(contains(text, "race 1"));
  EXPECT_FALSE(contains(text, "race 2:"));
  EXPECT_TRUE(contains(text, "and 2 more races"));
  EXPECT_TRUE(contains(text, "\033[1;31mHARMFUL\033[0m")) << text;
  EXPECT_TRUE(contains(last_line(text), "3 races"));
}

TEST(ReportText, ErrorsAndOrderDependentAtomics) {
  Analysis analysis = analysis_of({});
  analysis.memory_errors.push_back(out_of_bounds());
  analysis.memory_errors[0].nearest->offset = std::uint64_t(-8);
  analysis.sync_errors.push_back({"sync", "not all threads arrive", {}, 0, 0, {}});
  OrderDependent sum;
  sum.site = kernel_side(AccessKind::atomic, 30);
  sum.atomic = "add.f32";
  sum.occurrences = 100;
  sum.max_ulp = 3;
  sum.schedules = 8;
  analysis.order_dependent.push_back(sum);
  std::string text = to_text(analysis, {});
  for (const char* part : {"memory error: out-of-bounds, 4 bytes at 0x7f0000000400", "/src/kernels/softmax.cu:20",
                           "at its byte -8", "synchronization error: sync", "not all threads arrive",
                           "order-dependent: add.f32", "/src/kernels/softmax.cu:30", "3 ULP over 8 schedules"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
  EXPECT_EQ(last_line(text),
            "deadheat: no races, 1 order-dependent atomic, 1 memory error, 1 synchronization error in 3 launches, "
            "4096 accesses; trace complete");
}

TEST(ReportText, NamesCannotSteerTheTerminal) {
  Analysis analysis = analysis_of({harmful_race()});
  std::string bad = "\x1b]0;title\x07\nforged line";
  Race& race = analysis.races[0];
  race.first.kernel = race.first.opcode = race.why = race.verdict_why = race.witness = bad;
  race.first.source[0].file = race.first.source[0].function = bad;
  race.differences[0].type = race.differences[0].note = bad;
  analysis.sync_errors.push_back({bad, bad, race.first, 0, 0, {}});
  analysis.order_dependent.push_back({race.first, bad, bad, 1, 0, 0, {}, {}, {}});
  std::string text = to_text(analysis, {});
  EXPECT_FALSE(contains(text, "\x1b"));
  EXPECT_FALSE(contains(text, "\x07"));
  EXPECT_FALSE(contains(text, "\nforged"));
}

} // namespace
} // namespace deadheat::report
