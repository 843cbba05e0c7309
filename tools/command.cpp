#include "tools/command.h"

#include <algorithm>
#include <iostream>

namespace deadheat::tools {

namespace po = boost::program_options;

void say(const std::string& line) { std::cerr << "deadheat: " << line << '\n'; }

int fail(const std::string& message) {
  say(message);
  return could_not;
}

int fail(const Error& error) { return fail(error.message()); }

SplitCommand split_command(const Arguments& arguments) {
  SplitCommand split;
  auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  split.options.assign(arguments.begin(), dashes);
  if (dashes != arguments.end()) {
    split.separated = true;
    split.command.assign(dashes + 1, arguments.end());
  }
  return split;
}

namespace {

// A negative number given to an option that takes natural ones: lexical_cast would make a large one of it. Empty: none.
std::string negative(const po::parsed_options& parsed, const po::options_description& options) {
  for (const po::option& option : parsed.options) {
    const po::option_description* known = options.find_nothrow(option.string_key, false);
    const auto* typed = known ? dynamic_cast<const po::typed_value_base*>(known->semantic().get()) : nullptr;
    if (!typed || option.value.empty() || !option.value[0].starts_with('-')) continue;
    const std::type_info& type = typed->value_type();
    if (type == typeid(unsigned) || type == typeid(unsigned long) || type == typeid(unsigned long long)) {
      return "--" + option.string_key + " " + option.value[0];
    }
  }
  return "";
}

} // namespace

bool parse(const Arguments& arguments, const std::string& usage, const po::options_description& options,
           const po::positional_options_description& positional, po::variables_map& values, int& status) {
  po::options_description all;
  all.add(options);
  all.add_options()("help,h", "show this help");
  try {
    const po::parsed_options parsed = po::command_line_parser(arguments).options(all).positional(positional).run();
    if (const std::string option = negative(parsed, all); !option.empty()) {
      status = fail(option + ": is no count (0 or more; see --help)");
      return false;
    }
    po::store(parsed, values);
    if (values.count("help")) {
      std::cout << usage << '\n' << options;
      status = 0;
      return false;
    }
    po::notify(values);
  } catch (const po::too_many_positional_options_error&) {
    status = fail(positional.max_total_count() == 0
                      ? "a command to run goes behind -- (deadheat SUBCOMMAND [OPTIONS] -- COMMAND...)"
                      : "more words than the one trace that is looked at (see --help)");
    return false;
  } catch (const po::error& error) {
    status = fail(std::string(error.what()) + " (see --help)");
    return false;
  }
  return true;
}

} // namespace deadheat::tools
