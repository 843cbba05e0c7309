#include "tracer/ptx/flow.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tracer/ptx/operands.h"

namespace deadheat::ptx {
namespace {

constexpr std::uint32_t none = ~std::uint32_t(0);

bool ends_thread(const Instruction& i) {
  return i.opcode == Opcode::exit || i.opcode == Opcode::ret || i.opcode == Opcode::trap;
}
bool is_branch(const Instruction& i) { return i.opcode == Opcode::bra || i.opcode == Opcode::brx; }

// Statements that a branch may go to. Labels that do not resolve (in functions that code made) have no edge.
void targets_of(const Function& f, const Instruction& i, std::vector<std::uint32_t>& out) {
  out.clear();
  auto add = [&](std::string_view label) {
    auto found = f.labels.find(label);
    if (found != f.labels.end() && found->second < f.body.size()) out.push_back(found->second);
  };
  if (i.opcode == Opcode::bra && !i.operands.empty()) add(i.operands[0].text);
  if (i.opcode == Opcode::brx && i.operands.size() > 1) {
    auto list = f.labels.find(i.operands[1].text);
    if (list == f.labels.end() || list->second >= f.body.size()) return;
    const Directive* directive = std::get_if<Directive>(&f.body[list->second].node);
    if (!directive) return;
    for (const std::string& target : directive->targets) add(target);
  }
}

}  // namespace

Flow::Flow(const Function& function) {
  std::uint32_t size = std::uint32_t(function.body.size());
  std::vector<std::uint8_t> starts(size + 1, 0);
  for (std::uint32_t s = 0; s < size; ++s) {
    // Every label may start a block, whether or not it is branched to: its name is public.
    if (std::holds_alternative<Label>(function.body[s].node)) starts[s] = 1;
    const Instruction* i = function.body[s].instruction();
    if (!i || !(is_branch(*i) || ends_thread(*i))) continue;
    starts[s + 1] = 1;
  }
  block_of_.resize(size);
  for (std::uint32_t s = 0; s < size; ++s) {
    if (s == 0 || starts[s]) {
      if (!blocks_.empty()) blocks_.back().last = s;
      blocks_.push_back({s, size, {}, {}, false, false, 0});
    }
    block_of_[s] = std::uint32_t(blocks_.size() - 1);
  }
  find_edges(function);
  find_cycles();
  find_dominators();
}

void Flow::find_edges(const Function& function) {
  std::vector<std::uint32_t> targets;
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    const Instruction* last = nullptr;
    for (std::uint32_t s = block.last; s > block.first && !last; --s) last = function.body[s - 1].instruction();
    bool falls_through = true;
    if (last && (is_branch(*last) || ends_thread(*last))) {
      falls_through = last->guard.has_value();
      targets_of(function, *last, targets);
      for (std::uint32_t t : targets) block.successors.push_back(block_of_[t]);
    }
    if (falls_through && b + 1 < blocks_.size()) block.successors.push_back(b + 1);
    std::sort(block.successors.begin(), block.successors.end());
    block.successors.erase(std::unique(block.successors.begin(), block.successors.end()), block.successors.end());
    for (std::uint32_t t : block.successors) blocks_[t].predecessors.push_back(b);
  }
}

// Tarjan's strongly connected components, without recursion.
void Flow::find_cycles() {
  struct Frame {
    std::uint32_t block, next;
  };
  std::vector<std::uint32_t> index(blocks_.size(), none), low(blocks_.size(), 0), component;
  std::vector<std::uint8_t> on_stack(blocks_.size(), 0);
  std::vector<Frame> frames;
  std::uint32_t counter = 0;
  for (std::uint32_t root = 0; root < blocks_.size(); ++root) {
    if (index[root] != none) continue;
    frames.push_back({root, 0});
    while (!frames.empty()) {
      std::uint32_t b = frames.back().block;
      if (frames.back().next == 0) {
        index[b] = low[b] = counter++;
        component.push_back(b);
        on_stack[b] = 1;
      }
      if (frames.back().next < blocks_[b].successors.size()) {
        std::uint32_t t = blocks_[b].successors[frames.back().next++];
        if (index[t] == none) {
          frames.push_back({t, 0});
        } else if (on_stack[t]) {
          low[b] = std::min(low[b], index[t]);
        }
        continue;
      }
      frames.pop_back();
      if (!frames.empty()) low[frames.back().block] = std::min(low[frames.back().block], low[b]);
      if (low[b] != index[b]) continue;
      const auto& successors = blocks_[b].successors;
      bool cycle = component.back() != b || std::find(successors.begin(), successors.end(), b) != successors.end();
      std::uint32_t member;
      do {
        member = component.back();
        component.pop_back();
        on_stack[member] = 0;
        blocks_[member].on_cycle = cycle;
      } while (member != b);
    }
  }
}

// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
void Flow::find_dominators() {
  order_.assign(blocks_.size(), none);
  if (blocks_.empty()) return;
  std::vector<std::uint32_t> postorder;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> frames = {{0, 0}};
  blocks_[0].reachable = true;
  while (!frames.empty()) {
    auto& [b, next] = frames.back();
    if (next < blocks_[b].successors.size()) {
      std::uint32_t t = blocks_[b].successors[next++];
      if (!blocks_[t].reachable) {
        blocks_[t].reachable = true;
        frames.push_back({t, 0});
      }
    } else {
      postorder.push_back(b);
      frames.pop_back();
    }
  }
  for (std::uint32_t i = 0; i < postorder.size(); ++i) {
    order_[postorder[i]] = std::uint32_t(postorder.size()) - 1 - i;
  }
  for (Block& block : blocks_) block.dominator = none;
  blocks_[0].dominator = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = postorder.size() - 1; i-- > 0;) {
      Block& block = blocks_[postorder[i]];
      std::uint32_t dominator = none;
      for (std::uint32_t p : block.predecessors) {
        if (!blocks_[p].reachable || blocks_[p].dominator == none) continue;
        std::uint32_t other = p;
        while (dominator != none && dominator != other) {
          std::uint32_t& later = order_[dominator] > order_[other] ? dominator : other;
          later = blocks_[later].dominator;
        }
        dominator = other;
      }
      if (dominator != block.dominator) {
        block.dominator = dominator;
        changed = true;
      }
    }
  }
  for (Block& block : blocks_) {
    if (block.dominator == none) block.dominator = 0;
  }
}

bool Flow::dominates(std::uint32_t a, std::uint32_t b) const {
  if (!blocks_[a].reachable || !blocks_[b].reachable) return a == b;
  while (order_[b] > order_[a]) b = blocks_[b].dominator;
  return a == b;
}

std::vector<bool> Flow::walk(std::vector<std::uint32_t> blocks, std::vector<std::uint32_t> Block::* along) const {
  std::vector<bool> found(blocks_.size());
  while (!blocks.empty()) {
    const std::uint32_t b = blocks.back();
    blocks.pop_back();
    if (found[b]) continue;
    found[b] = true;
    blocks.insert(blocks.end(), (blocks_[b].*along).begin(), (blocks_[b].*along).end());
  }
  return found;
}

std::vector<bool> Flow::reachable_from(std::vector<std::uint32_t> blocks) const {
  return walk(std::move(blocks), &Block::successors);
}

std::vector<bool> Flow::leading_to(std::vector<std::uint32_t> blocks) const {
  return walk(std::move(blocks), &Block::predecessors);
}

std::vector<Flow::Loop> Flow::natural_loops() const {
  std::vector<Loop> loops;
  std::vector<std::uint32_t> mark(blocks_.size(), none), work;
  for (std::uint32_t header = 0; header < blocks_.size(); ++header) {
    if (!blocks_[header].reachable || !blocks_[header].on_cycle) continue;
    Loop loop;
    loop.header = header;
    work.clear();
    for (std::uint32_t p : blocks_[header].predecessors) {
      if (blocks_[p].reachable && dominates(header, p)) work.push_back(p);
    }
    if (work.empty()) continue;
    mark[header] = header;
    loop.blocks.push_back(header);
    while (!work.empty()) {
      std::uint32_t b = work.back();
      work.pop_back();
      if (mark[b] == header) continue;
      mark[b] = header;
      loop.blocks.push_back(b);
      for (std::uint32_t p : blocks_[b].predecessors) {
        if (blocks_[p].reachable) work.push_back(p);
      }
    }
    std::sort(loop.blocks.begin(), loop.blocks.end());
    loops.push_back(std::move(loop));
  }
  return loops;
}

std::size_t RegisterSet::size() const {
  std::size_t count = 0;
  for (std::uint64_t word : words_) count += std::size_t(std::popcount(word));
  return count;
}

std::vector<RegisterId> RegisterSet::list() const {
  std::vector<RegisterId> registers;
  for (std::size_t w = 0; w < words_.size(); ++w) {
    for (std::uint64_t word = words_[w]; word != 0; word &= word - 1) {
      registers.push_back(RegisterId(w * 64 + std::size_t(std::countr_zero(word))));
    }
  }
  return registers;
}

