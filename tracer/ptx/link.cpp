#include "tracer/ptx/link.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "tracer/ptx/parse.h"

namespace deadheat::ptx {

namespace {

using Linkage = Variable::Linkage;

// What a module-scope name is where it is declared, from what counts least to what counts most.
enum class Strength { declared, weak, strong, own };

struct Symbol {
  Strength strength = Strength::declared;
  std::size_t module = 0; // that has the definition taken, or the declaration of the greatest alignment
  std::uint32_t align = 0;
  std::set<std::size_t> modules; // that know the name
};

Strength strength_of(const Variable& variable) {
  switch (variable.linkage) {
    case Linkage::extern_: return Strength::declared;
    case Linkage::weak:
    case Linkage::common: return Strength::weak;
    case Linkage::visible: return Strength::strong;
    case Linkage::none: break;
  }
  return Strength::own;
}

Strength strength_of(const Function& function) {
  if (!function.has_body) return Strength::declared;
  if (function.linkage == Linkage::weak || function.linkage == Linkage::common) return Strength::weak;
  // The host names kernels: theirs are never a module's own.
  return function.entry || function.linkage == Linkage::visible ? Strength::strong : Strength::own;
}

std::uint32_t alignment(const Variable& v) { return v.align ? v.align : std::max(1u, bits(v.type) / 8 * v.vector); }

bool is_header(const Module::Piece& piece) {
  if (piece.tokens.empty()) return false;
  const std::string_view first = piece.tokens.front().text;
  return first == ".version" || first == ".target" || first == ".address_size";
}

class Linker {
 public:
  Expected<std::string> run(const std::vector<std::string>& texts, const std::string& origin) {
    for (const std::string& text : texts) {
      Expected<Module> module = parse(text, origin);
      if (!module) return module.error();
      modules_.push_back(std::move(*module));
    }
    for (std::size_t m = 0; m < modules_.size(); ++m) collect(m);
    for (std::size_t m = 0; m < modules_.size(); ++m) rename(m);
    header();
    for (std::size_t m = 0; m < modules_.size(); ++m) declarations(m);
    for (std::size_t m = 0; m < modules_.size(); ++m) variables(m);
    for (std::size_t m = 0; m < modules_.size(); ++m) definitions(m);
    out_ += '\n';
    return std::move(out_);
  }

 private:
  // `align`: all that declare the shared memory that launches give find it at one address.
  void know(const std::string& name, Strength strength, std::size_t m, std::uint32_t align = 0) {
    Symbol& symbol = symbols_[name];
    const bool first = symbol.modules.empty();
    symbol.modules.insert(m);
    if (strength == Strength::own) {
      own_[m].insert(name);
    } else if (first || strength > symbol.strength || (strength == symbol.strength && align > symbol.align)) {
      symbol.strength = strength;
      symbol.module = m;
      symbol.align = align;
    }
  }

  void collect(std::size_t m) {
    for (const Variable& variable : modules_[m].variables) {
      const bool declared = strength_of(variable) == Strength::declared;
      know(variable.name, strength_of(variable), m, declared ? alignment(variable) : 0);
    }
    std::set<std::string> defined; // a declaration and its definition are one
    for (const Function& function : modules_[m].functions)
      if (function.has_body) defined.insert(function.name);
    for (const Function& function : modules_[m].functions)
      if (function.has_body || !defined.count(function.name)) know(function.name, strength_of(function), m);
    std::uint32_t last = 0;
    for (const auto& [number, path] : modules_[m].files) last = std::max(last, number);
    first_file_[m + 1] = first_file_[m] + last;
  }

  void rename(std::size_t m) {
    for (const std::string& name : own_[m]) {
      if (symbols_[name].modules.size() > 1) renamed_[m][name] = name + "$" + std::to_string(m);
    }
  }

  // Is it this module's part of the symbol that stays? A declaration where nothing better exists, once.
  bool stays(const std::string& name, Strength strength, std::size_t m) {
    if (strength == Strength::own) return true;
    const Symbol& symbol = symbols_[name];
    return symbol.strength == strength && symbol.module == m;
  }

