// What nobody wrote, in kernels of PTX that nvcc does not write so.
#include "device_ptx.h"

namespace deadheat::device_test {
namespace {

std::vector<std::string> errors_of(const std::string& body) {
  device::DeviceOptions options;
  options.check = options.record_accesses = options.unwritten = true;
  Rig rig(module_of(kernel("k", body)), nullptr, options);
  rig.load();
  const std::uint64_t out = rig.alloc(256);
  rig.set(out, 0, 256);
  rig.launch(shape("k", {1, 1, 1}, 1, {1, 1, 1}), {out, out});
  EXPECT_EQ(rig.sync(), device::Progress::done);
  std::vector<std::string> texts;
  for (const auto& e : rig.sink.all<trace::MemoryError>()) texts.push_back(e.text);
  return texts;
}

std::string decides_on(const std::string& address) {
  return "ld.local.u32 %r1, [" + address + "];\nsetp.eq.u32 %p1, %r1, 5;\n@%p1 st.global.u32 [%rd30], %r1;\n";
}
const std::string begin = "stacksave.u64 %rd3;\nalloca.u64 %rd1, 16;\n";
const std::string again = "stackrestore.u64 %rd3;\nalloca.u64 %rd2, 16;\n";

TEST(Unwritten, MemoryOfAllocaIsFreshEachTime) {
  EXPECT_EQ(errors_of(begin + "st.local.u32 [%rd1], %r30;\n" + decides_on("%rd1")), std::vector<std::string>{});
  const std::vector<std::string> found = errors_of(begin + "st.local.u32 [%rd1], %r30;\n" + again + decides_on("%rd2"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("local memory that the thread did not write"), std::string::npos) << found[0];
}

} // namespace
} // namespace deadheat::device_test
