// What each site stores, and what of an instruction changes for it.
#include <algorithm>
#include <cstddef>

#include "tracer/device_log/layout.h"
#include "tracer/ptx/instrument_function.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::ptx {

namespace {

using Kind = Slot::Kind;

bool is_write(const Site& site) { return site.access == AccessKind::write; }
bool is_atomic(const Site& site) { return site.access == AccessKind::atomic; }

bool has_sink(const Operand* o) {
  return o && std::any_of(o->elements.begin(), o->elements.end(),
                          [](const Operand& element) { return element.kind == Operand::Kind::sink; });
}

// How many operands a barrier has before its number: bar.red has a result.
std::size_t barrier_operand(const Instruction& i) { return i.has(Modifier::red) ? 1 : 0; }

// The thread count of a barrier; null: all threads. The last operand of bar.red is its predicate.
const Operand* barrier_threads(const Instruction& i) {
  const std::size_t at = barrier_operand(i) + 1, end = i.operands.size() - (i.has(Modifier::red) ? 1 : 0);
  return at < end ? &i.operands[at] : nullptr;
}

bool known(const Operand& o) { return o.kind == Operand::Kind::integer; }

}  // namespace

unsigned FunctionClone::register_bits(const Operand& value) const {
  return value.kind == Operand::Kind::reg ? bits(function_.registers[value.reg].type) : 0;
}

const Operand* FunctionClone::address_of(const Instruction& i) const {
  for (const Operand& o : i.operands) {
    if (o.kind == Operand::Kind::address) return &o;
  }
  return nullptr;
}

const Operand* FunctionClone::value_of(const Instruction& i) const {
  const std::size_t at = i.opcode == Opcode::st ? 1 : i.opcode == Opcode::red ? 1 : i.opcode == Opcode::atom ? 2 : 0;
  return at && at < i.operands.size() ? &i.operands[at] : nullptr;
}

const Operand* FunctionClone::result_of(const Instruction& i) const {
  const bool arrives =
      i.opcode == Opcode::mbarrier && !i.operands.empty() && i.operands[0].kind != Operand::Kind::address;
  return (i.opcode == Opcode::ld || i.opcode == Opcode::ldu || i.opcode == Opcode::atom || arrives) &&
                 !i.operands.empty()
             ? &i.operands[0]
             : nullptr;
}

Clocks clocks_of(const Module& module, const SiteTable& sites) {
  bool shared = false, other = false, global = false;
  Clocks clocks;
  clocks.after_only = true;
  clocks.cluster = reaches_cluster(module);
  for (const Site& site : sites.sites) {
    if (is_texel(site)) continue; // the instruction's own site counts
    switch (site.kind) {
      case SiteKind::access: {
        const bool relaxed = site.ordering == Ordering::weak || site.ordering == Ordering::relaxed;
        const bool strong = is_strong(site.ordering) || is_atomic(site);
        if (!relaxed || (strong && (!is_atomic(site) || site.elements != 1 || site.element_bytes > 8 ||
                                    site.opcode.find(".cas") != std::string::npos))) {
          clocks.after_only = false;
        }
        if (!strong) break;
        shared |= site.space == Space::shared;
        global |= site.space == Space::global;
        other |= site.space != Space::shared && site.space != Space::global;
        break;
      }
      case SiteKind::barrier:
      case SiteKind::warp_barrier:
      case SiteKind::warp_value:
      case SiteKind::exit: break;
      case SiteKind::heap: // takes the device's
        global = true;
        clocks.after_only = false;
        break;
      case SiteKind::mbarrier:
      case SiteKind::async_mbarrier_arrive:
      case SiteKind::bulk_copy: shared = true; [[fallthrough]];
      default: clocks.after_only = false;
    }
  }
  for (const Function& function : module.functions) clocks.after_only &= function.entry || !function.has_body;
  clocks.in_block = shared && !other && !clocks.cluster;
  clocks.both = clocks.in_block && global;
  return clocks;
}

