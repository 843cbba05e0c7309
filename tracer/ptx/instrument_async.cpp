// What mbarriers and bulk copies store (PTX ISA 9.7.13.15 and 9.7.9.25.4), and addresses in the shared memory of other
// blocks of a cluster.
#include <cstddef>

#include "deadheat/address.h"
#include "tracer/device_log/layout.h"
#include "tracer/ptx/instrument_function.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::ptx {

namespace {

bool known(const Operand& o) { return o.kind == Operand::Kind::integer; }

// Operands of mbarrier.arrive: whether there is a state, or its place, before the address.
std::size_t address_index(const Instruction& i) {
  return !i.operands.empty() && i.operands[0].kind != Operand::Kind::address ? 1 : 0;
}

bool plain_address(const Operand& o) { return o.kind == Operand::Kind::address && o.elements.size() == 1; }

bool completes_on_mbarrier(const Instruction& i) { return i.has(Modifier::mbarrier_complete_tx_bytes); }

// Spaces of a bulk copy's destination and source: whether each is shared memory.
bool bulk_ends(const Instruction& i, bool (&shared)[2]) {
  std::size_t found = 0;
  for (std::string_view word : i.modifier_texts) {
    if (found < 2 && (word == "global" || word.starts_with("shared"))) shared[found++] = word != "global";
  }
  return found == 2;
}

}  // namespace

bool reaches_cluster(const Module& module) {
  bool reaches = false;
  for (const Function& function : module.functions) {
    if (!function.has_body) continue;
    each_instruction(function, [&](std::size_t, const Instruction& i) {
      reaches |= i.opcode == Opcode::mapa || i.has(Modifier::multicast_cluster) ||
                 (i.has(Modifier::shared_cluster) && i.opcode != Opcode::cp);
    });
  }
  return reaches;
}

std::size_t FunctionClone::object_operand(const Instruction& i) const {
  return i.opcode == Opcode::cp && i.has(Modifier::bulk) ? 3 : address_index(i);
}

bool FunctionClone::async_slot(std::uint32_t statement, Slot& slot, std::uint32_t& size) {
  const Site& site = sites_[slot.site];
  const Instruction& i = *function_.body[statement].instruction();
  const std::vector<Operand>& o = i.operands;
  std::uint32_t at = slot.offset;
  auto array = [&](std::uint32_t bytes) {
    const std::uint32_t place = at;
    at += bytes;
    return place;
  };
  slot.in_block = clocks_.in_block;
  if (site.kind == SiteKind::bulk_copy) {
    bool shared[2];
    const bool object = completes_on_mbarrier(i), several = i.has(Modifier::multicast_cluster);
    if (i.has(Modifier::tensor) || o.size() < 3u + object + several || !bulk_ends(i, shared) || !plain_address(o[0]) ||
        !plain_address(o[1]) || (object && !plain_address(o[3]))) {
      ++left_out_;
      return false;
    }
    slot.kind = Slot::Kind::bulk;
    slot.ranked = clocks_.cluster;
    if (object) array(32);
    slot.address = array(lanes8);
    slot.source = array(lanes8);
    if (object) slot.object = array(lanes8);
    slot.size = array(lanes4);
    if (several) slot.blocks = array(lanes4);
    size = at - slot.offset;
    return true;
  }
  const std::size_t first = address_index(i);
  if (o.size() <= first || !plain_address(o[first])) {
    ++left_out_;
    return false;
  }
  slot.kind = Slot::Kind::mbarrier;
  slot.narrow = site.space == Space::shared;
  slot.ranked = clocks_.cluster && (site.shared_cluster || site.space == Space::generic);
  array(32);
  slot.address = array(slot.narrow ? lanes4 : lanes8);
  const Operand* operand = o.size() > first + 1 ? &o[first + 1] : nullptr;
  slot.operand_known = true;
  slot.number = 1;
  if (tests(statement)) {
    slot.short_values = i.has(Modifier::parity);
    slot.operand_known = false;
    slot.operand = array(slot.short_values ? lanes4 : lanes8);
  } else if (first == 1 && i.has(Modifier::expect_tx)) {
    slot.size = array(lanes4);
  } else if (operand && site.kind == SiteKind::mbarrier) {
    slot.operand_known = known(*operand);
    slot.number = std::uint32_t(operand->bits);
    if (!slot.operand_known) slot.operand = array(lanes4);
  }
  if (first == 1 && !tests(statement) && o[0].kind == Operand::Kind::reg) slot.value_read = array(lanes8);
  size = at - slot.offset;
  return true;
}

// In a cluster the same offset has as many addresses as there are blocks; how they are made up is the device's affair.
void FunctionClone::rank_address() {
  put("getctarank.shared::cluster.u32 %dh_t1, %dh_s;");
  put("mov.u32 %dh_t2, %cluster_ctarank;");
  put("setp.ne.u32 %dh_q, %dh_t1, %dh_t2;");
  put("add.u32 %dh_t1, %dh_t1, 1;");
  put("shl.b32 %dh_t1, %dh_t1, " + std::to_string(cluster_shift) + ";");
  put("selp.b32 %dh_t1, %dh_t1, 0, %dh_q;");
  put("and.b32 %dh_s, %dh_s, " + std::to_string(cluster_offset_mask) + ";");
  put("or.b32 %dh_s, %dh_s, %dh_t1;");
}

