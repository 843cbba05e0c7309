#include "replay/engine/saves.h"

#include "tracer/ptx/operands.h"

namespace deadheat::engine {

namespace {

class Set {
 public:
  explicit Set(std::size_t n, bool full = false) : words_((n + 63) / 64, full ? ~std::uint64_t(0) : 0) {}
  bool contains(ptx::RegisterId r) const { return words_[r / 64] >> (r % 64) & 1; }
  void insert(ptx::RegisterId r) { words_[r / 64] |= std::uint64_t(1) << (r % 64); }
  void erase(ptx::RegisterId r) { words_[r / 64] &= ~(std::uint64_t(1) << (r % 64)); }
  void intersect(const Set& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  }
  friend bool operator==(const Set&, const Set&) = default;

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace

void find_saves(const ptx::Function& function, const ptx::Flow& flow, std::vector<StopPoint>& points) {
  const auto& blocks = flow.blocks();
  const std::size_t registers = function.registers.size();
  std::vector<std::size_t> first_point(blocks.size() + 1, points.size());
  for (std::size_t b = 0, n = 0; b < blocks.size(); ++b) {
    while (n < points.size() && points[n].statement < blocks[b].first) ++n;
    first_point[b] = n;
  }
  ptx::RegisterUse use;
  // Walks a block from what holds at its beginning; `fill`: writes down what each stop must save.
  auto walk = [&](std::size_t b, Set& held, bool fill) {
    std::size_t n = first_point[b];
    for (std::uint32_t s = blocks[b].first; s < blocks[b].last; ++s) {
      const ptx::Instruction* i = function.body[s].instruction();
      if (!i) continue;
      ptx::register_use(*i, use);
      if (n < points.size() && points[n].statement == s) {
        StopPoint& point = points[n++];
        if (fill && !point.before)
          for (auto r : point.live) {
            bool written = false;  // by the statement: a stop behind it must save it
            for (auto w : use.writes) written |= w == r;
            if (written || !held.contains(r)) point.save.push_back(r);
          }
        if (point.always)
          for (auto r : point.live) held.insert(r);
      }
      for (auto r : use.writes) held.erase(r);
    }
  };
  std::vector<Set> out(blocks.size(), Set(registers, true));  // optimistic
  auto held_at = [&](std::size_t b) {
    Set held(registers, b != 0);
    for (auto p : blocks[b].predecessors) held.intersect(out[p]);
    return held;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (!blocks[b].reachable) continue;
      Set held = held_at(b);
      walk(b, held, false);
      if (held == out[b]) continue;
      out[b] = std::move(held);
      changed = true;
    }
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    Set held = blocks[b].reachable ? held_at(b) : Set(registers);
    walk(b, held, true);
  }
}

}  // namespace deadheat::engine
