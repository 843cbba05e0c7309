#include "tracer/ptx/instrument_function.h"

#include <algorithm>

#include "tracer/device_log/layout.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::ptx {

namespace {

constexpr std::uint32_t most_segment_bytes = 1 << 17;
// The whole warp meets. Memory keeps that order: no store before it comes behind it.
constexpr const char* meet_warp = "mov.b32 %dh_mask, 0xffffffff;\n\tbar.warp.sync %dh_mask;";

// Hints to the assembler that hold for the original alone: used_bytes_mask is about the very next instruction, and a
// clone, which has more registers to spill, finds no room for that in the shared memory that a launch gives.
bool is_dropped(const Statement& statement) {
  const auto* directive = std::get_if<Directive>(&statement.node);
  return directive && directive->name == ".pragma" &&
         std::any_of(statement.tokens.begin(), statement.tokens.end(), [](const Token& token) {
           return token.text.find("used_bytes_mask") != std::string_view::npos ||
                  token.text.find("enable_smem_spilling") != std::string_view::npos;
         });
}

// Carries tickets: its instruction takes its address from where they can delay it.
bool ticketed(const Slot& slot) {
  return slot.kind == Slot::Kind::strong || slot.kind == Slot::Kind::mbarrier || slot.object != 0;
}

}  // namespace

FunctionClone::FunctionClone(const Module& module, std::size_t function, const SiteTable& sites,
                             const std::set<std::string>& cloned, const Clocks& clocks,
                             const InstrumentOptions& options, std::vector<Segment>& segments)
    : module_(module),
      function_(module.functions[function]),
      site_of_(sites.by_function[function]),
      texels_(sites.texels[function]),
      sites_(sites.sites),
      cloned_(cloned),
      clocks_(clocks),
      options_(options),
      segments_(segments),
      values_(function_),
      flow_(function_),
      products_(function_, flow_) {}

std::string FunctionClone::text_of(const Operand& operand) const { return print(operand, function_); }

bool FunctionClone::calls_clone(const Instruction& i) const {
  return i.opcode == Opcode::call && i.operands.size() > 1 && i.operands[1].kind == Operand::Kind::symbol &&
         cloned_.count(std::string(i.operands[1].text)) > 0;
}

bool FunctionClone::waits(std::uint32_t statement) const {
  const Instruction* i = function_.body[statement].instruction();
  if (!i) return false;
  if (i->opcode == Opcode::call) return true;
  const std::uint32_t site = site_of_[statement];
  if (site == SiteTable::none) return false;
  switch (sites_[site].kind) {
    case SiteKind::barrier: return !sites_[site].arrive_only;
    case SiteKind::warp_barrier:
    case SiteKind::warp_value:
    case SiteKind::dependency: return i->opcode != Opcode::activemask;
    case SiteKind::cluster_barrier: return sites_[site].wait_only;
    default: return false;
  }
}

// ---- segments

void FunctionClone::plan() {
  for (const Block& block : flow_.blocks()) plan_block(block);
}

// Whoever executes it has all lanes of the warp with it that have not exited: it is .aligned, as bar always is (PTX ISA
// 9.7.13.1), and no predicate leaves it out.
bool FunctionClone::whole_warp(const Instruction& i, std::uint32_t statement) const {
  const std::uint32_t site = site_of_[statement];
  const bool bar = i.opcode == Opcode::bar && site != SiteTable::none && sites_[site].kind == SiteKind::barrier;
  return !i.guard && (bar || i.has(Modifier::aligned));
}

void FunctionClone::plan_meetings(std::size_t first_plan, std::uint32_t block_end) {
  for (std::size_t p = first_plan; p < plans_.size(); ++p) {
    Plan& plan = plans_[p];
    const std::uint32_t next = p + 1 < plans_.size() ? plans_[p + 1].first : block_end;
    for (std::uint32_t s = plan.first; s < plan.last; ++s) {
      const Instruction* i = function_.body[s].instruction();
      plan.meets_before |= i && whole_warp(*i, s);
    }
    for (std::uint32_t s = plan.last; s < next && plan.after == Plan::After::nothing; ++s) {
      const Instruction* i = function_.body[s].instruction();
      if (!i) continue;
      if (whole_warp(*i, s))
        plan.after = Plan::After::warp;
      else if (i->has(Modifier::sync) || i->has(Modifier::aligned))
        plan.after = Plan::After::lanes;
    }
  }
}

