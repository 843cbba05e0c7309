#include "tests/unit/order_outcomes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "analyzer/order/histories.h"

namespace deadheat::test {

namespace {

constexpr std::uint32_t most_variables = 4;

// ---- the axioms

using Relation = std::vector<std::vector<bool>>;

struct Node { // an operation of the program
  Op op;
  std::uint32_t thread = 0, block = 0, barrier = 0; // barrier: how many of its thread come before
  std::uint32_t value = 0;                          // that it writes
};

class Candidates {
 public:
  // `backwards`: the vectors, by bits in the order of the program, whose second element comes first.
  Candidates(const Program& program, std::uint32_t backwards) {
    for (std::uint32_t t = 0; t < program.size(); ++t) {
      std::uint32_t barriers = 0;
      for (const Op& op : program[t].ops) {
        const std::size_t first = nodes_.size();
        const bool turned = op.elements == 2 && backwards & 1;
        if (op.elements == 2) backwards >>= 1;
        for (std::uint32_t n = 0; n < op.elements; ++n) { // scalars in an order that is not specified (8.2.2)
          const std::uint32_t element = turned ? 1 - n : n;
          Op scalar = op;
          scalar.variable += element;
          nodes_.push_back({scalar, t, program[t].block, barriers, 0});
          if (op.writes()) {
            nodes_.back().value = std::uint32_t(first + 1 + element);
            writes_[scalar.variable].push_back(nodes_.size() - 1);
          }
        }
        for (std::uint32_t element = 0; op.reads() && element < op.elements; ++element)
          reads_.push_back(first + (turned ? 1 - element : element));
        barriers += op.kind == Op::Kind::barrier;
        if (op.kind == Op::Kind::fence && op.ordering == Ordering::sc) fences_.push_back(nodes_.size() - 1);
      }
    }
    saw_.assign(nodes_.size(), nobody);
    place_.assign(nodes_.size(), 0);
  }

  std::set<Outcome> all() {
    coherence(0);
    return std::move(outcomes_);
  }

 private:
  static constexpr std::size_t nobody = ~std::size_t(0);

