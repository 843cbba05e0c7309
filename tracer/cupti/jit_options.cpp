#include "tracer/cupti/jit_options.h"

#include <algorithm>
#include <cstdint>

namespace deadheat::cupti {

JitOptions jit_options(unsigned count, const CUjit_option* options, void* const* values) {
  JitOptions found;
  for (unsigned i = 0; options && values && i < count; ++i) {
    const auto value = reinterpret_cast<std::uintptr_t>(values[i]);
    switch (options[i]) {
      case CU_JIT_MAX_REGISTERS: limit_registers(found, unsigned(value)); break;
      case CU_JIT_OPTIMIZATION_LEVEL:
        found.for_driver_only |= value > 4;
        found.ptxas.push_back("-O" + std::to_string(value));
        break;
      case CU_JIT_CACHE_MODE:
        if (value == CU_JIT_CACHE_OPTION_CG) found.ptxas.emplace_back("-dlcm=cg");
        if (value == CU_JIT_CACHE_OPTION_CA) found.ptxas.emplace_back("-dlcm=ca");
        break;
      case CU_JIT_WALL_TIME:
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_TARGET_FROM_CUCONTEXT:
      case CU_JIT_FALLBACK_STRATEGY:
      case CU_JIT_LOG_VERBOSE:
      case CU_JIT_GENERATE_LINE_INFO: // always
      case CU_JIT_SPLIT_COMPILE: break;
      case CU_JIT_GENERATE_DEBUG_INFO: found.for_driver_only |= value != 0; break;
      default: found.for_driver_only = true;
    }
  }
  return found;
}

void limit_registers(JitOptions& options, unsigned most) {
  if (!most || (options.max_registers && options.max_registers <= most)) return;
  const auto as_option = [](unsigned registers) { return "-maxrregcount=" + std::to_string(registers); };
  std::erase(options.ptxas, as_option(options.max_registers));
  options.max_registers = most;
  options.ptxas.push_back(as_option(most));
}

} // namespace deadheat::cupti
