// Makes CONFORMANCE.md: which instructions of PTX and which entry points of CUDA run on the embedded
// device.
//
//   conformance                   prints the page
//   conformance --check FILE      status 1 if the file is not what would be printed
//   conformance --ptx             prints a module of all forms, for ptxas
//   conformance --census FILE     prints the share of a census' instructions that run (tests/unit/data/ptx_census.txt)
//
// An instruction runs if the code generator translates it, with and without what watches it. An entry point runs if it
// is not in replay/embedded/unsupported.def, or driver/unsupported.def there.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "census.h"
#include "forms.h"
#include "replay/engine/compiler.h"
#include "tracer/ptx/parse.h"

namespace deadheat {
namespace {

struct Form {
  std::string text;
  std::string refused;  // why; empty where it runs
};

struct Pattern {
  std::string text;
  std::vector<Form> forms;
};

struct Section {
  std::string title;
  std::vector<Pattern> patterns;
};

std::string why_refused(engine::Compiler& compiler, const std::string& instruction) {
  auto module = ptx::parse(module_with(instruction), "form");
  if (!module) return "cannot be parsed: " + module.error().message();
  auto loaded = compiler.load(std::move(*module), "form", [](std::string_view) { return std::uint64_t(0x1000); });
  if (!loaded) return loaded.error().message();
  for (engine::Mode mode : {engine::Mode{}, engine::Mode{true, false, true}, engine::Mode{false, true, true}}) {
    auto code = (*loaded)->compile("form", mode);
    if (code) continue;
    std::string why = code.error().what;  // kernel form: OPCODE: reason
    std::size_t colon = why.find(": ", why.find(": ") + 2);
    return colon == std::string::npos ? why : why.substr(colon + 2);
  }
  return {};
}

std::vector<Section> read_sections(const char* path) {
  std::vector<Section> sections;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("= ")) {
      sections.push_back({line.substr(2), {}});
      continue;
    }
    Pattern p{line, {}};
    std::set<std::string> seen;
    for (const std::string& form : alternatives(line)) {
      std::string text = with_registers(form);
      if (seen.insert(text).second) p.forms.push_back({std::move(text), {}});
    }
    sections.back().patterns.push_back(std::move(p));
  }
  return sections;
}

std::string opcode_of(std::string_view instruction) {
  if (instruction[0] == '@') instruction.remove_prefix(instruction.find(' ') + 1);
  return std::string(instruction.substr(0, instruction.find_first_of(" ;")));
}

struct EntryPoints {
  std::vector<std::string> run, refuse;
};

const std::set<std::string> refused_by_runtime = {
#define X(name) #name,
#include "replay/embedded/unsupported.def"
#undef X
};
const std::set<std::string> refused_by_driver = {
#define X(name) #name,
#include "replay/embedded/driver/unsupported.def"
#undef X
    "cuGetExportTable"};

EntryPoints entry_points(const char* list, const std::set<std::string>& refused) {
  EntryPoints all;
  std::ifstream exports(list);
  for (std::string name; std::getline(exports, name);)
    if (!name.empty()) (refused.contains(name) ? all.refuse : all.run).push_back(name);
  std::sort(all.run.begin(), all.run.end());
  std::sort(all.refuse.begin(), all.refuse.end());
  return all;
}

// Patterns without their operands, which say nothing about what runs.
std::string shown(std::string_view pattern) {
  unsigned depth = 0;
  for (std::size_t n = pattern[0] == '@' ? pattern.find(' ') + 1 : 0; n < pattern.size(); ++n) {
    if (pattern[n] == '{') ++depth;
    if (pattern[n] == '}') --depth;
    if (!depth && (pattern[n] == ' ' || pattern[n] == ';')) {
      std::string_view opcode = pattern.substr(0, n);
      // Where operands tell forms apart they are part of the name.
      bool moves = opcode.starts_with("mov.") || opcode.starts_with("call") || opcode.starts_with("cp.async.c");
      return std::string(moves ? pattern.substr(0, pattern.size() - 1) : opcode);
    }
  }
  return std::string(pattern);
}

std::string cell(std::string text) {
  for (std::size_t n = 0; (n = text.find('|', n)) != std::string::npos; n += 2) text.insert(n, "\\");
  return text;
}

std::vector<KnownForm> known_forms(const std::vector<Section>& sections) {
  std::vector<KnownForm> known;
  for (const Section& s : sections)
    for (const Pattern& p : s.patterns)
      for (const Form& f : p.forms) known.push_back({opcode_of(f.text), f.refused});
  return known;
}