void FunctionClone::any_address(const Operand& address, bool shared) {
  if (!shared) return load_address(address, false, "%dh_a");
  load_address(address, true, "%dh_s");
  if (clocks_.cluster) rank_address();
  put("cvt.u64.u32 %dh_a, %dh_s;");
  put("or.b64 %dh_a, %dh_a, " + std::to_string(std::int64_t(device_log::shared_mark)) + ";");
}

void FunctionClone::store_mbarrier(const Instruction& i, const Slot& slot) {
  const std::size_t first = address_index(i);
  if (slot.operand && slot.short_values == false && tests(sites_[slot.site].instruction)) {
    load_value(i.operands[first + 1], 64, "%dh_v");
    put("st.global.b64 [%dh_wide+" + std::to_string(slot.operand) + "], %dh_v;");
  } else if (slot.operand) {
    store_u32(i, i.operands[first + 1], slot.operand);
  }
  if (slot.size) store_u32(i, i.operands[first + 1], slot.size);
}

void FunctionClone::before_mbarrier(const Instruction& i, const Slot& slot) {
  const bool narrow = narrow_address(i);
  load_address(*address_of(i), narrow, narrow ? "%do_s" : "%do_a");
  store_address(i, slot, narrow);
  store_mbarrier(i, slot);
  ticket(slot.in_block, false, slot.offset);
  comes_after_ticket(narrow);
}

void FunctionClone::before_bulk(const Instruction& i, const Slot& slot) {
  const std::vector<Operand>& o = i.operands;
  bool shared[2] = {};
  bulk_ends(i, shared);
  auto store = [&](std::uint32_t at) { put("st.global.b64 [%dh_wide+" + std::to_string(at) + "], %dh_a;"); };
  any_address(o[0], shared[0]);
  guard_address(i, false);
  store(slot.address);
  any_address(o[1], shared[1]);
  store(slot.source);
  put("mov.b32 %dh_s, " + text_of(o[2]) + ";");
  put("st.global.b32 [%dh_half+" + std::to_string(slot.size) + "], %dh_s;");
  if (!slot.object) return;
  any_address(o[3], true);
  store(slot.object);
  if (slot.blocks) {
    load_value(o[4], 16, "%dh_v");
    put("cvt.u32.u64 %dh_s, %dh_v;");
    put("st.global.b32 [%dh_half+" + std::to_string(slot.blocks) + "], %dh_s;");
  }
  load_address(o[3], true, "%do_s");
  ticket(slot.in_block, false, slot.offset);
  comes_after_ticket(true);
}

// ---- tests

bool FunctionClone::tests(std::uint32_t statement) const {
  const std::uint32_t site = site_of_[statement];
  return site != SiteTable::none && sites_[site].kind == SiteKind::mbarrier && sites_[site].wait_only;
}

// The counter is only looked at: a test that fails takes no ticket.
void FunctionClone::before_test(const Instruction& i, const Slot& slot) {
  const bool narrow = narrow_address(i);
  load_address(*address_of(i), narrow, narrow ? "%do_s" : "%do_a");
  put(std::string("ld.relaxed.gpu.global.u64 %dh_since, [") +
      (slot.in_block ? "%dh_ring+" + std::to_string(offsetof(device_log::RingState, ticket))
                     : "%dh_rings+" + std::to_string(offsetof(device_log::Head, ticket))) +
      "];");
  put("cvt.u32.u64 %dh_t1, %dh_since;");
  add_nothing(narrow);
  if (!i.guard) return;
  const std::string& guard = function_.registers[i.guard->reg].name;
  put((i.guard->negated ? "not.pred %dh_g, " : "mov.pred %dh_g, ") + guard + ";");
}

void FunctionClone::after_test(const Instruction& i, const Slot& slot, const Plan& plan) {
  const std::string none = "$dh_none_" + std::to_string(plan.number), result = text_of(i.operands[0]);
  put(i.guard ? "and.pred %dh_won, " + result + ", %dh_g;" : "mov.pred %dh_won, " + result + ";");
  put("activemask.b32 %dh_mask;");
  put("vote.sync.any.pred %dh_q, %dh_won, %dh_mask;");
  put("@!%dh_q bra " + none + ";");
  begin(plan);
  put("@%dh_lead st.global.u64 [%dh_at+" + std::to_string(slot.offset) + "], %dh_since;");
  store_address(i, slot, narrow_address(i), "%dh_won");
  store_mbarrier(i, slot);
  put("selp.b32 %dh_t1, 1, 0, %dh_won;");
  put("and.b32 %dh_t1, %dh_t1, %dh_zero;");
  tickets_after(slot);
  end(plan);
  out_ += "\n" + none + ":";
}

}  // namespace deadheat::ptx
