// Which execution of its site an access was: the nth of the names of accesses.
//
// Thread-safety: none; uses threads of its own.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "analyzer/detect/find.h"

namespace deadheat::detect {

// Earlier executions of its site by the thread of each wanted access.
std::map<Touch, std::uint64_t> count_executions(const Source& source, unsigned jobs, const Findings& findings,
                                                const std::set<Touch>& wanted);

} // namespace deadheat::detect