// What an address differs from: the same array serves all accesses that differ from one by a constant.
void FunctionClone::share_address(const Instruction& i, const Site& site, Slot& slot) {
  const Operand& address = *address_of(i);
  const Operand& base = address.elements[0];
  AddressValues::Value value;
  std::string_view name;
  if (base.kind == Operand::Kind::reg)
    value = values_.of(base.reg);
  else if (base.kind == Operand::Kind::symbol)
    name = base.text, value.offset = base.offset;
  else
    return;
  value.offset += address.offset;
  const std::uint64_t guard = i.guard ? values_.of(i.guard->reg).root : 0;
  auto [at, fresh] =
      arrays_.try_emplace({value.root, name, guard, i.guard && i.guard->negated, slot.narrow, site.space, slot.ranked},
                          slot.address, value.offset);
  if (fresh) return;
  slot.address = at->second.first;
  slot.delta = value.offset - at->second.second;
  slot.digest = slot.offset;
}

bool FunctionClone::strong_slot(const Instruction& i, const Site& site, Slot& slot, std::uint32_t& size) {
  slot.kind = Kind::strong;
  slot.compares = i.has(Modifier::cas);
  // Of vectors all elements, folded to one value: one instruction moves them.
  slot.valued = site.element_bytes <= 8 && (site.elements == 1 || !is_atomic(site)) && i.opcode != Opcode::ldmatrix &&
                i.opcode != Opcode::stmatrix;
  slot.short_values = site.element_bytes <= 4 && site.elements == 1;
  slot.narrow = site.space == Space::shared;
  slot.ranked = clocks_.cluster && (site.shared_cluster || site.space == Space::generic);
  slot.after_only = clocks_.after_only;
  slot.in_block = !slot.after_only && clocks_.in_block && site.space == Space::shared;
  slot.both_tickets = !slot.after_only && clocks_.both && !slot.in_block;
  std::uint32_t at = slot.offset + 32;
  auto array = [&](std::uint32_t bytes) {
    const std::uint32_t place = at;
    at += bytes;
    return place;
  };
  slot.address = array(slot.narrow ? lanes4 : lanes8);
  if (slot.valued) {
    const std::uint32_t bytes = slot.short_values ? lanes4 : lanes8;
    if (site.access != AccessKind::write) slot.value_read = array(bytes);
    if (site.access != AccessKind::read) {
      const Operand* value = value_of(i);
      slot.operand_known = !slot.compares && value && known(*value);
      if (slot.operand_known) {
        const unsigned width = site.element_bytes * 8u;
        slot.number = value->bits & (width < 64 ? (std::uint64_t(1) << width) - 1 : ~std::uint64_t(0));
      } else {
        slot.operand = array(bytes);
      }
    }
    if (slot.compares) slot.compared = array(bytes);
    if (site.elements > 1 && is_write(site)) slot.digest = array(lanes4);
  }
  size = at - slot.offset;
  return true;
}