void FunctionClone::plan_block(const Block& block) {
  const std::size_t first_plan = plans_.size();
  std::uint32_t begin = block.first;
  while (begin < block.last && !function_.body[begin].instruction()) ++begin;
  Plan plan{begin, 0, 0};
  Segment segment;
  segment.bytes = segment_header_bytes;
  // `early`: before what stands at `at`; else between what `at` stores into its slot and its instruction.
  auto close = [&](std::uint32_t at, bool early) {
    if (!segment.slots.empty()) {
      plan.last = at;
      plan.early = early;
      plan.number = std::uint32_t(segments_.size());
      segment.bytes = (segment.bytes + 31) / 32 * 32;
      if (products_.parted(plan.first)) {
        refused_ = "recording would come between a multiplication and its addition";
      }
      segments_.push_back(std::move(segment));
      plans_.push_back(plan);
    }
    segment = Segment{};
    segment.bytes = segment_header_bytes;
    arrays_.clear();
  };
  values_.clear();
  arrays_.clear();
  for (std::uint32_t s = begin; s < block.last; ++s) {
    const Instruction* i = function_.body[s].instruction();
    if (!i) continue;
    Slot slot;
    std::uint32_t bytes = 0;
    if (tests(s)) {
      close(s, true);
      plan_test(s);
      values_.executed(*i);
      plan.first = s + 1;
      continue;
    }
    if (segment.bytes > most_segment_bytes) {
      close(s, true);
      plan.first = s;
    }
    plan_heap(s);
    if (slot_of(s, segment.bytes, slot, bytes)) {
      segment.bytes += bytes;
      segment.slots.push_back(slot);
      slots_[s] = slot;
      strong_ |= slot.kind == Slot::Kind::strong || slot.kind == Slot::Kind::mbarrier ||
                 slot.kind == Slot::Kind::bulk || sites_[slot.site].kind == SiteKind::cluster_barrier;
      segment.ends |= sites_[slot.site].kind == SiteKind::exit;
    }
    values_.executed(*i);
    const bool leaves = i->opcode == Opcode::bra || i->opcode == Opcode::brx || i->opcode == Opcode::exit ||
                        i->opcode == Opcode::ret || i->opcode == Opcode::trap;
    if (waits(s) || leaves) {
      close(s, false);
      plan.first = s + 1;
    }
  }
  close(block.last, true);
  plan_meetings(first_plan, block.last);
}

void FunctionClone::plan_test(std::uint32_t statement) {
  Slot slot;
  std::uint32_t bytes = 0;
  if (!slot_of(statement, segment_header_bytes, slot, bytes)) return;
  if (products_.parted(statement + 1)) {
    refused_ = "recording would come between a multiplication and its addition";
  }
  Segment segment;
  segment.bytes = (segment_header_bytes + bytes + 31) / 32 * 32;
  segment.slots.push_back(slot);
  tests_[statement] = {statement + 1, statement, std::uint32_t(segments_.size()), false};
  segments_.push_back(std::move(segment));
  slots_[statement] = slot;
  strong_ = true;
}

// ---- text

Function FunctionClone::head() const {
  Function f = clone_head(function_, clone_prefix + function_.name);
  Variable added;
  added.name = control_name;
  added.space = Space::param;
  added.type = Type::b8;
  added.dimensions = {control_bytes};
  added.align = 8;
  added.size = control_bytes;
  f.params.push_back(added);
  return f;
}

std::string FunctionClone::declaration() { return "\n" + print_head(head()) + ";\n"; }

// dropped_bits of the strong loads of vectors that have such elements.
std::set<unsigned> FunctionClone::dropped_widths() const {
  std::set<unsigned> widths;
  for (const auto& [statement, slot] : slots_) {
    if (!slot.valued || sites_[slot.site].access != AccessKind::read) continue;
    const Operand* result = result_of(*function_.body[statement].instruction());
    if (!result || result->kind != Operand::Kind::vector) continue;
    for (const Operand& element : result->elements) {
      if (element.kind == Operand::Kind::sink) widths.insert(dropped_bits(sites_[slot.site]));
    }
  }
  return widths;
}

void FunctionClone::declare_registers() {
  put(".reg .b64 %dh_rings, %dh_ring, %dh_base, %dh_wrap, %dh_pos, %dh_end, %dh_limit, %dh_at, %dh_wide, %dh_half;");
  put(".reg .b64 %dh_a, %dh_b, %dh_k, %dh_v, %dh_since, %do_a, %do_r64;");
  put(".reg .b32 %dh_control, %dh_block, %dh_warp, %dh_zero, %dh_mask, %dh_lane, %dh_t0, %dh_t1, %dh_t2, %dh_h, "
      "%dh_s;");
  put(".reg .b32 %do_s, %do_r32;");
  put(".reg .b16 %dh_w16, %do_r16;");
  put(".reg .pred %dh_lead, %dh_full, %dh_q, %dh_g, %dh_won;");
  // As many as the longest vector has: eight of .b32, from sm_100 on (PTX ISA 9.7.9.8, ld).
  for (const unsigned bits : dropped_widths()) {
    put(".reg .b" + std::to_string(bits) + " %do_e" + std::to_string(bits) + "_<8>;");
  }
}

