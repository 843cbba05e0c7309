// Module scope: header directives, variables, functions, sections (PTX ISA 11).
#include <algorithm>

#include "tracer/ptx/names.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/parser.h"

namespace deadheat::ptx {

Expected<Module> parse(std::string text, std::string_view origin, const ParseOptions& options) {
  auto owned = std::make_shared<const std::string>(std::move(text));
  Expected<std::vector<Lexeme>> lexemes = lex(*owned, origin);
  if (!lexemes) return lexemes.error();
  return Parser(std::move(owned), origin, std::move(*lexemes)).run(options);
}

Parser::Parser(std::shared_ptr<const std::string> text, std::string_view origin, std::vector<Lexeme> lexemes)
    : owned_(std::move(text)), text_(*owned_), origin_(origin), lexemes_(std::move(lexemes)) {
  module_.text = owned_;
  module_.locations.emplace_back();  // "nowhere"
}

const Lexeme& Parser::peek(std::size_t ahead) const { return lexemes_[std::min(next_ + ahead, lexemes_.size() - 1)]; }

std::string_view Parser::span(std::size_t first, std::size_t last) const {
  if (first >= last) return {};
  return text_.substr(lexemes_[first].begin, lexemes_[last - 1].end - lexemes_[first].begin);
}

bool Parser::at(char mark, std::size_t ahead) const {
  const Lexeme& lexeme = peek(ahead);
  return lexeme.kind == Lexeme::Kind::mark && lexeme.mark == mark;
}

bool Parser::accept(char mark) {
  if (!at(mark)) return false;
  ++next_;
  return true;
}

bool Parser::accept(std::string_view text) {
  if (word() != text) return false;
  ++next_;
  return true;
}

bool Parser::expect(char mark) {
  if (accept(mark)) return true;
  return fail(std::string("'") + mark + "'");
}

bool Parser::fail_at(std::size_t lexeme, std::string_view expected) {
  if (failed_) return false;
  failed_ = true;
  failed_lexeme_ = std::min(lexeme, lexemes_.size() - 1);
  expected_ = expected;
  return false;
}

Error Parser::error() const {
  if (!error_.what.empty()) return error_;
  const Lexeme& found = lexemes_[failed_lexeme_];
  bool end = found.kind == Lexeme::Kind::end;
  return {
      "expected " + expected_ + (end ? ", found the end" : ", found '" + std::string(view(found).substr(0, 40)) + "'"),
      place(text_, origin_, found.begin)};
}

std::vector<Token> Parser::tokens(std::size_t first, std::size_t last) const {
  std::vector<Token> result;
  result.reserve(last - first);
  for (std::size_t i = first; i < last; ++i) {
    const Lexeme& l = lexemes_[i];
    result.push_back({text_.substr(l.trivia, l.begin - l.trivia), view(l)});
  }
  return result;
}

Expected<Module> Parser::run(const ParseOptions& options) {
  while (!at(Lexeme::Kind::end)) {
    if (!parse_module_item()) return error();
  }
  module_.end = tokens(next_, next_ + 1);
  name_inlined_functions();
  resolve_aliases();
  if (module_.debug)
    locate_inlined(module_, inlined_functions(debug_info_, debug_abbreviations_), options.locate_stack_accesses);
  module_.names = names_;
  return std::move(module_);
}

bool Parser::parse_module_item() {
  std::size_t first = next_;
  Variable::Linkage linkage = Variable::Linkage::none;
  for (;; ++next_) {
    if (at_word(".extern")) {
      linkage = Variable::Linkage::extern_;
    } else if (at_word(".visible")) {
      linkage = Variable::Linkage::visible;
    } else if (at_word(".weak")) {
      linkage = Variable::Linkage::weak;
    } else if (at_word(".common")) {
      linkage = Variable::Linkage::common;
    } else {
      break;
    }
  }
  if (!at(Lexeme::Kind::dotted) && !at(';')) return fail("a directive");
  if (at_word(".func") || at_word(".entry")) return parse_function(linkage, first);
  std::string_view name = word().substr(1);
  if (!at(';') && (find_space(name) || name == "tex")) {
    if (!parse_variables(linkage, module_.variables)) return false;
  } else if (linkage != Variable::Linkage::none) {
    return fail("a variable or a function after a linkage directive");
  } else if (!parse_header_directive()) {
    return false;
  }
  module_.pieces.push_back({tokens(first, next_)});
  return true;
}

bool Parser::parse_header_directive() {
  if (accept(".version")) {  // "9.0"
    std::string_view number = word();
    unsigned version = 0;
    bool digits = false;
    for (char c : number) {
      if (c == '.') continue;
      if (c < '0' || c > '9' || version > 10000) return fail("a version number");
      version = version * 10 + unsigned(c - '0');
      digits = true;
    }
    if (!digits || number.find('.') == std::string_view::npos) return fail("a version number");
    module_.version = version;
    ++next_;
    return true;
  }
  if (accept(".target")) {
    do {
      if (!at(Lexeme::Kind::identifier)) return fail("a target");
      if (module_.target.empty() && word().starts_with("sm_")) module_.target = word();
      module_.debug |= word() == "debug";
      ++next_;
    } while (accept(','));
    return true;
  }
  if (accept(".address_size")) {
    std::uint32_t size = 0;
    if (!parse_count(size)) return false;
    if (size != 32 && size != 64) return fail_at(next_ - 1, "an address size of 32 or 64");
    module_.address_size = size;
    return true;
  }
  if (at_word(".file")) return parse_file();
  if (at_word(".section")) return parse_section();
  if (accept(';')) return true;
  if (at_word(".alias")) return parse_alias();
  // .pragma and what later versions add: up to ';', or up to the end of a braced block.
  ++next_;
  while (!at(';')) {
    if (at(Lexeme::Kind::end)) return fail("';'");
    if (at('{')) return skip_balanced();
    ++next_;
  }
  return expect(';');
}

// .alias name, function; (PTX ISA 10.5.7)
bool Parser::parse_alias() {
  ++next_;
  const std::string_view alias = word();
  ++next_;
  if (!expect(',')) return false;
  aliases_[alias] = word();
  ++next_;
  return expect(';');
}

// Both names mean the one function that has a body.
void Parser::resolve_aliases() {
  if (aliases_.empty()) return;
  const auto resolve = [&](auto&& self, Operand& operand) -> void {
    if (operand.kind == Operand::Kind::symbol)
      if (const auto found = aliases_.find(operand.text); found != aliases_.end()) operand.text = found->second;
    for (Operand& element : operand.elements) self(self, element);
  };
  for (Variable& variable : module_.variables) {
    for (Variable::Relocation& relocation : variable.relocations)
      if (const auto found = aliases_.find(relocation.symbol); found != aliases_.end())
        relocation.symbol = found->second;
  }
  for (Function& function : module_.functions) {
    for (Statement& statement : function.body) {
      if (auto* i = std::get_if<Instruction>(&statement.node))
        for (Operand& operand : i->operands) resolve(resolve, operand);
    }
  }
}

// .file number "path" [, timestamp, size] (PTX ISA 11.5.2)
bool Parser::parse_file() {
  ++next_;
  std::uint32_t number = 0;
  if (!parse_count(number)) return false;
  if (!at(Lexeme::Kind::string)) return fail("a file name");
  std::string_view quoted = word();
  module_.files[number] = std::string(quoted.substr(1, quoted.size() - 2));
  ++next_;
  while (accept(',')) {
    if (!at(Lexeme::Kind::number)) return fail("a number");
    ++next_;
  }
  return true;
}

bool Parser::skip_balanced() {
  std::size_t depth = 0;
  do {
    if (at(Lexeme::Kind::end)) return fail("'}'");
    if (at('{')) ++depth;
    if (at('}')) --depth;
    ++next_;
  } while (depth > 0);
  return true;
}

// .section name { [label:] .b8 1, 2 … } (PTX ISA 11.5.1). Bytes and labels are kept: the names of inlined functions
// are strings in .debug_str, and what -G inlined is told in .debug_info.
bool Parser::parse_section() {
  ++next_;
  const std::string_view name = word(); // .debug_str or an identifier
  ++next_;
  if (!expect('{')) return false;
  std::string bytes;
  std::map<std::size_t, std::string_view> labels;
  std::uint32_t section = std::uint32_t(section_bytes_.size());
  bool skipping = false;  // after something other than numbers: offsets are not known from here on
  while (!at('}')) {
    if (at(Lexeme::Kind::end)) return fail("'}'");
    if (at('{')) return fail("'}'");
    if (at(Lexeme::Kind::identifier) && at(':', 1)) {
      if (!skipping) section_labels_[word()] = {section, bytes.size()};
      next_ += 2;
    } else if (at(Lexeme::Kind::dotted) && find_type(word().substr(1))) {
      unsigned width = bits(*find_type(word().substr(1))) / 8;
      ++next_;
      do {
        std::uint64_t value = 0;
        if (at(Lexeme::Kind::number) || at('-')) {
          if (!parse_integer(value)) return false;
        } else {  // a label, label+4, label-label or section name
          if (at(Lexeme::Kind::identifier)) labels.emplace(bytes.size(), word());
          while (at(Lexeme::Kind::identifier) || at(Lexeme::Kind::dotted) || at('+') || at('-') ||
                 at(Lexeme::Kind::number)) {
            if (at(Lexeme::Kind::dotted) && find_type(word().substr(1))) break;
            if (at(Lexeme::Kind::identifier) && at(':', 1)) break;
            ++next_;
          }
        }
        for (unsigned i = 0; i < width; ++i) bytes.push_back(char(i < 8 ? value >> (8 * i) : 0));
      } while (accept(','));
    } else {
      skipping = true;
      ++next_;
    }
  }
  if (name == ".debug_info") debug_info_ = {bytes, std::move(labels)};
  if (name == ".debug_abbrev") debug_abbreviations_.bytes = bytes;
  section_bytes_.push_back(std::move(bytes));
  return expect('}');
}

void Parser::name_inlined_functions() {
  for (const FunctionName& name : function_names_) {
    auto label = section_labels_.find(name.label);
    if (label == section_labels_.end()) continue;
    const std::string& bytes = section_bytes_[label->second.section];
    std::uint64_t start = label->second.offset + name.offset;
    if (start >= bytes.size()) continue;
    std::size_t stop = bytes.find('\0', start);
    // Names longer than any that a compiler writes would cost time for every location that repeats them.
    std::size_t length = std::min<std::size_t>((stop == std::string::npos ? bytes.size() : stop) - start, 4096);
    module_.locations[name.location].function = bytes.substr(start, length);
  }
}

// [.entry | .func] [attributes] [(results)] name [(params)] directives ({ body } | ;)  (PTX ISA 11.2)
bool Parser::parse_function(Variable::Linkage linkage, std::size_t first) {
  Function function;
  function.linkage = linkage;
  function.entry = at_word(".entry");
  ++next_;
  scopes_.start(function);
  location_ = 0;
  latest_location_.clear();
  while (accept(".attribute")) {
    if (!expect('(')) return false;
    while (!at(')')) {
      if (at(Lexeme::Kind::end) || at('{') || at(';')) return fail("')'");
      if (accept('(')) {
        while (!at(')') && !at(Lexeme::Kind::end)) ++next_;
      }
      ++next_;
    }
    if (!expect(')')) return false;
  }
  if (at('(') && !parse_signature_variables(function.results, false)) return false;
  if (!at(Lexeme::Kind::identifier)) return fail("a function name");
  function.name = word();
  ++next_;
  if (at('(') && !parse_signature_variables(function.params, false)) return false;
  if (!parse_performance_directives(function)) return false;
  function.has_body = at('{');
  if (!at('{') && !at(';')) return fail("'{' or ';'");
  ++next_;
  function.head = tokens(first, next_);
  if (function.has_body && !parse_body(function)) return false;
  module_.pieces.push_back({{}, std::int32_t(module_.functions.size())});
  module_.functions.push_back(std::move(function));
  return true;
}

// (.param .b32 x, .reg .b64 %y). In prototypes names are only placeholders and are not declared.
bool Parser::parse_signature_variables(std::vector<Variable>& variables, bool prototype) {
  if (!expect('(')) return false;
  if (accept(')')) return true;
  do {
    Variable variable;
    bool in_register = false;
    if (!parse_variable_prefix(variable, in_register)) return false;
    std::string_view name = word();
    if (!parse_declarator(variable)) return false;
    if (!prototype) {
      if (in_register) {
        scopes_.declare_register(name, variable.type, std::uint8_t(variable.vector));
      } else {
        scopes_.declare_parameter(name);
      }
    }
    variables.push_back(std::move(variable));
  } while (accept(','));
  return expect(')');
}

bool Parser::parse_dimensions(std::optional<Dim3>& dimensions) {
  Dim3 d;
  if (!parse_count(d.x)) return false;
  if (accept(',') && !parse_count(d.y)) return false;
  if (accept(',') && !parse_count(d.z)) return false;
  dimensions = d;
  return true;
}

// PTX ISA 11.4, in any order; ones that are not known are skipped with their arguments.
bool Parser::parse_performance_directives(Function& function) {
  while (at(Lexeme::Kind::dotted)) {
    std::string_view name = word();
    ++next_;
    bool good = true;
    if (name == ".maxntid") {
      good = parse_dimensions(function.maxntid);
    } else if (name == ".reqntid") {
      good = parse_dimensions(function.reqntid);
    } else if (name == ".reqnctapercluster") {
      good = parse_dimensions(function.reqnctapercluster);
    } else if (name == ".minnctapersm") {
      good = parse_count(function.minnctapersm);
    } else if (name == ".maxnreg") {
      good = parse_count(function.maxnreg);
    } else if (name == ".maxclusterrank") {
      good = parse_count(function.maxclusterrank);
    } else if (name == ".explicitcluster") {
      function.explicitcluster = true;
    } else if (name == ".noreturn") {
      function.noreturn = true;
    } else if (name == ".pragma") {  // .pragma "…", "…"; ends in a ';' of its own
      while (at(Lexeme::Kind::string) || at(',')) ++next_;
      good = expect(';');
    } else {
      while (at(Lexeme::Kind::number) || at(Lexeme::Kind::identifier) || at(Lexeme::Kind::string) || at(',')) ++next_;
    }
    if (!good) return false;
  }
  return true;
}

}  // namespace deadheat::ptx
