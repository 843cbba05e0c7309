// The deadheat command: picks the subcommand. One file a subcommand.
#include <cstdio>
#include <cstring>
#include <iostream>

#include "replay/search/temporary_directory.h"
#include "tools/command.h"

namespace deadheat::tools {
namespace {

constexpr Command commands[] = {
    {"record", "run a program and record what its GPU work does", run_record},
    {"analyze", "find the pairs of accesses in a trace that nothing orders", run_analyze},
    {"replay", "replay a trace or a witness under schedules that take a race both ways", run_replay},
    {"check", "record, analyze and replay in one go", run_check},
    {"info", "say what a trace holds", run_info},
};

void help(std::ostream& out) {
  out << "usage: deadheat COMMAND [OPTIONS]\n\nA race detector for GPU programs with instrumented replay.\n\n";
  for (const Command& command : commands) {
    out << "  " << command.name << std::string(10 - std::strlen(command.name), ' ') << command.summary << '\n';
  }
  out << "\n'deadheat COMMAND --help' shows the options of a command.\n";
}

int run(const Arguments& words) {
  std::string names;
  for (const Command& command : commands) names += std::string(names.empty() ? "" : ", ") + command.name;
  if (words.empty()) return fail("no subcommand (one of " + names + "; see deadheat --help)");
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    help(std::cout);
    return 0;
  }
  if (words[0] == "--version") {
    std::cout << "deadheat " DEADHEAT_VERSION "\n";
    return 0;
  }
  for (const Command& command : commands) {
    if (words[0] == command.name) return command.run(Arguments(words.begin() + 1, words.end()));
  }
  return fail("unknown subcommand '" + words[0] + "' (one of " + names + ")");
}

} // namespace
} // namespace deadheat::tools

int main(int argc, char** argv) {
  deadheat::search::remove_directories_on_signals();
  try {
    const int status = deadheat::tools::run({argv + 1, argv + argc});
    if (!std::cout.flush()) return deadheat::tools::fail("cannot write to standard output");
    return status;
  } catch (const std::exception& error) { // a library's: ours return errors
    return deadheat::tools::fail(error.what());
  }
}