void FunctionClone::load_control() {
  put(std::string("ld.param.b64 %dh_rings, [") + control_name + "];");
  put(std::string("ld.param.b64 %dh_ring, [") + control_name + "+8];");
  put(std::string("ld.param.b32 %dh_control, [") + control_name + "+16];");
  put(std::string("ld.param.b32 %dh_block, [") + control_name + "+20];");
  put(std::string("ld.param.b32 %dh_warp, [") + control_name + "+24];");
  put(std::string("ld.param.b32 %dh_zero, [") + control_name + "+28];");
}

void FunctionClone::prologue() {
  declare_registers();
  if (!function_.entry) return load_control();
  put(std::string("ld.param.u64 %dh_rings, [") + control_name + "];");
  put(std::string("ld.param.u32 %dh_control, [") + control_name + "+8];");
  put(std::string("ld.param.u32 %dh_t2, [") + control_name + "+12];");
  put(std::string("ld.param.u32 %dh_zero, [") + control_name + "+24];");
  out_ += linear_indices("%dh_block", "%dh_warp", "%dh_t0", "%dh_t1");
  put("shr.u32 %dh_warp, %dh_warp, 5;");
  put("and.b32 %dh_t0, %dh_block, %dh_t2;");
  put("mul.wide.u32 %dh_ring, %dh_t0, " + std::to_string(sizeof(device_log::RingState)) + ";");
  put("add.u64 %dh_ring, %dh_ring, %dh_rings;");
  put("add.u64 %dh_ring, %dh_ring, " + std::to_string(sizeof(device_log::Head)) + ";");
}

// Takes room: one atomic by the first of the lanes that are here together, whose result all get. Every lane then knows
// %dh_at (the header), %dh_wide and %dh_half (its places in arrays of 8 and 4 bytes, less their offsets).
void FunctionClone::begin(const Plan& plan) {
  const std::string bytes = std::to_string(segments_[plan.number].bytes), n = std::to_string(plan.number);
  if (plan.meets_before) put(meet_warp);
  put("activemask.b32 %dh_mask;");
  put("mov.u32 %dh_lane, %laneid;");
  put("mov.u32 %dh_t0, %lanemask_lt;");
  put("and.b32 %dh_t0, %dh_t0, %dh_mask;");
  put("setp.eq.u32 %dh_lead, %dh_t0, 0;");
  put("mov.u64 %dh_pos, 0;");
  put("ld.global.v2.u64 {%dh_base, %dh_wrap}, [%dh_ring+16];");
  put("ld.relaxed.sys.global.u64 %dh_limit, [%dh_ring+8];"); // it only grows: with the atomic under way already
  put("@%dh_lead atom.relaxed.gpu.global.add.u64 %dh_pos, [%dh_ring], " + bytes + ";");
  put("brev.b32 %dh_t0, %dh_mask;");
  put("clz.b32 %dh_t0, %dh_t0;");
  put("mov.b64 {%dh_t1, %dh_t2}, %dh_pos;");
  put("shfl.sync.idx.b32 %dh_t1, %dh_t1, %dh_t0, 31, %dh_mask;");
  put("shfl.sync.idx.b32 %dh_t2, %dh_t2, %dh_t0, 31, %dh_mask;");
  put("mov.b64 %dh_pos, {%dh_t1, %dh_t2};");
  put("add.u64 %dh_end, %dh_pos, " + bytes + ";");
  put("mov.u32 %dh_t0, 0;");
  out_ += "\n$dh_wait_" + n + ":";
  put("setp.le.u64 %dh_full, %dh_end, %dh_limit;");
  put("@%dh_full bra $dh_room_" + n + ";");
  put("nanosleep.u32 1000;");
  put("ld.relaxed.sys.global.u64 %dh_limit, [%dh_ring+8];");
  put("add.u32 %dh_t0, %dh_t0, 1;");
  put("setp.lt.u32 %dh_full, %dh_t0, " + std::to_string(device_log::patience) + ";");
  put("@%dh_full bra $dh_wait_" + n + ";");
  // Nobody makes room: from now on nobody waits, and the reader learns that what comes is worthless.
  put("@%dh_lead st.relaxed.sys.global.u64 [%dh_ring+8], -1;");
  put("@%dh_lead red.relaxed.gpu.global.add.u64 [%dh_rings+8], 1;");
  out_ += "\n$dh_room_" + n + ":";
  put("and.b64 %dh_at, %dh_pos, %dh_wrap;");
  put("add.u64 %dh_at, %dh_at, %dh_base;");
  put("mul.wide.u32 %dh_half, %dh_lane, 4;");
  put("add.u64 %dh_wide, %dh_half, %dh_half;");
  put("add.u64 %dh_half, %dh_half, %dh_at;");
  put("add.u64 %dh_wide, %dh_wide, %dh_at;");
}

