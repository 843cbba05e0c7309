// What mbarriers and bulk copies store (PTX ISA 9.7.13.15 and 9.7.9.25.4), and addresses in the shared memory of other
// blocks of a cluster.
#include <algorithm>
#include <cstddef>

#include "deadheat/address.h"
#include "tracer/device_log/layout.h"
#include "tracer/device_log/tensor_map.h"
#include "tracer/ptx/instrument_function.h"
#include "tracer/ptx/matrix_descriptor.h"
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

// Spaces of a bulk copy's destination and source: whether each is shared memory.
bool bulk_ends(const Instruction& i, bool (&shared)[2]) {
  std::size_t found = 0;
  for (std::string_view word : i.modifier_texts) {
    if (found < 2 && (word == "global" || word.starts_with("shared"))) shared[found++] = word != "global";
  }
  return found == 2;
}

// Offsets of im2col, where a copy has them (9.7.9.27.1): the vector behind the mbarrier.
constexpr std::size_t offsets_operand = 3;
std::size_t offset_count(const Instruction& i) {
  if (!i.has(Modifier::tensor) || !completes_on_mbarrier(i) || i.operands.size() <= offsets_operand) return 0;
  const Operand& o = i.operands[offsets_operand];
  return o.kind == Operand::Kind::vector ? std::min<std::size_t>(o.elements.size(), 3) : 0;
}

// Where a copy's operands lie, by its form (9.7.9.25.4.1, 9.7.9.25.5.2; st.async and red.async: 9.7.9.12, 9.7.13.7).
struct Places {
  std::size_t shared = 0, other = 1, object = 3, blocks = 4; // other: the source, or the tensor map with coordinates
};
Places places_of(const Instruction& i) {
  if (i.opcode != Opcode::cp) return {0, 1, 2, 3};
  if (!i.has(Modifier::tensor)) return {};
  const bool loads = completes_on_mbarrier(i);
  if (!loads) return {1, 0, 0, 0};
  // im2col has offsets in front of the mask of blocks.
  return {0, 1, 2, offset_count(i) ? std::size_t(4) : std::size_t(3)};
}

const Operand* tensor_operand(const Instruction& i) {
  const Operand& o = i.operands[places_of(i).other];
  const bool good = o.kind == Operand::Kind::address && o.elements.size() == 2 &&
                    o.elements[0].kind == Operand::Kind::reg && o.elements[1].kind == Operand::Kind::vector &&
                    !o.elements[1].elements.empty() && o.elements[1].elements.size() <= most_dimensions;
  return good ? &o : nullptr;
}

}  // namespace

bool follows(const Instruction& i) {
  const Places at = places_of(i);
  const bool object = completes_on_mbarrier(i), several = i.has(Modifier::multicast_cluster);
  const std::size_t needed =
      std::max({at.shared + 1, at.other + 1, object ? at.object + 1 : 0, several ? at.blocks + 1 : 0});
  if (i.operands.size() < needed || !plain_address(i.operands[at.shared]) ||
      (object && !plain_address(i.operands[at.object]))) {
    return false;
  }
  if (i.opcode == Opcode::st || i.opcode == Opcode::red) {
    return object && i.has(Modifier::async) && i.has(Modifier::shared_cluster);
  }
  // Of a masked copy it is not recorded which bytes, nor of one that ignores some.
  if (i.opcode != Opcode::cp || i.has(Modifier::cp_mask) || i.has(Modifier::ignore_oob)) return false;
  if (i.has(Modifier::tensor)) {
    for (std::string_view word : i.modifier_texts) { // rows that indices name, by 4
      if (word.find("gather4") != std::string_view::npos || word.find("scatter4") != std::string_view::npos)
        return false;
    }
    return tensor_operand(i) != nullptr;
  }
  bool shared[2];
  return i.operands.size() > 2 && bulk_ends(i, shared) && plain_address(i.operands[1]);
}

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
  const bool copies = (i.opcode == Opcode::cp && i.has(Modifier::bulk)) ||
                      ((i.opcode == Opcode::st || i.opcode == Opcode::red) && i.has(Modifier::async));
  return copies ? places_of(i).object : address_index(i);
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
    if (i.opcode == Opcode::wgmma) return matrix_slot(i, slot, size);
    const bool object = completes_on_mbarrier(i), several = i.has(Modifier::multicast_cluster);
    if (!follows(i)) {
      ++left_out_;
      return false;
    }
    slot.kind = Slot::Kind::bulk;
    slot.ranked = clocks_.cluster;
    if (object) array(32);
    slot.address = array(lanes8);
    if (i.opcode != Opcode::cp) {
      slot.operand_known = true;
      slot.number = std::uint64_t(site.element_bytes) * site.elements;
    } else if (i.has(Modifier::tensor)) {
      slot.from_tensor = object;
      slot.dimensions = std::uint32_t(tensor_operand(i)->elements[1].elements.size());
      slot.map = array(lanes8);
      slot.offsets = std::uint32_t(offset_count(i));
      slot.coordinates = array((slot.dimensions + slot.offsets) * lanes4);
    } else {
      slot.source = array(lanes8);
      slot.size = array(lanes4);
    }
    if (object) slot.object = array(lanes8);
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
  const Places at = places_of(i);
  bool shared[2] = {true, false};
  if (slot.source) bulk_ends(i, shared);
  auto store = [&](std::uint32_t place) { put("st.global.b64 [%dh_wide+" + std::to_string(place) + "], %dh_a;"); };
  any_address(o[at.shared], shared[0]);
  guard_address(i, false);
  store(slot.address);
  if (slot.map) before_tensor(i, slot);
  if (slot.source) {
    any_address(o[at.other], shared[1]);
    store(slot.source);
    put("mov.b32 %dh_s, " + text_of(o[2]) + ";");
    put("st.global.b32 [%dh_half+" + std::to_string(slot.size) + "], %dh_s;");
  }
  if (!slot.object) return;
  any_address(o[at.object], true);
  store(slot.object);
  if (slot.blocks) {
    load_value(o[at.blocks], 16, "%dh_v");
    put("cvt.u32.u64 %dh_s, %dh_v;");
    put("st.global.b32 [%dh_half+" + std::to_string(slot.blocks) + "], %dh_s;");
  }
  load_address(o[at.object], true, "%do_s");
  ticket(slot.in_block, false, slot.offset);
  comes_after_ticket(true);
}

