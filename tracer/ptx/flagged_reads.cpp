#include "tracer/ptx/flagged_reads.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "tracer/ptx/flag_tests.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/operands.h"

namespace deadheat::ptx {

namespace {

using Elements = FlagTests::Elements;
using Sites = std::set<std::uint32_t>;

constexpr std::size_t most_ways = 1 << 12; // of a read
constexpr std::size_t most_of_all = 1 << 17; // of a module: a second or so
constexpr std::size_t most_elements = 16;

// Traces have it whenever a thread comes to it, with its place in what the thread does.
bool is_told(const Site& site) {
  switch (site.kind) {
    case SiteKind::access:
    case SiteKind::fence:
    case SiteKind::barrier:
    case SiteKind::warp_barrier:
    case SiteKind::cluster_barrier: return true;
    default: return false;
  }
}
// Accesses to local memory are in no trace.
bool may_be_local(const Site& site) {
  return site.kind == SiteKind::access && site.space != Space::global && site.space != Space::shared &&
         !is_strong(site.ordering);
}

bool is_plain(const Instruction& i) { // its result depends on its operands alone
  switch (i.opcode) {
    case Opcode::add:
    case Opcode::and_:
    case Opcode::cvt:
    case Opcode::cvta:
    case Opcode::mad:
    case Opcode::mov:
    case Opcode::mul:
    case Opcode::or_:
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::sub:
    case Opcode::xor_: return !i.guard && !i.has(Modifier::cc);
    case Opcode::ld: return !i.guard && (i.has(Modifier::param) || i.has(Modifier::const_));
    default: return false;
  }
}

const Operand* address_of(const Instruction& load) {
  for (const Operand& o : load.operands)
    if (o.kind == Operand::Kind::address && !o.elements.empty()) return &o;
  return nullptr;
}

class Code { // of a function
 public:
  Code(const Function& of, const std::vector<std::uint32_t>& sites_of, const SiteTable& table_of)
      : function(of),
        flow(of),
        live(of, flow),
        loops(flow.natural_loops()),
        by_lane(FlagTests::by_lane(of)),
        sites(sites_of),
        table(table_of) {}

  const Instruction* at(std::uint32_t statement) const { return function.body[statement].instruction(); }
  const Site* site_at(std::uint32_t statement) const {
    return sites[statement] == SiteTable::none ? nullptr : &table.sites[sites[statement]];
  }
  // The innermost loop around it.
  const Flow::Loop* loop_around(std::uint32_t statement) const {
    const Flow::Loop* found = nullptr;
    for (const Flow::Loop& loop : loops)
      if (contains(loop, flow.block_of(statement)) && (!found || loop.blocks.size() < found->blocks.size()))
        found = &loop;
    return found;
  }
  static bool contains(const Flow::Loop& loop, std::uint32_t block) {
    return std::binary_search(loop.blocks.begin(), loop.blocks.end(), block);
  }
  // Strong loads through the register, or variable, and at the offset that this one reads by.
  std::set<std::uint32_t> same_location(std::uint32_t read) const {
    const auto base = [&](const Instruction& load) {
      const Operand* const o = address_of(load);
      return o ? std::tuple(o->elements[0].kind, o->elements[0].reg, o->elements[0].text, o->offset)
               : std::tuple(Operand::Kind::tokens, RegisterId(0), std::string_view(), std::int64_t(0));
    };
    std::set<std::uint32_t> same{read};
    for (std::uint32_t s = 0; s < sites.size(); ++s) {
      const Site* const site = site_at(s);
      if (site && at(s)->opcode == Opcode::ld && site->kind == SiteKind::access && is_strong(site->ordering) &&
          base(*at(s)) == base(*at(read)))
        same.insert(s);
    }
    return same;
  }

