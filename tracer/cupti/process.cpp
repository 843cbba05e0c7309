#include "tracer/cupti/process.h"

#include <unistd.h>

#include <cstdlib>

#include "tracer/recorder/files.h"
#include "tracer/recorder/this_process.h"

namespace deadheat::cupti {

static constexpr const char* chosen_name = "DEADHEAT_TRACE"; // of the environment

std::string literal_name(const std::string& expanded) {
  std::string name;
  for (const char c : expanded) name.append(c == '%' ? 2 : 1, c);
  return name;
}

std::string chosen_output() {
  const char* chosen = std::getenv(chosen_name);
  return chosen ? chosen : trace::unused_trace_name();
}

void choose_output() {
  const char* text = std::getenv("DEADHEAT_OPTIONS");
  const std::string options = std::string(":") + (text ? text : "");
  if (options.find(":output=") == std::string::npos) setenv(chosen_name, trace::unused_trace_name().c_str(), 0);
}

Expected<std::string> expand_name(const std::string& name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      out += name[i];
      continue;
    }
    const char what = i + 1 < name.size() ? name[i + 1] : '\0';
    if (what == '%') {
      out += '%';
    } else if (what == 'p') {
      out += std::to_string(getpid());
    } else if (what == 'h') {
      out += trace::host_name();
    } else if (what == 'q' && i + 2 < name.size() && name[i + 2] == '{') {
      const std::size_t close = name.find('}', i);
      if (close == std::string::npos) return Error{"%q{ without }", name};
      const std::string variable = name.substr(i + 3, close - i - 3);
      const char* value = std::getenv(variable.c_str());
      if (!value) return Error{"the environment has no " + variable, name};
      out += value;
      i = close;
      continue;
    } else {
      return Error{"'%' is followed by none of p, h, q{VARIABLE} and %", name};
    }
    ++i;
  }
  return out;
}

}  // namespace deadheat::cupti
