// Suppressions: patterns, what they match, and entries made from races.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "analyzer/report/suppress.h"
#include "tests/unit/report_races.h"

namespace deadheat::report {
namespace {

TEST(ReportSuppress, Globs) {
  EXPECT_TRUE(glob_matches("a*c", "abbc"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a?c", "abc"));
  EXPECT_TRUE(glob_matches("*b*b", "abab"));
  EXPECT_TRUE(glob_matches("f(float*)", "f(float*)"));
  EXPECT_TRUE(glob_matches("x[1]", "x[1]"));
  EXPECT_FALSE(glob_matches("x[1]", "x1"));
  EXPECT_FALSE(glob_matches("a", "ab"));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("a?", "a"));
}

// Ids of the races that the text suppresses, of shared_race 1 (lines 12 and 15) and stream_race 2 (12, cudaFreeAsync).
std::vector<std::uint32_t> suppressed_by(const std::string& text) {
  Analysis analysis = analysis_of({shared_race(1), stream_race(2)});
  Expected<Suppressions> suppressions = Suppressions::parse(text, "known.txt");
  EXPECT_TRUE(suppressions) << text;
  suppressions->apply(analysis);
  std::vector<std::uint32_t> ids;
  for (const Race& race : analysis.races) {
    if (race.suppressed) ids.push_back(race.id);
  }
  EXPECT_EQ(analysis.summary.races, 2 - ids.size());
  return ids;
}

using Ids = std::vector<std::uint32_t>;

TEST(ReportSuppress, RaceByLine) {
  EXPECT_EQ(suppressed_by("race:softmax.cu:15"), Ids{1});
  EXPECT_EQ(suppressed_by("race:kernels/softmax.cu:15"), Ids{1});
  EXPECT_EQ(suppressed_by("race:/src/kernels/softmax.cu:15"), Ids{1});
  EXPECT_EQ(suppressed_by("race:softmax.cu:*"), (Ids{1, 2}));
  EXPECT_EQ(suppressed_by("race:softmax.cu:1"), Ids{});
  EXPECT_EQ(suppressed_by("race:max.cu:15"), Ids{});
}

TEST(ReportSuppress, RaceByPairOfLines) {
  EXPECT_EQ(suppressed_by("race:softmax.cu:12 softmax.cu:15"), Ids{1});
  EXPECT_EQ(suppressed_by("race:softmax.cu:15   /src/kernels/softmax.cu:12"), Ids{1});
  EXPECT_EQ(suppressed_by("race:softmax.cu:12 softmax.cu:16"), Ids{});
  EXPECT_EQ(suppressed_by("race:softmax.cu:12 softmax.cu:12"), Ids{});
}

TEST(ReportSuppress, RaceByALineOfTheInliningChainAndPathsWithBlanks) {
  Analysis analysis = analysis_of({shared_race()});
  analysis.races[0].first.source.insert(analysis.races[0].first.source.begin(), {"add", "/my src/add.cuh", 7, 1});
  Expected<Suppressions> suppressions =
      Suppressions::parse("race:add.cuh:7\nrace:/my src/add.cuh:7\nrace:/my src/add.cuh:7 softmax.cu:15\n", "f");
  ASSERT_TRUE(suppressions);
  suppressions->apply(analysis);
  EXPECT_TRUE(suppressions->unused().empty());
}

TEST(ReportSuppress, ByKernelAndByOperation) {
  EXPECT_EQ(suppressed_by("kernel:softmax*"), (Ids{1, 2}));
  EXPECT_EQ(suppressed_by("kernel:softmax(float const*, float*)"), (Ids{1, 2}));
  EXPECT_EQ(suppressed_by("kernel:softmax"), Ids{});
  EXPECT_EQ(suppressed_by("stream:cudaFreeAsync"), Ids{2});
  EXPECT_EQ(suppressed_by("stream:softmax*"), Ids{2});
  EXPECT_EQ(suppressed_by("stream:*"), Ids{2});
}

TEST(ReportSuppress, ByFunctions) {
  auto suppressed = [](const std::string& text) {
    Analysis analysis = analysis_of({shared_race()});
    analysis.races[0].first.source.insert(analysis.races[0].first.source.begin(),
                                          {"_ZN3lib4LoadIiEEvPT_", "l.cuh", 7, 1});
    analysis.races[0].second.source.insert(analysis.races[0].second.source.begin(), {"_ZN3lib5StoreEv", "s.cuh", 9, 1});
    Expected<Suppressions> suppressions = Suppressions::parse(text, "f");
    EXPECT_TRUE(suppressions) << text;
    suppressions->apply(analysis);
    return analysis.races[0].suppressed;
  };
  EXPECT_TRUE(suppressed("function:void lib::Load<int>(int*) with lib::Store()"));
  EXPECT_TRUE(suppressed("function:lib::Store*  with  *::Load<*"));
  EXPECT_TRUE(suppressed("function:softmax*")); // the kernel holds both
  EXPECT_FALSE(suppressed("function:*::Load<*"));
  EXPECT_FALSE(suppressed("function:*::Load<* with *::Load<*"));
  EXPECT_FALSE(suppressed("function:*::Load<* with *::Other*"));
}

TEST(ReportSuppress, InSomeKernelsOfATemplate) {
  Analysis analysis = analysis_of({shared_race()});
  Race& race = analysis.races[0];
  for (const char* kernel : {"f<int>", "f<float>", "g"}) {
    RaceCode code{race.first, race.second};
    code.first.kernel = kernel;
    if (kernel[0] == 'f') code.second.kernel = kernel;
    race.codes.push_back(code);
  }
  Expected<Suppressions> library = Suppressions::parse("kernel:f<*", "l"), own = Suppressions::parse("kernel:g", "o");
  ASSERT_TRUE(library && own);
  library->apply(analysis);
  EXPECT_FALSE(race.suppressed);
  EXPECT_EQ(analysis.summary.races, 1u);
  EXPECT_EQ(library->patterns()[0].hits, 1u);
  EXPECT_EQ(suppressed_in(race), (std::vector<std::string>{"f<float>", "f<int>"}));
  own->apply(analysis);
  EXPECT_TRUE(race.suppressed);
  EXPECT_EQ(analysis.summary.races, 0u);
  EXPECT_TRUE(suppressed_in(race).empty());
}

TEST(ReportSuppress, ByFunctionsOnEachWayOfCalls) {
  auto suppressed = [](std::vector<std::vector<std::string>> ways) {
    Analysis analysis = analysis_of({shared_race()});
    analysis.races[0].first.ways = ways;
    analysis.races[0].second.ways = ways;
    Expected<Suppressions> suppressions = Suppressions::parse("function:lib::*", "f");
    EXPECT_TRUE(suppressions);
    suppressions->apply(analysis);
    return analysis.races[0].suppressed;
  };
  EXPECT_TRUE(suppressed({{"mine()", "lib::load()", "kernel"}}));
  EXPECT_TRUE(suppressed({{"mine()", "lib::load()", "kernel"}, {"lib::store()", "kernel"}}));
  EXPECT_FALSE(suppressed({{"mine()", "lib::load()", "kernel"}, {"mine()", "kernel"}}));
  EXPECT_FALSE(suppressed({}));
}

TEST(ReportSuppress, ByCodeWithoutLines) {
  auto suppressed = [](const char* first, const char* second, const std::string& text, bool lines = false) {
    Analysis analysis = analysis_of({shared_race()});
    Race& race = analysis.races[0];
    race.first.path = lines ? "" : first; // as analyses have them
    race.second.path = lines ? "" : second;
    if (!lines) race.first.source = race.second.source = {};
    Expected<Suppressions> suppressions = Suppressions::parse(text, "f");
    EXPECT_TRUE(suppressions) << text;
    suppressions->apply(analysis);
    return race.suppressed;
  };
  const char *end = "bar.sync match.any.sync.b64 atom.add.acquire.cta.u32 mbarrier.inval.shared.b64",
             *use = "bar.sync mbarrier.arrive.shared::cta.b64";
  const std::string quit = "code:* match.any.sync.b64 *atom.add.*mbarrier.inval* in * with *mbarrier.*";
  EXPECT_TRUE(suppressed(end, use, quit));
  EXPECT_TRUE(suppressed(use, end, quit));
  EXPECT_FALSE(suppressed(use, use, quit));
  EXPECT_FALSE(suppressed("bar.sync mbarrier.inval.shared.b64", use, quit));
  EXPECT_FALSE(suppressed(end, use, quit, true));
  EXPECT_TRUE(suppressed("st.u32[reserved]", "ld.u32[reserved]", "code:*[reserved] in *"));
  EXPECT_FALSE(suppressed("st.u32[reserved]", "ld.u32", "code:*[reserved] in *"));
  EXPECT_TRUE(suppressed("st.u32", "ld.u32", "code:st.u32 in softmax(float* with ld.u32 in *"));
  EXPECT_FALSE(suppressed("st.u32", "ld.u32", "code:*st.u32 in other* with ld.u32 in *"));
  EXPECT_FALSE(suppressed("st.u32", "st.u32", "code:st.u32[same] in *"));
}

TEST(ReportSuppress, RepeatedWritesOfOneValue) {
  auto suppressed = [](auto change, const char* text = "repeat:softmax.cu:*") {
    Analysis analysis = analysis_of({shared_race()});
    Race& race = analysis.races[0];
    race.second = race.first;
    race.same_value = true;
    change(race);
    Expected<Suppressions> suppressions = Suppressions::parse(text, "f");
    EXPECT_TRUE(suppressions);
    suppressions->apply(analysis);
    return race.suppressed;
  };
  EXPECT_TRUE(suppressed([](Race&) {}));
  EXPECT_FALSE(suppressed([](Race&) {}, "repeat:other.cu:*"));
  EXPECT_FALSE(suppressed([](Race& race) { race.same_value = false; }));
  EXPECT_FALSE(suppressed([](Race& race) { race.second.op = AccessKind::read; }));
  EXPECT_FALSE(suppressed([](Race& race) { race.second.source[0].line = 15; }));
}

TEST(ReportSuppress, ReadsThatAreNotUsed) {
  auto suppressed = [](bool unused, bool read_first, const char* text) {
    Analysis analysis = analysis_of({shared_race()});
    Race& race = analysis.races[0];
    race.first = kernel_side(read_first ? AccessKind::read : AccessKind::write, 41);
    race.second = kernel_side(read_first ? AccessKind::write : AccessKind::read, 57);
    race.unused_read = unused;
    Expected<Suppressions> suppressions = Suppressions::parse(text, "f");
    EXPECT_TRUE(suppressions);
    suppressions->apply(analysis);
    return race.suppressed;
  };
  EXPECT_TRUE(suppressed(true, true, "unused:softmax.cu:41"));
  EXPECT_TRUE(suppressed(true, false, "unused:softmax.cu:57"));
  EXPECT_FALSE(suppressed(true, true, "unused:softmax.cu:57")); // the write
  EXPECT_FALSE(suppressed(false, true, "unused:softmax.cu:*"));
  EXPECT_FALSE(suppressed(true, true, "proxy:softmax.cu:*"));
}

TEST(ReportSuppress, CopiesThatLackAProxyFenceAlone) {
  auto suppressed = [](bool alone, const char* text) {
    Analysis analysis = analysis_of({shared_race()});
    Race& race = analysis.races[0];
    race.first = kernel_side(AccessKind::write, 41);
    race.second = kernel_side(AccessKind::read, 57);
    race.lacks_only_proxy_fence = alone;
    Expected<Suppressions> suppressions = Suppressions::parse(text, "f");
    EXPECT_TRUE(suppressions);
    suppressions->apply(analysis);
    return race.suppressed;
  };
  EXPECT_TRUE(suppressed(true, "proxy:softmax.cu:41"));
  EXPECT_FALSE(suppressed(true, "proxy:softmax.cu:57")); // who goes through the other proxy
  EXPECT_FALSE(suppressed(false, "proxy:softmax.cu:*"));
}

TEST(ReportSuppress, WhatALibraryDoesInStreamsOfItsOwn) {
  auto suppressed = [](const char* text, const std::string& one, const std::string& two,
                       Certainty certainty = Certainty::possible) {
    Race race = stream_race();
    race.certainty = certainty;
    race.first.stream_maker = one;
    race.second.stream_maker = two;
    Analysis analysis = analysis_of({race});
    Expected<Suppressions> suppressions = Suppressions::parse(text, "f");
    EXPECT_TRUE(suppressions);
    suppressions->apply(analysis);
    return analysis.races[0].suppressed;
  };
  const std::string nn = "/opt/lib/libnn_graph.so.9", other = "/opt/lib/libnn_cnn.so.9";
  EXPECT_TRUE(suppressed("within:libnn_*.so*", nn, nn));
  EXPECT_TRUE(suppressed("within:/opt/lib/libnn_graph.so.9", nn, nn));
  EXPECT_FALSE(suppressed("within:libnn_*.so*", nn, ""));    // a stream of the program's
  EXPECT_FALSE(suppressed("within:libnn_*.so*", nn, other)); // neither knows of the other's
  EXPECT_FALSE(suppressed("within:nn_*.so*", nn, nn));
  EXPECT_FALSE(suppressed("within:*", "", ""));
  EXPECT_FALSE(suppressed("within:libnn_*.so*", nn, nn, Certainty::certain));
}

TEST(ReportSuppress, BytesThatNobodyWrote) {
  auto left = [](const char* text, const char* kind = "uninitialized") {
    Analysis analysis = analysis_of({shared_race()});
    Fault fault;
    fault.kind = kind;
    fault.side = analysis.races[0].first;
    fault.side.source[0].function = "void Merge<int>::step()";
    analysis.memory_errors = {fault};
    Expected<Suppressions> suppressions = Suppressions::parse(text, "f");
    EXPECT_TRUE(suppressions);
    suppressions->apply(analysis);
    EXPECT_FALSE(analysis.races[0].suppressed);
    EXPECT_EQ(suppressions->used().size() + analysis.memory_errors.size(), 1u);
    return analysis.memory_errors.size();
  };
  EXPECT_EQ(left("unwritten:*Merge<*"), 0u);
  EXPECT_EQ(left("unwritten:*Load<*"), 1u);
  EXPECT_EQ(left("function:*Merge<*"), 1u);
  EXPECT_EQ(left("unwritten:*Merge<*", "out-of-bounds"), 1u);
}

TEST(ReportSuppress, UnwrittenMemoryInAKernelWithoutLines) {
  auto left = [](bool lines) {
    Analysis analysis;
    Fault fault;
    fault.kind = "uninitialized";
    fault.side = kernel_side(AccessKind::read, 41);
    if (!lines) fault.side.source.clear();
    fault.side.kernel = "void agent<lib::Merge<int> >(int*)";
    analysis.memory_errors.push_back(fault);
    Expected<Suppressions> suppressions = Suppressions::parse("unwritten:*Merge<*", "known.txt");
    EXPECT_TRUE(suppressions);
    suppressions->apply(analysis);
    return analysis.memory_errors.size();
  };
  EXPECT_EQ(left(false), 0u);
  EXPECT_EQ(left(true), 1u); // its lines say that it is elsewhere
}

TEST(ReportSuppress, CommentsHitsAndUnused) {
  Expected<Suppressions> suppressions = Suppressions::parse(
      "# known\r\n\r\n  kernel: softmax*  \r\n\t# more\nrace:none.cu:1\nkernel:f(int)::{lambda()#1}::*", "known.txt");
  ASSERT_TRUE(suppressions);
  Analysis analysis = analysis_of({shared_race(1), stream_race(2)});
  suppressions->apply(analysis);
  ASSERT_EQ(suppressions->patterns().size(), 3u);
  EXPECT_EQ(suppressions->patterns()[0].glob, "softmax*");
  EXPECT_EQ(suppressions->patterns()[0].hits, 2u);
  EXPECT_EQ(suppressions->unused(),
            (std::vector<std::string>{"race:none.cu:1 (known.txt:5)", "kernel:f(int)::{lambda()#1}::* (known.txt:6)"}));
}

TEST(ReportSuppress, MalformedLinesAreNamed) {
  for (const char* text :
       {"# fine\nrace", "# fine\nraces:a.cu:1", "\nkernel:", "\nstream:   ", "\n:x", "\nsoftmax.cu:12"}) {
    Expected<Suppressions> suppressions = Suppressions::parse(text, "known.txt");
    ASSERT_FALSE(suppressions) << text;
    EXPECT_EQ(suppressions.error().where, "known.txt:2") << text;
    EXPECT_FALSE(suppressions.error().hint.empty());
  }
}

TEST(ReportSuppress, HitsAreCounted) {
  Expected<Suppressions> suppressions =
      Suppressions::parse("race:softmax.cu:12\nkernel:other*\nstream:*\n", "known.txt");
  ASSERT_TRUE(suppressions);
  Analysis analysis = analysis_of({shared_race(1), stream_race(2)});
  suppressions->apply(analysis);
  EXPECT_EQ(suppressions->used(), (std::vector<std::string>{"race:softmax.cu:12 (known.txt:1) matched 2 races",
                                                            "stream:* (known.txt:3) matched 1 race"}));
}

// Operations have no line, and kernels may have none.
TEST(ReportSuppress, SidesWithoutALineGoByName) {
  EXPECT_EQ(suppressed_by("race:softmax.cu:12 cudaFreeAsync"), Ids{2});
  EXPECT_EQ(suppressed_by("race:cudaFreeAsync softmax.cu:12"), Ids{2});
  EXPECT_EQ(suppressed_by("race:softmax.cu:12 cudaFree"), Ids{});
  EXPECT_EQ(suppressed_by("race:softmax.cu:12 softmax(*"), Ids{}); // that one has lines
}

TEST(ReportSuppress, EntriesMadeFromRacesMatchThese) {
  Race plain = shared_race(3); // a kernel compiled without -lineinfo, in a name with blanks
  plain.first.source.clear();
  plain.second.source.clear();
  Race hidden = shared_race(4);
  hidden.suppressed = true;
  hidden.first.kernel = "hidden";
  Analysis analysis = analysis_of({shared_race(1), stream_race(2), plain, hidden});
  std::string text = suppressions_for(analysis);
  EXPECT_TRUE(contains(text, "# race 1: read-write, level shared\nrace:softmax.cu:12 softmax.cu:15\n")) << text;
  EXPECT_TRUE(contains(text, "race:cudaFreeAsync softmax.cu:12\n")) << text;
  EXPECT_FALSE(contains(text, "hidden"));
  Expected<Suppressions> suppressions = Suppressions::parse(text, "printed");
  ASSERT_TRUE(suppressions) << text;
  suppressions->apply(analysis);
  EXPECT_EQ(analysis.summary.races, 0u);
  ASSERT_EQ(suppressions->patterns().size(), 3u);
  for (const Suppressions::Pattern& pattern : suppressions->patterns())
    EXPECT_EQ(pattern.hits, 1u + (pattern.text == "race:softmax.cu:12 softmax.cu:15")) << pattern.text;
  EXPECT_EQ(suppressions_for(analysis), "");
}

TEST(ReportSuppress, Files) {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("report_test_" + std::to_string(getpid()) + ".txt");
  std::ofstream(file) << "race:a.cu:1\n";
  Expected<Suppressions> suppressions = Suppressions::read(file.string());
  ASSERT_TRUE(suppressions);
  EXPECT_EQ(suppressions->patterns().size(), 1u);
  std::ofstream(file) << "";
  suppressions = Suppressions::read(file.string());
  ASSERT_TRUE(suppressions);
  EXPECT_TRUE(suppressions->patterns().empty());
  std::filesystem::remove(file);

  EXPECT_FALSE(Suppressions::read(file.string()));
  EXPECT_FALSE(Suppressions::read(std::filesystem::temp_directory_path().string()));
}

} // namespace
} // namespace deadheat::report
