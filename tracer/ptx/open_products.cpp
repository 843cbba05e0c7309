#include "tracer/ptx/open_products.h"

#include <algorithm>

#include "tracer/ptx/operands.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::ptx {

namespace {

constexpr unsigned most_copies = 8; // one behind the other

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
  return !i.has(Modifier::rn) && !i.has(Modifier::rz) && !i.has(Modifier::rm) && !i.has(Modifier::rp);
}

bool multiplies(const Instruction& i) { return i.opcode == Opcode::mul && open(i); }
bool adds(const Instruction& i) { return (i.opcode == Opcode::add || i.opcode == Opcode::sub) && open(i); }
bool copies(const Instruction& i) {
  return (i.opcode == Opcode::mov || i.opcode == Opcode::neg) && !i.guard && i.operands.size() == 2 &&
         i.operands[0].kind == Operand::Kind::reg && i.operands[1].kind == Operand::Kind::reg;
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
    : uses_(function.registers.size()), definitions_(function.registers.size()), reach_(function.body.size()) {
  RegisterUse use;
  std::vector<std::uint32_t> products;
  each_instruction(function, [&](std::size_t s, const Instruction& i) {
    register_use(i, use);
    for (const RegisterId r : use.reads) uses_[r].push_back(std::uint32_t(s));
    for (const RegisterId r : use.writes) definitions_[r].push_back(std::uint32_t(s));
    if (multiplies(i) && !i.operands.empty() && i.operands[0].kind == Operand::Kind::reg)
      products.push_back(std::uint32_t(s));
  });
  std::uint32_t block = ~0u, end = 0;
  for (const std::uint32_t s : products) {
    if (flow.block_of(s) != block) end = end_of_run(flow.blocks(), block = flow.block_of(s));
    reach_[s] = last_sum(function, function.body[s].instruction()->operands[0].reg, s, end, 0);
  }
  for (std::size_t s = 1; s < reach_.size(); ++s) reach_[s] = std::max(reach_[s], reach_[s - 1]);
}

std::uint32_t OpenProducts::last_sum(const Function& function, RegisterId product, std::uint32_t statement,
                                     std::uint32_t end, unsigned depth) const {
  const std::vector<std::uint32_t>&uses = uses_[product], &definitions = definitions_[product];
  const auto next = std::upper_bound(definitions.begin(), definitions.end(), statement);
  // What defines it again may use it.
  const std::uint32_t until = std::min(end, next == definitions.end() ? end : *next + 1);
  const auto first = std::upper_bound(uses.begin(), uses.end(), statement);
  const auto last = std::lower_bound(first, uses.end(), until);
  if (std::size_t(last - first) != uses.size() && definitions.size() == 1) return 0;
  std::uint32_t found = 0;
  for (auto use = first; use != last; ++use) {
    const Instruction& i = *function.body[*use].instruction();
    std::uint32_t sum = 0;
    if (adds(i))
      sum = *use;
    else if (copies(i) && depth < most_copies)
      sum = last_sum(function, i.operands[0].reg, *use, end, depth + 1);
    if (sum == 0) return 0;
    found = std::max(found, sum);
  }
  return found;
}

} // namespace deadheat::ptx
