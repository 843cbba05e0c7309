// Runs a program with the embedded runtime preloaded and keeps what it said.
#pragma once

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

} // namespace deadheat::embedded_test
