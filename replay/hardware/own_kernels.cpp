#include "replay/hardware/own_kernels.h"

namespace deadheat::hardware {

const char* const gate_name = "deadheat_gate";
const char* const gate_text = R"(.version 6.3
.target sm_70
.address_size 64
.visible .entry deadheat_gate(.param .u64 word, .param .u32 patience, .param .u32 sleep)
{
	.reg .b64 %word;
	.reg .b32 %looks, %sleep, %open;
	.reg .pred %go;
	ld.param.u64 %word, [word];
	ld.param.u32 %looks, [patience];
	ld.param.u32 %sleep, [sleep];
	cvta.to.global.u64 %word, %word;
look:
	ld.relaxed.gpu.global.u32 %open, [%word];
	setp.ne.u32 %go, %open, 0;
	@%go bra done;
	nanosleep.u32 %sleep;
	sub.u32 %looks, %looks, 1;
	setp.ne.u32 %go, %looks, 0;
	@%go bra look;
	st.global.u32 [%word+4], 1;
done:
	ret;
}
)";

const char* const wipe_name = "deadheat_wipe";
const char* const wipe_text = R"(.version 6.3
.target sm_70
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry deadheat_wipe(.param .u32 bytes)
{
	.reg .b32 %at, %bytes, %step, %room, %to, %value;
	.reg .pred %done;
	ld.param.u32 %bytes, [bytes];
	mov.u32 %at, %tid.x;
	shl.b32 %at, %at, 2;
	mov.u32 %step, %ntid.x;
	shl.b32 %step, %step, 2;
	mov.u32 %room, room;
next:
	setp.ge.u32 %done, %at, %bytes;
	@%done bra end;
	mul.lo.u32 %value, %at, 2654435761;
	add.u32 %to, %room, %at;
	st.volatile.shared.u32 [%to], %value;
	add.u32 %at, %at, %step;
	bra next;
end:
	ret;
}
)";

} // namespace deadheat::hardware