// What the map's bytes mean nobody says: their digest tells which one it is (device_log/tensor_map.h). Its address is a
// generic one, of parameters, constants or global memory; lanes without the guard may have any.
void FunctionClone::before_tensor(const Instruction& i, const Slot& slot) {
  const Operand& tensor = *tensor_operand(i);
  std::string guard;
  if (i.guard) guard = (i.guard->negated ? "@!" : "@") + function_.registers[i.guard->reg].name + " ";
  put("mov.b64 %dh_a, " + text_of(tensor.elements[0]) + ";");
  put("mov.b64 %dh_v, 0;");
  put("mov.b64 %dh_k, 0;");
  put("mov.b64 %dh_b, 0;");
  for (unsigned word = 0; word < device_log::tensor_map_words; word += 2) {
    put(guard + "ld.v2.u64 {%dh_k, %dh_b}, [%dh_a+" + std::to_string(std::int64_t(8 * word) + tensor.offset) + "];");
    for (const char* part : {"%dh_k", "%dh_b"}) {
      put(std::string("xor.b64 %dh_v, %dh_v, ") + part + ";");
      put("mul.lo.u64 %dh_v, %dh_v, " + std::to_string(std::int64_t(device_log::tensor_digest_factor)) + ";");
      put(std::string("shr.u64 ") + part + ", %dh_v, 32;");
      put(std::string("xor.b64 %dh_v, %dh_v, ") + part + ";");
    }
  }
  put("st.global.b64 [%dh_wide+" + std::to_string(slot.map) + "], %dh_v;");
  auto store = [&](std::uint32_t place) {
    put("st.global.b32 [%dh_half+" + std::to_string(slot.coordinates + place * lanes4) + "], %dh_s;");
  };
  for (unsigned d = 0; d < slot.dimensions; ++d) {
    put("mov.b32 %dh_s, " + text_of(tensor.elements[1].elements[d]) + ";");
    store(d);
  }
  for (unsigned n = 0; n < slot.offsets; ++n) {
    load_value(i.operands[offsets_operand].elements[n], 16, "%dh_v");
    put("cvt.u32.u64 %dh_s, %dh_v;");
    store(slot.dimensions + n);
  }
}

// ---- wgmma

// wgmma.mma_async d, a, b, [metadata, selector,] scale-d [, scale-a, scale-b [, transpose-a] , transpose-b]
// (9.7.15.5.2): what it reads of shared memory is in its descriptors, which all threads have alike.
bool FunctionClone::matrix_slot(const Instruction& i, Slot& slot, std::uint32_t& size) {
  const std::vector<Operand>& o = i.operands;
  if (o.size() < 4 || register_bits(o[2]) != 64 || !matrix_shape(sites_[slot.site].opcode).n) {
    ++left_out_;
    return false;
  }
  slot.kind = Slot::Kind::matrix;
  std::uint32_t at = (slot.offset + (slot.guarded ? lanes4 : 0) + 7) / 8 * 8;
  const bool a_in_memory = register_bits(o[1]) == 64;
  if (a_in_memory) slot.first = at, at += 8;
  slot.second = at;
  at += 8;
  const std::size_t most = 7 + a_in_memory + (i.has(Modifier::sp) ? 2 : 0);
  if (o.size() == most) {
    slot.transposed[1] = known(o[most - 1]) && o[most - 1].bits;
    slot.transposed[0] = a_in_memory && known(o[most - 2]) && o[most - 2].bits;
  }
  size = at - slot.offset;
  return true;
}

void FunctionClone::before_matrix(const Instruction& i, const Slot& slot) {
  if (slot.guarded) {
    put("mov.b32 %dh_s, 0;");
    guard_address(i, true);
    put("st.global.b32 [%dh_half+" + std::to_string(slot.offset) + "], %dh_s;");
  }
  auto store = [&](const Operand& descriptor, std::uint32_t at) {
    put("@%dh_lead st.global.b64 [%dh_at+" + std::to_string(at) + "], " + text_of(descriptor) + ";");
  };
  if (slot.first) store(i.operands[1], slot.first);
  store(i.operands[2], slot.second);
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

} // namespace deadheat::ptx
