#include "tracer/ptx/turnstile.h"

#include <cstddef>
#include <set>

#include "tracer/ptx/parse.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::ptx {

namespace {

using Control = TurnstileControl;

std::string at(std::size_t offset) { return "[%dt_control+" + std::to_string(offset) + "]"; }
std::string side_word(std::uint32_t side, std::size_t offset) {
  return at(offsetof(Control, side) + side * sizeof(Control::Side) + offset);
}

class Rewriter {
 public:
  Rewriter(const Module& module, const SiteTable& sites, const TurnstileClone& clone)
      : module_(module), sites_(sites), clone_(clone) {}

  Expected<void> check() {
    const Function* kernel = module_.function(clone_.kernel);
    if (!kernel || !kernel->has_body || !kernel->entry) return Error{"no such kernel", clone_.kernel};
    find_callers();
    if (!cloned_.count(clone_.kernel)) return Error{"the kernel does not reach the accesses", clone_.kernel};
    for (const Function& f : module_.functions) {
      if (!f.has_body || !cloned_.count(f.name)) continue;
      for (const Variable& v : f.variables) {
        if (v.space == Space::global || v.space == Space::constant)
          return Error{"a function with variables of its own cannot be cloned", f.name};
      }
    }
    return {};
  }

  std::string text() {
    std::string declarations;
    for (std::size_t f = 0; f < module_.functions.size(); ++f) {
      const Function& function = module_.functions[f];
      if (!function.has_body || !cloned_.count(function.name)) continue;
      if (function.entry && function.name != clone_.kernel) continue;
      if (!function.entry) declarations += "\n" + print_head(head(function)) + ";\n";
      body(f);
    }
    return declarations + out_;
  }

 private:
  bool named(std::uint32_t site) const {
    for (const Turnstile& t : clone_.turnstiles) {
      if (t.site == site) return true;
    }
    return false;
  }

