// What compiled code calls back (engine::Services), on the machine that runs it.
//
// Thread-safety: none; the machine is found through the thread's context.
#pragma once

#include <string>

#include "replay/engine/abi.h"

namespace deadheat::device {

const engine::Services* machine_services();

// printf of the device (CUDA C++ Programming Guide, "Formatted Output"): `read_string` gives the text behind a %s
// address, `arguments` the packed argument buffer: every argument at its natural alignment, 4 or 8 bytes.
std::string format_device(const std::string& format, const std::uint8_t* arguments, std::size_t argument_bytes,
                          std::string (*read_string)(void* context, std::uint64_t address), void* context,
                          std::int32_t* count);

} // namespace deadheat::device
