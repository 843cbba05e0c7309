// Runs a program with the embedded runtime preloaded and keeps what it said.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace deadheat::embedded_test {

struct Ran {
  int status = -1;            // exit status, 128 + signal when one ended it
  std::string output, errors; // standard output and error
  std::vector<std::string> error_lines() const;
};

// A directory of its own for each test, removed at the end of the process.
std::string scratch(const std::string& name);
// `program` is the part of the name after embedded_run_. `settings` is DEADHEAT_OPTIONS. `environment`: more of
// "KEY=VALUE".
Ran run(const std::string& program, const std::vector<std::string>& arguments, const std::string& settings = "",
        const std::vector<std::string>& environment = {}, bool preload = true);

inline void expect_ran(const Ran& ran, const std::string& output, const std::string& errors) {
  EXPECT_EQ(ran.output, output);
  EXPECT_EQ(ran.errors, errors);
  EXPECT_EQ(ran.status, 0);
}

// Entry points that belong together: what the program prints that is told to try them, and what is said besides.
struct Family {
  const char* name;
  const char* output;
  const char* errors;
};
inline void PrintTo(const Family& f, std::ostream* out) { *out << f.name; }

// A program that is told to call each of these functions twice: each is refused, and that is said once.
template <typename RunProgram>
void expect_refusals(const std::vector<std::string>& names, const RunProgram& run_program) {
  std::vector<std::string> words = {"refused"};
  std::string errors;
  for (const std::string& name : names) {
    words.push_back(name);
    errors += "deadheat: " + name + " is not supported by the embedded device\n";
  }
  expect_ran(run_program(words), std::to_string(2 * names.size()) + " refused\n", errors);
}

} // namespace deadheat::embedded_test
