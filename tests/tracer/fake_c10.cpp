// A stand-in for libc10.so: the profiler counts what is reported to it.
#include "tests/tracer/fake_c10.h"

#include <atomic>

static std::atomic<long> reports{0};

void c10::reportMemoryUsageToProfiler(void*, std::int64_t, std::size_t, std::size_t, Device) { ++reports; }
void c10::reportMemoryUsageToProfiler(void*, std::int64_t, Device) { ++reports; }
long fake_reports() { return reports; }