bool FunctionClone::slot_of(std::uint32_t statement, std::uint32_t at, Slot& slot, std::uint32_t& size) {
  const std::uint32_t number = site_of_[statement];
  if (number == SiteTable::none) return false;
  const Site& site = sites_[number];
  const Instruction& i = *function_.body[statement].instruction();
  slot.site = number;
  slot.offset = at;
  slot.guarded = i.guard.has_value();
  const std::uint32_t flag_bytes = slot.guarded ? lanes4 : 0;
  switch (site.kind) {
    case SiteKind::access: {
      if (site.space == Space::local || site.space == Space::param) return false;
      const std::optional<MatrixPieces> pieces = matrix_pieces(i);
      // Of a vector that is stored, elements that are dropped are not written: a site names whole vectors only.
      if ((i.opcode == Opcode::wmma && !(pieces && pieces->piece_bytes)) || !address_of(i) ||
          address_of(i)->elements.size() != 1 || has_sink(value_of(i))) {
        ++left_out_;
        return false;
      }
      const bool fills = i.opcode == Opcode::st && i.has(Modifier::bulk) && i.operands.size() > 1;
      if (is_strong(site.ordering) || is_atomic(site)) return strong_slot(i, site, slot, size);
      slot.narrow = site.space == Space::shared;
      slot.ranked = clocks_.cluster && (site.shared_cluster || site.space == Space::generic);
      slot.kind = is_write(site) ? Kind::write : Kind::read;
      slot.address = at;
      slot.digest = at + (slot.narrow ? lanes4 : lanes8);
      if (!fills) share_address(i, site, slot);
      size = slot.address == at ? slot.digest - at : 0;
      if (is_write(site)) size += lanes4;
      if (fills) {
        slot.size = at + size;
        size += lanes4;
      }
      if (pieces) slot.pieces = *pieces;
      if (pieces && i.operands.size() > 2) {
        slot.stride = at + size;
        size += lanes4;
      }
      return true;
    }
    case SiteKind::dependency:
      if (!i.has(Modifier::wait)) return false;
      [[fallthrough]];
    case SiteKind::fence:
    case SiteKind::proxy_fence:
    case SiteKind::cluster_barrier:
    case SiteKind::async_commit:
    case SiteKind::async_wait:
    case SiteKind::exit:
      slot.kind = Kind::event;
      if (site.kind == SiteKind::async_wait && !i.operands.empty() && known(i.operands[0])) {
        slot.number = std::uint32_t(i.operands[0].bits);
      }
      size = flag_bytes;
      return true;
    case SiteKind::barrier: {
      slot.kind = Kind::barrier;
      const std::size_t at = barrier_operand(i);
      slot.number_known = at >= i.operands.size() || known(i.operands[at]);
      if (slot.number_known && at < i.operands.size()) slot.number = std::uint32_t(i.operands[at].bits);
      const Operand* threads = barrier_threads(i);
      slot.threads_known = !threads || known(*threads);
      if (threads && slot.threads_known) slot.threads = std::uint32_t(threads->bits);
      size = (slot.number_known ? flag_bytes : lanes4) + (slot.threads_known ? 0 : lanes4);
      return true;
    }
    case SiteKind::warp_barrier:
      slot.kind = Kind::warp_sync;
      slot.number_known = i.operands.empty() || known(i.operands[0]);
      slot.number = i.operands.empty() ? ~0u : std::uint32_t(i.operands[0].bits);
      size = slot.number_known ? flag_bytes : lanes4;
      return true;
    case SiteKind::async_copy:
      if (i.operands.size() < 3 || i.operands[0].elements.size() != 1 || i.operands[1].elements.size() != 1) {
        ++left_out_;
        return false;
      }
      slot.kind = Kind::copy;
      size = lanes8 + 2 * lanes4;
      return true;
    case SiteKind::bulk_copy:
    case SiteKind::mbarrier:
    case SiteKind::async_mbarrier_arrive: return async_slot(statement, slot, size);
    case SiteKind::opaque:
      if (is_texture(site) && texture_slot(statement, slot, size)) return true;
      ++left_out_;
      return false;
    default: return false;
  }
}

// ---- instructions

