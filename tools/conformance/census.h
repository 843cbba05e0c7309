// How much of the PTX that people's programs are made of runs: the forms of the conformance list, weighted by a census.
//
// Thread-safety: pure functions.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace deadheat {

struct KnownForm {
  std::string opcode; // "ld.global.u32"
  std::string refused; // why; empty where it runs
};

// Prints the weighted share of instructions that run and what is missing, as the census file at `path` counts them (its
// first lines say how). Returns 0 if the share is at least its "least" line, else 1.
int print_census(std::ostream& out, const char* path, const std::vector<KnownForm>& known);

} // namespace deadheat
