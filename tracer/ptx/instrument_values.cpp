// Addresses, values, digests and tickets: how a clone finds and stores them.
#include <bit>

#include "deadheat/vector_values.h"
#include "tracer/device_log/layout.h"
#include "tracer/ptx/instrument_function.h"

namespace deadheat::ptx {

// ---- addresses

bool FunctionClone::narrow_address(const Instruction& i) const {
  const Operand* o = address_of(i);
  if (!o || o->elements.empty()) return false;
  const Operand& base = o->elements[0];
  if (base.kind == Operand::Kind::reg) return register_bits(base) == 32;
  return i.has(Modifier::shared) || i.has(Modifier::shared_cta);
}

void FunctionClone::load_address(const Operand& address, bool narrow, const char* to) {
  const Operand& base = address.elements[0];
  const std::string width = narrow ? "32" : "64", name = to;
  const unsigned has = register_bits(base);
  if (has == 64 && narrow) {
    put("cvt.u32.u64 " + name + ", " + text_of(base) + ";");
  } else if (has == 32 && !narrow) {
    put("cvt.u64.u32 " + name + ", " + text_of(base) + ";");
  } else if (base.kind == Operand::Kind::symbol) {
    put("mov.u" + width + " " + name + ", " + std::string(base.text) + ";");
    if (base.offset) put("add.u" + width + " " + name + ", " + name + ", " + std::to_string(base.offset) + ";");
  } else {
    put("mov.b" + width + " " + name + ", " + text_of(base) + ";");
  }
  if (address.offset) put("add.u" + width + " " + name + ", " + name + ", " + std::to_string(address.offset) + ";");
}

void FunctionClone::mark_space() {
  if (clocks_.cluster) {
    put("cvta.to.shared::cluster.u64 %dh_b, %dh_a;");
    put("cvt.u32.u64 %dh_s, %dh_b;");
    rank_address();
    put("cvt.u64.u32 %dh_b, %dh_s;");
    put("isspacep.shared::cluster %dh_q, %dh_a;");
  } else {
    put("isspacep.shared %dh_q, %dh_a;");
    put("cvta.to.shared.u64 %dh_b, %dh_a;");
  }
  put("or.b64 %dh_b, %dh_b, " + std::to_string(std::int64_t(device_log::shared_mark)) + ";");
  put("selp.b64 %dh_b, %dh_b, %dh_a, %dh_q;");
  put("isspacep.local %dh_q, %dh_a;");
  put("selp.b64 %dh_a, -1, %dh_b, %dh_q;");
}

void FunctionClone::guard_address(const Instruction& i, bool narrow) {
  if (!i.guard) return;
  const std::string name = narrow ? "%dh_s" : "%dh_a";
  const std::string p = function_.registers[i.guard->reg].name;
  const std::string both = i.guard->negated ? "-1, " + name : name + ", -1";
  put((narrow ? "selp.b32 " : "selp.b64 ") + name + ", " + both + ", " + p + ";");
}

// ---- values

void FunctionClone::load_value(const Operand& value, unsigned width, const char* to) {
  if (value.kind == Operand::Kind::f64 && width == 32) { // 1.0, of an f32
    const float narrow = float(std::bit_cast<double>(value.bits));
    return put(std::string("mov.u64 ") + to + ", " + std::to_string(std::bit_cast<std::uint32_t>(narrow)) + ";");
  }
  load_register(text_of(value), value.kind == Operand::Kind::f32 ? 32 : register_bits(value), width, to);
}

void FunctionClone::load_register(const std::string& v, unsigned has, unsigned width, const char* to) {
  const std::string name = to;
  if (has == 1) {
    put("mov.u64 " + name + ", 0;");
    return;
  }
  if (has == 8) {
    put("cvt.u64.u8 " + name + ", " + v + ";");
    return;
  }
  if (has == 16) {
    put("mov.b16 %dh_w16, " + v + ";");
    put("cvt.u64.u16 " + name + ", %dh_w16;");
  } else if (has == 32) {
    put("mov.b32 %dh_t1, " + v + ";");
    put("cvt.u64.u32 " + name + ", %dh_t1;");
  } else {
    put("mov.b64 " + name + ", " + v + ";");
  }
  if (width < 64) put("and.b64 " + name + ", " + name + ", " + std::to_string((std::uint64_t(1) << width) - 1) + ";");
}

// Elements that the program drops (`_`) are read into registers of the clone's.
std::string FunctionClone::element_name(const Operand& vector, std::size_t n, const Site& site) const {
  if (vector.elements[n].kind != Operand::Kind::sink) return text_of(vector.elements[n]);
  return "%do_e" + std::to_string(dropped_bits(site)) + "_" + std::to_string(n);
}

std::string FunctionClone::whole_vector(const Operand& vector, const Site& site) const {
  std::string text;
  for (std::size_t n = 0; n < vector.elements.size(); ++n) text += (n ? ", " : "{") + element_name(vector, n, site);
  return text + "}";
}

// To %dh_v: a value itself; a vector's as deadheat/vector_values.h says.
void FunctionClone::load_folded(const Operand& value, const Site& site) {
  const unsigned width = site.element_bytes * 8u;
  if (value.kind != Operand::Kind::vector) return load_value(value, width, "%dh_v");
  for (std::size_t n = 0; n < value.elements.size(); ++n) {
    const Operand& element = value.elements[n];
    const bool dropped = element.kind == Operand::Kind::sink;
    load_register(element_name(value, n, site), dropped ? dropped_bits(site) : register_bits(element), width,
                  n == 0 ? "%dh_v" : "%dh_k");
    if (n == 0) continue;
    if (packed(site.element_bytes, site.elements))
      put("shl.b64 %dh_k, %dh_k, " + std::to_string(width * n) + ";");
    else
      put("mul.lo.s64 %dh_v, %dh_v, " + std::to_string(std::int64_t(vector_multiplier)) + ";");
    put("xor.b64 %dh_v, %dh_v, %dh_k;");
  }
}

// As replay/engine/digest.h: up to 4 bytes the value itself; longer ones folded word by word.
void FunctionClone::load_digest(const Operand& value, const Site& site) {
  const unsigned bytes = site.element_bytes;
  bool first = true;
  auto fold = [&](const char* word) {
    if (first) {
      put(std::string("mov.b32 %dh_h, ") + word + ";");
    } else {
      put("mul.lo.u32 %dh_h, %dh_h, -1640531535;");  // 0x9e3779b1
      put(std::string("xor.b32 %dh_h, %dh_h, ") + word + ";");
    }
    first = false;
  };
  if (bytes == 0 || bytes > 8) {
    put("mov.u32 %dh_h, 0;");
    return;
  }
  const unsigned a_word = bytes < 4 ? 4 / bytes : 1;  // elements a word
  for (unsigned n = 0; n < site.elements; n += a_word) {
    for (unsigned k = 0; k < a_word && n + k < site.elements; ++k) {
      const bool vector = value.kind == Operand::Kind::vector;
      if (vector && n + k >= value.elements.size()) break;
      load_value(vector ? value.elements[n + k] : value, bytes * 8, "%dh_v");
      if (k == 0) {
        put("mov.b64 {%dh_t1, %dh_t2}, %dh_v;");
        if (a_word > 1) put("mov.b32 %dh_t2, %dh_t1;");
      } else {
        put("cvt.u32.u64 %dh_t1, %dh_v;");
        put("shl.b32 %dh_t1, %dh_t1, " + std::to_string(8 * bytes * k) + ";");
        put("or.b32 %dh_t2, %dh_t2, %dh_t1;");
      }
    }
    fold(a_word > 1 ? "%dh_t2" : "%dh_t1");
    if (bytes == 8) fold("%dh_t2");
  }
}

// Element by element, as the engine folds those of strong stores.
void FunctionClone::load_vector_digest(const Operand& value, const Site& site) {
  for (std::size_t n = 0; n < value.elements.size(); ++n) {
    load_value(value.elements[n], site.element_bytes * 8u, "%dh_v");
    put("mov.b64 {%dh_t1, %dh_t2}, %dh_v;");
    if (site.element_bytes == 8) {
      put("mul.lo.u32 %dh_t1, %dh_t1, -1640531535;");  // 0x9e3779b1
      put("xor.b32 %dh_t1, %dh_t1, %dh_t2;");
    }
    if (n == 0) {
      put("mov.b32 %dh_h, %dh_t1;");
    } else {
      put("mul.lo.u32 %dh_h, %dh_h, -1640531535;");
      put("xor.b32 %dh_h, %dh_h, %dh_t1;");
    }
  }
}

void FunctionClone::store_u32(const Instruction& i, const Operand& value, std::uint32_t at) {
  put("mov.b32 %dh_s, " + text_of(value) + ";");
  guard_address(i, true);
  put("st.global.b32 [%dh_half+" + std::to_string(at) + "], %dh_s;");
}

void FunctionClone::store_value(const Slot& slot, const Operand& value, const Site& site, std::uint32_t at) {
  load_folded(value, site);
  store_loaded(slot, at);
}

void FunctionClone::store_loaded(const Slot& slot, std::uint32_t at) {
  if (!slot.short_values) return put("st.global.b64 [%dh_wide+" + std::to_string(at) + "], %dh_v;");
  put("cvt.u32.u64 %dh_s, %dh_v;");
  put("st.global.b32 [%dh_half+" + std::to_string(at) + "], %dh_s;");
}

// The leader takes a ticket, of the ring or of the device, which is stored at %dh_at + at. `late`: not before %dh_b,
// which is zero, is known.
void FunctionClone::ticket(bool of_ring, bool late, std::uint32_t at) {
  std::string counter = of_ring ? "%dh_ring" : "%dh_rings";
  if (late) {
    put("add.u64 %dh_a, " + counter + ", %dh_b;");
    counter = "%dh_a";
  }
  const std::size_t offset = of_ring ? offsetof(device_log::RingState, ticket) : offsetof(device_log::Head, ticket);
  put("mov.u64 %dh_k, 0;");
  put("@%dh_lead atom.relaxed.gpu.global.add.u64 %dh_k, [" + counter + "+" + std::to_string(offset) + "], 1;");
  put("@%dh_lead st.global.u64 [%dh_at+" + std::to_string(at) + "], %dh_k;");
}

void FunctionClone::comes_after_ticket(bool narrow) {
  put("cvt.u32.u64 %dh_t1, %dh_k;");
  put("brev.b32 %dh_t2, %dh_mask;");
  put("clz.b32 %dh_t2, %dh_t2;");
  put("shfl.sync.idx.b32 %dh_t1, %dh_t1, %dh_t2, 31, %dh_mask;");
  add_nothing(narrow);
}

// In a way that no compiler sees through.
void FunctionClone::add_nothing(bool narrow) {
  put("and.b32 %dh_t1, %dh_t1, %dh_zero;");
  if (narrow) {
    put("add.u32 %do_s, %do_s, %dh_t1;");
  } else {
    put("cvt.u64.u32 %dh_b, %dh_t1;");
    put("add.u64 %do_a, %do_a, %dh_b;");
  }
}

void FunctionClone::tickets_after(const Slot& slot) {
  // After the instruction of every lane.
  put("setp.ne.u32 %dh_q, %dh_t1, 0;");
  put("vote.sync.ballot.b32 %dh_t1, %dh_q, %dh_mask;");
  if (slot.after_only) {  // the time will do, and nobody waits for a counter
    put("setp.eq.u32 %dh_q, %dh_t1, 0;");
    put("@%dh_q mov.u64 %dh_k, %globaltimer;");
    put("@%dh_lead st.global.u64 [%dh_at+" + std::to_string(slot.offset + 8) + "], %dh_k;");
    return;
  }
  put("mul.wide.u32 %dh_b, %dh_t1, 8;");
  ticket(slot.in_block, true, slot.offset + 8);
  if (slot.both_tickets) ticket(true, true, slot.offset + 16);
}

void FunctionClone::store_address(const Instruction& i, const Slot& slot, bool narrow, const char* won) {
  const Site& site = sites_[slot.site];
  if (slot.narrow) {
    put(narrow ? "mov.b32 %dh_s, %do_s;" : "cvt.u32.u64 %dh_s, %do_a;");
    if (slot.ranked) rank_address();
  } else {
    put(narrow ? "cvt.u64.u32 %dh_a, %do_s;" : "mov.b64 %dh_a, %do_a;");
    if (site.space == Space::generic) mark_space();
  }
  if (won)
    put(std::string("selp.b") + (slot.narrow ? "32 %dh_s, %dh_s" : "64 %dh_a, %dh_a") + ", -1, " + won + ";");
  else
    guard_address(i, slot.narrow);
  const std::string at = std::to_string(slot.address);
  put(slot.narrow ? "st.global.b32 [%dh_half+" + at + "], %dh_s;" : "st.global.b64 [%dh_wide+" + at + "], %dh_a;");
}

}  // namespace deadheat::ptx