  Relation none() const { return Relation(nodes_.size(), std::vector<bool>(nodes_.size())); }
  void coherence(std::uint32_t variable) {
    if (variable == most_variables) return reads(0);
    auto& order = writes_[variable];
    std::sort(order.begin(), order.end());
    do {
      for (std::size_t i = 0; i < order.size(); ++i) place_[order[i]] = i + 1;
      coherence(variable + 1);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  void reads(std::size_t n) {
    if (n == reads_.size()) return fences();
    const std::size_t read = reads_[n];
    saw_[read] = nobody;
    reads(n + 1);
    for (std::size_t write : writes_[nodes_[read].op.variable]) {
      if (write == read) continue;
      saw_[read] = write;
      reads(n + 1);
    }
  }
  void fences() {
    std::sort(fences_.begin(), fences_.end());
    do {
      if (!consistent()) continue;
      Outcome outcome;
      for (std::size_t read : reads_) outcome.push_back(saw_[read] == nobody ? 0 : nodes_[saw_[read]].value);
      for (const auto& order : writes_) {
        std::uint32_t last = 0;
        for (std::size_t write : order)
          if (place_[write] == order.size()) last = nodes_[write].value;
        outcome.push_back(last);
      }
      outcomes_.insert(outcome);
      break; // one order of the fences is enough
    } while (std::next_permutation(fences_.begin(), fences_.end()));
  }

  bool in_scope(const Node& of, const Node& other) const { // 8.5
    if (of.op.scope == Scope::none) return false;
    return of.op.scope >= Scope::gpu || of.block == other.block;
  }
  bool morally_strong(std::size_t a, std::size_t b) const { // 8.7
    const Node &x = nodes_[a], &y = nodes_[b];
    if (!is_strong(x.op.ordering) || !is_strong(y.op.ordering)) return false;
    if (x.op.memory() && y.op.memory() && x.op.variable != y.op.variable) return false;
    return in_scope(x, y) && in_scope(y, x);
  }
  bool program(std::size_t a, std::size_t b) const { return a < b && nodes_[a].thread == nodes_[b].thread; }
  bool same_place(std::size_t a, std::size_t b) const {
    return nodes_[a].op.memory() && nodes_[b].op.memory() && nodes_[a].op.variable == nodes_[b].op.variable;
  }
  std::size_t place_read(std::size_t read) const { return saw_[read] == nobody ? 0 : place_[saw_[read]]; }

  void close(Relation& r) const {
    for (std::size_t via = 0; via < r.size(); ++via)
      for (std::size_t a = 0; a < r.size(); ++a)
        for (std::size_t b = 0; r[a][via] && b < r.size(); ++b)
          if (r[via][b]) r[a][b] = true;
  }
  bool acyclic(Relation r) const {
    close(r);
    for (std::size_t a = 0; a < r.size(); ++a)
      if (r[a][a]) return false;
    return true;
  }

  bool consistent() const {
    const std::size_t count = nodes_.size();
    // 8.9.2
    Relation observation = none();
    for (std::size_t read : reads_)
      if (saw_[read] != nobody && morally_strong(saw_[read], read)) observation[saw_[read]][read] = true;
    Relation direct = observation;
    close(direct); // through read-modify-writes, which alone have an edge in and one out
    // 8.9.3 to 8.9.5
    Relation base = none();
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b) {
        if (program(a, b)) base[a][b] = true;
        const Node &x = nodes_[a], &y = nodes_[b];
        if (x.op.kind == Op::Kind::barrier && y.op.kind == Op::Kind::barrier && a != b && x.block == y.block &&
            x.barrier == y.barrier) {
          // All before the one come before all after the other.
          for (std::size_t before = 0; before < a; ++before)
            for (std::size_t after = b + 1; after < count; ++after)
              if (program(before, a) && program(b, after)) base[before][after] = true;
        }
      }
    for (std::size_t i = 0; i < fences_.size(); ++i)
      for (std::size_t j = i + 1; j < fences_.size(); ++j)
        if (morally_strong(fences_[i], fences_[j])) base[fences_[i]][fences_[j]] = true;
    struct Pattern {
      std::size_t end, access;
    };
    std::vector<Pattern> releases, acquires; // 8.8
    for (std::size_t access = 0; access < count; ++access) {
      const Op& op = nodes_[access].op;
      if (!op.memory() || !is_strong(op.ordering)) continue;
      if (op.writes() && is_release(op.ordering)) releases.push_back({access, access});
      if (op.reads() && is_acquire(op.ordering)) acquires.push_back({access, access});
      for (std::size_t other = 0; other < count; ++other) {
        const Op& o = nodes_[other].op;
        const bool fence = o.kind == Op::Kind::fence;
        if (op.writes() && program(other, access) && is_release(o.ordering) &&
            (fence || (o.writes() && same_place(other, access))))
          releases.push_back({other, access});
        if (op.reads() && program(access, other) && is_acquire(o.ordering) &&
            (fence || (o.reads() && same_place(other, access))))
          acquires.push_back({other, access});
      }
    }
    for (const Pattern& release : releases)
      for (const Pattern& acquire : acquires)
        if (direct[release.access][acquire.access] && morally_strong(release.end, acquire.end))
          base[release.end][acquire.end] = true;
    close(base);
    Relation causality = base;
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t via = 0; via < count; ++via)
        for (std::size_t b = 0; direct[a][via] && b < count; ++b)
          if (base[via][b]) causality[a][b] = true;
    for (std::size_t a = 0; a < count; ++a)
      if (causality[a][a]) return false; // 8.10.2: Fence-SC order does not contradict it

    Relation communication = none(), strongly = none();
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b) {
        if (a == b || !same_place(a, b)) continue;
        const Op &x = nodes_[a].op, &y = nodes_[b].op;
        bool edge = x.writes() && y.writes() && place_[a] < place_[b];
        edge |= x.writes() && y.reads() && saw_[b] == a;
        edge |= x.reads() && y.writes() && place_read(a) < place_[b];
        communication[a][b] = edge;
        strongly[a][b] = (edge && morally_strong(a, b)) || program(a, b);
        // 8.10.1
        if (x.writes() && y.writes() && causality[a][b] && place_[a] > place_[b]) return false;
        // 8.10.3: no write that is morally strong with a read-modify-write comes between its read and its write
        if (x.kind == Op::Kind::exchange && y.writes() && morally_strong(a, b) && place_read(a) < place_[b] &&
            place_[b] < place_[a])
          return false;
        // 8.10.6
        if (causality[a][b]) {
          if (x.reads() && y.writes() && saw_[a] == b) return false;
          if (x.writes() && y.reads() && place_read(b) < place_[a]) return false;
        }
      }
    // A read-modify-write reads before it writes.
    for (std::size_t read : reads_)
      if (nodes_[read].op.writes() && place_read(read) >= place_[read]) return false;
    return acyclic(strongly); // 8.10.5
  }

  std::vector<Node> nodes_;
  std::vector<std::size_t> writes_[most_variables], reads_, fences_, saw_, place_;
  std::set<Outcome> outcomes_;
};

// ---- the histories

// One run of the program; `decide(n)` chooses among n.
class Run {
 public:
  Run(const Program& program, bool shared, const std::function<std::size_t(std::size_t)>& decide)
      : program_(program), decide_(decide), shared_(shared), at_(program.size()), read_(program.size()) {
    launch_ = histories_.launch_begin({4, 1, 1}, {64, 1, 1}, {1, 1, 1});
    std::uint32_t value = 0;
    for (const LitmusThread& thread : program) {
      values_.emplace_back();
      for (const Op& op : thread.ops) {
        values_.back().push_back(value + 1);
        value += op.elements;
      }
    }
  }