void FunctionClone::end(const Plan& plan) {
  put("@%dh_lead st.global.v2.b32 [%dh_at+8], {%dh_control, " + std::to_string(plan.number) + "};");
  put("@%dh_lead st.global.v4.b32 [%dh_at+16], {%dh_block, %dh_warp, %dh_mask, 0};");
  put("bar.warp.sync %dh_mask;");
  put("xor.b64 %dh_b, %dh_pos, " + std::to_string(std::int64_t(device_log::tag_key)) + ";");
  put("@%dh_lead st.release.gpu.global.u64 [%dh_at], %dh_b;");
  if (plan.after == Plan::After::lanes) put("bar.warp.sync %dh_mask;");
  if (plan.after == Plan::After::warp) put(meet_warp);
}

void FunctionClone::call(const Instruction& i, std::uint32_t statement) {
  const bool of_heap = heap_calls_.count(statement) > 0;
  if (!of_heap && !calls_clone(i)) {
    out_ += print(function_.body[statement], function_);
    return;
  }
  const std::string argument = "__dh_argument" + std::to_string(next_call_++);
  put("{");
  put(".param .align 8 .b8 " + argument + "[" + std::to_string(control_bytes) + "];");
  put("st.param.b64 [" + argument + "], %dh_rings;");
  put("st.param.b64 [" + argument + "+8], %dh_ring;");
  put("st.param.b32 [" + argument + "+16], %dh_control;");
  put("st.param.b32 [" + argument + "+20], %dh_block;");
  put("st.param.b32 [" + argument + "+24], %dh_warp;");
  put("st.param.b32 [" + argument + "+28], %dh_zero;");
  std::string line;
  if (i.guard) line = (i.guard->negated ? "@!" : "@") + function_.registers[i.guard->reg].name + " ";
  line += i.full_opcode() + " ";
  if (!i.operands[0].elements.empty()) line += text_of(i.operands[0]) + ", ";
  line += of_heap ? heap_prefix + std::to_string(site_of_[statement]) : clone_prefix + std::string(i.operands[1].text);
  line += ", (";
  if (i.operands.size() > 2) {
    for (const Operand& a : i.operands[2].elements) line += text_of(a) + ", ";
  }
  put(line + argument + ");");
  put("}");
}

std::string FunctionClone::text() {
  plan();
  std::map<std::uint32_t, const Plan*> begins;
  std::multimap<std::uint32_t, const Plan*> ends;
  for (const Plan& p : plans_) {
    begins[p.first] = &p;
    ends.emplace(p.last, &p);
  }
  out_ = "\n" + print_head(head()) + "\n{";
  prologue();
  for (std::uint32_t s = 0; s <= function_.body.size(); ++s) {
    auto ending = ends.equal_range(s);
    for (auto at = ending.first; at != ending.second; ++at) {
      if (at->second->early) end(*at->second);
    }
    if (s == function_.body.size()) break;
    if (auto beginning = begins.find(s); beginning != begins.end()) begin(*beginning->second);
    const Statement& statement = function_.body[s];
    const Instruction* i = statement.instruction();
    auto slot = slots_.find(s);
    const auto test = tests_.find(s);
    if (i && slot != slots_.end() && test == tests_.end() && !heap_calls_.count(s)) before(*i, slot->second);
    for (auto at = ending.first; at != ending.second; ++at) {
      if (!at->second->early) end(*at->second);
    }
    if (i && i->opcode == Opcode::call) {
      call(*i, s);
    } else if (test != tests_.end()) {
      before_test(*i, slot->second);
      instruction(*i, sites_[slot->second.site]);
      after_test(*i, slot->second, test->second);
    } else if (is_dropped(statement)) {
      // Nothing stands in its place.
    } else if (i && i->opcode == Opcode::setmaxnreg) {
      // A clone's warps need all the registers that they began with.
    } else if (i && slot != slots_.end() && ticketed(slot->second)) {
      instruction(*i, sites_[slot->second.site]);
      after(*i, slot->second);
    } else if (const std::string* rounded = products_.replacement(s)) {
      out_ += *rounded;
    } else {
      out_ += assemblable(statement, function_);
      if (options_.part_votes && i && i->opcode == Opcode::vote) put("membar.cta;");
    }
  }
  out_ += "\n}\n";
  for (const auto& [statement, plan] : heap_calls_) heap_function(plan, slots_.at(statement));
  return std::move(out_);
}

} // namespace deadheat::ptx
