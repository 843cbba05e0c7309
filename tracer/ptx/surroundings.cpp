#include "tracer/ptx/surroundings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "tracer/ptx/demangle.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/operands.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::ptx {

namespace {

using Way = std::vector<std::string>;

struct Call {
  const Function* from = nullptr;
  Way functions; // that hold it: `from`, and what was inlined there
  friend auto operator<=>(const Call&, const Call&) = default;
};
// Who calls whom.
class Calls {
 public:
  explicit Calls(const Module& module) {
    for (const Function& function : module.functions) {
      each_instruction(function, [&](std::size_t, const Instruction& i) {
        if (i.opcode == Opcode::call) return add(module, function, i);
        for (const Operand& operand : i.operands) note_address(operand);
      });
    }
    for (const Module::Piece& piece : module.pieces) // of variables: initial values
      for (const Token& token : piece.tokens) addressed_.insert(token.text);
  }
  const std::set<Call>& of(const Function& function) const {
    static const std::set<Call> none;
    const auto found = by_callee_.find(function.name);
    return found == by_callee_.end() ? none : found->second;
  }
  // May a call through an address be one of the function?
  bool others_of(const Function& function) const { return indirect_ && addressed_.contains(function.name); }

 private:
  void add(const Module& module, const Function& function, const Instruction& i) {
    const std::string_view name = callee(i);
    indirect_ |= name.empty();
    Call call{&function, {}};
    for (SourceFrame& frame : source_frames(module, i.location, function.name))
      call.functions.push_back(std::move(frame.function));
    if (call.functions.empty()) call.functions.push_back(demangle(function.name));
    by_callee_[name].insert(std::move(call));
  }
  void note_address(const Operand& operand) {
    if (operand.kind == Operand::Kind::symbol) addressed_.insert(operand.text);
    for (const Operand& element : operand.elements) note_address(element);
  }

  std::map<std::string_view, std::set<Call>> by_callee_;
  std::set<std::string_view> addressed_; // names whose address is taken, functions' among them
  bool indirect_ = false; // there are calls through addresses
};

class Ways {
 public:
  Ways(const Calls& calls, const Function& to) : calls_(calls), inside_{&to} {}
  // Goes on from a function that `way` leads out of. Round a cycle of calls there is nothing new. False: not known, or
  // too many.
  bool follow(const Function& function, Way& way) {
    if (function.entry) {
      found_.insert(way);
      return found_.size() <= most;
    }
    if (++steps_ > most_steps || calls_.others_of(function)) return false;
    for (const Call& call : calls_.of(function)) {
      if (std::find(inside_.begin(), inside_.end(), call.from) != inside_.end()) continue;
      const std::size_t length = way.size();
      way.insert(way.end(), call.functions.begin(), call.functions.end());
      inside_.push_back(call.from);
      const bool few = follow(*call.from, way);
      inside_.pop_back();
      way.resize(length);
      if (!few) return false;
    }
    return true;
  }
  const std::set<Way>& found() const { return found_; }

 private:
  static constexpr std::size_t most = 256, most_steps = 1 << 14;
  const Calls& calls_;
  std::vector<const Function*> inside_;
  std::set<Way> found_;
  std::size_t steps_ = 0;
};

// Does the instruction's address come of %reserved_smem_offset_*, through registers of its function?
bool in_reserved_memory(const Function& function, const Instruction& instruction) {
  std::set<RegisterId> reached;
  std::vector<RegisterId> next;
  auto reach = [&](RegisterId r) {
    if (reached.insert(r).second) next.push_back(r);
  };
  for (const Operand& operand : instruction.operands) {
    if (operand.kind != Operand::Kind::address || operand.elements.empty()) continue;
    if (operand.elements[0].kind == Operand::Kind::reg) reach(operand.elements[0].reg);
  }
  std::multimap<RegisterId, const Instruction*> writers;
  if (!next.empty()) {
    each_instruction(function, [&](std::size_t, const Instruction& i) {
      for (const RegisterId r : register_use(i).writes) writers.emplace(r, &i);
    });
  }
  while (!next.empty()) {
    const auto [first, last] = writers.equal_range(next.back());
    next.pop_back();
    for (auto writer = first; writer != last; ++writer) {
      const Instruction& i = *writer->second;
      for (const Operand& operand : i.operands)
        if (operand.kind == Operand::Kind::special && operand.text.starts_with("%reserved_smem_offset")) return true;
      if (i.opcode == Opcode::ld || i.opcode == Opcode::atom || i.opcode == Opcode::call) continue; // of other values
      for (const RegisterId r : register_use(i).reads) reach(r);
    }
  }
  return false;
}

} // namespace

std::vector<std::vector<std::string>> ways_to(const Module& module, const Function& function) {
  if (function.entry) return {};
  const Calls calls(module);
  Ways ways(calls, function);
  Way way;
  if (!ways.follow(function, way)) return {};
  return {ways.found().begin(), ways.found().end()};
}

std::string path_to(const Module& module, const SiteTable& table, std::uint32_t site) {
  const Site& last = table.sites[site];
  const auto holder = std::find_if(module.functions.begin(), module.functions.end(), [&](const Function& function) {
    return function.has_body && function.name == last.function;
  });
  if (holder == module.functions.end()) return last.opcode;
  const std::vector<std::uint32_t>& numbers = table.by_function[std::size_t(holder - module.functions.begin())];
  const Flow flow(*holder);
  std::uint32_t block = flow.block_of(last.instruction);
  if (!flow.blocks()[block].reachable) return last.opcode;
  std::string path = last.opcode;
  if (in_reserved_memory(*holder, *holder->body[last.instruction].instruction())) path += "[reserved]";
  std::size_t length = 0;
  for (std::uint32_t end = last.instruction;;) { // backwards
    for (std::uint32_t s = end; s-- > flow.blocks()[block].first;) {
      const Instruction* i = holder->body[s].instruction();
      if (!i || i->guard || numbers[s] == SiteTable::none) continue;
      if (++length > most_of_path) return path;
      path.insert(0, table.sites[numbers[s]].opcode + " ");
    }
    const std::uint32_t dominator = flow.blocks()[block].dominator;
    if (dominator == block) return path;
    block = dominator;
    end = flow.blocks()[block].last;
  }
}

} // namespace deadheat::ptx