Liveness::Liveness(const Function& function, const Flow& flow) : function_(function), flow_(flow) {
  const std::vector<Block>& blocks = flow.blocks();
  std::size_t registers = function.registers.size();
  // Per block: registers read before they are surely written (use), and surely written (kill). Only registers that some
  // block uses this way can be live across blocks.
  std::vector<std::vector<RegisterId>> used(blocks.size()), killed(blocks.size());
  std::vector<std::uint32_t> use_seen(registers, none), kill_seen(registers, none), column(registers, none);
  RegisterUse use;
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    for (std::uint32_t s = blocks[b].first; s < blocks[b].last; ++s) {
      const Instruction* i = function.body[s].instruction();
      if (!i) continue;
      register_use(*i, use);
      for (RegisterId r : use.reads) {
        if (kill_seen[r] == b || use_seen[r] == b) continue;
        use_seen[r] = b;
        used[b].push_back(r);
        if (column[r] == none) {
          column[r] = std::uint32_t(crossing_.size());
          crossing_.push_back(r);
        }
      }
      if (i->guard) continue;
      for (RegisterId r : use.writes) {
        if (kill_seen[r] == b) continue;
        kill_seen[r] = b;
        killed[b].push_back(r);
      }
    }
  }
  row_words_ = (crossing_.size() + 63) / 64;
  std::size_t cells = blocks.size() * row_words_;
  std::vector<std::uint64_t> in(cells, 0), keep(cells, ~std::uint64_t(0));
  out_.assign(cells, 0);
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    for (RegisterId r : used[b]) in[b * row_words_ + column[r] / 64] |= std::uint64_t(1) << (column[r] % 64);
    for (RegisterId r : killed[b]) {
      if (column[r] != none) keep[b * row_words_ + column[r] / 64] &= ~(std::uint64_t(1) << (column[r] % 64));
    }
  }
  // Backward data flow from a work list, last blocks first.
  std::vector<std::uint32_t> work(blocks.size());
  std::vector<std::uint8_t> queued(blocks.size(), 1);
  for (std::uint32_t b = 0; b < blocks.size(); ++b) work[b] = b;
  while (!work.empty()) {
    std::uint32_t b = work.back();
    work.pop_back();
    queued[b] = 0;
    bool changed = false;
    for (std::size_t w = 0; w < row_words_; ++w) {
      std::uint64_t word = 0;
      for (std::uint32_t t : blocks[b].successors) word |= in[t * row_words_ + w];
      out_[b * row_words_ + w] = word;
      std::uint64_t now = in[b * row_words_ + w] | (word & keep[b * row_words_ + w]);
      changed |= now != in[b * row_words_ + w];
      in[b * row_words_ + w] = now;
    }
    if (!changed) continue;
    for (std::uint32_t p : blocks[b].predecessors) {
      if (!queued[p]) {
        queued[p] = 1;
        work.push_back(p);
      }
    }
  }
}

RegisterSet Liveness::live_out(std::uint32_t block) const {
  RegisterSet live(function_.registers.size());
  for (std::size_t w = 0; w < row_words_; ++w) {
    for (std::uint64_t word = out_[block * row_words_ + w]; word != 0; word &= word - 1) {
      live.insert(crossing_[w * 64 + std::size_t(std::countr_zero(word))]);
    }
  }
  return live;
}

namespace {

void step_back(const Instruction& i, RegisterUse& use, RegisterSet& live) {
  register_use(i, use);
  if (!i.guard) {
    for (RegisterId r : use.writes) live.erase(r);
  }
  for (RegisterId r : use.reads) live.insert(r);
}

} // namespace

RegisterSet Liveness::live_after(std::uint32_t statement) const {
  std::uint32_t b = flow_.block_of(statement);
  RegisterSet live = live_out(b);
  RegisterUse use;
  for (std::uint32_t s = flow_.blocks()[b].last; s > statement + 1; --s) {
    if (const Instruction* i = function_.body[s - 1].instruction()) step_back(*i, use, live);
  }
  return live;
}

void Liveness::sweep(const std::function<void(std::uint32_t, const RegisterSet&)>& visit) const {
  RegisterUse use;
  for (std::uint32_t b = 0; b < flow_.blocks().size(); ++b) {
    RegisterSet live = live_out(b);
    for (std::uint32_t s = flow_.blocks()[b].last; s > flow_.blocks()[b].first; --s) {
      const Instruction* i = function_.body[s - 1].instruction();
      if (!i) continue;
      visit(s - 1, live);
      step_back(*i, use, live);
    }
  }
}

} // namespace deadheat::ptx