void FunctionClone::before(const Instruction& i, const Slot& slot) {
  const Site& site = sites_[slot.site];
  const std::string at = std::to_string(slot.offset);
  switch (slot.kind) {
    case Kind::read:
    case Kind::write: {
      const Operand& address = *address_of(i);
      if (slot.address != slot.offset) {
        // Another site's array tells it.
      } else if (slot.narrow) {
        load_address(address, true, "%dh_s");
        if (slot.ranked) rank_address();
        guard_address(i, true);
        put("st.global.b32 [%dh_half+" + at + "], %dh_s;");
      } else {
        load_address(address, false, "%dh_a");
        if (site.space == Space::generic) mark_space();
        if (site.space == Space::constant) put("cvta.const.u64 %dh_a, %dh_a;");
        guard_address(i, false);
        put("st.global.b64 [%dh_wide+" + at + "], %dh_a;");
      }
      if (slot.stride) store_u32(i, i.operands[2], slot.stride);
      if (slot.kind == Kind::read) return;
      if (slot.size) {
        load_value(i.operands[1], 64, "%dh_v");
        put("cvt.u32.u64 %dh_s, %dh_v;");
        put("st.global.b32 [%dh_half+" + std::to_string(slot.size) + "], %dh_s;");
      }
      if (i.opcode == Opcode::st && i.operands.size() > 1 && !slot.size)
        load_digest(i.operands[1], site);
      else
        put("mov.u32 %dh_h, 0;");
      put("st.global.b32 [%dh_half+" + std::to_string(slot.digest) + "], %dh_h;");
      return;
    }
    case Kind::mbarrier: return before_mbarrier(i, slot);
    case Kind::bulk: return before_bulk(i, slot);
    case Kind::heap: return; // of a function of its own
    case Kind::matrix: return before_matrix(i, slot);
    case Kind::texture: return before_texture(i, slot);
    case Kind::strong: {
      const bool narrow = narrow_address(i);
      load_address(*address_of(i), narrow, narrow ? "%do_s" : "%do_a");
      store_address(i, slot, narrow);
      if (slot.operand) {
        const Operand* value = value_of(i);
        const Operand* stored = slot.compares && i.operands.size() > 3 ? &i.operands[3] : value;
        if (stored) store_value(slot, *stored, site, slot.operand);
        if (slot.compares && value) store_value(slot, *value, site, slot.compared);
      }
      if (slot.digest) {
        load_vector_digest(*value_of(i), site);
        put("st.global.b32 [%dh_half+" + std::to_string(slot.digest) + "], %dh_h;");
      }
      if (clocks_.after_only) return;
      ticket(slot.in_block, false, slot.offset);
      comes_after_ticket(narrow);
      return;
    }
    case Kind::event:
      if (slot.guarded) {
        put("mov.b32 %dh_s, 0;");
        guard_address(i, true);
        put("st.global.b32 [%dh_half+" + at + "], %dh_s;");
      }
      return;
    case Kind::barrier: {
      std::uint32_t place = slot.offset;
      const std::size_t number = barrier_operand(i);
      if (!slot.number_known) {
        store_u32(i, i.operands[number], place);
        place += lanes4;
      } else if (slot.guarded) {
        put("mov.b32 %dh_s, 0;");
        guard_address(i, true);
        put("st.global.b32 [%dh_half+" + std::to_string(place) + "], %dh_s;");
        place += lanes4;
      }
      if (!slot.threads_known) store_u32(i, *barrier_threads(i), place);
      return;
    }
    case Kind::warp_sync:
      if (!slot.number_known) {
        put("mov.b32 %dh_s, " + text_of(i.operands[0]) + ";");
        if (i.guard) {  // no member mask is empty
          const std::string p = function_.registers[i.guard->reg].name;
          put("selp.b32 %dh_s, " + std::string(i.guard->negated ? "0, %dh_s" : "%dh_s, 0") + ", " + p + ";");
        }
        put("st.global.b32 [%dh_half+" + at + "], %dh_s;");
      } else if (slot.guarded) {
        put("mov.b32 %dh_s, 0;");
        guard_address(i, true);
        put("st.global.b32 [%dh_half+" + at + "], %dh_s;");
      }
      return;
    case Kind::copy: {
      load_address(i.operands[1], false, "%dh_a");
      guard_address(i, false);
      put("st.global.b64 [%dh_wide+" + at + "], %dh_a;");
      load_address(i.operands[0], true, "%dh_s");
      put("st.global.b32 [%dh_half+" + std::to_string(slot.offset + lanes8) + "], %dh_s;");
      put("mov.u32 %dh_s, " + text_of(i.operands[2]) + ";");
      const std::size_t last = i.operands.size() - (i.has(Modifier::L2_cache_hint) ? 1 : 0);
      if (last > 3) {
        const Operand& o = i.operands[3];
        if (register_bits(o) == 1)
          put("selp.b32 %dh_s, 0, %dh_s, " + text_of(o) + ";");
        else
          put("mov.b32 %dh_s, " + text_of(o) + ";");
      }
      put("st.global.b32 [%dh_half+" + std::to_string(slot.offset + lanes8 + lanes4) + "], %dh_s;");
      return;
    }
  }
}

