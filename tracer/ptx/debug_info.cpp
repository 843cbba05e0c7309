#include "tracer/ptx/debug_info.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tracer/ptx/operands.h"

namespace deadheat::ptx {

namespace {

// Of DWARF 4, figures 18 (tags), 20 (attributes) and 21 (forms). MIPS_linkage_name is the older linkage_name.
enum Tag : std::uint64_t { inlined_subroutine = 0x1d, subprogram = 0x2e };
enum Attribute : std::uint64_t {
  name = 0x03,
  low_pc = 0x11,
  high_pc = 0x12,
  abstract_origin = 0x31,
  decl_file = 0x3a,
  decl_line = 0x3b,
  specification = 0x47,
  call_column = 0x57,
  call_file = 0x58,
  call_line = 0x59,
  linkage_name = 0x6e,
  mips_linkage_name = 0x2007
};
enum Form : std::uint64_t {
  addr = 0x01,
  block2 = 0x03,
  block4 = 0x04,
  data2 = 0x05,
  data4 = 0x06,
  data8 = 0x07,
  string = 0x08,
  block = 0x09,
  block1 = 0x0a,
  data1 = 0x0b,
  flag = 0x0c,
  sdata = 0x0d,
  strp = 0x0e,
  udata = 0x0f,
  ref_addr = 0x10,
  ref1 = 0x11,
  ref2 = 0x12,
  ref4 = 0x13,
  ref8 = 0x14,
  ref_udata = 0x15,
  sec_offset = 0x17,
  exprloc = 0x18,
  flag_present = 0x19
};

class Bytes { // reads zeros past the end
 public:
  explicit Bytes(const std::string& all, std::size_t at = 0) : all_(all), at_(at) {}
  std::size_t at() const { return at_; }
  bool good() const { return at_ <= all_.size(); }
  bool more() const { return at_ < all_.size(); }
  std::uint64_t number(unsigned width) { // of wider ones the low eight bytes
    std::uint64_t value = 0;
    for (unsigned i = 0; i < width; ++i) {
      const std::uint64_t b = byte();
      if (i < sizeof value) value |= b << (8 * i);
    }
    return value;
  }
  std::uint64_t leb128() { // of signed ones only the length matters
    std::uint64_t value = 0;
    for (unsigned shift = 0; good(); shift += 7) {
      const std::uint8_t b = byte();
      if (shift < 64) value |= std::uint64_t(b & 0x7f) << shift;
      if (!(b & 0x80)) break;
    }
    return value;
  }
  std::string_view text() {
    const std::size_t first = std::min(at_, all_.size());
    const std::size_t last = std::min(all_.find('\0', first), all_.size());
    at_ = last + 1;
    // Names longer than any that a compiler writes would cost time for every location that repeats them.
    return std::string_view(all_).substr(first, std::min<std::size_t>(last - first, 4096));
  }
  void skip(std::uint64_t count) { at_ += std::min<std::uint64_t>(count, all_.size() + 1); }

 private:
  std::uint8_t byte() {
    const std::uint8_t b = at_ < all_.size() ? std::uint8_t(all_[at_]) : 0;
    ++at_;
    return b;
  }
  const std::string& all_;
  std::size_t at_;
};

struct Abbreviation {
  std::uint64_t tag = 0;
  bool children = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> attributes; // and forms
};
using Abbreviations = std::unordered_map<std::uint64_t, Abbreviation>;

Abbreviations abbreviations_at(const DebugSection& section, std::uint64_t offset) {
  Abbreviations all;
  Bytes in(section.bytes, std::size_t(std::min<std::uint64_t>(offset, section.bytes.size())));
  while (const std::uint64_t code = in.leb128()) {
    Abbreviation& one = all[code];
    one.tag = in.leb128();
    one.children = in.number(1);
    for (;;) {
      const std::uint64_t attribute = in.leb128(), form = in.leb128();
      if (!attribute && !form) break;
      one.attributes.emplace_back(attribute, form);
    }
    if (!in.good()) return {};
  }
  return all;
}

struct Value {
  std::uint64_t number = 0; // of references: offset in the section
  std::string_view text; // of strings, and of addresses their labels
};

struct Declared { // a function, as far as an entry says
  std::string_view name;
  std::uint32_t file = 0, line = 0;
  std::uint64_t specification = 0; // the entry that says more; 0: none
};

class Reader {
 public:
  Reader(const DebugSection& info, const DebugSection& abbreviations)
      : info_(info), abbreviations_(abbreviations), in_(info.bytes) {}

  std::vector<InlinedFunction> run() {
    while (in_.more() && unit()) {
    }
    for (std::size_t i = 0; i < found_.size(); ++i) declare(found_[i], origins_[i]);
    return std::move(found_);
  }

