// Checked launches that run region by region report what threads that run one at a time report, and leave the same
// memory behind.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "replay/device/device.h"
#include "replay/device/module_cache.h"

namespace deadheat::device_test {

namespace {

using trace::MemoryError;

// k(in, index, out, n, shared_extra): out[index[i]] = in[index[i]] + what a neighbour put into shared memory.
const char* const kernel_ptx = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 index, .param .u64 out, .param .u32 n, .param .u32 extra)
{
.reg .pred %p<4>;
.reg .b32 %r<20>;
.reg .b64 %rd<20>;
.shared .align 4 .b8 tile[128];
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [index];
ld.param.u64 %rd3, [out];
ld.param.u32 %r1, [n];
ld.param.u32 %r2, [extra];
mov.u32 %r3, %tid.x;
mov.u32 %r4, %ctaid.x;
mov.u32 %r5, %ntid.x;
mad.lo.s32 %r6, %r4, %r5, %r3;
mov.u32 %r7, tile;
shl.b32 %r8, %r3, 2;
add.s32 %r9, %r7, %r8;
st.shared.u32 [%r9], %r6;
bar.sync 0;
setp.ge.s32 %p1, %r6, %r1;
@%p1 bra DONE;
add.s32 %r10, %r9, %r2;
ld.shared.u32 %r11, [%r10];
mul.wide.s32 %rd4, %r6, 4;
add.s64 %rd5, %rd2, %rd4;
ld.global.u32 %r12, [%rd5];
mul.wide.s32 %rd6, %r12, 4;
add.s64 %rd7, %rd1, %rd6;
ld.global.u32 %r13, [%rd7];
add.s32 %r14, %r13, %r11;
add.s64 %rd8, %rd3, %rd6;
st.global.u32 [%rd8], %r14;
DONE:
ret;
}
)";

// Blocks of one warp: both ways go through their threads in the same order.
constexpr std::uint32_t threads = 32, blocks = 8, count = threads * blocks;

struct Case {
  std::vector<std::uint32_t> index = std::vector<std::uint32_t>(count);
  std::uint32_t n = count, extra = 0;
  std::uint64_t out_offset = 0;
  bool in_freed = false, index_is_out = false;
};

struct Result {
  std::string fault;
  std::vector<std::uint8_t> out;
};

std::shared_ptr<device::ModuleCache> modules(bool regions) {
  engine::CompilerOptions options;
  options.regions = regions;
  options.cache.clear();
  return device::make_module_cache(engine::make_compiler(options));
}

Result run(const Case& c, bool regions) {
  static const std::shared_ptr<device::ModuleCache> caches[2] = {modules(false), modules(true)};
  device::DeviceOptions options;
  options.modules = caches[regions];
  options.check = true;
  auto made = device::Device::create(options);
  EXPECT_TRUE(made);
  device::Device& device = **made;
  auto module = device.load_module(kernel_ptx, "k.ptx");
  EXPECT_TRUE(module);
  auto buffer = [&](const std::vector<std::uint32_t>& values) {
    auto a = device.allocate(trace::Allocate::Kind::device, 4 * values.size(), 1);
    EXPECT_TRUE(a);
    std::memcpy(const_cast<std::uint8_t*>(device.peek(a->address, 4 * values.size())), values.data(),
                4 * values.size());
    return a->address;
  };
  std::vector<std::uint32_t> in(count);
  for (std::uint32_t i = 0; i < count; ++i) in[i] = i * 100 + 1;
  const std::uint64_t from = buffer(in), index = buffer(c.index), out = c.index_is_out ? index : buffer(in);
  if (c.in_freed) {
    EXPECT_TRUE(device.release(from, 1));
  }
  struct {
    std::uint64_t in, index, out;
    std::uint32_t n, extra;
  } arguments{from, index, out + c.out_offset, c.n, c.extra};
  trace::Operation operation;
  trace::Launch launch;
  launch.module = *module;
  launch.kernel = "k";
  launch.grid = {blocks, 1, 1};
  launch.block = {threads, 1, 1};
  launch.arguments.inlined.resize(sizeof arguments);
  launch.arguments.size = sizeof arguments;
  std::memcpy(launch.arguments.inlined.data(), &arguments, sizeof arguments);
  operation.stream = 1;
  operation.host_thread = 1;
  operation.what = launch;
  EXPECT_TRUE(device.submit(operation));
  device.wait({});
  Result result;
  if (const auto& f = device.fault()) {
    result.fault = std::to_string(int(f->kind)) + " block " + std::to_string(f->block) + " thread " +
                   std::to_string(f->thread) + " site " + std::to_string(f->site) + " bytes " +
                   std::to_string(f->bytes) + " access " + std::to_string(int(f->access)) + " at " +
                   std::to_string(f->address) + " near " + std::to_string(f->nearest_allocation) + f->text;
  }
  const std::uint8_t* bytes = device.peek(out, 4 * count);
  result.out.assign(bytes, bytes + 4 * count);
  return result;
}

void expect_same(const Case& c, bool faults) {
  const Result alone = run(c, false), together = run(c, true);
  EXPECT_EQ(alone.fault, together.fault);
  EXPECT_EQ(alone.out, together.out);
  EXPECT_EQ(!alone.fault.empty(), faults) << alone.fault;
}

Case shuffled(std::uint32_t seed) {
  Case c;
  for (std::uint32_t i = 0; i < count; ++i) c.index[i] = i;
  std::shuffle(c.index.begin(), c.index.end(), std::mt19937(seed));
  return c;
}

} // namespace

TEST(CheckedRegions, LegalLaunches) {
  expect_same(shuffled(1), false);
  Case few = shuffled(2);
  few.n = 100;
  few.index[100] = 0x10000000; // nobody reads it
  expect_same(few, false);
}

TEST(CheckedRegions, OneWrongElement) {
  for (std::uint32_t at : {0u, 63u, 64u, 130u, 255u})
    for (std::uint32_t value : {count, count + 1, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0x20000000u}) {
      Case c = shuffled(at);
      c.index[at] = value;
      expect_same(c, true);
    }
}

TEST(CheckedRegions, BeyondTheEnd) {
  Case c = shuffled(3);
  c.out_offset = 4;
  expect_same(c, true);
  c.n = 0;
  expect_same(c, false);
}

TEST(CheckedRegions, Misaligned) {
  Case c = shuffled(4);
  c.out_offset = 2;
  expect_same(c, true);
}

TEST(CheckedRegions, SharedMemory) {
  for (std::uint32_t extra : {4u, 2u, 128u, 0xfffffffcu}) {
    Case c = shuffled(5);
    c.extra = extra;
    expect_same(c, true);
  }
}

TEST(CheckedRegions, FreedMemory) {
  Case c = shuffled(6);
  c.in_freed = true;
  expect_same(c, true);
}

// What a thread writes is the index that a later one of its region reads.
TEST(CheckedRegions, AddressesThatTheRegionWrites) {
  Case c;
  for (std::uint32_t i = 0; i < count; ++i) c.index[i] = i == 0 ? 20 : i;
  c.index_is_out = true; // thread 0 writes 2001 to index[20]
  expect_same(c, true);
  for (std::uint32_t i = 0; i < count; ++i) c.index[i] = i; // each reads its own index, then writes it
  expect_same(c, false);
}

} // namespace deadheat::device_test