// A reduction becomes an atomic operation, whose result tells where it stood in the order.
void FunctionClone::instruction(const Instruction& i, const Site& site) {
  std::string line;
  if (i.guard) line = (i.guard->negated ? "@!" : "@") + function_.registers[i.guard->reg].name + " ";
  const bool scalar = site.elements == 1 && site.element_bytes <= 8;
  const bool bulk = site.kind == SiteKind::bulk_copy;
  const bool converted = i.opcode == Opcode::red && scalar && !bulk;
  std::string opcode = i.full_opcode();
  if (converted) opcode = "atom" + opcode.substr(3);
  line += opcode + " ";
  const std::string result = site.element_bytes == 8 ? "%do_r64" : site.element_bytes == 2 ? "%do_r16" : "%do_r32";
  if (converted) line += result + ", ";
  const std::string address = bulk || narrow_address(i) ? "[%do_s]" : "[%do_a]";
  const bool hides = count_may_be_zero(function_, i);
  if (hides) out_ += hidden_count(function_, i, "%do_r32");
  for (std::size_t k = 0; k < i.operands.size(); ++k) {
    const Operand& o = i.operands[k];
    if (k) line += ", ";
    if (o.kind == Operand::Kind::address && (!bulk || k == object_operand(i)))
      line += address;
    else if (o.kind == Operand::Kind::sink && k == 0 && scalar && !site.shared_cluster)
      line += result;
    else if (o.kind == Operand::Kind::vector && k == 0 && site.access == AccessKind::read && site.element_bytes <= 8)
      line += whole_vector(o, site);
    else
      line += hides && k == 1 ? "%do_r32" : text_of(o);
  }
  put(line + ";");
}

void FunctionClone::after(const Instruction& i, const Slot& slot) {
  const Site& site = sites_[slot.site];
  if (site.kind == SiteKind::bulk_copy || site.kind == SiteKind::async_mbarrier_arrive) {
    // What counts is when it was issued.
    put("mov.u32 %dh_t1, 0;");
    return tickets_after(slot);
  }
  const Operand* result = result_of(i);
  const bool kept = i.opcode == Opcode::red || (result && result->kind == Operand::Kind::sink);  // in %do_r
  const bool reads = site.access != AccessKind::write;
  if (slot.kind == Kind::mbarrier && result && !(kept && site.shared_cluster)) {
    put("mov.b64 %dh_v, " + (kept ? "%do_r64" : text_of(*result)) + ";");
    if (slot.value_read) put("st.global.b64 [%dh_wide+" + std::to_string(slot.value_read) + "], %dh_v;");
    put("cvt.u32.u64 %dh_t1, %dh_v;");
    put("and.b32 %dh_t1, %dh_t1, %dh_zero;");
  } else if (slot.valued && reads) {
    if (kept) {
      if (site.element_bytes == 8) {
        put("mov.b64 %dh_v, %do_r64;");
      } else if (site.element_bytes == 2) {
        put("cvt.u64.u16 %dh_v, %do_r16;");
      } else {
        put("cvt.u64.u32 %dh_v, %do_r32;");
      }
    } else {
      load_folded(*result, site);
    }
    store_loaded(slot, slot.value_read);
    put("cvt.u32.u64 %dh_t1, %dh_v;");
    put("and.b32 %dh_t1, %dh_t1, %dh_zero;");
  } else {
    put(site.space == Space::shared && !site.shared_cluster ? "fence.acq_rel.cta;" : "fence.acq_rel.gpu;");
    put("mov.u32 %dh_t1, 0;");
  }
  tickets_after(slot);
}

}  // namespace deadheat::ptx