  const Function& function;
  const Flow flow;
  const Liveness live;
  const std::vector<Flow::Loop> loops;
  const RegisterSet by_lane;
  const std::vector<std::uint32_t>& sites;
  const SiteTable& table;
};

// All ways from a read to what the thread does next.
class Ways {
 public:
  // `left`: how many there may be, of all reads; less afterwards.
  Ways(const Code& code, std::uint32_t read, const std::set<RegisterId>& unsteady, std::size_t& left)
      : code_(code),
        read_(read),
        again_(code.same_location(read)),
        loop_(code.loop_around(read)),
        tests_(code.by_lane, unsteady),
        left_(left) {
    Way first;
    first.at = read + 1;
    first.registers = FlagTests::read(*code.at(read));
    begin(std::move(first));
    while (!next_.empty() && complete_) {
      Way way = std::move(next_.back());
      next_.pop_back();
      walk(std::move(way));
    }
  }

  // Registers that elements were compared with although they change while the thread waits.
  std::set<RegisterId> unsteady() const {
    std::set<RegisterId> found;
    for (const RegisterId r : tests_.compared())
      if (!steady(r)) found.insert(r);
    return found;
  }

  std::optional<FlaggedRead> result() const {
    FlaggedRead result;
    if (!complete_ || goes_on_without_ || returns_ || !deciding_ || (deciding_ & tests_.ambiguous())) return {};
    const RegisterSet live = code_.live.live_after(read_);
    const std::vector<Operand>& elements = code_.at(read_)->operands[0].elements;
    for (std::size_t e = 0; e < elements.size(); ++e)
      if (elements[e].kind == Operand::Kind::reg && !(deciding_ >> e & 1) && live.contains(elements[e].reg))
        result.data |= 1u << e;
    if (!result.data) return {};
    result.again.assign(read_again_.begin(), read_again_.end());
    result.next = next_of(comes_to_[0]);
    result.behind_others = next_of(comes_to_[1]);
    const Operand* const address = address_of(*code_.at(read_));
    result.moves_on = found_ && !gave_up_and_on_ && address &&
                      (address->elements[0].kind != Operand::Kind::reg || steady(address->elements[0].reg));
    const auto says_nothing = [](const FlaggedRead::Next& next) { return next.behind.empty() && !next.ends; };
    if (!result.moves_on && says_nothing(result.next) && says_nothing(result.behind_others)) return {};
    return result;
  }

 private:
  struct Way {
    std::uint32_t at = 0; // a statement
    FlagTests::Registers registers;
    Elements tested = 0, found = 0; // elements that decided about the way; those that were what was waited for
    bool left = false; // the loop around the read, with the flag
    bool gave_up = false; // left it without, for a reason that no element is: looks that are counted, a word to stop
    bool by_elements = false; // where it went last, these decided
    bool passed = false; // something of which it is told, before it has looked at any element
    std::set<RegisterId> set_here; // to a constant, or of such, since elements decided: what they were shows in it
    bool done() const { return left || (tested && !(tested & ~found)); }
    auto operator<=>(const Way&) const = default;
  };

  struct ComesTo { // sites, by whether the flag was found; and whether threads end
    Sites behind, waiting, beside;
    bool ends_behind = false, ends_waiting = false;
  };

  FlaggedRead::Next next_of(const ComesTo& at) const {
    FlaggedRead::Next next;
    const auto only_in = [&](const Sites& one, const Sites& other, std::vector<std::uint32_t>& to) {
      std::copy_if(one.begin(), one.end(), std::back_inserter(to), [&](std::uint32_t site) {
        return !other.count(site) && !at.waiting.count(site) && !read_again_.count(site);
      });
    };
    only_in(at.behind, at.beside, next.behind);
    only_in(at.beside, at.behind, next.beside);
    next.ends = at.ends_behind && !at.ends_waiting;
    return next;
  }

  void begin(Way way) {
    if (way.at < code_.function.body.size() && loop_ && !Code::contains(*loop_, code_.flow.block_of(way.at)) &&
        way.tested && !way.gave_up) {
      if (!way.done() && !way.by_elements) {
        way.gave_up = true;
      } else {
        goes_on_without_ |= !way.done();
        found_ = way.left = true;
        way.registers.clear();
        way.set_here.clear();
        way.tested = way.found = 0;
      }
    }
    if (!known_.insert(way).second) return;
    complete_ = complete_ && left_ && known_.size() <= most_ways;
    left_ -= left_ > 0;
    next_.push_back(std::move(way));
  }

