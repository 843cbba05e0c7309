// Of which kind a proxy fence is (PTX ISA 9.7.13.4).
//
// Thread-safety: pure functions.
#pragma once

#include "deadheat/site.h"

namespace deadheat {

// Of one direction, from the generic proxy to another. It releases or acquires, at a scope; those of both directions
// have none.
inline bool one_way(const Site& fence) { return fence.kind == SiteKind::proxy_fence && fence.scope != Scope::none; }

} // namespace deadheat
