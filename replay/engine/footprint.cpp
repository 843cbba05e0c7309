#include "replay/engine/footprint.h"

#include <algorithm>

#include "replay/engine/lower_tensor.h"
#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;

namespace {

class Slicer {
 public:
  Slicer(const ModuleTables& tables, const FunctionTables& f)
      : tables_(tables), f_(f), body_(f.function->body), uses_(body_.size()) {
    wanted_.assign(f.function->registers.size(), false);
    is_read_.assign(f.function->registers.size(), false);
    slice_.kept.assign(body_.size(), false);
    slice_.steers.assign(body_.size(), false);
    for (std::uint32_t s = 0; s < body_.size(); ++s)
      if (const Instruction* i = body_[s].instruction()) {
        ptx::register_use(*i, uses_[s]);
        for (auto r : uses_[s].reads) is_read_[r] = true;
      }
  }

  std::optional<FootprintSlice> slice() {
    for (std::uint32_t s = 0; s < body_.size(); ++s)
      if (const Instruction* i = body_[s].instruction(); i && !begin(*i, s)) return std::nullopt;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::uint32_t s = 0; s < body_.size(); ++s) {
        const Instruction* i = body_[s].instruction();
        if (!i || slice_.kept[s] || !defines_wanted(s)) continue;
        if (!define(*i, s)) return std::nullopt;
        changed = true;
      }
    }
    // An access that is kept for its own address may define what others rest on. Loads in loops could be read, too, for
    // as much as running the kernel costs.
    for (std::uint32_t s = 0; s < body_.size(); ++s) {
      const Site* at = site(s);
      if (!slice_.kept[s] || !at || !defines_wanted(s)) continue;
      const Opcode opcode = body_[s].instruction()->opcode;
      if ((opcode != Opcode::ld && opcode != Opcode::ldu) || at->space != Space::global || at->in_loop)
        return std::nullopt;
      slice_.steers[s] = true;
      slice_.lasting = false;
    }
    return std::move(slice_);
  }

 private:
  const Site* site(std::uint32_t s) const { return f_.site[s] == no_site ? nullptr : &tables_.sites[f_.site[s]]; }
  bool defines_wanted(std::uint32_t s) const {
    return std::any_of(uses_[s].writes.begin(), uses_[s].writes.end(), [&](auto r) { return wanted_[r]; });
  }
  bool uses_result(std::uint32_t s) const {
    return std::any_of(uses_[s].writes.begin(), uses_[s].writes.end(), [&](auto r) { return is_read_[r]; });
  }

  void want(const Operand& o) {
    if (o.kind == Operand::Kind::reg) wanted_[o.reg] = true;
    for (const Operand& e : o.elements) want(e);
  }
  void keep(const Instruction& i, std::uint32_t s) {
    slice_.kept[s] = true;
    if (i.guard) wanted_[i.guard->reg] = true;
  }
  void keep_access(const Instruction& i, std::uint32_t s) {
    keep(i, s);
    for (const Operand& o : i.operands)
      if (o.kind == Operand::Kind::address) want(o);
  }

  static bool tells_time(const Operand& o) {
    if (o.kind == Operand::Kind::special) return o.text.starts_with("%clock") || o.text.starts_with("%globaltimer");
    return std::any_of(o.elements.begin(), o.elements.end(), tells_time);
  }

  static bool names_launch(const Operand& o) {
    if (o.kind == Operand::Kind::special) return o.text.starts_with("%gridid") || o.text.starts_with("%envreg");
    return std::any_of(o.elements.begin(), o.elements.end(), names_launch);
  }

  // What every slice holds; false: not for such kernels.
  bool begin(const Instruction& i, std::uint32_t s) {
    if (std::any_of(i.operands.begin(), i.operands.end(), tells_time)) return false; // by how often others looked
    switch (i.opcode) {
      case Opcode::bra:
      case Opcode::ret:
      case Opcode::exit: keep(i, s); return true;
      case Opcode::brx:
        keep(i, s);
        for (auto r : uses_[s].reads) wanted_[r] = true;
        return true;
      case Opcode::call:
      case Opcode::trap:
      case Opcode::nanosleep:
      case Opcode::mapa: return false;
      default: break;
    }
    if (i.has(Modifier::shared_cluster)) return false;
    const Site* at = site(s);
    if (!at) return true;
    switch (at->kind) {
      case SiteKind::exit:
      case SiteKind::barrier:
      case SiteKind::warp_barrier:
      case SiteKind::warp_value:
      case SiteKind::async_commit:
      case SiteKind::async_wait: return true;
      case SiteKind::fence: return !at->in_loop;
      case SiteKind::async_copy:
        keep_access(i, s);
        if (i.operands.size() > 3) want(i.operands[3]);
        return true;
      case SiteKind::access: return begin_access(i, s, *at);
      default: return false;
    }
  }

  bool begin_access(const Instruction& i, std::uint32_t s, const Site& at) {
    const bool own = at.space == Space::shared || at.space == Space::local;
    if (is_matrix_access(i) || (i.opcode == Opcode::st && i.has(Modifier::bulk))) return own;
    // Whoever may wait for another thread's value depends on who runs when.
    const bool atomic = at.access == AccessKind::atomic;
    if (at.in_loop && (atomic ? uses_result(s) : is_strong(at.ordering))) return false;
    if (!own) keep_access(i, s);
    return true;
  }

  // An instruction that what is kept rests on.
  bool define(const Instruction& i, std::uint32_t s) {
    if (i.has(Modifier::cc) || i.opcode == Opcode::addc || i.opcode == Opcode::subc || i.opcode == Opcode::madc)
      return false; // the carry lies in a frame
    if (site(s)) return false; // of threads that tell each other something, or shared memory
    if (i.opcode == Opcode::ld && !i.has(Modifier::param) && !i.has(Modifier::const_)) return false; // local memory
    if (i.opcode == Opcode::ld && i.has(Modifier::const_)) slice_.lasting = false;
    if (std::any_of(i.operands.begin(), i.operands.end(), names_launch)) slice_.lasting = false;
    keep(i, s);
    for (auto r : uses_[s].reads) wanted_[r] = true;
    return true;
  }

  const ModuleTables& tables_;
  const FunctionTables& f_;
  const std::vector<ptx::Statement>& body_;
  std::vector<ptx::RegisterUse> uses_;
  std::vector<bool> wanted_, is_read_;
  FootprintSlice slice_;
};

} // namespace

std::optional<FootprintSlice> footprint_slice(const ModuleTables& tables, const KernelTables& kernel) {
  if (kernel.reached.size() != 1 || kernel.info.reaches_cluster) return std::nullopt;
  return Slicer(tables, tables.functions[kernel.kernel]).slice();
}

} // namespace deadheat::engine