  // The functions that hold the sites, and those that call them, over any number of calls.
  void find_callers() {
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t f = 0; f < module_.functions.size(); ++f) {
        const Function& function = module_.functions[f];
        if (!function.has_body || cloned_.count(function.name)) continue;
        bool reaches = false;
        each_instruction(function, [&](std::size_t s, const Instruction& i) {
          reaches |= named(sites_.site_of(f, s)) || cloned_.count(std::string(callee(i))) > 0;
        });
        if (!reaches) continue;
        cloned_.insert(function.name);
        grown = true;
      }
    }
  }

  Function head(const Function& function) const {
    Function f = clone_head(function, clone_.prefix + function.name);
    f.minnctapersm = function.minnctapersm;
    f.maxnreg = function.maxnreg;
    return f;
  }

  void put(const std::string& line) { out_ += "\n\t" + line; }
  void label(const std::string& name) { out_ += "\n" + name + ":"; }

  void body(std::size_t number) {
    const Function& function = module_.functions[number];
    out_ += "\n" + print_head(head(function)) + "\n{";
    prologue();
    late_.clear();
    each_instruction(function, [&](std::size_t s, const Instruction& i) {
      for (const Turnstile& t : clone_.turnstiles) {
        if (sites_.site_of(number, s) == t.site && may_be_late(t, i)) late_.push_back({&t, &i});
      }
    });
    for (const Late& late : late_) declare(late, function);
    for (std::size_t s = 0; s < function.body.size(); ++s) {
      const Statement& statement = function.body[s];
      const Instruction* i = statement.instruction();
      const std::uint32_t site = sites_.site_of(number, s);
      if (i && site != SiteTable::none) settle(sites_.sites[site], *i);
      if (!i || (!named(site) && !cloned_.count(std::string(callee(*i))))) {
        out_ += assemblable(statement, function);
      } else if (!callee(*i).empty() && cloned_.count(std::string(callee(*i)))) {
        call(statement, callee(*i));
      } else {
        delay(site);
        std::string skipped;
        for (const Turnstile& t : clone_.turnstiles) {
          if (t.site == site) before(t, *i, function);
          if (t.site == site && may_be_late(t, *i)) {
            skipped = "$dt_later_" + next();
            put("@%dt_skip" + std::to_string(t.side) + " bra " + skipped + ";");
          }
        }
        out_ += assemblable(statement, function);
        if (!skipped.empty()) label(skipped);
        for (const Turnstile& t : clone_.turnstiles) {
          if (t.site == site) after(t);
        }
      }
    }
    out_ += "\n}\n";
  }

  void prologue() {
    put(".reg .b64 %dt_control;");
    put(".reg .b32 %dt_block, %dt_thread, %dt_warp, %dt_mask, %dt_a, %dt_b;");
    put(".reg .pred %dt_q, %dt_e;");
    put("mov.u64 %dt_control, " + std::string(turnstile_variable) + ";");
    put("ld.global.u64 %dt_control, [%dt_control];");
    out_ += linear_indices("%dt_block", "%dt_thread", "%dt_a", "%dt_b");
    put("shr.u32 %dt_warp, %dt_thread, 5;");
    for (const Turnstile& t : clone_.turnstiles) {
      const std::string n = std::to_string(t.side);
      put(".reg .pred %dt_near" + n + ", %dt_mine" + n + ", %dt_here" + n + ";");
      put("setp.eq.u32 %dt_q, %dt_block, " + std::to_string(t.block) + ";");
      put("setp.eq.and.u32 %dt_near" + n + ", %dt_warp, " + std::to_string(t.thread / 32) + ", %dt_q;");
      put("setp.eq.and.u32 %dt_mine" + n + ", %dt_thread, " + std::to_string(t.thread) + ", %dt_q;");
      put("setp.ne.u32 %dt_here" + n + ", %dt_block, %dt_block;");
    }
  }

  void call(const Statement& statement, std::string_view name) {
    for (const Token& token : statement.tokens) {
      out_ += token.trivia;
      if (token.text == name) out_ += clone_.prefix;
      out_ += token.text;
    }
  }

  // Every warp that comes to the site sleeps a while, where that is asked for.
  void delay(std::uint32_t site) {
    const std::string awake = "$dt_awake_" + next();
    put("ld.global.u32 %dt_a, " + at(offsetof(Control, delay)) + ";");
    put("setp.eq.u32 %dt_q, %dt_a, 0;");
    put("@%dt_q bra " + awake + ";");
    put("ld.global.u32 %dt_b, " + at(offsetof(Control, seed)) + ";");
    put("mad.lo.u32 %dt_b, %dt_block, -1640531535, %dt_b;");
    put("mad.lo.u32 %dt_b, %dt_warp, -2048144789, %dt_b;");
    put("add.u32 %dt_b, %dt_b, " + std::to_string(site * 374761393u) + ";");
    put("shr.u32 %dt_mask, %dt_b, 15;");
    put("xor.b32 %dt_b, %dt_b, %dt_mask;");
    put("mul.lo.u32 %dt_b, %dt_b, -2048144777;");
    put("shr.u32 %dt_mask, %dt_b, 13;");
    put("xor.b32 %dt_b, %dt_b, %dt_mask;");
    put("mul.lo.u32 %dt_b, %dt_b, -1028477379;");
    put("mul.hi.u32 %dt_b, %dt_b, %dt_a;");
    put("nanosleep.u32 %dt_b;");
    label(awake);
  }

  void before(const Turnstile& t, const Instruction& i, const Function& function) {
    const std::string n = std::to_string(t.side), id = next();
    const std::string far = "$dt_far_" + id, join = "$dt_join_" + id, go = "$dt_go_" + id;
    if (may_be_late(t, i)) put("setp.ne.u32 %dt_skip" + n + ", %dt_block, %dt_block;");
    put("@!%dt_near" + n + " bra " + far + ";");
    put("activemask.b32 %dt_mask;");
    if (i.guard) { // a thread whose guard is false does not execute the site
      const std::string& guard = function.registers[i.guard->reg].name;
      if (i.guard->negated) {
        put("not.pred %dt_q, " + guard + ";");
        put("and.pred %dt_q, %dt_q, %dt_mine" + n + ";");
      } else {
        put("and.pred %dt_q, " + guard + ", %dt_mine" + n + ";");
      }
      put("@!%dt_q bra " + join + ";");
    } else {
      put("@!%dt_mine" + n + " bra " + join + ";");
    }
    put("ld.global.u32 %dt_a, " + side_word(t.side, offsetof(Control::Side, seen)) + ";");
    put("add.u32 %dt_b, %dt_a, 1;");
    put("st.global.u32 " + side_word(t.side, offsetof(Control::Side, seen)) + ", %dt_b;");
    put("setp.ne.u32 %dt_q, %dt_a, " + std::to_string(t.nth) + ";");
    put("@%dt_q bra " + join + ";");
    put("setp.eq.u32 %dt_here" + n + ", %dt_block, %dt_block;");
    put("ld.global.u32 %dt_a, " + at(offsetof(Control, held)) + ";");
    put("setp.ne.u32 %dt_q, %dt_a, " + std::to_string(t.side + 1) + ";");
    put("@%dt_q bra " + go + ";");
    if (may_be_late(t, i)) {
      postpone(t, i, function);
      put("bra " + join + ";");
    } else {
      wait(t, go);
    }
    label(go);
    went(t);
    label(join);
    put("bar.warp.sync %dt_mask;");
    label(far);
  }

  // Looks until the other side has passed, then goes to `go`; falls through when its patience is used up.
  void wait(const Turnstile& t, const std::string& go) {
    const std::string look = "$dt_look_" + next();
    put("ld.global.u32 %dt_b, " + at(offsetof(Control, patience)) + ";");
    label(look);
    put("ld.relaxed.gpu.global.u32 %dt_a, " + side_word(1 - t.side, offsetof(Control::Side, passed)) + ";");
    put("setp.ne.u32 %dt_q, %dt_a, 0;");
    put("@%dt_q bra " + go + ";");
    put("ld.global.u32 %dt_a, " + at(offsetof(Control, sleep)) + ";");
    put("nanosleep.u32 %dt_a;");
    put("sub.u32 %dt_b, %dt_b, 1;");
    put("setp.ne.u32 %dt_e, %dt_b, 0;");
    put("@%dt_e bra " + look + ";");
    put("st.global.u32 " + side_word(t.side, offsetof(Control::Side, gave_up)) + ", 1;");
  }

  void went(const Turnstile& t) {
    put("atom.relaxed.gpu.global.add.u32 %dt_a, " + at(offsetof(Control, tickets)) + ", 1;");
    put("add.u32 %dt_a, %dt_a, 1;");
    put("st.relaxed.gpu.global.u32 " + side_word(t.side, offsetof(Control::Side, went)) + ", %dt_a;");
  }

  // ---- cp.async: performed at any time between its issue and the wait that covers it (PTX ISA 9.7.9.25.3). Held back,
  // its thread goes on; the copy is issued right before that wait, when the other side has passed.

  struct Late {
    const Turnstile* turnstile;
    const Instruction* copy;
  };

  // A copy whose ends are registers and whose sizes are written in the instruction.
  bool may_be_late(const Turnstile& t, const Instruction& i) const {
    if (sites_.sites[t.site].kind != SiteKind::async_copy || i.operands.size() < 3) return false;
    for (int end = 0; end < 2; ++end) {
      const Operand& address = i.operands[std::size_t(end)];
      if (address.kind != Operand::Kind::address || address.elements.size() != 1 ||
          address.elements[0].kind != Operand::Kind::reg) {
        return false;
      }
    }
    for (std::size_t n = 2; n < i.operands.size(); ++n) {
      if (i.operands[n].kind != Operand::Kind::integer) return false;
    }
    return true;
  }

  static std::string address_type(const Operand& address, const Function& function) {
    return bits(function.registers[address.elements[0].reg].type) == 32 ? "32" : "64";
  }

  void declare(const Late& late, const Function& function) {
    const std::string n = std::to_string(late.turnstile->side);
    put(".reg .b" + address_type(late.copy->operands[0], function) + " %dt_to" + n + ";");
    put(".reg .b" + address_type(late.copy->operands[1], function) + " %dt_from" + n + ";");
    put(".reg .b32 %dt_groups" + n + ";");
    put(".reg .pred %dt_skip" + n + ", %dt_late" + n + ";");
    put("setp.ne.u32 %dt_late" + n + ", %dt_block, %dt_block;");
    put("mov.u32 %dt_groups" + n + ", 0;");
  }

  void postpone(const Turnstile& t, const Instruction& i, const Function& function) {
    const std::string n = std::to_string(t.side);
    const char* ends[] = {"%dt_to", "%dt_from"};
    for (std::size_t end = 0; end < 2; ++end) {
      const Operand& address = i.operands[end];
      put("add.u" + address_type(address, function) + " " + ends[end] + n + ", " +
          function.registers[address.elements[0].reg].name + ", " + std::to_string(address.offset) + ";");
    }
    put("setp.eq.u32 %dt_skip" + n + ", %dt_block, %dt_block;");
    put("setp.eq.u32 %dt_late" + n + ", %dt_block, %dt_block;");
    put("setp.ne.u32 %dt_here" + n + ", %dt_block, %dt_block;");
    put("mov.u32 %dt_groups" + n + ", 0;");
  }

  // Before a commit, a wait or an exit: counts groups since the copy, issues it where it can no longer be put off.
  void settle(const Site& site, const Instruction& i) {
    const bool commit = site.kind == SiteKind::async_commit;
    if (!commit && site.kind != SiteKind::async_wait && site.kind != SiteKind::exit) return;
    for (const Late& late : late_) {
      const Turnstile& t = *late.turnstile;
      const std::string n = std::to_string(t.side);
      if (commit) {
        put("add.u32 %dt_groups" + n + ", %dt_groups" + n + ", 1;");
        continue;
      }
      const std::string id = next(), far = "$dt_far_" + id, join = "$dt_join_" + id, go = "$dt_go_" + id;
      put("@!%dt_near" + n + " bra " + far + ";");
      put("activemask.b32 %dt_mask;");
      // All but the last `pending` groups are waited for: the copy's is covered when more have been committed since.
      const bool pending =
          site.kind == SiteKind::async_wait && !i.operands.empty() && i.operands[0].kind == Operand::Kind::integer;
      put("setp.ge.and.u32 %dt_q, %dt_groups" + n + ", " +
          (pending ? std::to_string(i.operands[0].bits + 1) : std::string("0")) + ", %dt_late" + n + ";");
      put("@!%dt_q bra " + join + ";");
      wait(t, go);
      label(go);
      went(t);
      std::string copy = late.copy->full_opcode() + " [%dt_to" + n + "], [%dt_from" + n + "]";
      for (std::size_t k = 2; k < late.copy->operands.size(); ++k)
        copy += ", " + std::to_string(late.copy->operands[k].bits);
      put(copy + ";");
      put("cp.async.wait_all;");
      put("setp.ne.u32 %dt_late" + n + ", %dt_block, %dt_block;");
      label(join);
      put("bar.warp.sync %dt_mask;");
      label(far);
    }
  }

  void after(const Turnstile& t) {
    const std::string n = std::to_string(t.side), id = next();
    const std::string far = "$dt_behind_" + id, join = "$dt_left_" + id;
    put("@!%dt_near" + n + " bra " + far + ";");
    put("activemask.b32 %dt_mask;");
    put("@!%dt_here" + n + " bra " + join + ";");
    put("setp.ne.u32 %dt_here" + n + ", %dt_block, %dt_block;");
    if (sites_.sites[t.site].kind == SiteKind::async_copy) put("cp.async.wait_all;"); // until then it may not be there
    put("fence.acq_rel.gpu;");
    put("atom.relaxed.gpu.global.add.u32 %dt_a, " + at(offsetof(Control, tickets)) + ", 1;");
    put("add.u32 %dt_a, %dt_a, 1;");
    put("st.relaxed.gpu.global.u32 " + side_word(t.side, offsetof(Control::Side, passed)) + ", %dt_a;");
    label(join);
    put("bar.warp.sync %dt_mask;");
    label(far);
  }

  std::string next() { return std::to_string(next_label_++); }

  const Module& module_;
  const SiteTable& sites_;
  const TurnstileClone& clone_;
  std::vector<Late> late_; // of the function being written
  std::set<std::string> cloned_; // names of the functions that have clones
  std::string out_;
  std::uint32_t next_label_ = 0;
};

} // namespace

Expected<std::string> add_turnstiles(const Module& module, const SiteTable& sites,
                                     const std::vector<TurnstileClone>& clones) {
  if (module.version < 63) return Error{"PTX before version 6.3 is given no turnstiles"};
  if (module.target.size() < 5 || std::atoi(module.target.c_str() + 3) < 70) {
    return Error{"PTX for targets before sm_70 is given no turnstiles", module.target};
  }
  std::string added = "\n.visible .global .align 8 .u64 " + std::string(turnstile_variable) + ";\n";
  for (const TurnstileClone& clone : clones) {
    for (const Turnstile& t : clone.turnstiles) {
      if (t.site >= sites.sites.size() || t.side > 1) return Error{"the module has no such access", clone.kernel};
    }
    Rewriter rewriter(module, sites, clone);
    if (Expected<void> possible = rewriter.check(); !possible) return possible.error();
    added += rewriter.text();
  }
  return print_with(module, added);
}

} // namespace deadheat::ptx
