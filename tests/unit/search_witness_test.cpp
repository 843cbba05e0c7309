// Witness files: round trip, and every kind of damage.
#include "replay/search/witness.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "replay/search/manifest.h"

namespace deadheat::search {
namespace {

namespace fs = std::filesystem;

class WitnessFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "witness-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    fs::create_directories(directory_ / "capsule/blobs");
    fs::create_directories(directory_ / "out");
    std::ofstream(directory_ / "capsule/1.log") << "commands";
    std::ofstream(directory_ / "capsule/blobs/ab") << std::string(1000, 'x');
    witness_.race.id = 3;
    witness_.race.why = "no barrier";
    witness_.race.first.kernel =
        "soft\xff"
        "max"; // names may hold any byte
    witness_.race.first.source.push_back({"f", "a.cu", 12, 3});
    witness_.race.second.name = {4, 2, 1, 33, 1, 9, 5};
    witness_.race.allocation = Race::AllocationRef{2, 128, 1024};
    witness_.a.kind = Schedule::Kind::holds;
    witness_.a.holds.push_back({witness_.race.second.name, witness_.race.first.name});
    witness_.a.holds.push_back({.held = witness_.race.first.name,
                                .until = witness_.race.second.name,
                                .in_place = true,
                                .foreseen = {0xa00000208800, {1, 0, 255, 7}}});
    witness_.b.kind = Schedule::Kind::switches;
    witness_.b.switches.push_back({77, {Agent::Kind::thread, 4, 1, 33, 0}});
    witness_.b.weak = true;
    witness_.b.old_rate = 7;
    witness_.b.old_reads.push_back({4, 1, 33, 2, 11});
    witness_.b.sites = {{1, 5}, {1, 9}};
    witness_.b.counts.push_back({4, 1, 33, 6});
    witness_.b.order = Schedule::Order::permuted;
    witness_.instance = Race::Instance{witness_.race.second.name, witness_.race.first.name};
    witness_.digest_a = "aa";
    witness_.digest_b = "bb";
    witness_.last_operation = 9;
    witness_.smaller.emplace();
    witness_.smaller->a.driven = true;
    witness_.smaller->a.absent = {{3, 1, Absent::every_thread}, {3, 2, 7}};
    witness_.smaller->size = {.blocks = 2, .of_blocks = 4, .threads = 3, .of_threads = 128};
    ASSERT_TRUE(write_witness(file(), witness_, (directory_ / "capsule").string()));
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string file() const { return (directory_ / "race.witness").string(); }
  std::string out() const { return (directory_ / "out").string(); }
  std::string read() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(file(), std::ios::binary) << bytes; }

  fs::path directory_;
  Witness witness_;
};

// What it was made with keeps its order: wait loops looked late then, or those did that others had kept waiting.
TEST_F(WitnessFile, OfAnEarlierVersionIsLessPrompt) {
  using Prompt = Schedule::Prompt;
  const std::string written = to_manifest(witness_);
  const auto read = [&](const std::string& instead) {
    const std::string now = "\"prompt\": 2";
    std::string text = written;
    for (std::size_t at = 0; (at = text.find(now, at)) != std::string::npos; at += instead.size())
      text.replace(at, now.size(), instead);
    Expected<Witness> witness = from_manifest(text, "w");
    EXPECT_TRUE(witness) << witness.error().message();
    EXPECT_EQ(witness->a.prompt, witness->b.prompt);
    return witness->a.prompt;
  };
  EXPECT_EQ(read("\"prompt\": 2"), Prompt::always);
  EXPECT_EQ(read("\"prompt\": true"), Prompt::at_first);
  EXPECT_EQ(read("\"other\": 0"), Prompt::no);
}

TEST_F(WitnessFile, ComesBackAsItWas) {
  Expected<Witness> read = read_witness(file(), out());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->race.id, 3u);
  EXPECT_EQ(read->race.second.name, witness_.race.second.name);
  EXPECT_EQ(read->race.first.source, witness_.race.first.source);
  EXPECT_EQ(read->race.allocation->offset, 128u);
  ASSERT_EQ(read->a.holds.size(), 2u);
  EXPECT_EQ(read->a.holds[0].held, witness_.a.holds[0].held);
  EXPECT_EQ(read->a.holds[0].foreseen, Written());
  EXPECT_EQ(read->a.holds[1].foreseen, witness_.a.holds[1].foreseen);
  ASSERT_EQ(read->b.switches.size(), 1u);
  EXPECT_EQ(read->b.switches[0].agent, witness_.b.switches[0].agent);
  EXPECT_FALSE(read->a.weak);
  EXPECT_TRUE(read->b.weak);
  EXPECT_EQ(read->b.old_rate, 7u);
  EXPECT_EQ(read->b.old_reads, witness_.b.old_reads);
  EXPECT_EQ(read->b.sites, witness_.b.sites);
  ASSERT_EQ(read->b.counts.size(), 1u);
  EXPECT_EQ(read->b.counts[0].count, 6u);
  EXPECT_EQ(read->b.order, Schedule::Order::permuted);
  ASSERT_TRUE(read->instance);
  EXPECT_EQ(read->instance->first, witness_.race.second.name);
  ASSERT_TRUE(read->smaller);
  EXPECT_EQ(read->smaller->a.absent, witness_.smaller->a.absent);
  EXPECT_TRUE(read->smaller->a.driven);
  EXPECT_FALSE(read->smaller->b.driven);
  EXPECT_EQ(read->smaller->size.threads, 3u);
  EXPECT_EQ(read->smaller->size.of_blocks, 4u);
  EXPECT_EQ(read->last_operation, 9u);
  EXPECT_EQ(fs::file_size(directory_ / "out/blobs/ab"), 1000u);
  EXPECT_EQ(fs::file_size(directory_ / "out/1.log"), 8u);
}

TEST_F(WitnessFile, EveryFlippedByteIsFound) {
  std::string bytes = read();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = char(damaged[at] ^ 0x40);
    write(damaged);
    EXPECT_FALSE(read_witness(file(), out())) << "byte " << at;
  }
}

TEST_F(WitnessFile, EveryTruncationIsFound) {
  std::string bytes = read();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write(bytes.substr(0, size));
    EXPECT_FALSE(read_witness(file(), out())) << "size " << size;
  }
}

TEST_F(WitnessFile, AnotherVersionIsNamed) {
  std::string bytes = read();
  bytes[offsetof(WitnessHeader, version)] = 9;
  write(bytes);
  Expected<Witness> read = read_witness(file(), out());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find("version 9"), std::string::npos);
  EXPECT_NE(read.error().message().find("reads version " + std::to_string(witness_version)), std::string::npos);
}

TEST_F(WitnessFile, TheFirstVersionIsReadToo) {
  std::string bytes = read();
  bytes[offsetof(WitnessHeader, version)] = 1;
  write(bytes);
  EXPECT_TRUE(read_witness(file(), out()));
}

TEST_F(WitnessFile, MissingFileIsNamed) {
  Expected<Witness> read = read_witness("/nonexistent.witness", out());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find("/nonexistent.witness"), std::string::npos);
}

TEST_F(WitnessFile, ManifestWithWrongTypesIsAnError) {
  for (const char* text : {"", "{", "[]", "{\"race\": 1}", "{\"race\": {\"id\": \"x\"}}"}) {
    EXPECT_FALSE(from_manifest(text, "f")) << text;
  }
}

} // namespace
} // namespace deadheat::search
