// Rendezvous of a warp's lanes, as the device answers them.
#include <cmath>
#include <limits>

#include "device_ptx.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

std::uint32_t bits_of(float f) { return std::bit_cast<std::uint32_t>(f); }

} // namespace

// redux.f32 (PTX ISA 9.7.13.9): lanes give in[lane]; the answers of {min, max} {, .abs} {, .NaN}, in this order.
TEST_P(Ptx, FloatReductions) {
  const float inf = std::numeric_limits<float>::infinity();
  constexpr std::uint32_t nan = 0x7fffffff, signalling = 0x7f800001;
  struct Case {
    std::vector<std::uint32_t> given; // of the first lanes; the others give the last
    std::uint32_t min, min_nan, min_abs, min_abs_nan, max, max_nan, max_abs, max_abs_nan;
  };
  const std::uint32_t one = bits_of(1.f), minus_two = bits_of(-2.f), two = bits_of(2.f), zero = 0,
                      minus_zero = 1u << 31;
  const Case cases[] = {
      {{one, minus_two}, minus_two, minus_two, one, one, one, one, two, two},
      {{zero, minus_zero}, minus_zero, minus_zero, zero, zero, zero, zero, zero, zero},
      {{minus_zero, zero}, minus_zero, minus_zero, zero, zero, zero, zero, zero, zero},
      {{one, signalling, two}, one, nan, one, nan, two, nan, two, nan},
      {{nan | 1u << 31}, nan, nan, nan, nan, nan, nan, nan, nan},
      {{bits_of(-inf), bits_of(inf), one},
       bits_of(-inf),
       bits_of(-inf),
       one,
       one,
       bits_of(inf),
       bits_of(inf),
       bits_of(inf),
       bits_of(inf)},
      {{bits_of(1e-40f), bits_of(-1e-41f)},
       bits_of(-1e-41f),
       bits_of(-1e-41f),
       bits_of(1e-41f),
       bits_of(1e-41f),
       bits_of(1e-40f),
       bits_of(1e-40f),
       bits_of(1e-40f),
       bits_of(1e-40f)},
  };
  std::string body =
      "mul.wide.u32 %rd0, %r30, 4;\nadd.u64 %rd1, %rd31, %rd0;\nld.global.b32 %r0, [%rd1];\n"
      "mad.lo.u32 %r1, %r30, 32, 0;\ncvt.u64.u32 %rd2, %r1;\nadd.u64 %rd2, %rd2, %rd30;\n";
  unsigned at = 0;
  for (const char* how : {"min", "min.NaN", "min.abs", "min.abs.NaN", "max", "max.NaN", "max.abs", "max.abs.NaN"}) {
    body += std::string("redux.sync.") + how + ".f32 %r2, %r0, 0xffffffff;\nst.global.b32 [%rd2+" + std::to_string(at) +
            "], %r2;\n";
    at += 4;
  }
  for (const Case& c : cases) {
    PtxRig rig(kernel("k", body), GetParam());
    std::vector<std::uint32_t> given = c.given;
    given.resize(32, given.back());
    const std::uint64_t in = rig.words_of(given), out = rig.alloc(1024);
    rig.launch("k", 1, 32, {out, in});
    ASSERT_EQ(rig.sync(), Progress::done);
    const std::vector<std::uint32_t> expected = {c.min, c.min_nan, c.min_abs, c.min_abs_nan,
                                                 c.max, c.max_nan, c.max_abs, c.max_abs_nan};
    const auto found = rig.words(out, 256);
    for (unsigned lane = 0; lane < 32; ++lane)
      ASSERT_EQ(std::vector<std::uint32_t>(found.begin() + 8 * lane, found.begin() + 8 * lane + 8), expected);
  }
}

} // namespace deadheat::device_test
