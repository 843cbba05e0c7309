#include "tracer/ptx/open_products.h"

#include <algorithm>
#include <set>

#include "tracer/ptx/operands.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/rewrite.h"
#include "tracer/ptx/value_types.h"

namespace deadheat::ptx {

namespace {

constexpr unsigned most_copies = 8; // one behind the other

bool is_rounded(const Instruction& i) {
  return i.has(Modifier::rn) || i.has(Modifier::rz) || i.has(Modifier::rm) || i.has(Modifier::rp);
}

bool open(const Instruction& i) {
  switch (i.type()) {
    case Type::f32:
    case Type::f64:
    case Type::f16:
    case Type::f16x2:
    case Type::bf16:
    case Type::bf16x2:
    case Type::f32x2: break;
    default: return false;
  }
  return !is_rounded(i);
}

bool multiplies(const Instruction& i) { return i.opcode == Opcode::mul && open(i); }
bool adds(const Instruction& i) { return (i.opcode == Opcode::add || i.opcode == Opcode::sub) && open(i); }
bool copies(const Instruction& i) {
  return (i.opcode == Opcode::mov || i.opcode == Opcode::neg) && !i.guard && i.operands.size() == 2 &&
         i.operands[0].kind == Operand::Kind::reg && i.operands[1].kind == Operand::Kind::reg;
}

// Lanes, or threads, wait for each other, or one orders what it does: for some architectures a basic block ends there
// (up to sm_89), for others not.
bool meets(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::bar:
    case Opcode::barrier:
    case Opcode::shfl:
    case Opcode::vote:
    case Opcode::match:
    case Opcode::redux:
    case Opcode::elect:
    case Opcode::activemask:
    case Opcode::fence:
    case Opcode::call: return true;
    case Opcode::div:
    case Opcode::rem: return !ptx::is_float(i.type());
    case Opcode::atom:
    case Opcode::red: return i.has(Modifier::acquire) || i.has(Modifier::release) || i.has(Modifier::acq_rel);
    default: return false;
  }
}

// ptxas 13.0 fuses nothing across these, for any architecture that has them: what is divided exactly branches.
bool ends_fusing(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::div:
    case Opcode::rcp:
    case Opcode::sqrt: return is_rounded(i);
    case Opcode::rsqrt: return i.type() == Type::f64 && !i.has(Modifier::ftz);
    case Opcode::membar:
    case Opcode::brkpt:
    case Opcode::pmevent:
    case Opcode::setmaxnreg: return true;
    case Opcode::griddepcontrol: return i.has(Modifier::launch_dependents);
    case Opcode::fence: return i.full_opcode().starts_with("fence.acq_rel") || i.full_opcode().starts_with("fence.sc");
    default: return false;
  }
}

// The same, never fused.
std::string rounded(const Instruction& i, const Function& f) {
  std::string text = "\n\t";
  if (i.guard) text += (i.guard->negated ? "@!" : "@") + f.registers[i.guard->reg].name + " ";
  text += std::string(i.opcode_text) + ".rn" + i.full_opcode().substr(i.opcode_text.size());
  for (std::size_t k = 0; k < i.operands.size(); ++k) text += (k ? ", " : " ") + print(i.operands[k], f);
  return text + ";";
}

// The end of what ptxas makes one basic block of, from a block on: blocks that follow each other, and have no other way
// in or out.
std::uint32_t end_of_run(const std::vector<Block>& blocks, std::uint32_t block) {
  for (; block + 1 < blocks.size(); ++block) {
    const std::vector<std::uint32_t>& next = blocks[block].successors;
    if (next.size() != 1 || next[0] != block + 1 || blocks[block + 1].predecessors.size() != 1) break;
  }
  return blocks[block].last;
}

} // namespace

