// Systematic exploration on the device: litmus tests reach exactly the outcomes that store histories show
// (order_outcomes.h), all of them allowed by the axioms, and without old values exactly those of sequential
// consistency.
#include <algorithm>
#include <sstream>

#include "replay/search/exploration.h"
#include "tests/unit/device_support.h"
#include "tests/unit/order_litmus_words.h"

namespace deadheat::device_test {

using test::Op;
using test::Outcome;
using test::Program;

namespace {

const Program* litmus = nullptr; // what the kernel runs
constexpr std::uint32_t apart = 64;
constexpr std::uint32_t most_variables = 4; // outcomes of order_outcomes.cpp have so many

const test::LitmusThread* thread_of(ThreadContext* t, std::uint32_t& ops, std::uint32_t& reads) {
  ops = reads = 0;
  for (const test::LitmusThread& thread : *litmus) {
    if (thread.block == t->block->linear && thread.thread == t->linear) return &thread;
    for (const Op& op : thread.ops) {
      ++ops;
      reads += op.reads();
    }
  }
  return nullptr;
}

// A site an operation; the last is that of the stores of what was read.
template <Mode M> std::int32_t interpret(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t at, site, reads, value, seen;
  };
  auto& f = frame<Mine>(bytes);
  std::uint32_t ops, reads;
  const test::LitmusThread* thread = thread_of(t, ops, reads);
  if (!thread) return std::int32_t(Step::exited);
  const std::uint64_t variables = param<std::uint64_t>(t, 0), out = param<std::uint64_t>(t, 8);
  std::uint32_t total = 0;
  for (const auto& each : *litmus) total += std::uint32_t(each.ops.size());
  auto kind = [&] { return thread->ops[f.at].kind; };
  auto place = [&] { return variables + apart * thread->ops[f.at].variable; };
  BEGIN
  for (f.at = 0; f.at < thread->ops.size(); ++f.at) {
    f.site = ops + f.at;
    if (kind() == Op::Kind::read) {
      LOAD(f.site, place(), std::uint32_t, f.value);
    } else if (kind() == Op::Kind::write) {
      STORE(f.site, place(), std::uint32_t, f.site + 1);
    } else if (kind() == Op::Kind::exchange) {
      BEFORE(f.site, place(), 4, true, true);
      std::memcpy(&f.value, host_of(t, place()), 4);
      f.seen = f.site + 1;
      std::memcpy(host_of(t, place()), &f.seen, 4);
    } else if (kind() == Op::Kind::fence) {
      FENCE(f.site);
    }
    if (thread->ops[f.at].reads()) {
      STORE(total, out + 4 * (reads + f.reads), std::uint32_t, f.value);
      ++f.reads;
    }
  }
  END
}

FakeSource source_of(const Program& program) {
  FakeSource source;
  for (const test::LitmusThread& thread : program)
    for (const Op& op : thread.ops) {
      const AccessKind access = op.kind == Op::Kind::read    ? AccessKind::read
                                : op.kind == Op::Kind::write ? AccessKind::write
                                                             : AccessKind::atomic;
      source.site(op.kind == Op::Kind::fence ? SiteKind::fence : SiteKind::access, access, op.ordering,
                  op.kind == Op::Kind::exchange ? "atom.exch.b32" : "");
      source.sites.back().scope = op.scope;
    }
  source.site(SiteKind::access, AccessKind::write);
  ADD_KERNEL(source, interpret, 64, 0);
  return source;
}

struct Reached {
  std::set<Outcome> outcomes;
  std::uint64_t traces = 0;
};

Reached explore(const Program& program, bool old_values) {
  litmus = &program;
  const FakeSource source = source_of(program);
  std::uint32_t blocks = 0, threads = 0, reads = 0, variables = 0;
  for (const test::LitmusThread& thread : program) {
    blocks = std::max(blocks, thread.block + 1);
    threads = std::max(threads, thread.thread + 1);
    for (const Op& op : thread.ops) {
      reads += op.reads();
      if (op.memory()) variables = std::max(variables, op.variable + 1);
    }
  }
  Rig rig(source);
  rig.load();
  const std::uint64_t at = rig.alloc(apart * variables), out = rig.alloc(4 * reads + 4);
  rig.set(at, 0, apart * variables);
  rig.set(out, 0, 4 * reads + 4);
  rig.launch("interpret", blocks, threads, {at, out});
  rig.read(out, reads + 1);
  for (std::uint32_t v = 0; v < variables; ++v) rig.read(at + apart * v, 1);

  Reached reached;
  search::Exploration exploration({.old_values = old_values});
  Schedule schedule;
  schedule.kind = Schedule::Kind::switches;
  schedule.weak = old_values;
  for (bool more = true; more;) {
    exploration.begin();
    const Replayed run = replay(source, rig, schedule, 0, 100000, nullptr, &exploration);
    EXPECT_EQ(run.progress, device::Progress::done);
    more = exploration.end();
    if (exploration.redundant()) continue;
    Outcome outcome(run.host_reads.size() / 4);
    std::memcpy(outcome.data(), run.host_reads.data(), outcome.size() * 4);
    outcome.erase(outcome.begin() + reads); // of the word behind the last read
    outcome.resize(reads + most_variables);
    // The list of its switches and old reads repeats it.
    Schedule listed = schedule;
    listed.switches = run.switches;
    listed.old_reads = run.old_reads;
    if (reached.outcomes.insert(outcome).second) {
      EXPECT_EQ(replay(source, rig, listed).host_reads, run.host_reads);
    }
  }
  EXPECT_EQ(exploration.beyond(), "");
  reached.traces = exploration.traces();
  return reached;
}

using namespace test::litmus;

Program in_blocks(std::vector<std::vector<Op>> threads) {
  Program program;
  for (auto& ops : threads) program.push_back({std::uint32_t(program.size()), 0, std::move(ops)});
  return program;
}

std::string text(const std::set<Outcome>& outcomes) {
  std::ostringstream out;
  for (const Outcome& outcome : outcomes) {
    for (std::uint32_t value : outcome) out << value << ' ';
    out << "; ";
  }
  return out.str();
}

// The outcomes of every interleaving with the newest values.
std::set<Outcome> interleaved(const Program& program) {
  std::set<Outcome> outcomes;
  std::vector<std::size_t> at(program.size(), 0);
  std::vector<std::uint32_t> values(most_variables, 0);
  std::vector<std::vector<std::uint32_t>> seen(program.size());
  const std::function<void()> go = [&] {
    bool any = false;
    std::uint32_t first = 0;
    for (std::size_t t = 0; t < program.size(); first += std::uint32_t(program[t++].ops.size())) {
      if (at[t] == program[t].ops.size()) continue;
      any = true;
      const Op& op = program[t].ops[at[t]];
      const auto values_before = values;
      if (op.reads()) seen[t].push_back(values[op.variable]);
      if (op.writes()) values[op.variable] = first + std::uint32_t(at[t]) + 1;
      ++at[t];
      go();
      --at[t];
      values = values_before;
      if (op.reads()) seen[t].pop_back();
    }
    if (any) return;
    Outcome outcome;
    for (const auto& reads : seen) outcome.insert(outcome.end(), reads.begin(), reads.end());
    outcome.insert(outcome.end(), values.begin(), values.end());
    outcomes.insert(outcome);
  };
  go();
  return outcomes;
}

struct Named {
  const char* first;
  Program second;
  friend void PrintTo(const Named& named, std::ostream* out) { *out << named.first; }
};
class ExploredLitmus : public ::testing::TestWithParam<Named> {};

TEST_P(ExploredLitmus, ReachesWhatIsShownAndNothingElse) {
  const Program& program = GetParam().second;
  const Reached strict = explore(program, false);
  EXPECT_EQ(text(strict.outcomes), text(interleaved(program)));
  const std::set<Outcome> shown = test::shown(program), allowed = test::allowed(program);
  const Reached old = explore(program, true);
  EXPECT_EQ(text(old.outcomes), text(shown));
  for (const Outcome& outcome : old.outcomes) EXPECT_TRUE(allowed.count(outcome));
  EXPECT_GE(old.traces, strict.traces);
}

INSTANTIATE_TEST_SUITE_P(
    All, ExploredLitmus,
    ::testing::Values(
        Named{"MP", in_blocks({{write(x), write(y, relaxed, gpu)}, {read(y, relaxed, gpu), read(x)}})},
        Named{"MPfences",
              in_blocks({{write(x), fence(), write(y, relaxed, gpu)}, {read(y, relaxed, gpu), fence(), read(x)}})},
        Named{"MPpatterns", in_blocks({{write(x), write(y, release, gpu)}, {read(y, acquire, gpu), read(x)}})},
        Named{"MPnarrow", in_blocks({{write(x), write(y, release, cta)}, {read(y, acquire, cta), read(x)}})},
        Named{"SB", in_blocks({{write(x, relaxed, gpu), read(y, relaxed, gpu)},
                               {write(y, relaxed, gpu), read(x, relaxed, gpu)}})},
        Named{"SBfences", in_blocks({{write(x, relaxed, gpu), fence(sc), read(y, relaxed, gpu)},
                                     {write(y, relaxed, gpu), fence(sc), read(x, relaxed, gpu)}})},
        Named{"LB", in_blocks({{read(x, relaxed, gpu), write(y, relaxed, gpu)},
                               {read(y, relaxed, gpu), write(x, relaxed, gpu)}})},
        Named{"CoRR", in_blocks({{write(x, relaxed, gpu)}, {read(x, relaxed, gpu), read(x, relaxed, gpu)}})},
        Named{"2+2W", in_blocks({{write(x), write(y)}, {write(y), write(x)}})},
        Named{"Exchanges", in_blocks({{exchange(x)}, {exchange(x)}, {exchange(x)}})},
        Named{"NarrowExchanges", in_blocks({{exchange(x, relaxed, cta)}, {exchange(x, relaxed, cta)}})},
        Named{"IRIW", in_blocks({{write(x, relaxed, gpu)},
                                 {write(y, relaxed, gpu)},
                                 {read(x, relaxed, gpu), read(y, relaxed, gpu)},
                                 {read(y, relaxed, gpu), read(x, relaxed, gpu)}})},
        Named{"WRC", in_blocks({{write(x, relaxed, gpu)},
                                {read(x, relaxed, gpu), write(y, release, gpu)},
                                {read(y, acquire, gpu), read(x, relaxed, gpu)}})}),
    [](const auto& info) {
      std::string name = info.param.first;
      std::erase(name, '+');
      return name;
    });

} // namespace
} // namespace deadheat::device_test