void print_page(std::ostream& out, const std::vector<Section>& sections) {
  std::size_t all = 0, run = 0;
  for (const Section& s : sections)
    for (const Pattern& p : s.patterns)
      for (const Form& f : p.forms) {
        ++all;
        run += f.refused.empty();
      }
  const EntryPoints entries = entry_points(DEADHEAT_RUNTIME_EXPORTS, refused_by_runtime);
  const EntryPoints driver = entry_points(DEADHEAT_DRIVER_EXPORTS, refused_by_driver);
  out << "# What runs on the embedded device\n\n"
         "Made by `conformance` (tools/conformance) from the code: every form of every instruction of PTX ISA 9.0 is\n"
         "translated, every entry point of the CUDA 13 runtime and driver looked up. What does not run is refused by\n"
         "name, when the module is loaded or the function called. `{a|b}` stands for either.\n\n"
      << "| | run | of |\n|---|---|---|\n| forms of PTX instructions | " << run << " | " << all
      << " |\n| entry points of the runtime | " << entries.run.size() << " | "
      << entries.run.size() + entries.refuse.size() << " |\n| entry points of the driver | " << driver.run.size()
      << " | " << driver.run.size() + driver.refuse.size() << " |\n\n";
  out << "Weighted by how often 425 modules of public CUDA code use them (without mma, wgmma and tensor maps;\n"
         "tests/unit/data/ptx_census.txt):\n\n```\n";
  print_census(out, DEADHEAT_CONFORMANCE_CENSUS, known_forms(sections));
  out << "```\n\n";
  std::ifstream notes(DEADHEAT_CONFORMANCE_NOTES);
  out << notes.rdbuf() << "\n";
  for (const Section& s : sections) {
    out << "## " << s.title << "\n\n| instruction | run | of | refused |\n|---|---|---|---|\n";
    for (const Pattern& p : s.patterns) {
      std::map<std::string, std::set<std::string>> refused;
      std::size_t running = 0;
      for (const Form& f : p.forms) {
        running += f.refused.empty();
        if (!f.refused.empty()) refused[f.refused].insert(opcode_of(f.text));
      }
      out << "| `" << cell(shown(p.text)) << "` | " << running << " | " << p.forms.size() << " | ";
      std::string separator;
      for (const auto& [why, opcodes] : refused) {
        out << separator;
        if (running)
          for (const std::string& opcode : opcodes) out << "`" << opcode << "` ";
        out << cell(why);
        separator = "; ";
      }
      out << " |\n";
    }
    out << "\n";
  }
  auto names = [&](const char* title, const std::vector<std::string>& list) {
    out << "## " << title << " (" << list.size() << ")\n\n";
    std::string line;
    for (const std::string& name : list) {
      if (line.size() + name.size() > 115) {
        out << line << "\n";
        line.clear();
      }
      line += "`" + name + "` ";
    }
    out << line << "\n\n";
  };
  names("Entry points of the runtime that run", entries.run);
  names("Entry points of the runtime that are refused", entries.refuse);
  names("Entry points of the driver that run", driver.run);
  names("Entry points of the driver that are refused", driver.refuse);
}

int check(const std::string& page, const char* path) {
  std::ifstream file(path);
  std::stringstream committed;
  committed << file.rdbuf();
  if (committed.str() == page) return 0;
  std::istringstream ours(page), theirs(committed.str());
  std::string a, b;
  unsigned line = 0, shown_lines = 0;
  while (true) {
    bool more_a = bool(std::getline(ours, a)), more_b = bool(std::getline(theirs, b));
    ++line;
    if ((!more_a && !more_b) || shown_lines == 10) break;
    if (more_a == more_b && a == b) continue;
    ++shown_lines;
    std::cerr << path << ":" << line << ": committed: " << (more_b ? b : "") << "\n  now: " << (more_a ? a : "")
              << "\n";
  }
  std::cerr << path << " is not what the code says: make it anew with `conformance > CONFORMANCE.md`\n";
  return 1;
}

int main(int argc, char** argv) {
  std::vector<Section> sections = read_sections(DEADHEAT_CONFORMANCE_FORMS);
  std::string command = argc > 1 ? argv[1] : "";
  if (command == "--ptx") {
    for (const Section& s : sections)
      for (const Pattern& p : s.patterns)
        for (const Form& f : p.forms) std::cout << f.text << "\n";
    return 0;
  }
  engine::CompilerOptions options;
  options.translate_only = true;
  std::unique_ptr<engine::Compiler> compiler = engine::make_compiler(options);
  for (Section& s : sections)
    for (Pattern& p : s.patterns)
      for (Form& f : p.forms) f.refused = why_refused(*compiler, f.text);
  if (command == "--census" && argc > 2) return print_census(std::cout, argv[2], known_forms(sections));
  std::ostringstream page;
  print_page(page, sections);
  if (command == "--check" && argc > 2) return check(page.str(), argv[2]);
  std::cout << page.str();
  return 0;
}

}  // namespace
}  // namespace deadheat

int main(int argc, char** argv) { return deadheat::main(argc, argv); }
