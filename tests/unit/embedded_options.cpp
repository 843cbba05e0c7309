// DEADHEAT_OPTIONS.
#include <gtest/gtest.h>

#include "deadheat/options.h"

namespace deadheat {

TEST(Options, EmptyTextGivesTheDefaults) {
  Expected<TracerOptions> options = parse_options("");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->output, "");
  EXPECT_EQ(options->seed, 1u);
  EXPECT_TRUE(options->accesses);
  EXPECT_EQ(options->device, "embedded");
}

TEST(Options, KeysAndValues) {
  Expected<TracerOptions> options =
      parse_options("output=/tmp/a=b.deadheat::seed=18446744073709551615:accesses=0:kernel=x.*");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->output, "/tmp/a=b.deadheat");
  EXPECT_EQ(options->seed, ~std::uint64_t(0));
  EXPECT_FALSE(options->accesses);
  EXPECT_EQ(options->kernel, "x.*");
}

TEST(Options, WhatIsNotAnOptionIsAnError) {
  for (const char* text : {"seed", "=3", "seed=", "seed=x", "seed=-1", "seed=1 ", "accesses=yes", "sede=3", "output"}) {
    EXPECT_FALSE(parse_options(text)) << text;
  }
  EXPECT_NE(parse_options("sede=3").error().message().find("launch-skip"), std::string::npos);
}

} // namespace deadheat
