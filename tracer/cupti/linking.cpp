// Calls of the driver's linker: what the machine code was made of that a program then loads.
#include <algorithm>

#include "tracer/compilers/made_code.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/jit_options.h"

namespace deadheat::cupti {

namespace {

LinkerInput kind_of(CUjitInputType type) {
  switch (type) {
    case CU_JIT_INPUT_PTX: return LinkerInput::ptx;
    case CU_JIT_INPUT_CUBIN: return LinkerInput::machine_code;
    case CU_JIT_INPUT_LIBRARY: return LinkerInput::library;
    default: return LinkerInput::other;
  }
}

// How many registers a thread may have is told of a link and of each input (cuLinkAddData: "overrides options from
// cuLinkCreate"). What is assembled in its place can't be told of threads a block.
void follow(CUlinkState state, unsigned count, const CUjit_option* options, void* const* values) {
  linker_limited(state, jit_options(count, options, values).max_registers);
  if (options && std::find(options, options + count, CU_JIT_THREADS_PER_BLOCK) != options + count)
    linker_given(state, LinkerInput::other, {});
}

} // namespace

void begin_linking(Call& call, cuLinkCreate_v2_params& p) {
  if (!call.done() || !p.stateOut) return;
  linker_begins(*p.stateOut, 0);
  follow(*p.stateOut, p.numOptions, p.options, p.optionValues);
}
void link_data(Call& call, cuLinkAddData_v2_params& p) {
  if (!call.done() || !p.data) return;
  follow(p.state, p.numOptions, p.options, p.optionValues);
  linker_given(p.state, kind_of(p.type), {static_cast<const char*>(p.data), p.size});
}
void link_file(Call& call, cuLinkAddFile_v2_params& p) {
  if (!call.done() || !p.path) return;
  follow(p.state, p.numOptions, p.options, p.optionValues);
  linker_given_file(p.state, kind_of(p.type), p.path);
}
void complete_linking(Call& call, cuLinkComplete_params& p) {
  if (call.done() && p.cubinOut && *p.cubinOut) linker_made(p.state, *p.cubinOut);
}
void end_linking(Call& call, cuLinkDestroy_params& p) {
  if (!call.exit) linker_ends(p.state);
}

} // namespace deadheat::cupti