  void put(const std::vector<Token>& tokens, std::size_t m) {
    const bool section = !tokens.empty() && tokens.front().text == ".section";
    std::string_view before;
    for (const Token& token : tokens) {
      out_ += token.trivia;
      const auto renamed = renamed_[m].find(token.text);
      if (renamed != renamed_[m].end()) {
        out_ += renamed->second;
      } else if (before == ".file" || before == ".loc" || before == "inlined_at") {
        std::uint32_t number = 0;
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
        out_ += std::to_string(number ? number + first_file_[m] : 0);
      } else {
        out_ += token.text;
        // Labels of sections: names of inlined functions.
        if (token.text.starts_with('$') && (section || before == "function_name")) out_ += "$" + std::to_string(m);
      }
      before = token.text;
    }
  }

  void put(const Function& function, std::size_t m) {
    put(function.head, m);
    for (const Statement& statement : function.body) put(statement.tokens, m);
    put(function.tail, m);
  }

  void header() {  // of the module of the newest version, with the newest target of all
    // sm_90a is newer than sm_90: what needs it does not assemble for the other.
    auto target = [&](std::size_t m) {
      const std::string& name = modules_[m].target;
      return std::pair(name.size() > 3 ? std::atoi(name.c_str() + 3) : 0, name.size());
    };
    std::size_t newest = 0, for_newest = 0;
    for (std::size_t m = 1; m < modules_.size(); ++m) {
      if (modules_[m].version > modules_[newest].version) newest = m;
      if (target(m) > target(for_newest)) for_newest = m;
    }
    for (const Module::Piece& piece : modules_[newest].pieces) {
      if (!is_header(piece)) continue;
      if (piece.tokens.front().text != ".target")
        put(piece.tokens, newest);
      else
        for (const Module::Piece& other : modules_[for_newest].pieces)
          if (is_header(other) && other.tokens.front().text == ".target") put(other.tokens, for_newest);
    }
  }

  // Functions that are declared: before all that may name them.
  void declarations(std::size_t m) {
    for (const Function& function : modules_[m].functions) {
      if (function.has_body || (!own_[m].count(function.name) && !declared_.insert(function.name).second)) continue;
      std::vector<Token> head = function.head;
      const Strength strength = symbols_[function.name].strength; // defined in one of them: declared as it is there
      for (Token& token : head) {
        if (token.text != ".extern" || strength == Strength::declared) continue;
        token.text = strength == Strength::weak ? ".weak" : ".visible";
      }
      put(head, m);
    }
  }

  // Variables, source files and whatever else is not a function.
  void variables(std::size_t m) {
    const std::vector<Variable>& all = modules_[m].variables;
    std::size_t next = 0;
    for (const Module::Piece& piece : modules_[m].pieces) {
      if (piece.function >= 0 || is_header(piece)) continue;
      bool declares = false, keep = false;
      auto names = [&](const std::string& name) {
        return std::any_of(piece.tokens.begin(), piece.tokens.end(), [&](const Token& t) { return t.text == name; });
      };
      for (; next < all.size() && names(all[next].name); ++next) {
        const Variable& variable = all[next];
        declares = true;
        const bool once = strength_of(variable) == Strength::own || placed_.insert({variable.name, m}).second;
        keep |= once && stays(variable.name, strength_of(variable), m);
      }
      if (keep || !declares) put(piece.tokens, m);
    }
  }

  void definitions(std::size_t m) {
    for (const Function& function : modules_[m].functions)
      if (function.has_body && stays(function.name, strength_of(function), m)) put(function, m);
  }

  std::vector<Module> modules_;
  std::map<std::string, Symbol> symbols_;
  std::map<std::size_t, std::set<std::string>> own_;
  std::map<std::size_t, std::map<std::string, std::string, std::less<>>> renamed_;
  std::map<std::size_t, std::uint32_t> first_file_{{0, 0}}; // added to a module's file numbers
  std::set<std::string> declared_;
  std::set<std::pair<std::string, std::size_t>> placed_;
  std::string out_;
};

} // namespace

Expected<std::string> link(const std::vector<std::string>& modules, const std::string& origin) {
  if (modules.size() == 1) return modules.front();
  return Linker().run(modules, origin);
}

} // namespace deadheat::ptx
