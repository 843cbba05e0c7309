// PTX of a kernel whose threads store their numbers from an address on; more kernels of the module may follow it.
#pragma once

inline constexpr const char* fill_kernel = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 to)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
)";
