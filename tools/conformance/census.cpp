#include "census.h"

#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

namespace deadheat {

namespace {

bool is_type(std::string_view word) {
  static const std::set<std::string_view> types = {"v2",   "v4",   "v8",  "pred", "b1",    "b8",    "b16",   "b32",
                                                   "b64",  "b128", "u8",  "u16",  "u32",   "u64",   "s8",    "s16",
                                                   "s32",  "s64",  "f16", "f32",  "bf16",  "tf32",  "f16x2", "f64",
                                                   "e4m3", "e5m2", "s4",  "u4",   "f32x2", "bf16x2"};
  return types.contains(word);
}

// Base opcode and modifiers, in any order, without types and vectors.
std::set<std::string> words_of(std::string_view opcode) {
  std::set<std::string> words;
  bool first = true;
  for (std::size_t at = 0; at < opcode.size();) {
    std::size_t dot = std::min(opcode.find('.', at), opcode.size());
    std::string word(opcode.substr(at, dot - at));
    if (first || !is_type(word)) words.insert(first ? "=" + word : word);
    first = false;
    at = dot + 1;
  }
  return words;
}

std::string base_of(std::string_view opcode) { return std::string(opcode.substr(0, opcode.find('.'))); }

struct Share {
  double run = 0, all = 0;
};

}  // namespace

int print_census(std::ostream& out, const char* path, const std::vector<KnownForm>& known) {
  std::map<std::set<std::string>, Share> by_words;
  std::map<std::string, Share> by_base, by_opcode;
  for (const KnownForm& f : known) {
    for (Share* s : {&by_words[words_of(f.opcode)], &by_base[base_of(f.opcode)], &by_opcode[f.opcode]}) {
      s->all += 1;
      s->run += f.refused.empty();
    }
  }
  std::ifstream file(path);
  if (!file) {
    std::cerr << path << ": cannot be read\n";
    return 1;
  }
  double least = 0;
  std::map<std::string, double> weights;  // by base opcode, in percent
  std::map<std::string, Share> counted;   // of those whose opcodes are counted in full
  std::vector<std::string> unknown, missing;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, opcode;
    double amount = 0;
    words >> kind;
    if (kind == "least") words >> least;
    if (kind == "base" && words >> opcode >> amount) weights[opcode] = amount;
    if ((kind == "opcode" || kind == "typed") && words >> opcode >> amount) {
      Share found;
      if (auto it = by_words.find(words_of(opcode)); kind == "opcode" && it != by_words.end()) found = it->second;
      if (auto it = by_opcode.find(opcode); kind == "typed" && it != by_opcode.end()) found = it->second;
      Share& s = counted[base_of(opcode)];
      s.all += amount;
      if (found.all == 0)
        unknown.push_back(opcode);
      else
        s.run += amount * found.run / found.all;
    }
  }
  double run = 0, all = 0;
  for (const auto& [opcode, weight] : weights) {
    auto full = counted.find(opcode), forms = by_base.find(opcode);
    Share s = full != counted.end() ? full->second : forms != by_base.end() ? forms->second : Share{0, 1};
    all += weight;
    run += weight * s.run / s.all;
    if (s.run < s.all) {
      std::ostringstream text;
      text << std::fixed << std::setprecision(3) << opcode << ": " << weight << " % of all, of which "
           << std::setprecision(1) << 100 * s.run / s.all << " % run";
      missing.push_back(text.str());
    }
  }
  double share = all > 0 ? 100 * run / all : 0;
  out << std::fixed << std::setprecision(2) << share << " % of the census' instructions run (at least " << least
      << " % must)\n";
  for (const std::string& m : missing) out << "  " << m << "\n";
  for (const std::string& u : unknown) out << "  not among the forms: " << u << "\n";
  return share >= least && unknown.empty() ? 0 : 1;
}

}  // namespace deadheat