OpenProducts::OpenProducts(const Function& function, const Flow& flow)
    : function_(function),
      uses_(function.registers.size()),
      definitions_(function.registers.size()),
      reach_(function.body.size()) {
  RegisterUse use;
  std::vector<std::uint32_t> open, meetings, ends;
  each_instruction(function, [&](std::size_t s, const Instruction& i) {
    register_use(i, use);
    for (const RegisterId r : use.reads)
      if (uses_[r].empty() || uses_[r].back() != s) uses_[r].push_back(std::uint32_t(s));
    for (const RegisterId r : use.writes) definitions_[r].push_back(std::uint32_t(s));
    if (multiplies(i) || adds(i)) open.push_back(std::uint32_t(s));
    if (ends_fusing(i))
      ends.push_back(std::uint32_t(s));
    else if (meets(i))
      meetings.push_back(std::uint32_t(s));
  });

  std::map<std::uint32_t, std::vector<Use>> by_product, by_sum;
  std::set<std::uint32_t> stay;
  std::uint32_t block = ~0u, end_of_block = 0;
  for (const std::uint32_t s : open) {
    const Instruction& i = *function.body[s].instruction();
    if (!multiplies(i) || i.operands.empty() || i.operands[0].kind != Operand::Kind::reg) continue;
    if (flow.block_of(s) != block) end_of_block = end_of_run(flow.blocks(), block = flow.block_of(s));
    const auto ended = std::upper_bound(ends.begin(), ends.end(), s);
    const std::uint32_t end = std::min(end_of_block, ended == ends.end() ? end_of_block : *ended);
    std::vector<Use> sums;
    const bool nothing_else = find_sums(i.operands[0].reg, s, end, false, 0, sums);
    if (!nothing_else) continue;
    const std::uint32_t last =
        std::max_element(sums.begin(), sums.end(), [](const Use& a, const Use& b) { return a.sum < b.sum; })->sum;
    if (const auto met = std::upper_bound(meetings.begin(), meetings.end(), s); met != meetings.end() && *met < last) {
      stay.insert(s);
      for (const Use& one : sums) stay.insert(one.sum);
      reach_[s] = last;
      continue;
    }
    if (sums.size() == 2 && sums[0].sum == sums[1].sum) continue; // twice itself
    for (Use& one : sums) {
      one.product = s;
      by_sum[one.sum].push_back(one);
    }
    by_product[s] = std::move(sums);
  }

  std::set<std::uint32_t> unclear; // products
  for (auto& [sum, uses] : by_sum) {
    const bool can =
        !stay.count(sum) && std::all_of(uses.begin(), uses.end(), [&](const Use& one) { return may_fuse(one); });
    const bool alone =
        std::all_of(uses.begin(), uses.end(), [&](const Use& one) { return by_product[one.product].size() == 1; });
    if (can && alone && uses.size() == 2) { // the first operand is fused, the other multiplied
      if (uses.front().operand != 1) std::swap(uses.front(), uses.back());
      by_product.erase(uses.back().product);
      uses.pop_back();
    } else if (!can || uses.size() != 1) {
      for (const Use& one : uses) unclear.insert(one.product);
    }
  }
  for (const std::uint32_t s : open) {
    const Instruction& i = *function.body[s].instruction();
    const auto fuses = by_sum.find(s);
    const bool stays = i.type() == Type::f32x2 || stay.count(s) || unclear.count(s) ||
                       (fuses != by_sum.end() && unclear.count(fuses->second.front().product));
    if (stays) continue;
    replacements_[s] = fuses == by_sum.end() ? rounded(i, function) : fused(fuses->second.front());
  }
  for (const std::uint32_t product : unclear) {
    for (const Use& one : by_product[product]) reach_[product] = std::max(reach_[product], one.sum);
  }
  for (std::size_t s = 1; s < reach_.size(); ++s) reach_[s] = std::max(reach_[s], reach_[s - 1]);
}

bool OpenProducts::find_sums(RegisterId value, std::uint32_t statement, std::uint32_t end, bool negated, unsigned depth,
                             std::vector<Use>& sums) const {
  const std::vector<std::uint32_t>&uses = uses_[value], &definitions = definitions_[value];
  const auto next = std::upper_bound(definitions.begin(), definitions.end(), statement);
  // What defines it again may use it.
  const std::uint32_t until = std::min(end, next == definitions.end() ? end : *next + 1);
  const auto first = std::upper_bound(uses.begin(), uses.end(), statement);
  const auto last = std::lower_bound(first, uses.end(), until);
  bool nothing_else = first != last && (std::size_t(last - first) == uses.size() || definitions.size() != 1);
  for (auto use = first; use != last; ++use) {
    const Instruction& i = *function_.body[*use].instruction();
    if (adds(i)) {
      for (std::size_t k = 1; k < i.operands.size(); ++k) {
        if (i.operands[k].kind == Operand::Kind::reg && i.operands[k].reg == value)
          sums.push_back({0, *use, k, negated});
      }
    } else {
      nothing_else &= copies(i) && depth < most_copies &&
                      find_sums(i.operands[0].reg, *use, end, negated != (i.opcode == Opcode::neg), depth + 1, sums);
    }
  }
  return nothing_else;
}

bool OpenProducts::is_defined_between(const Operand& operand, std::uint32_t first, std::uint32_t last) const {
  if (operand.kind != Operand::Kind::reg) return false;
  const std::vector<std::uint32_t>& definitions = definitions_[operand.reg];
  const auto next = std::lower_bound(definitions.begin(), definitions.end(), first);
  return next != definitions.end() && *next < last;
}

bool OpenProducts::may_fuse(const Use& use) const {
  const Instruction& product = *function_.body[use.product].instruction();
  const Instruction& sum = *function_.body[use.sum].instruction();
  return product.operands.size() == 3 && sum.operands.size() == 3 && !product.guard && !sum.guard &&
         product.type() == sum.type() && product.type() != Type::f32x2 &&
         product.has(Modifier::ftz) == sum.has(Modifier::ftz) && !product.has(Modifier::sat) &&
         !is_defined_between(product.operands[1], use.product, use.sum) &&
         !is_defined_between(product.operands[2], use.product, use.sum);
}

std::string OpenProducts::fused(const Use& use) const {
  const Instruction& product = *function_.body[use.product].instruction();
  const Instruction& sum = *function_.body[use.sum].instruction();
  const std::string type(name(sum.type())), bits = std::to_string(ptx::bits(sum.type()));
  const bool subtracts = sum.opcode == Opcode::sub;
  const bool minus_product = use.negated != (subtracts && use.operand == 2);
  const bool minus_other = subtracts && use.operand == 1;
  std::string text = "\n\t{\n\t.reg .b" + bits + " %do_n<2>;";
  const auto operand = [&](const Operand& o, bool minus, const char* to) -> std::string {
    if (!minus) return print(o, function_);
    text += "\n\tneg." + type + " " + to + ", " + print(o, function_) + ";";
    return to;
  };
  const std::string a = operand(product.operands[1], minus_product, "%do_n0"),
                    b = print(product.operands[2], function_);
  const std::string c = operand(sum.operands[use.operand == 1 ? 2 : 1], minus_other, "%do_n1");
  text += std::string("\n\tfma.rn") + (sum.has(Modifier::ftz) ? ".ftz" : "") + (sum.has(Modifier::sat) ? ".sat" : "") +
          "." + type + " " + print(sum.operands[0], function_) + ", " + a + ", " + b + ", " + c + ";\n\t}";
  return text;
}

} // namespace deadheat::ptx
