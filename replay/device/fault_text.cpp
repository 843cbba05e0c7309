#include "replay/device/fault_text.h"

#include <fmt/format.h>

#include "tracer/ptx/demangle.h"

namespace deadheat::device {

namespace {

const char* name_of(trace::MemoryError::Kind kind) {
  using Kind = trace::MemoryError::Kind;
  switch (kind) {
    case Kind::out_of_bounds: return "out of bounds";
    case Kind::use_after_free: return "use after free";
    case Kind::misaligned: return "misaligned address";
    case Kind::wrong_space: return "address of another state space";
    case Kind::uninitialized: return "uninitialized memory";
    case Kind::double_free: return "freed twice";
    case Kind::invalid_free: return "free of something that was not allocated";
    case Kind::stack_overflow: return "stack overflow";
    case Kind::trap: return "trap";
    case Kind::assertion: return "assertion failed";
    case Kind::leak: return "never freed";
    case Kind::api_error: return "error of a launch";
  }
  return "fault";
}

std::string text_of(const Dim3& place) { return fmt::format("({},{},{})", place.x, place.y, place.z); }

} // namespace

std::string fault_text(const trace::MemoryError& fault, const FaultedLaunch* launch, const Site* site) {
  std::string text = name_of(fault.kind);
  if (launch) text += ": kernel " + ptx::shortened(launch->kernel, 250);
  if (site && !site->source.empty() && site->source.front().line) {
    text += fmt::format(" at {}:{}", site->source.front().file, site->source.front().line);
  }
  if (launch) {
    text += fmt::format(", block {}, thread {}", text_of(coordinates(fault.block, launch->grid)),
                        text_of(coordinates(fault.thread, launch->block)));
  }
  if (fault.bytes) text += fmt::format(": {} of {} bytes at {:#x}", word(fault.access), fault.bytes, fault.address);
  if (!fault.text.empty()) text += ": " + fault.text;
  return text;
}

} // namespace deadheat::device
