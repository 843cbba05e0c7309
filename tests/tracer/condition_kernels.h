// PTX of kernels that set conditions of graphs, to follow that of fill_kernel.h in a module.
#pragma once

// count: one turn less is left, and whether that is none of `turns` decides; all threads write. choose: what is left
// does.
inline constexpr const char* condition_kernels = R"(
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry count(.param .u64 left, .param .u64 to, .param .u64 handle, .param .u32 turns)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [left];
  ld.param.u64 %rd2, [to];
  ld.param.u64 %rd3, [handle];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd5, %rd2, %rd4;
  st.global.u32 [%rd5], %r1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $done;
  ld.global.u32 %r2, [%rd1];
  sub.u32 %r2, %r2, 1;
  st.global.u32 [%rd1], %r2;
  ld.param.u32 %r4, [turns];
  rem.u32 %r4, %r2, %r4;
  setp.ne.u32 %p2, %r4, 0;
  selp.u32 %r3, 1, 0, %p2;
  {
  .param .b64 h;
  .param .b32 v;
  st.param.b64 [h], %rd3;
  st.param.b32 [v], %r3;
  call.uni cudaGraphSetConditional, (h, v);
  }
$done:
  ret;
}
.visible .entry choose(.param .u64 left, .param .u64 handle)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [left];
  ld.param.u64 %rd2, [handle];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $done;
  ld.global.u32 %r2, [%rd1];
  {
  .param .b64 h;
  .param .b32 v;
  st.param.b64 [h], %rd2;
  st.param.b32 [v], %r2;
  call.uni cudaGraphSetConditional, (h, v);
  }
$done:
  ret;
}
)";
