#include "tracer/ptx/instrument.h"
namespace deadheat::ptx {
Expected<Instrumentation> instrument(const Module&, const SiteTable&) { return Instrumentation{}; }
}