  void walk(Way way) {
    for (; way.at < code_.function.body.size(); ++way.at) {
      const Instruction* const i = code_.at(way.at);
      if (!i) continue;
      if (!way.done()) waiting_.insert(way.at);
      if (again_.count(way.at)) {
        const bool behind = loop_ ? way.left : way.done();
        gave_up_and_on_ |= way.gave_up;
        (behind ? comes_to_[way.passed].behind : read_again_).insert(code_.sites[way.at]);
        return;
      }
      if (i->guard && (leaves(*i) || code_.site_at(way.at))) {
        Way passing = way;
        ++passing.at;
        if (decide(passing, *i->guard, false)) begin(std::move(passing));
        if (!decide(way, *i->guard, true)) return;
      }
      if (leaves(*i)) return leave(std::move(way), *i);
      if (tells(way)) return;
      tests_.execute(*i, way.registers);
      note_set(*i, way);
      const std::uint32_t to = way.at + 1; // ways meet where blocks begin
      if (to < code_.function.body.size() && code_.flow.block_of(to) != code_.flow.block_of(way.at)) {
        way.at = to;
        return begin(std::move(way));
      }
    }
    ended(way, false);
  }

  // Which constant a register is set to may hang on what elements were on the way here.
  static void note_set(const Instruction& i, Way& way) {
    const RegisterUse use = register_use(i);
    const bool here = way.tested && !way.left &&
                      (use.reads.empty() || std::any_of(use.reads.begin(), use.reads.end(),
                                                        [&](RegisterId r) { return way.set_here.count(r); }));
    for (const RegisterId r : use.writes) {
      if (here)
        way.set_here.insert(r);
      else if (!i.guard)
        way.set_here.erase(r);
    }
  }

  static bool leaves(const Instruction& i) {
    return i.opcode == Opcode::bra || i.opcode == Opcode::brx || i.opcode == Opcode::exit || i.opcode == Opcode::ret ||
           i.opcode == Opcode::trap;
  }

  // False: it cannot go there.
  bool decide(Way& way, const Guard& guard, bool holds) {
    const auto known = way.registers.find(guard.reg);
    way.by_elements = known != way.registers.end() || way.set_here.count(guard.reg);
    if (known == way.registers.end()) return true;
    FlagTests::Says& says = known->second;
    const bool zero = holds == guard.negated;
    const Elements found = zero ? says.zero : says.other;
    if (found == FlagTests::impossible) return false;
    (zero ? says.other : says.zero) = FlagTests::impossible;
    way.tested |= says.from;
    way.found |= found;
    deciding_ |= says.from;
    return true;
  }

  void leave(Way way, const Instruction& i) {
    if (i.opcode == Opcode::trap) return;
    if (i.opcode == Opcode::exit || i.opcode == Opcode::ret) return ended(way, i.opcode == Opcode::exit);
    if (i.opcode == Opcode::bra) {
      const auto label = code_.function.labels.find(i.operands.empty() ? std::string_view() : i.operands[0].text);
      if (label == code_.function.labels.end()) {
        complete_ = false;
        return;
      }
      way.at = label->second;
      return begin(std::move(way));
    }
    way.by_elements = false;
    for (const RegisterId r : register_use(i).reads) {
      const auto known = way.registers.find(r);
      way.by_elements |= known != way.registers.end() || way.set_here.count(r);
      if (known == way.registers.end()) continue;
      way.tested |= known->second.from;
      deciding_ |= known->second.from;
    }
    for (const std::uint32_t block : code_.flow.blocks()[code_.flow.block_of(way.at)].successors) {
      Way one = way;
      one.at = code_.flow.blocks()[block].first;
      begin(std::move(one));
    }
  }

  void ended(const Way& way, bool exits) {
    goes_on_without_ |= !loop_ && way.tested && !way.done();
    if (exits || code_.function.entry)
      (way.done() ? comes_to_[way.passed].ends_behind : comes_to_[way.passed].ends_waiting) = true;
    else
      returns_ |= !way.done();
  }

