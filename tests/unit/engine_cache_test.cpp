// Compiled kernels that are kept on disk: found again, never confused, never trusted when damaged.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine_runner.h"
#include "tracer/ptx/code_cache.h"

namespace deadheat::engine {
namespace {

namespace fs = std::filesystem;

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/deadheat-cache-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory_)) found.push_back(entry.path());
    return found;
  }
  std::string directory_;
};

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
void spill(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// A helper of the host's (sin), a call, a barrier.
const char* const kernel = R"(.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.s32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<6>; .reg .b32 %r<9>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  cvt.rn.f32.u32 %f1, %r1;
  sin.approx.f32 %f2, %f1;
  bar.sync 0;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), twice, (a); ld.param.b32 %r2, [b]; }
  add.s32 %r2, %r2, 5;
  cvt.rn.f32.u32 %f3, %r2;
  add.f32 %f2, %f2, %f3;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.f32 [%rd3], %f2;
  ret;
}
)";

std::vector<float> run(const std::string& directory, bool record, const std::string& ptx = kernel) {
  Runner r(ptx, directory);
  r.mode.record = record;
  const std::uint64_t out = r.allocate(32 * 4);
  r.launch("k", {1}, {32}, out);
  EXPECT_EQ(r.fault, "");
  return r.download<float>(out, 32);
}

TEST_F(Cache, an_entry_a_mode_found_again) {
  const std::vector<float> plain = run(directory_, false), recorded = run(directory_, true);
  EXPECT_EQ(plain, recorded);
  EXPECT_NEAR(plain[1], std::sin(1.0f) + 2 + 5, 1e-5);
  EXPECT_EQ(entries().size(), 2u);
  std::map<fs::path, fs::file_time_type> used;
  for (const auto& path : entries()) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
    used[path] = fs::last_write_time(path);
  }
  EXPECT_EQ(run(directory_, false), plain);
  EXPECT_EQ(run(directory_, true), plain);
  EXPECT_EQ(entries().size(), 2u);
  for (const auto& path : entries()) EXPECT_GT(fs::last_write_time(path), used[path]);
}

TEST_F(Cache, code_that_is_kept_is_what_runs) {
  // The entry of another kernel under this one's key: had it been compiled anew, the answer would be its own.
  std::string other = kernel;
  other.replace(other.find("add.s32 %r2, %r1, %r1"), 21, "add.s32 %r2, %r1, 100");
  const std::vector<float> right = run(directory_, false);
  const fs::path first = entries().at(0);
  const std::vector<float> others = run(directory_, false, other);
  EXPECT_NE(right, others);
  for (const auto& path : entries()) {
    if (path == first) continue;
    std::string bytes = slurp(path), key = slurp(first).substr(16, 16);
    spill(first, bytes.replace(16, 16, key));
  }
  EXPECT_EQ(run(directory_, false), others);
}

TEST_F(Cache, addresses_are_part_of_the_key) {
  std::string with = kernel;
  with.insert(with.find(".func"), ".global .align 4 .u32 counter = 5;\n");
  with.replace(with.find("add.s32 %r2, %r2, 5;"), 20, "ld.global.u32 %r3, [counter]; add.s32 %r2, %r2, %r3;");
  const std::vector<float> right = run("", false);
  EXPECT_EQ(run(directory_, false, with), right);
  EXPECT_EQ(run(directory_, false, with), right);  // the variable lies elsewhere now
  EXPECT_EQ(entries().size(), 2u);
}

TEST_F(Cache, other_kernels_of_the_module_are_not_part_of_the_key) {
  // Behind the kernel, so that its sites keep their numbers; in front of it they do not.
  const std::string other = ".visible .entry other() {\n  bar.sync 0;\n  ret;\n}\n";
  const std::string longer = ".visible .entry other() {\n  bar.sync 0;\n  bar.sync 0;\n  ret;\n}\n";
  const std::vector<float> right = run(directory_, true, kernel + other);
  EXPECT_EQ(run(directory_, true, kernel + longer), right);
  EXPECT_EQ(entries().size(), 1u);
  std::string before = kernel;
  EXPECT_EQ(run(directory_, true, before.insert(before.find(".visible"), other)), right);
  EXPECT_EQ(entries().size(), 2u);
  std::string more = kernel;
  EXPECT_EQ(run(directory_, true, more.insert(more.find(".visible"), longer)), right);
  EXPECT_EQ(entries().size(), 3u);
}

TEST_F(Cache, what_the_kernel_calls_is_part_of_the_key) {
  std::string other = kernel;
  other.replace(other.find("add.s32 %r2, %r1, %r1"), 21, "add.s32 %r2, %r1, 100");
  EXPECT_EQ(run(directory_, false), run("", false));
  EXPECT_EQ(run(directory_, false, other), run("", false, other));
  EXPECT_EQ(entries().size(), 2u);
}

TEST_F(Cache, damage_is_as_good_as_nothing) {
  const std::vector<float> right = run(directory_, false);
  ASSERT_EQ(entries().size(), 1u);
  const fs::path path = entries()[0];
  const std::string whole = slurp(path);
  for (std::size_t at = 0; at < whole.size(); at += at < 64 ? 1 : whole.size() / 7) {
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ 1);
    spill(path, flipped);
    EXPECT_EQ(run(directory_, false), right) << at;
    EXPECT_TRUE(slurp(path) == whole) << at;  // and made good
    spill(path, whole.substr(0, at));
    EXPECT_EQ(run(directory_, false), right) << at;
  }
  spill(path, whole + "x");
  EXPECT_EQ(run(directory_, false), right);
}

TEST_F(Cache, keys_and_limits) {
  ptx::CodeCache cache(directory_, 100000);
  EXPECT_FALSE(cache.find("a"));
  cache.keep("a", "first");
  cache.keep("b", "second");
  auto found = cache.find("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(std::string(found->begin(), found->end()), "first");
  cache.keep("big", std::string(30000, 'x'));  // more than a quarter of the limit
  EXPECT_FALSE(cache.find("big"));
  EXPECT_FALSE(ptx::CodeCache("").enabled());
  EXPECT_FALSE(cache.find(""));
  for (int n = 0; n < 200; ++n) cache.keep("k" + std::to_string(n), std::string(1000, 'x'));
  std::uint64_t bytes = 0;
  for (const auto& path : entries()) bytes += fs::file_size(path);
  EXPECT_LT(bytes, 100000u + 64 * 1100);  // looked at every 64 entries
  EXPECT_TRUE(cache.find("k199"));
}

TEST_F(Cache, a_directory_that_others_may_write_is_not_used) {
  chmod(directory_.c_str(), 0777);
  EXPECT_FALSE(ptx::CodeCache(directory_).enabled());
  chmod(directory_.c_str(), 0700);
  EXPECT_TRUE(ptx::CodeCache(directory_).enabled());
}

}  // namespace
}  // namespace deadheat::engine
