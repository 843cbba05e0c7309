#include "replay/device/builtins.h"

#include <string_view>
#include <utility>

#include "tracer/ptx/link.h"

namespace deadheat::device {

namespace {

// Runtime API, cudaGraphSetConditional. A condition's handle is the address of its value. Threads that set one together
// race by the manual; where they all set the same, as most do, that is of no consequence: hence a strong store.
constexpr const char* set_conditional = R"(.version 8.0
.target sm_70
.address_size 64
.visible .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [handle];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  st.relaxed.sys.global.u32 [%rd2], %r1;
  ret;
}
)";

// What cooperative groups were compiled to before their headers had it all, and still are by numba
// (cuda_device_runtime_api.h): a grid's handle is its workspace's address, at whose second word its blocks meet. Each
// adds one, the first as much as takes the others to a change of the highest bit, which all wait for.
constexpr const char* cooperative_groups = R"(.version 8.0
.target sm_70
.address_size 64
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<3>;
  mov.u32 %r1, %envreg2;
  mov.u32 %r2, %envreg1;
  mov.b64 %rd1, {%r1, %r2};
  st.param.b64 [handle], %rd1;
  ret;
}
.visible .func (.param .b32 status) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<14>;
  .reg .pred %p<4>;
  ld.param.u64 %rd1, [handle];
  cvta.to.global.u64 %rd2, %rd1;
  bar.sync 0;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  or.b32 %r1, %r1, %r2;
  or.b32 %r1, %r1, %r3;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $met;
  mov.u32 %r4, %nctaid.x;
  mov.u32 %r5, %nctaid.y;
  mov.u32 %r6, %nctaid.z;
  mul.lo.u32 %r4, %r4, %r5;
  mul.lo.u32 %r4, %r4, %r6;
  mov.u32 %r7, %ctaid.x;
  mov.u32 %r8, %ctaid.y;
  mov.u32 %r9, %ctaid.z;
  or.b32 %r7, %r7, %r8;
  or.b32 %r7, %r7, %r9;
  setp.eq.u32 %p2, %r7, 0;
  sub.u32 %r10, 0x80000001, %r4;
  selp.u32 %r10, %r10, 1, %p2;
  membar.gl;
  atom.global.add.u32 %r11, [%rd2+4], %r10;
$wait:
  ld.volatile.global.u32 %r12, [%rd2+4];
  xor.b32 %r12, %r12, %r11;
  setp.ge.s32 %p3, %r12, 0;
  @%p3 bra $wait;
  membar.gl;
$met:
  bar.sync 0;
  mov.u32 %r13, 0;
  st.param.b32 [status], %r13;
  ret;
}
)";

// Functions that a module may only declare, and where they are.
struct Builtin {
  std::string_view name;
  const char* ptx;
};
constexpr Builtin builtins[] = {{"cudaGraphSetConditional", set_conditional},
                                {"cudaCGGetIntrinsicHandle", cooperative_groups}};

} // namespace

Expected<std::string> link_builtins(std::string ptx_text, const std::string& origin) {
  for (const Builtin& builtin : builtins) {
    if (ptx_text.find(builtin.name) == ptx_text.npos) continue;
    Expected<std::string> linked = ptx::link({std::move(ptx_text), builtin.ptx}, origin);
    if (!linked) return linked.error();
    ptx_text = std::move(*linked);
  }
  return ptx_text;
}

} // namespace deadheat::device
