#include "tracer/ptx/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

namespace deadheat::ptx {

namespace {

// The runtime's takes minutes, and more, for some names of a hundred characters in which an array's bound may be an
// expression (A and an operator), or a pack be expanded (Dp).
bool may_take_long(std::string_view name) {
  for (std::size_t at = 0; at + 1 < name.size(); ++at) {
    if (name[at] == 'A' && std::islower(static_cast<unsigned char>(name[at + 1]))) return true;
    if (name[at] == 'D' && name[at + 1] == 'p') return true;
  }
  return false;
}

} // namespace

std::string demangle(std::string_view name) {
  constexpr std::size_t most_of_name = 16384;
  std::string result(name);
  if (name.starts_with("_Z") && name.size() <= most_of_name) {
    int status = 0;
    char* text = may_take_long(name) ? nullptr : abi::__cxa_demangle(result.c_str(), nullptr, nullptr, &status);
    result = status == 0 && text ? text : demangled_name(name).value_or(result);
    std::free(text);
  }
  constexpr std::string_view internal = "_INTERNAL_";
  for (std::size_t at = result.find(internal); at != std::string::npos; at = result.find(internal, at)) {
    std::size_t end = at + internal.size();
    while (end < result.size() && (std::isalnum(static_cast<unsigned char>(result[end])) || result[end] == '_')) ++end;
    const bool part = at > 0 && std::isalnum(static_cast<unsigned char>(result[at - 1])); // of a longer name
    if (!part && result.compare(end, 2, "::") == 0) {
      result.erase(at, end + 2 - at);
    } else {
      at = end;
    }
  }
  return result;
}

std::string shortened(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  constexpr std::string_view function = "operator";
  std::vector<std::size_t> depths(name.size()); // in how many brackets each character is; they themselves are outside
  std::size_t depth = 0, deepest = 0;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (name.compare(at, function.size(), function) == 0) { // its name may be a bracket
      std::size_t end = at + function.size();
      while (end < name.size() && std::string_view("<>=-(").find(name[end]) != std::string_view::npos &&
             (name[end] != '(' || name.compare(end, 2, "()") == 0)) {
        end += name[end] == '(' ? 2 : 1;
      }
      for (; at < end; ++at) depths[at] = depth;
      --at;
      continue;
    }
    if ((name[at] == '>' || name[at] == ')') && depth > 0) --depth;
    depths[at] = depth;
    if (name[at] == '<' || name[at] == '(') deepest = std::max(deepest, ++depth);
  }
  for (std::size_t kept = deepest; kept-- > 0;) {
    std::string result;
    for (std::size_t at = 0; at < name.size(); ++at) {
      if (depths[at] <= kept)
        result += name[at];
      else if (depths[at - 1] <= kept)
        result += "...";
    }
    for (std::size_t at = result.find("> >"); at != std::string::npos; at = result.find("> >", at))
      result.erase(at + 1, 1);
    if (result.size() <= most) return result;
  }
  return name;
}

std::string brief_name(std::string_view mangled) { return shortened(demangle(mangled), 250); }

} // namespace deadheat::ptx
