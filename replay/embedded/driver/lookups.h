// Entry points of the driver by name (Driver API, "Driver Entry Point Access").
//
// Thread-safety: any thread.
#pragma once

namespace deadheat::embedded {

enum class Lookup { found, unknown, too_old };
// `version`: CUDA's, 12080 for 12.8. What is refused is found, too: it says so when it is called.
Lookup driver_entry_point(const char* name, int version, bool per_thread, void** function) noexcept;

} // namespace deadheat::embedded
