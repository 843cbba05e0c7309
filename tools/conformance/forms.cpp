#include "forms.h"

#include <map>

namespace deadheat {

namespace {

std::size_t closing(std::string_view text, std::size_t open) {
  unsigned depth = 0;
  for (std::size_t n = open; n < text.size(); ++n) {
    if (text[n] == '{') ++depth;
    if (text[n] == '}' && --depth == 0) return n;
  }
  return std::string_view::npos;
}

// What stands between bars that are in no inner braces.
std::vector<std::string_view> parts(std::string_view inside) {
  std::vector<std::string_view> all;
  std::size_t begin = 0;
  unsigned depth = 0;
  for (std::size_t n = 0; n < inside.size(); ++n) {
    if (inside[n] == '{') ++depth;
    if (inside[n] == '}') --depth;
    if (inside[n] != '|' || depth) continue;
    all.push_back(inside.substr(begin, n - begin));
    begin = n + 1;
  }
  all.push_back(inside.substr(begin));
  return all;
}

char register_of(std::string_view type) {
  if (type == "pred") return 'p';
  if (type == "b128") return 'q';
  if (type.ends_with("x2") && type != "f32x2")
    return type[0] == 'e' || type[0] == 'u' ? (type == "u16x2" ? 'r' : 'h') : 'r';
  if (type == "f32x2" || type.ends_with("64")) return 'd';
  if (type.ends_with("16") || type.ends_with("8")) return 'h';
  return 'r';
}

bool is_type(std::string_view word) {
  static constexpr std::string_view types[] = {
      "pred",  "b8",  "b16",   "b32",   "b64",    "b128",   "u8",     "u16",    "u32",    "u64",
      "s8",    "s16", "s32",   "s64",   "f16",    "f16x2",  "bf16",   "bf16x2", "tf32",   "f32",
      "f32x2", "f64", "u16x2", "s16x2", "e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2"};
  for (std::string_view t : types)
    if (t == word) return true;
  return false;
}

}  // namespace

std::vector<std::string> alternatives(std::string_view pattern) {
  for (std::size_t open = pattern.find('{'); open != std::string_view::npos; open = pattern.find('{', open + 1)) {
    std::size_t close = closing(pattern, open);
    std::vector<std::string_view> choices = parts(pattern.substr(open + 1, close - open - 1));
    if (choices.size() == 1) continue;
    std::vector<std::string> all;
    for (std::string_view choice : choices) {
      std::string one = std::string(pattern.substr(0, open)).append(choice).append(pattern.substr(close + 1));
      for (std::string& more : alternatives(one)) all.push_back(std::move(more));
    }
    return all;
  }
  return {std::string(pattern)};
}

std::string with_registers(std::string_view form) {
  std::vector<char> classes;  // of the opcode's types
  std::string_view opcode = form.substr(form.find_first_not_of("@!#p "));
  if (form[0] != '@') opcode = form;
  opcode = opcode.substr(0, opcode.find_first_of(" ;"));
  for (std::size_t at = 0; at < opcode.size();) {
    std::size_t dot = std::min(opcode.find('.', at), opcode.size());
    std::string_view word = opcode.substr(at, dot - at);
    if (is_type(word)) classes.push_back(register_of(word));
    at = dot + 1;
  }
  if (classes.size() == 1) classes.push_back(classes[0]);  // #2 of ld and its kin, which have one
  std::map<char, unsigned> next;
  auto reg = [&](char which) { return std::string("%") + which + std::to_string(next[which]++); };
  std::string text;
  for (std::size_t n = 0; n < form.size(); ++n) {
    char c = form[n], d = n + 1 < form.size() ? form[n + 1] : 0;
    if (c == '$') {
      static const std::map<char, const char*> names = {{'F', "function"}, {'G', "giver"}, {'L', "HERE"},
                                                        {'T', "texture"},  {'X', "TABLE"}, {'I', "PROTOTYPE"}};
      auto it = names.find(d);
      if (it != names.end()) text += it->second;
      ++n;
    } else if (c != '#') {
      text += c;
    } else if (d == ']') {
      text += reg('d');
    } else if (d == '1' || d == '2') {
      std::size_t which = std::size_t(d - '1');
      text += reg(which < classes.size() ? classes[which] : 'r');
      ++n;
    } else if (d == 'v') {  // a vector, by .v2 .v4 .v8
      unsigned count = opcode.find(".v2") != opcode.npos ? 2 : opcode.find(".v4") != opcode.npos ? 4 : 8;
      text += '{';
      for (unsigned e = 0; e < count; ++e) text += (e ? ", " : "") + reg(classes.empty() ? 'r' : classes[0]);
      text += '}';
      ++n;
    } else {
      text += d == ',' ? reg('d') : reg(d);  // [#, {…}] of tensors
      if (d != ',') ++n;
    }
  }
  return text;
}

std::string module_with(std::string_view instruction) {
  return std::string(
             ".version 9.0\n.target sm_100a\n.address_size 64\n.global .texref texture;\n"
             ".func function() { ret; }\n.func (.param .b32 result) giver(.param .b32 given)\n{ ret; }\n"
             ".visible .entry form()\n{\n  .reg .pred %p<8>;\n  .reg .b8 %b<4>;\n  .reg .b16 %h<24>;\n"
             "  .reg .b32 %r<48>;\n  .reg .b64 %d<32>;\n  .reg .b128 %q<4>;\n  .param .b32 param;\n  .param .b32 "
             "retval;\nPROTOTYPE: .callprototype _ ();\nTABLE: .branchtargets HERE, HERE;\nHERE:\n  ") +
         std::string(instruction) + "\n  exit;\n}\n";
}

}  // namespace deadheat
