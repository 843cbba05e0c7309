#include "tracer/cupti/nvcc.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

namespace deadheat::cupti {

namespace {

using Words = std::vector<std::string>;
using Options = std::vector<std::pair<std::string, std::string>>; // name without dashes, value

constexpr int most_nested = 8; // files of options that name others

// At white space that is not quoted; quotes and backslashes go.
Words split(std::string_view text) {
  Words words;
  char quote = 0;
  bool open = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quote && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      open = false;
      continue;
    }
    if (!open) words.emplace_back();
    open = true;
    if (c == quote)
      quote = 0;
    else if (!quote && (c == '"' || c == '\''))
      quote = c;
    else
      words.back() += c == '\\' && i + 1 < text.size() ? text[++i] : c;
  }
  return words;
}

Words split_at_commas(std::string_view text) {
  Words parts(1);
  for (const char c : text) {
    if (c == ',')
      parts.emplace_back();
    else if (c != '[' && c != ']' && c != '"' && c != '\'' && c != ' ')
      parts.back() += c;
  }
  return parts;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// NVCC 4.2: "-name", "--name", the value behind a "=" or in the next word. Of other tools' options (-Xptxas) and of
// those whose values could be taken for options only that they have values matters.
bool has_value(std::string_view name) {
  return is_one_of(name, {"gencode",  "generate-code",   "arch",      "gpu-architecture", "code",    "gpu-code",
                          "optf",     "options-file",    "Xcompiler", "compiler-options", "Xlinker", "linker-options",
                          "Xarchive", "archive-options", "Xptxas",    "ptxas-options",    "Xnvlink", "nvlink-options",
                          "o",        "output-file",     "D",         "define-macro",     "I",       "include-path",
                          "include",  "pre-include"});
}

Options options_of(const Words& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t begin = word.find_first_not_of('-');
    if (!begin || begin == std::string::npos || begin > 2) continue;
    const std::size_t equals = std::min(word.find('=', begin), word.size());
    std::string name = word.substr(begin, equals - begin);
    std::string value;
    if (equals < word.size())
      value = word.substr(equals + 1);
    else if (has_value(name) && i + 1 < arguments.size())
      value = arguments[++i];
    options.emplace_back(std::move(name), std::move(value));
  }
  return options;
}

void expand(const Words& words, int nested, Words& to) {
  to.insert(to.end(), words.begin(), words.end());
  if (nested == most_nested) return;
  for (const auto& [name, value] : options_of(words)) {
    if (!is_one_of(name, {"optf", "options-file"})) continue;
    for (const std::string& path : split_at_commas(value)) {
      std::ifstream file(path);
      expand(split(std::string(std::istreambuf_iterator<char>(file), {})), nested + 1, to);
    }
  }
}

// Virtual architectures, and the code that is made of each: machine code and PTX.
using Code = std::map<std::string, std::set<std::string>>;

void add_codes(Code& to, std::string_view of, const Words& codes) {
  std::string architecture(of);
  if (architecture.starts_with("sm_")) architecture.replace(0, 2, "compute");
  to[architecture].insert(codes.begin(), codes.end());
}

Code code_of(const Options& options) {
  Code code;
  std::string architecture;
  Words codes;
  for (const auto& [name, value] : options) {
    if (is_one_of(name, {"arch", "gpu-architecture"})) architecture = value;
    if (is_one_of(name, {"code", "gpu-code"})) codes = split_at_commas(value);
    if (!is_one_of(name, {"gencode", "generate-code"})) continue;
    std::string of; // arch=compute_90,code=[sm_90,compute_90]
    Words its;
    for (std::string& part : split_at_commas(value)) {
      if (part.starts_with("arch="))
        of = part.substr(5);
      else
        its.push_back(part.starts_with("code=") ? part.substr(5) : part);
    }
    if (!of.empty()) add_codes(code, of, its);
  }
  if (!architecture.empty() && !codes.empty()) add_codes(code, architecture, codes);
  return code; // without -code, -arch=sm_90 makes PTX, too
}

} // namespace

std::vector<std::string> expanded_arguments(const Words& arguments, const char* prepended, const char* appended) {
  Words all;
  if (prepended) expand(split(prepended), 0, all);
  expand(arguments, 0, all);
  if (appended) expand(split(appended), 0, all);
  return all;
}

std::string flags_to_add(const Words& expanded) {
  const Options options = options_of(expanded);
  const auto any_of = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(options.begin(), options.end(), [&](const auto& at) { return is_one_of(at.first, names); });
  };
  std::string flags;
  const bool one_file = any_of({"cubin", "ptx", "optix-ir", "ltoir", "E", "preprocess", "M", "MM",
                                "generate-dependencies", "generate-nonsystem-dependencies"});
  // What is kept of the steps between is named otherwise where there is more than one architecture.
  const bool kept = any_of({"keep", "save-temps"});
  if (!one_file && !kept && !any_of({"lto", "dlto", "dlink-time-opt"})) {
    for (const auto& [architecture, codes] : code_of(options)) {
      const auto begins = [&](std::string_view with) {
        return std::any_of(codes.begin(), codes.end(), [&](const std::string& c) { return c.starts_with(with); });
      };
      if (begins("sm_") && !begins("lto_") && !codes.count(architecture))
        flags += "-gencode arch=" + architecture + ",code=" + architecture + " ";
    }
  }
  if (any_of({"G", "device-debug", "lineinfo", "generate-line-info"})) {
    if (!flags.empty()) flags.pop_back();
    return flags;
  }
  return flags + "-lineinfo";
}

} // namespace deadheat::cupti