 private:
  bool unit() { // DWARF 4, 7.5.1.1
    unit_ = in_.at();
    const std::uint64_t length = in_.number(4);
    const std::size_t end = in_.at() + std::size_t(length);
    version_ = unsigned(in_.number(2));
    if (length >= 0xfffffff0 || version_ < 2 || version_ > 4) return false;
    const Abbreviations abbreviations = abbreviations_at(abbreviations_, in_.number(4));
    address_size_ = unsigned(in_.number(1));
    std::vector<std::uint32_t> into; // of the entries that are open, the inlined function around what is in them
    while (in_.more() && in_.at() < end) {
      const std::uint64_t offset = in_.at();
      const std::uint64_t code = in_.leb128();
      if (!code) {
        if (!into.empty()) into.pop_back();
        continue;
      }
      const auto abbreviation = abbreviations.find(code);
      if (abbreviation == abbreviations.end()) return false;
      std::uint32_t inside = into.empty() ? InlinedFunction::none : into.back();
      if (abbreviation->second.tag == subprogram) inside = InlinedFunction::none;
      if (!entry(offset, abbreviation->second, inside)) return false;
      if (abbreviation->second.children) into.push_back(inside);
    }
    return true;
  }

  // `inside`: the inlined function around the entry, and afterwards the one around what is in it.
  bool entry(std::uint64_t offset, const Abbreviation& abbreviation, std::uint32_t& inside) {
    InlinedFunction inlined;
    inlined.into = inside;
    Declared declared;
    std::uint64_t origin = 0;
    bool linked = false;
    for (const auto& [attribute, form] : abbreviation.attributes) {
      const std::optional<Value> value = read(form);
      if (!value || !in_.good()) return false;
      const std::uint32_t number = std::uint32_t(value->number);
      switch (attribute) {
        case name:
          if (!linked) declared.name = value->text;
          break;
        case linkage_name:
        case mips_linkage_name:
          declared.name = value->text;
          linked = true;
          break;
        case low_pc: inlined.begin = value->text; break;
        case high_pc: inlined.end = value->text; break;
        case abstract_origin: origin = value->number; break;
        case specification: declared.specification = value->number; break;
        case decl_file: declared.file = number; break;
        case decl_line: declared.line = number; break;
        case call_file: inlined.call_file = number; break;
        case call_line: inlined.call_line = number; break;
        case call_column: inlined.call_column = number; break;
        default: break;
      }
    }
    if (abbreviation.tag == subprogram) declared_.emplace(offset, declared);
    if (abbreviation.tag != inlined_subroutine) return true;
    const unsigned depth = inside == InlinedFunction::none ? 0 : depths_[inside] + 1;
    if (depth == most_depth) return true;
    inside = std::uint32_t(found_.size());
    found_.push_back(inlined);
    depths_.push_back(depth);
    origins_.push_back(origin);
    return true;
  }

  // No value: an unknown form. DWARF 4, 7.5.4.
  std::optional<Value> read(std::uint64_t form) {
    const auto label = info_.labels.find(in_.at());
    auto number = [&](unsigned width) { return Value{in_.number(width), {}}; };
    auto reference = [&](std::uint64_t in_unit) { return Value{unit_ + in_unit, {}}; };
    auto skipped = [&](std::uint64_t length) {
      in_.skip(length);
      return Value{};
    };
    switch (form) {
      case addr: return Value{in_.number(address_size_), label == info_.labels.end() ? "" : label->second};
      case data1:
      case flag: return number(1);
      case data2: return number(2);
      case data4:
      case strp:
      case sec_offset: return number(4);
      case data8: return number(8);
      case sdata:
      case udata: return Value{in_.leb128(), {}};
      case string: return Value{0, in_.text()};
      case flag_present: return Value{1, {}};
      case ref_addr: return number(version_ == 2 ? address_size_ : 4);
      case ref1: return reference(in_.number(1));
      case ref2: return reference(in_.number(2));
      case ref4: return reference(in_.number(4));
      case ref8: return reference(in_.number(8));
      case ref_udata: return reference(in_.leb128());
      case block1: return skipped(in_.number(1));
      case block2: return skipped(in_.number(2));
      case block4: return skipped(in_.number(4));
      case block:
      case exprloc: return skipped(in_.leb128());
      default: return std::nullopt;
    }
  }

  void declare(InlinedFunction& inlined, std::uint64_t entry) const {
    for (int steps = 0; entry && steps < 4; ++steps) { // an entry of a member names that of its declaration
      const auto declared = declared_.find(entry);
      if (declared == declared_.end()) return;
      if (inlined.name.empty()) inlined.name = declared->second.name;
      if (!inlined.file) inlined.file = declared->second.file, inlined.line = declared->second.line;
      entry = declared->second.specification;
    }
  }

  const DebugSection& info_;
  const DebugSection& abbreviations_;
  Bytes in_;
  std::uint64_t unit_ = 0;
  unsigned version_ = 0, address_size_ = 0;
  std::unordered_map<std::uint64_t, Declared> declared_; // by offset
  static constexpr unsigned most_depth = 63; // source_frames tells of no more
  std::vector<InlinedFunction> found_;
  std::vector<unsigned> depths_; // how many are around each
  std::vector<std::uint64_t> origins_; // entries of the functions that were inlined
};

// Where a module's labels stand. Of a name that two functions have, nothing is known.
class Places {
 public:
  struct Place {
    Function* function = nullptr;
    std::uint32_t statement = 0;
  };
  explicit Places(Module& module) {
    for (Function& function : module.functions) {
      for (const auto& [label, statement] : function.labels) {
        const auto [at, fresh] = places_.try_emplace(label, Place{&function, statement});
        if (!fresh) at->second.function = nullptr;
      }
    }
  }
  Place of(std::string_view label) const {
    const auto found = places_.find(label);
    return found == places_.end() ? Place{} : found->second;
  }

