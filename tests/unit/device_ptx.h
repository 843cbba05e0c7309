// Tests of the device and the engine together: kernels in PTX, each run plain, with addresses checked, recorded, and
// under random schedules. Their results are the same.
#pragma once

#include <bit>
#include <functional>

#include "device_support.h"

namespace deadheat::device_test {

// A kernel of that name with two pointers, `out` in %rd30 and `in` in %rd31, its thread in %r30 and its block's rank in
// the grid in %r31. `s` is 4096 bytes of shared memory at offset 0 (%r29), its last 64 are for mbarriers: %r20 to %r27.
inline std::string kernel(const std::string& name, const std::string& body, const std::string& directives = "") {
  std::string text = ".visible .entry " + name + "(.param .u64 out, .param .u64 in) " + directives +
                     "{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<32>;\n.reg .b64 %rd<32>;\n"
                     ".shared .align 128 .b8 s[4096];\n"
                     "ld.param.u64 %rd30, [out];\nld.param.u64 %rd31, [in];\nmov.u32 %r30, %tid.x;\n"
                     "mov.u32 %r31, %ctaid.x;\nmov.u32 %r29, s;\n";
  for (int i = 0; i < 8; ++i)
    text += "add.u32 %r2" + std::to_string(i) + ", %r29, " + std::to_string(4032 + 8 * i) + ";\n";
  return text + body + "\nret;\n}\n";
}
inline std::string module_of(const std::string& kernels) {
  return ".version 8.6\n.target sm_90\n.address_size 64\n" + kernels;
}

// Modes: 0 plain, 1 checked, 2 recorded and checked, 3 to 6 under random schedules, the last two recorded.
inline device::DeviceOptions mode_options(int mode) {
  device::DeviceOptions o;
  o.check = mode != 0;
  o.record_accesses = mode == 2 || mode > 4;
  if (mode >= 3) {
    o.schedule.kind = Schedule::Kind::random;
    o.schedule.seed = std::uint64_t(mode);
    o.schedule.quantum = mode % 2 ? 0 : 7;
  }
  return o;
}
inline constexpr int modes = 7;

// A launch in clusters.
inline trace::Launch shape(const char* kernel, Dim3 grid, std::uint32_t threads, Dim3 cluster) {
  trace::Launch launch;
  launch.kernel = kernel;
  launch.grid = grid;
  launch.block.x = threads;
  launch.cluster = cluster;
  return launch;
}

class PtxRig : public Rig {
 public:
  PtxRig(const std::string& kernels, int mode) : Rig(module_of(kernels), nullptr, mode_options(mode)) { load(); }
  std::vector<std::string> errors() const { // what was said of wrong use, in words
    std::vector<std::string> found;
    static constexpr const char* kinds[] = {"out of bounds", "use after free", "misaligned", "wrong space"};
    for (const auto& e : sink.all<trace::SyncError>()) found.push_back(e.text);
    for (const auto& e : sink.all<trace::MemoryError>())
      found.push_back(std::size_t(e.kind) < std::size(kinds) ? kinds[std::size_t(e.kind)] : "fault");
    return found;
  }
  std::uint64_t words_of(const std::vector<std::uint32_t>& values) {
    const std::uint64_t at = alloc(values.size() * 4 + 16);
    copy(trace::Copy::Direction::h2d, at, std::uint64_t(values.data()), values.size() * 4);
    EXPECT_EQ(sync(), device::Progress::done);
    return at;
  }
};

class Ptx : public ::testing::TestWithParam<int> {};

// Waits until the phase with that parity of the mbarrier in a register is complete; `number` makes labels unique.
inline std::string wait_parity(const std::string& barrier, const std::string& parity, int number,
                               const std::string& how = "try_wait") {
  const std::string label = "$wait" + std::to_string(number);
  return label + ":\nmbarrier." + how + ".parity.shared::cta.b64 %p7, [" + barrier + "], " + parity + ";\n@!%p7 bra " +
         label + ";\n";
}
inline std::string only_thread_0(const std::string& body, int number) {
  const std::string label = "$others" + std::to_string(number);
  return "setp.ne.u32 %p6, %r30, 0;\n@%p6 bra " + label + ";\n" + body + label + ":\n";
}

} // namespace deadheat::device_test
