// Kernels in two streams that wait for each other's flags: a GPU's trace tells what they tell each other only where it
// has them run at the same time.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

struct Exchange {
  std::string device_kind = "gpu";
  bool waits = true; // for what the other writes
  std::uint64_t waits_at = memory;
  bool together = false; // they run at the same time
  Certainty certainty = Certainty::certain;
};

// One launch writes data and then its flag; the other, whose records come first, waits for the flag and reads the data.
TEST(Exchanges, OfTwoLaunchesApartAreNotKnownOnAGpu) {
  const Exchange exchanges[] = {
      {.certainty = Certainty::possible}, {.device_kind = "embedded"}, {.waits = false},
      {.waits_at = memory + 8},           {.together = true},
  };
  for (const Exchange& of : exchanges) {
    LittleTrace trace;
    trace.device_kind = of.device_kind;
    trace.stream(2);
    trace.stream(3);
    const auto write = trace.site(1, {.access = AccessKind::write}), read = trace.site(2, {});
    const auto sets = trace.site(3, {.access = AccessKind::write, .ordering = Ordering::release, .scope = Scope::gpu});
    const auto looks = trace.site(4, {.ordering = Ordering::acquire, .scope = Scope::gpu, .in_loop = of.waits});
    const auto reader = trace.launch(2);
    auto writer = of.together ? trace.launch(3) : 0;
    trace.access(reader, 0, 0, looks, of.waits_at, 0, 1);
    trace.access(reader, 0, 0, read, memory + 64);
    if (!of.together) {
      trace.end_launch(reader);
      writer = trace.launch(3);
    }
    trace.access(writer, 0, 0, write, memory + 64);
    trace.access(writer, 0, 0, sets, memory, 0, 0, 1);
    const Analysis analysis = trace.analyze();
    ASSERT_EQ(analysis.races.size(), 1u) << of.device_kind << of.waits << of.waits_at;
    EXPECT_EQ(analysis.races[0].certainty, of.certainty) << of.device_kind << of.waits << of.waits_at;
    EXPECT_EQ(analysis.races[0].why.find("waits in a loop") != std::string::npos, of.certainty == Certainty::possible);
  }
}

} // namespace
} // namespace deadheat::test
