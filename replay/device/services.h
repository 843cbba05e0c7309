// What compiled code calls back (engine::Services), on the machine that runs it.
//
// Thread-safety: none; the machine is found through the thread's context.
#pragma once

#include <cstdint>
#include <string>

#include "replay/engine/abi.h"

namespace deadheat::device {

class Machine;

const engine::Services* machine_services();

// Of the block of the kernels' heap that begins there and is in use; 0: there is none.
std::uint64_t heap_bytes_at(Machine& machine, std::uint64_t address);

// printf of the device (CUDA C++ Programming Guide, "Formatted Output"): `read_string` gives the text behind a %s
// address, `arguments` the packed argument buffer: every argument at its natural alignment, 4 or 8 bytes.
std::string format_device(const std::string& format, const std::uint8_t* arguments, std::size_t argument_bytes,
                          std::string (*read_string)(void* context, std::uint64_t address), void* context,
                          std::int32_t* count);

} // namespace deadheat::device
