// Fuzz target: what instrumented kernels wrote. A kernel that tramples over memory tramples over this too. The input is
// segments' bytes, each behind two bytes that say which segment, block and warp it is of.
#include <cstdint>
#include <cstring>
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

class Described final : public device_log::Output {
 public:
  void access(const trace::AccessView& access) override { (void)trace::describe(access); }
  void record(const trace::Record& record) override { (void)trace::describe(record); }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Code* const code = new Code;
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
    (void)device_log::exits(header.segment < code->segments.size() ? code->segments[header.segment] : ptx::Segment{},
                            code->sites, segment.data());
    log.segment(segment.data());
  }
  log.finish();
  return 0;
}