 private:
  std::unordered_map<std::string_view, Place> places_;
};

// Registers that hold the address of the thread's stack frame, and nothing else.
std::vector<bool> stack_pointers(const Function& function) {
  std::vector<bool> local(function.registers.size()), other(function.registers.size());
  for (const Statement& statement : function.body) {
    const Instruction* i = statement.instruction();
    if (!i) continue;
    const bool converts = i->opcode == Opcode::cvta && i->has(Modifier::local) && !i->has(Modifier::to);
    for (const RegisterId r : register_use(*i).writes) (converts ? local : other)[r] = true;
  }
  for (std::size_t r = 0; r < local.size(); ++r) local[r] = local[r] && !other[r];
  return local;
}

bool accesses(const Instruction& i, const std::vector<bool>& pointers) {
  return std::any_of(i.operands.begin(), i.operands.end(), [&](const Operand& operand) {
    return operand.kind == Operand::Kind::address && !operand.elements.empty() &&
           operand.elements[0].kind == Operand::Kind::reg && pointers[operand.elements[0].reg];
  });
}

// Locations of inlined functions' instructions.
class Locations {
 public:
  Locations(Module& module, const std::vector<InlinedFunction>& inlined)
      : module_(module), inlined_(inlined), calls_(inlined.size()) {}
  std::uint32_t inside(std::uint32_t location, std::uint32_t function) {
    const auto [at, fresh] = found_.try_emplace(std::uint64_t(function) << 32 | location);
    if (fresh) {
      Location here = module_.locations[location];
      here.function = inlined_[function].name;
      here.inlined_at = call_of(function);
      at->second = add(std::move(here));
    }
    return at->second;
  }

 private:
  std::uint32_t call_of(std::uint32_t function) {
    std::vector<std::uint32_t> around; // from the inside, those whose call has no location yet
    for (std::uint32_t f = function; f != InlinedFunction::none && !calls_[f]; f = inlined_[f].into)
      around.push_back(f);
    for (; !around.empty(); around.pop_back()) {
      const InlinedFunction& one = inlined_[around.back()];
      Location call{one.call_file, one.call_line, one.call_column, {}, 0};
      if (one.into != InlinedFunction::none) {
        call.function = inlined_[one.into].name;
        call.inlined_at = calls_[one.into];
      }
      calls_[around.back()] = add(std::move(call));
    }
    return calls_[function];
  }
  std::uint32_t add(Location location) {
    module_.locations.push_back(std::move(location));
    return std::uint32_t(module_.locations.size() - 1);
  }

  Module& module_;
  const std::vector<InlinedFunction>& inlined_;
  std::vector<std::uint32_t> calls_;
  std::unordered_map<std::uint64_t, std::uint32_t> found_;
};

} // namespace

std::vector<InlinedFunction> inlined_functions(const DebugSection& info, const DebugSection& abbreviations) {
  return Reader(info, abbreviations).run();
}

void locate_inlined(Module& module, const std::vector<InlinedFunction>& inlined, bool stack_accesses) {
  constexpr std::uint64_t most_steps = std::uint64_t(1) << 26; // functions that all lie in the same place are nonsense
  std::uint64_t steps = 0;
  const Places places(module);
  std::map<Function*, std::vector<std::uint32_t>> innermost; // of each statement, of functions that hold some
  for (std::uint32_t f = 0; f < inlined.size(); ++f) {
    const Places::Place begin = places.of(inlined[f].begin), end = places.of(inlined[f].end);
    if (!begin.function || begin.function != end.function || begin.statement >= end.statement) continue;
    if ((steps += end.statement - begin.statement) > most_steps) return;
    std::vector<std::uint32_t>& of = innermost[begin.function];
    if (of.empty()) of.assign(begin.function->body.size(), InlinedFunction::none);
    for (std::uint32_t s = begin.statement; s < end.statement; ++s) { // those around it come before it
      const Instruction* i = begin.function->body[s].instruction();
      if (!i || !i->location) continue;
      const Location& here = module.locations[i->location];
      if (!inlined[f].file || (here.file == inlined[f].file && here.line >= inlined[f].line)) of[s] = f;
    }
  }
  Locations locations(module, inlined);
  for (auto& [function, of] : innermost) {
    const std::vector<bool> pointers = stack_pointers(*function);
    for (std::uint32_t s = 0; s < of.size(); ++s) {
      if (of[s] == InlinedFunction::none) continue;
      Instruction& i = std::get<Instruction>(function->body[s].node);
      if (stack_accesses || !accesses(i, pointers)) i.location = locations.inside(i.location, of[s]);
    }
  }
}

} // namespace deadheat::ptx