  // Does what the thread comes to tell whether it waits still?
  bool tells(Way& way) {
    const Site* const site = code_.site_at(way.at);
    if (!site || !is_told(*site)) return false;
    gave_up_and_on_ |= way.gave_up;
    ComesTo& at = comes_to_[way.passed];
    if (way.left || way.tested) {
      goes_on_without_ |= !loop_ && !way.done();
      (way.done() && !claims(way.at) ? at.behind : at.waiting).insert(site->id);
      return !may_be_local(*site);
    }
    at.beside.insert(site->id);
    if (may_be_local(*site) && !way.passed) { // it is not told, then
      Way untold = way;
      ++untold.at;
      tests_.execute(*code_.at(way.at), untold.registers);
      begin(std::move(untold));
    }
    way.passed = true;
    return false;
  }

  // An atomic operation whose outcome is used: which of several readers it is that may take the data.
  bool claims(std::uint32_t statement) const {
    if (code_.at(statement)->opcode != Opcode::atom) return false;
    const RegisterSet live = code_.live.live_after(statement);
    const std::vector<RegisterId> results = register_use(*code_.at(statement)).writes;
    return std::any_of(results.begin(), results.end(), [&](RegisterId r) { return live.contains(r); });
  }

  // Does a register keep its value while the thread waits?
  bool steady(RegisterId r) const {
    std::set<RegisterId> asked;
    return steady(r, asked);
  }
  bool steady(RegisterId r, std::set<RegisterId>& asked) const {
    if (!asked.insert(r).second) return false;
    const Instruction* writer = nullptr;
    for (const std::uint32_t s : waiting_) {
      const std::vector<RegisterId> writes = register_use(*code_.at(s)).writes;
      if (std::find(writes.begin(), writes.end(), r) == writes.end()) continue;
      if (writer || !is_plain(*code_.at(s))) return false;
      writer = code_.at(s);
    }
    if (writer) {
      const std::vector<RegisterId> reads = register_use(*writer).reads;
      if (!std::all_of(reads.begin(), reads.end(), [&](RegisterId from) { return steady(from, asked); })) return false;
    }
    asked.erase(r);
    return true;
  }

  const Code& code_;
  const std::uint32_t read_;
  const std::set<std::uint32_t> again_;
  const Flow::Loop* const loop_;
  FlagTests tests_;
  std::size_t& left_;
  std::set<Way> known_;
  std::vector<Way> next_;
  std::set<std::uint32_t> waiting_; // statements, on ways on which the flag is not there yet
  std::array<ComesTo, 2> comes_to_; // by Way::passed
  Sites read_again_; // of again_, those that are read again without the flag
  Elements deciding_ = 0;
  bool complete_ = true, returns_ = false;
  bool goes_on_without_ = false; // without the flag, having looked at it
  bool found_ = false; // on some way out of the loop around the read
  bool gave_up_and_on_ = false; // who gave up goes on, and may read another vector
};

std::optional<FlaggedRead> flagged_read(const Code& code, std::uint32_t statement, std::size_t& left) {
  std::set<RegisterId> unsteady;
  for (;;) {
    const Ways ways(code, statement, unsteady, left);
    const std::set<RegisterId> more = ways.unsteady();
    if (more.empty()) return ways.result();
    unsteady.insert(more.begin(), more.end());
  }
}

bool may_be_flagged(const Instruction& i, const Site& site) {
  return i.opcode == Opcode::ld && !i.guard && !i.operands.empty() && i.operands[0].kind == Operand::Kind::vector &&
         i.operands[0].elements.size() <= most_elements && site.elements == i.operands[0].elements.size();
}

} // namespace

FlaggedReads flagged_reads(const Module& module, const SiteTable& table, const std::map<std::uint32_t, Polls>& polls) {
  FlaggedReads found;
  std::size_t left = most_of_all;
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const std::vector<std::uint32_t>& sites = table.by_function[f];
    std::optional<Code> code;
    for (std::uint32_t s = 0; s < sites.size(); ++s) {
      const auto known = sites[s] == SiteTable::none ? polls.end() : polls.find(sites[s]);
      if (known == polls.end() || known->second != Polls::yes) continue;
      if (!may_be_flagged(*module.functions[f].body[s].instruction(), table.sites[sites[s]])) continue;
      if (!code) code.emplace(module.functions[f], sites, table);
      if (std::optional<FlaggedRead> read = flagged_read(*code, s, left)) found.emplace(sites[s], std::move(*read));
    }
  }
  return found;
}

} // namespace deadheat::ptx