  Outcome run() {
    for (;;) {
      std::vector<std::size_t> able;
      for (std::size_t t = 0; t < program_.size(); ++t)
        if (at_[t] < program_[t].ops.size() && !waits(t)) able.push_back(t);
      if (able.empty()) break;
      step(able[able.size() == 1 ? 0 : decide_(able.size())]);
    }
    Outcome outcome;
    for (const auto& reads : read_) outcome.insert(outcome.end(), reads.begin(), reads.end());
    for (std::uint32_t v = 0; v < most_variables; ++v) outcome.push_back(memory_[v]);
    return outcome;
  }

 private:
  bool waits(std::size_t t) { // at a barrier that others of the block have not reached
    if (program_[t].ops[at_[t]].kind != Op::Kind::barrier) return false;
    for (std::size_t o = 0; o < program_.size(); ++o) {
      if (program_[o].block != program_[t].block) continue;
      if (at_[o] == program_[o].ops.size() || program_[o].ops[at_[o]].kind != Op::Kind::barrier) return true;
    }
    return false;
  }
  void step(std::size_t t) {
    const LitmusThread& thread = program_[t];
    const Op& op = thread.ops[at_[t]];
    order::ThreadKey key(launch_, thread.block, thread.thread);
    if (op.kind == Op::Kind::barrier) {
      std::uint32_t lanes = 0;
      for (std::size_t o = 0; o < program_.size(); ++o)
        if (program_[o].block == thread.block) ++at_[o], ++lanes;
      histories_.causality().block_barrier(launch_, thread.block, histories_.tick());
      return;
    }
    const std::uint32_t value = values_[t][at_[t]++];
    if (op.kind == Op::Kind::fence) {
      histories_.causality().fence(key, op.ordering, op.scope, histories_.tick());
      return;
    }
    order::HistoryAccess access;
    access.thread = key;
    access.location = {shared_ ? key.block_bits() + 1 : 0, 64 + 4 * op.variable, // two variables a granule
                       4 * op.elements};
    access.ordering = op.ordering;
    access.scope = op.scope;
    access.atomic = op.kind == Op::Kind::exchange;
    using Words = std::array<std::uint32_t, 2>;
    auto bytes = [](Words& words) { return reinterpret_cast<std::uint8_t*>(words.data()); };
    const std::size_t held = 4 * op.elements;
    Words before{}, after{value, value + 1};
    std::memcpy(before.data(), memory_ + op.variable, held);
    Words seen = before;
    std::size_t age = 0;
    if (op.reads()) {
      const std::size_t choices = histories_.choices(access, bytes(seen));
      if (choices > 1) age = decide_(choices);
      histories_.look(access, age, bytes(seen));
      read_[t].insert(read_[t].end(), seen.begin(), seen.begin() + op.elements);
    }
    if (op.kind == Op::Kind::read) {
      histories_.read(access, age, bytes(seen));
      return;
    }
    std::memcpy(memory_ + op.variable, after.data(), held);
    if (op.kind == Op::Kind::write)
      histories_.write(access, bytes(before), bytes(after));
    else
      histories_.modify(access, age, bytes(seen), bytes(before), bytes(after));
  }

  const Program& program_;
  const std::function<std::size_t(std::size_t)>& decide_;
  const bool shared_;
  std::vector<std::size_t> at_;
  std::vector<std::vector<std::uint32_t>> read_, values_;
  std::uint32_t memory_[most_variables] = {};
  order::Histories histories_;
  order::OperationIndex launch_ = 0;
};

} // namespace

std::set<Outcome> allowed(const Program& program) {
  std::uint32_t vectors = 0;
  for (const LitmusThread& thread : program)
    for (const Op& op : thread.ops) vectors += op.elements == 2;
  std::set<Outcome> outcomes;
  for (std::uint32_t backwards = 0; backwards < 1u << vectors; ++backwards)
    outcomes.merge(Candidates(program, backwards).all());
  return outcomes;
}

std::set<Outcome> shown(const Program& program, bool shared) {
  std::set<Outcome> outcomes;
  struct Decision {
    std::size_t taken, among;
  };
  std::vector<Decision> path;
  for (;;) {
    std::size_t depth = 0;
    const std::function<std::size_t(std::size_t)> decide = [&](std::size_t among) {
      if (depth == path.size()) path.push_back({0, among});
      return path[depth++].taken;
    };
    outcomes.insert(Run(program, shared, decide).run());
    while (!path.empty() && path.back().taken + 1 == path.back().among) path.pop_back();
    if (path.empty()) return outcomes;
    ++path.back().taken;
  }
}

} // namespace deadheat::test
