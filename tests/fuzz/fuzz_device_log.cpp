// Fuzz target: what instrumented kernels wrote. A kernel that tramples over memory tramples over this too. The input is
// segments' bytes, each behind two bytes that say which segment, block and warp it is of.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/log_bytes.h"
#include "tracer/device_log/launch_log.h"
#include "tracer/ptx/instrument.h"
#include "tracer/ptx/parse.h"
#include "tracer/recorder/describe.h"

namespace {

using namespace deadheat;

constexpr const char* text = R"(
.version 8.5
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 p)
{
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .f32 %f<5>;
  .shared .align 4 .b8 tile[1024];
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  ld.global.u32 %r2, [%rd1];
  @%p1 st.shared.u32 [tile], %r2;
  bar.sync 0;
  ld.shared.u32 %r3, [tile+4];
  atom.global.add.u32 %r4, [%rd1], 1;
  atom.global.cas.b32 %r5, [%rd1], %r4, %r3;
  ld.volatile.global.u32 %r5, [%rd1+4];
  fence.acq_rel.gpu;
  @%p1 bar.warp.sync 0xffff;
  bar.warp.sync %r2;
  barrier.sync %r3, 64;
  bar.arrive 2, 64;
  bar.sync 2, 64;
  cp.async.ca.shared.global [tile], [%rd1], 4;
  cp.async.commit_group;
  cp.async.wait_group 0;
  st.release.gpu.global.u32 [%rd1+8], %r4;
  @%p1 bra done;
  red.global.add.u32 [%rd1+12], 1;
  tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f3, %f4}, {%f1, %f3}, {%r1, %r2};
  tex.level.acube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %f1, %f2, %f3}], %f4;
  tex.3d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r1, %r2, %r3, %r3}];
  tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];
  @%p1 suld.b.a2d.v2.b32.clamp {%r1, %r2}, [%rd1, {%r1, %r2, %r3, %r3}];
  sust.p.3d.v4.b32.zero [%rd1, {%r1, %r2, %r3, %r3}], {%r1, %r2, %r3, %r4};
done:
  ret;
}
)";

struct Code {
  std::vector<ptx::Segment> segments;
  std::vector<Site> sites;
  Code() {
    const Expected<ptx::Module> module = ptx::parse(text, "fuzz");
    if (!module) std::abort();
    const ptx::SiteTable table = ptx::site_table(*module);
    const Expected<ptx::Instrumentation> code = ptx::instrument(*module, table);
    if (!code || code->segments.empty()) std::abort();
    segments = code->segments;
    sites = table.sites;
  }
};

// Objects by small handles, of all kinds: instructions may be given one of another kind.
std::shared_ptr<const device_log::TextureObjects::Live> objects() {
  device_log::TextureObjects made;
  for (std::uint64_t handle = 0; handle < 32; ++handle) {
    ptx::TextureDescriptor d;
    d.base = std::uint64_t(1) << 56;
    d.format = {std::uint8_t(handle & 1 ? 4 : 1), std::uint8_t(handle & 2 ? 8 : 32), ptx::ChannelKind::signed_};
    d.layered = handle & 4;
    d.cubemap = handle & 8 && handle & 4;
    d.mipmapped = d.linear_levels = handle & 8;
    ptx::set_extent(d, 16, 16, handle & 4 ? 12 : handle & 16 ? 5 : 0);
    d.levels = d.shown_levels = handle & 8 ? 4 : 1;
    d.greatest_level = 9;
    d.linear = d.seamless = d.normalized_coordinates = handle & 16;
    for (auto& mode : d.address) mode = ptx::AddressMode(handle & 3);
    made.made(nullptr, handle, false, d);
    d.surface = true;
    made.made(nullptr, handle, true, d);
  }
  return made.now(nullptr);
}

// Of any handle that is in a segment, one of these.
void name_objects(const ptx::Segment& of, std::vector<std::uint8_t>& segment) {
  for (const ptx::Slot& slot : of.slots) {
    for (std::uint32_t lane = 0; slot.kind == ptx::Slot::Kind::texture && lane < 32; ++lane) {
      std::uint8_t* const handle = segment.data() + slot.address + 8 * lane;
      *handle &= 31;
      std::fill(handle + 1, handle + 8, 0);
    }
  }
}

class Described final : public device_log::Output {
 public:
  void access(const trace::AccessView& access) override { (void)trace::describe(access); }
  void record(const trace::Record& record) override { (void)trace::describe(record); }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Code* const code = new Code;
  static const auto textures = objects();
  if (size == 0) return 0;
  Described output;
  device_log::Shape shape;
  shape.launch = 1;
  shape.module = 1;
  shape.blocks = 2;
  shape.threads = 64;
  shape.strong = data[0] & 1;
  shape.segments = &code->segments;
  shape.sites = &code->sites;
  shape.textures = textures;
  device_log::LaunchLog log(shape, output);
  for (std::size_t at = 1; at + 2 <= size;) {
    device_log::SegmentHeader header;
    header.segment = data[at] % (std::uint32_t(code->segments.size()) + 1);
    header.block = data[at + 1] & 3;
    header.warp = data[at + 1] >> 2 & 3;
    header.mask = data[at + 1] & 16 ? ~0u : 0xFFFF'0000u >> (data[at + 1] >> 4);
    at += 2;
    const std::size_t bytes = header.segment < code->segments.size() ? code->segments[header.segment].bytes : 32;
    std::vector<std::uint8_t> segment(bytes);
    const std::size_t given = std::min(bytes - sizeof header, size - at);
    std::memcpy(segment.data(), &header, sizeof header);
    std::memcpy(segment.data() + sizeof header, data + at, given);
    at += given;
    if (header.segment < code->segments.size()) name_objects(code->segments[header.segment], segment);
    (void)device_log::exits(header.segment < code->segments.size() ? code->segments[header.segment] : ptx::Segment{},
                            code->sites, segment.data());
    log.segment(segment.data());
  }
  log.finish();
  return 0;
}
