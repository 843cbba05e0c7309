// The codes of the C++ ABI's mangling (Itanium C++ ABI, section 5.1) that stand for one word each.
//
// Thread-safety: constants.
#pragma once

#include <string_view>

namespace deadheat::ptx {

struct Word {
  std::string_view code, text;
};

constexpr Word builtins[] = {{"v", "void"},
                             {"w", "wchar_t"},
                             {"b", "bool"},
                             {"c", "char"},
                             {"a", "signed char"},
                             {"h", "unsigned char"},
                             {"s", "short"},
                             {"t", "unsigned short"},
                             {"i", "int"},
                             {"j", "unsigned int"},
                             {"l", "long"},
                             {"m", "unsigned long"},
                             {"x", "long long"},
                             {"y", "unsigned long long"},
                             {"n", "__int128"},
                             {"o", "unsigned __int128"},
                             {"f", "float"},
                             {"d", "double"},
                             {"e", "long double"},
                             {"g", "__float128"},
                             {"z", "..."},
                             {"Dn", "decltype(nullptr)"},
                             {"Di", "char32_t"},
                             {"Ds", "char16_t"},
                             {"Du", "char8_t"},
                             {"Da", "auto"},
                             {"Dc", "decltype(auto)"},
                             {"DF16_", "_Float16"},
                             {"DF16b", "std::bfloat16_t"}};

constexpr Word standard[] = {{"Sa", "std::allocator"}, {"Sb", "std::basic_string"}, {"Ss", "std::string"},
                             {"Si", "std::istream"},   {"So", "std::ostream"},      {"Sd", "std::iostream"}};

struct Operator {
  std::string_view code, text;
  int operands = 2;
};

constexpr Operator operators[] = {{"nw", " new", 0},
                                  {"na", " new[]", 0},
                                  {"dl", " delete", 0},
                                  {"da", " delete[]", 0},
                                  {"aw", " co_await", 1},
                                  {"ps", "+", 1},
                                  {"ng", "-", 1},
                                  {"ad", "&", 1},
                                  {"de", "*", 1},
                                  {"co", "~", 1},
                                  {"nt", "!", 1},
                                  {"pp", "++", 1},
                                  {"mm", "--", 1},
                                  {"pl", "+"},
                                  {"mi", "-"},
                                  {"ml", "*"},
                                  {"dv", "/"},
                                  {"rm", "%"},
                                  {"an", "&"},
                                  {"or", "|"},
                                  {"eo", "^"},
                                  {"aS", "="},
                                  {"pL", "+="},
                                  {"mI", "-="},
                                  {"mL", "*="},
                                  {"dV", "/="},
                                  {"rM", "%="},
                                  {"aN", "&="},
                                  {"oR", "|="},
                                  {"eO", "^="},
                                  {"ls", "<<"},
                                  {"rs", ">>"},
                                  {"lS", "<<="},
                                  {"rS", ">>="},
                                  {"eq", "=="},
                                  {"ne", "!="},
                                  {"lt", "<"},
                                  {"gt", ">"},
                                  {"le", "<="},
                                  {"ge", ">="},
                                  {"ss", "<=>"},
                                  {"aa", "&&"},
                                  {"oo", "||"},
                                  {"cm", ","},
                                  {"pm", "->*"},
                                  {"pt", "->"},
                                  {"cl", "()", 0},
                                  {"ix", "[]", 0},
                                  {"qu", "?", 0}};

} // namespace deadheat::ptx
