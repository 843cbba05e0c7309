// The progress bar: what a terminal gets, and when.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/progress.h"

namespace deadheat::test {
namespace {

using namespace std::chrono_literals;
using tools::ProgressBar;

class Progress : public testing::Test {
 protected:
  Progress() : out_(open_memstream(&text_, &size_)) {}
  ~Progress() override {
    std::fclose(out_);
    std::free(text_);
  }
  ProgressBar bar(bool terminal) {
    return ProgressBar(out_, terminal, [this] { return now_; });
  }
  // What was drawn since the last time.
  std::string drawn() {
    std::fflush(out_);
    const std::string all(text_, size_);
    const std::string added = all.substr(seen_);
    seen_ = all.size();
    return added;
  }
  void pass(std::chrono::milliseconds time) { now_ += time; }

 private:
  ProgressBar::Clock::time_point now_ = ProgressBar::Clock::time_point(1h);
  char* text_ = nullptr;
  std::size_t size_ = 0, seen_ = 0;
  std::FILE* out_;
};

const std::string wiped = "\r\033[K";

TEST_F(Progress, OnlyWhatTakesTwoSeconds) {
  {
    ProgressBar bar = this->bar(true);
    bar.show("reading", 0.25);
    pass(1999ms);
    bar.show("reading", 0.5);
    EXPECT_EQ(drawn(), "");
  }
  EXPECT_EQ(drawn(), ""); // nothing to take away
  {
    ProgressBar bar = this->bar(true);
    pass(2s);
    bar.show("reading", 0.5);
    EXPECT_EQ(drawn(), wiped + "reading [###############               ]  50 %");
  }
  EXPECT_EQ(drawn(), wiped);
}

TEST_F(Progress, TenTimesASecond) {
  ProgressBar bar = this->bar(true);
  pass(2s);
  bar.show("reading", 0);
  EXPECT_NE(drawn(), "");
  pass(99ms);
  bar.show("reading", 0.1);
  EXPECT_EQ(drawn(), "");
  pass(1ms);
  bar.show("looking for pairs", 1);
  EXPECT_EQ(drawn(), wiped + "looking for pairs [##############################] 100 %");
}

TEST_F(Progress, SharesThatLie) {
  ProgressBar bar = this->bar(true);
  pass(2s);
  bar.show("reading", 1.5);
  EXPECT_EQ(drawn(), wiped + "reading [##############################] 100 %");
  pass(1s);
  bar.show("reading", -1);
  EXPECT_EQ(drawn(), wiped + "reading [                              ]   0 %");
}

TEST_F(Progress, NothingForFiles) {
  {
    ProgressBar bar = this->bar(false);
    pass(5s);
    bar.show("reading", 0.5);
  }
  EXPECT_EQ(drawn(), "");
}

} // namespace
} // namespace deadheat::test
