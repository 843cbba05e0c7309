// Opcode and modifiers to memory-model terms (PTX ISA 8 and 9.7.9, 9.7.13). One handler a family of instructions, one
// table line an opcode.
#include <algorithm>
#include <array>

#include "tracer/ptx/names.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {
namespace {

using M = Modifier;

Scope scope_of(const Instruction& i, Scope otherwise) {
  if (i.has(M::sys)) return Scope::sys;
  if (i.has(M::gpu) || i.has(M::gl)) return Scope::gpu;
  if (i.has(M::cluster)) return Scope::cluster;
  if (i.has(M::cta)) return Scope::cta;
  return otherwise;
}

Ordering ordering_of(const Instruction& i, Ordering otherwise) {
  if (i.has(M::sc)) return Ordering::sc;
  if (i.has(M::acq_rel)) return Ordering::acq_rel;
  if (i.has(M::acquire)) return Ordering::acquire;
  if (i.has(M::release)) return Ordering::release;
  if (i.has(M::relaxed)) return Ordering::relaxed;
  return otherwise;
}

void set_space(const Instruction& i, Site& site) {
  if (i.has(M::global)) site.space = Space::global;
  if (i.has(M::shared) || i.has(M::shared_cta) || i.has(M::shared_cluster)) site.space = Space::shared;
  if (i.has(M::local)) site.space = Space::local;
  if (i.has(M::const_)) site.space = Space::constant;
  if (i.has(M::param) || i.has(M::param_entry) || i.has(M::param_func)) site.space = Space::param;
  site.shared_cluster = i.has(M::shared_cluster);
}

void set_elements(const Instruction& i, Site& site) {
  Type type = i.type();
  site.element_bytes = std::uint8_t((bits(type) + 7) / 8);
  site.elements = i.has(M::v8) ? 8 : i.has(M::v4) ? 4 : i.has(M::v2) ? 2 : 1;
  site.type = name(type);
}

// st.async, red.async into the shared memory of a cluster (9.7.9.12, 9.7.13.7): by an agent of its own that completes
// on an mbarrier, as a bulk copy is, but through the generic proxy.
bool async_store(const Instruction& i, Site& site) {
  set_space(i, site);
  set_elements(i, site);
  site.kind = completes_on_mbarrier(i) ? SiteKind::bulk_copy : SiteKind::opaque;
  site.access = i.opcode == Opcode::red ? AccessKind::atomic : AccessKind::write;
  if (i.opcode == Opcode::st && site.kind == SiteKind::bulk_copy) return true;
  site.ordering = ordering_of(i, Ordering::relaxed);
  site.scope = scope_of(i, Scope::cluster);
  return true;
}

// ld, ldu, st (9.7.9.8 to 9.7.9.13)
bool load_store(const Instruction& i, Site& site) {
  site.kind = SiteKind::access;
  site.access = i.opcode == Opcode::st ? AccessKind::write : AccessKind::read;
  set_space(i, site);
  if (site.space == Space::param) return false;
  if (i.has(M::async)) return async_store(i, site);
  set_elements(i, site);
  if (i.has(M::bulk)) {  // st.bulk: a range, 8 bytes at a time
    site.element_bytes = 8;
    site.type = "b64";
  }
  if (i.has(M::volatile_)) {
    site.ordering = Ordering::volatile_;
    site.scope = Scope::sys;
  } else if (i.has(M::mmio)) {
    site.ordering = Ordering::mmio;
    site.scope = Scope::sys;
  } else if (i.has(M::nc)) {
    site.ordering = Ordering::nc;
  } else {
    site.ordering = ordering_of(i, Ordering::weak);
    if (site.ordering != Ordering::weak) site.scope = scope_of(i, Scope::none);
  }
  return true;
}

// atom, red: relaxed.gpu unless written (9.7.13.5, 9.7.13.6)
bool atomic(const Instruction& i, Site& site) {
  if (i.has(M::async)) return async_store(i, site);
  site.kind = SiteKind::access;
  site.access = AccessKind::atomic;
  set_space(i, site);
  set_elements(i, site);
  site.ordering = ordering_of(i, Ordering::relaxed);
  site.scope = scope_of(i, Scope::gpu);
  return true;
}

// discard (9.7.9.17): a weak write of values that nobody may rely on, to a line of global memory; of other memory it is
// undefined.
bool discard(const Instruction&, Site& site) {
  site.kind = SiteKind::access;
  site.access = AccessKind::write;
  site.space = Space::global;
  site.element_bytes = 16;
  site.elements = discarded_bytes / 16;
  site.type = "b128";
  return true;
}

// ldmatrix, stmatrix: each lane that gives an address accesses a row of 16 bytes (9.7.14.5.15, .16)
bool matrix_row(const Instruction& i, Site& site) {
  site.kind = SiteKind::access;
  site.access = i.opcode == Opcode::stmatrix ? AccessKind::write : AccessKind::read;
  set_space(i, site);
  site.aligned = true;
  Type type = i.types.empty() ? Type::b16 : i.types.front();
  site.type = name(type);
  site.element_bytes = std::uint8_t((bits(type) + 7) / 8);
  site.elements = site.element_bytes == 0 ? 1 : std::uint8_t(16 / site.element_bytes);
  return true;
}

struct Shape {
  Modifier modifier;
  std::uint16_t m, n, k;
};
constexpr Shape wmma_shapes[] = {
    {M::m16n16k16, 16, 16, 16}, {M::m8n32k16, 8, 32, 16}, {M::m32n8k16, 32, 8, 16}, {M::m16n16k8, 16, 16, 8},
    {M::m8n8k4, 8, 8, 4},       {M::m8n8k32, 8, 8, 32},   {M::m8n8k128, 8, 8, 128},
};

// wmma.load, wmma.store: the warp accesses a whole matrix; which lane accesses what is not specified (9.7.14.4). Here
// each lane accesses an equal piece of a row or column, without gaps.
bool wmma(const Instruction& i, Site& site) {
  site.aligned = true;
  if (i.has(M::mma)) {
    site.kind = SiteKind::warp_value;
    return true;
  }
  site.kind = SiteKind::access;
  site.access = i.has(M::store) ? AccessKind::write : AccessKind::read;
  set_space(i, site);
  set_elements(i, site);
  for (const Shape& shape : wmma_shapes) {
    if (!i.has(shape.modifier)) continue;
    unsigned count = i.has(M::a) ? shape.m * shape.k : i.has(M::b) ? shape.k * shape.n : shape.m * shape.n;
    site.elements = std::uint8_t(count / 32 == 0 ? 1 : count / 32);
    if (bits(i.type()) < 8) { // of the smallest types a word
      site.type = "b32";
      site.element_bytes = 4;
      site.elements = std::uint8_t(count * bits(i.type()) / 32 / 32);
    }
  }
  return true;
}

// fence, fence.proxy, fence.mbarrier_init, membar (9.7.13.4)
bool fence(const Instruction& i, Site& site) {
  site.kind = SiteKind::fence;
  if (i.opcode == Opcode::membar && !i.has(M::proxy)) {
    site.ordering = Ordering::sc;
    site.scope = scope_of(i, Scope::cta);
    return true;
  }
  site.ordering = ordering_of(i, Ordering::acq_rel);
  site.scope = scope_of(i, Scope::none);
  bool async = i.has(M::async) || i.has(M::async_generic) || i.has(M::proxy_async);
  bool tensormap = i.has(M::tensormap_generic) || i.has(M::proxy_tensormap_generic);
  bool alias = i.has(M::alias) || i.has(M::proxy_alias);
  if (!(i.has(M::proxy) || async || tensormap || alias)) return true;
  site.kind = SiteKind::proxy_fence;
  site.proxy = async ? Proxy::async : tensormap ? Proxy::tensormap : alias ? Proxy::alias : Proxy::generic;
  set_space(i, site);
  if (i.has(M::sync_restrict_shared_cta) || i.has(M::sync_restrict_shared_cluster)) site.space = Space::shared;
  return true;
}

// bar, barrier, bar.warp, barrier.cluster (9.7.13.1 to 9.7.13.3)
bool barrier(const Instruction& i, Site& site) {
  site.aligned = i.opcode == Opcode::bar || i.has(M::aligned);
  site.arrive_only = i.has(M::arrive);
  if (i.has(M::warp)) {
    site.kind = SiteKind::warp_barrier;
    site.ordering = Ordering::acq_rel;
    site.aligned = false;
    return true;
  }
  if (i.has(M::cluster)) {
    site.kind = SiteKind::cluster_barrier;
    site.scope = Scope::cluster;
    site.wait_only = i.has(M::wait);
    site.ordering = ordering_of(i, site.wait_only ? Ordering::acquire : Ordering::release);
    return true;
  }
  site.kind = SiteKind::barrier;
  site.scope = Scope::cta;
  site.ordering = site.arrive_only ? Ordering::release : Ordering::acq_rel;
  return true;
}

bool warp_value(const Instruction& i, Site& site) {
  site.kind = SiteKind::warp_value;
  site.aligned = i.has(M::aligned);
  return true;
}

// mbarrier.*: arrive is release.cta, waits are acquire.cta, transaction counts relaxed.cta unless written (9.7.13.15)
bool mbarrier(const Instruction& i, Site& site) {
  if (i.has(M::pending_count)) return false; // looks at a register
  site.kind = SiteKind::mbarrier;
  set_space(i, site);
  site.element_bytes = 8;
  site.type = "b64";
  site.scope = scope_of(i, Scope::cta);
  if (i.has(M::init) || i.has(M::inval)) {
    site.access = AccessKind::write;
    site.ordering = Ordering::weak;
    site.scope = Scope::none;
    return true;
  }
  site.access = AccessKind::atomic;
  if (i.has(M::test_wait) || i.has(M::try_wait)) {
    site.access = AccessKind::read;
    site.wait_only = true;
    site.ordering = ordering_of(i, Ordering::acquire);
  } else if (i.has(M::arrive) || i.has(M::arrive_drop)) {
    site.arrive_only = true;
    site.ordering = ordering_of(i, Ordering::release);
  } else {
    site.ordering = ordering_of(i, Ordering::relaxed);
  }
  return true;
}

Space space_of_word(std::string_view word) {
  if (word == "global") return Space::global;
  if (word.starts_with("shared")) return Space::shared;
  return Space::generic;
}

// cp.async, cp.async.bulk, cp.reduce.async.bulk (9.7.9.25). Space is the destination's.
bool copy(const Instruction& i, Site& site) {
  bool bulk = i.has(M::bulk);
  if (i.has(M::prefetch)) return false;
  if (bulk) site.proxy = Proxy::async;
  if (i.has(M::commit_group)) {
    site.kind = SiteKind::async_commit;
    return true;
  }
  if (i.has(M::wait_group) || i.has(M::wait_all)) {
    site.kind = SiteKind::async_wait;
    site.wait_only = true;
    return true;
  }
  if (i.has(M::mbarrier) && i.has(M::arrive)) {
    site.kind = SiteKind::async_mbarrier_arrive;
    site.access = AccessKind::atomic;
    site.space = i.has(M::shared) || i.has(M::shared_cta) ? Space::shared : Space::generic;
    site.ordering = Ordering::release;
    site.scope = Scope::cta;
    site.element_bytes = 8;
    site.type = "b64";
    site.arrive_only = true;
    return true;
  }
  for (std::string_view word : i.modifier_texts) { // the first space is the destination's
    Space space = space_of_word(word);
    if (space == Space::generic) continue;
    site.space = space;
    site.shared_cluster = word == "shared::cluster";
    break;
  }
  site.access = i.has(M::reduce) ? AccessKind::atomic : AccessKind::write;
  if (bulk) {
    site.kind = SiteKind::bulk_copy;
    if (i.has(M::reduce)) { // each element is a relaxed.gpu reduction
      site.ordering = Ordering::relaxed;
      site.scope = Scope::gpu;
      set_elements(i, site);
    } else if (i.has(M::relaxed)) { // from PTX 9.3 on: its elements are strong, both where it reads and where it writes
      site.ordering = Ordering::relaxed;
      site.scope = scope_of(i, Scope::none);
      set_elements(i, site);
    }
    return true;
  }
  site.kind = SiteKind::async_copy;
  if (i.operands.size() > 2 && i.operands[2].kind == Operand::Kind::integer && i.operands[2].bits <= 16) {
    site.element_bytes = std::uint8_t(i.operands[2].bits); // cp-size
    site.type = "b" + std::to_string(8 * site.element_bytes);
  }
  return true;
}

bool dependency(const Instruction& i, Site& site) {
  site.kind = SiteKind::dependency;
  site.wait_only = i.has(M::wait);
  site.arrive_only = i.has(M::launch_dependents);
  return true;
}

bool thread_end(const Instruction&, Site& site) {
  site.kind = SiteKind::exit;
  return true;
}

// __assertfail is what assert() calls; it does not return. malloc and free are the runtime's, where the module has no
// body for them (site_table). Other calls are no sites.
bool call(const Instruction& i, Site& site) {
  if (i.operands.size() < 2 || i.operands[1].kind != Operand::Kind::symbol) return false;
  const std::string_view name = i.operands[1].text;
  if (name == "__assertfail") return thread_end(i, site);
  if (name != "malloc" && name != "free") return false;
  site.kind = SiteKind::heap;
  site.access = name == "free" ? AccessKind::free : AccessKind::write;
  site.space = Space::global;
  return true;
}

// Memory that the model does not cover: named, with the direction where the opcode tells.
bool opaque(const Instruction& i, Site& site) {
  site.kind = SiteKind::opaque;
  set_space(i, site);
  switch (i.opcode) {
    case Opcode::sust:
    case Opcode::clusterlaunchcontrol: site.access = AccessKind::write; break;
    case Opcode::sured: site.access = AccessKind::atomic; break;
    case Opcode::multimem: { // loads and stores are weak, reductions relaxed.sys unless written
      const bool reduces = i.has(M::red) || i.has(M::reduce);
      site.access = reduces ? AccessKind::atomic : i.has(M::st) || i.has(M::cp) ? AccessKind::write : AccessKind::read;
      set_elements(i, site);
      site.ordering = ordering_of(i, reduces ? Ordering::relaxed : Ordering::weak);
      if (is_strong(site.ordering)) site.scope = scope_of(i, Scope::sys);
      break;
    }
    case Opcode::tensormap: {
      bool tensormap_copy = i.has(M::cp_fenceproxy);
      site.access = AccessKind::write;
      site.proxy = tensormap_copy ? Proxy::tensormap : Proxy::generic;
      if (tensormap_copy) {
        site.space = Space::global;
        site.ordering = ordering_of(i, Ordering::release);
        site.scope = scope_of(i, Scope::gpu);
      }
      break;
    }
    case Opcode::tcgen05: site.proxy = Proxy::async; break;
    default: break;
  }
  if (i.opcode == Opcode::clusterlaunchcontrol) return i.has(M::try_cancel);
  return true;
}

// wgmma (9.7.15): the multiplication reads shared memory through the asynchronous proxy, beside the threads, until its
// group was waited for. wgmma.fence orders registers only.
bool warpgroup(const Instruction& i, Site& site) {
  if (i.has(M::fence)) return false;
  site.aligned = true;
  site.proxy = Proxy::async;
  if (i.has(M::commit_group)) {
    site.kind = SiteKind::async_commit;
  } else if (i.has(M::wait_group)) {
    site.kind = SiteKind::async_wait;
    site.wait_only = true;
  } else {
    site.kind = SiteKind::bulk_copy;
    site.access = AccessKind::read;
    site.space = Space::shared;
    site.element_bytes = 16;
    site.type = "b128";
  }
  return true;
}

// Of an opcode that is not known: it computes where its operands are registers; else it may do anything.
bool unknown(const Instruction& i, Site& site) {
  const auto may_be_memory = [](const Operand& o) {
    return o.kind == Operand::Kind::address || o.text.find('[') != std::string_view::npos;
  };
  if (!i.operands.empty() && std::none_of(i.operands.begin(), i.operands.end(), may_be_memory)) return false;
  site.kind = SiteKind::opaque;
  set_space(i, site);
  return true;
}

struct Row {
  Opcode opcode;
  bool (*handle)(const Instruction&, Site&); // false: no site after all
};
constexpr Row rows[] = {
    {Opcode::activemask, warp_value},
    {Opcode::atom, atomic},
    {Opcode::bar, barrier},
    {Opcode::barrier, barrier},
    {Opcode::call, call},
    {Opcode::clusterlaunchcontrol, opaque},
    {Opcode::cp, copy},
    {Opcode::discard, discard},
    {Opcode::elect, warp_value},
    {Opcode::exit, thread_end},
    {Opcode::fence, fence},
    {Opcode::griddepcontrol, dependency},
    {Opcode::ld, load_store},
    {Opcode::ldmatrix, matrix_row},
    {Opcode::ldu, load_store},
    {Opcode::match, warp_value},
    {Opcode::mbarrier, mbarrier},
    {Opcode::membar, fence},
    {Opcode::mma, warp_value},
    {Opcode::movmatrix, warp_value},
    {Opcode::multimem, opaque},
    {Opcode::red, atomic},
    {Opcode::redux, warp_value},
    {Opcode::ret, thread_end},
    {Opcode::shfl, warp_value},
    {Opcode::st, load_store},
    {Opcode::stmatrix, matrix_row},
    {Opcode::suld, opaque},
    {Opcode::sured, opaque},
    {Opcode::sust, opaque},
    {Opcode::tcgen05, opaque},
    {Opcode::tensormap, opaque},
    {Opcode::tex, opaque},
    {Opcode::tld4, opaque},
    {Opcode::trap, thread_end},
    {Opcode::unknown, unknown},
    {Opcode::vote, warp_value},
    {Opcode::wgmma, warpgroup},
    {Opcode::wmma, wmma},
};

// What may be written in another form without meaning anything else: hints to the caches.
bool hint(std::string_view word) { return word.starts_with("L1::") || word.starts_with("L2::"); }

bool has_unknown_words(const Instruction& i) {
  if (!i.has(M::unknown)) return false;
  return std::any_of(i.modifier_texts.begin(), i.modifier_texts.end(), [](std::string_view word) {
    return !find_type(word) && find_modifier(word) == M::unknown && !hint(word);
  });
}

} // namespace

bool completes_on_mbarrier(const Instruction& i) {
  if (i.has(M::mbarrier_complete_tx_bytes)) return true;
  return (i.opcode == Opcode::st || i.opcode == Opcode::red) && i.has(M::async) && i.operands.size() > 2;
}

std::optional<MatrixPieces> matrix_pieces(const Instruction& i) {
  if (i.opcode != Opcode::wmma || i.has(M::mma)) return std::nullopt;
  for (const Shape& shape : wmma_shapes) {
    if (!i.has(shape.modifier)) continue;
    const std::uint32_t rows = i.has(M::b) ? shape.k : shape.m, columns = i.has(M::a) ? shape.k : shape.n;
    const std::uint32_t element = bits(i.type());
    return MatrixPieces{(i.has(M::col) ? rows : columns) * element / 8, rows * columns * element / 8 / 32, element};
  }
  return std::nullopt;
}

std::uint8_t value_bytes(const Site& site) {
  const bool packed =
      site.opcode.find(".f16x2") != std::string::npos || site.opcode.find(".bf16x2") != std::string::npos;
  const bool atomic = site.kind == SiteKind::access && site.access == AccessKind::atomic;
  return atomic && packed && site.element_bytes == 4 ? 2 : site.element_bytes;
}

namespace {

// As if there were no words that are not known.
std::optional<Site> classify_known(const Instruction& instruction, bool entry) {
  if (instruction.opcode == Opcode::ret && !entry) return std::nullopt;
  static const auto by_opcode = [] {
    std::array<const Row*, 1024> table{};
    for (const Row& row : rows) table[std::size_t(row.opcode)] = &row;
    return table;
  }();
  const Row* row = by_opcode[std::size_t(instruction.opcode)];
  Site site;
  if (!row || !row->handle(instruction, site)) return std::nullopt;
  return site;
}

bool depends_on_unknown_words(const Instruction& instruction, const Site& site) {
  // What lanes compute together no word makes an access; and more than opaque nothing can be.
  const bool memory = site.kind != SiteKind::warp_value && site.kind != SiteKind::exit && site.kind != SiteKind::opaque;
  return memory && has_unknown_words(instruction);
}

} // namespace

std::optional<Site> classify(const Instruction& instruction, bool entry) {
  std::optional<Site> site = classify_known(instruction, entry);
  if (site && depends_on_unknown_words(instruction, *site)) site->kind = SiteKind::opaque;
  return site;
}

bool of_later_ptx(const Instruction& i) {
  const std::optional<Site> site = classify_known(i, false);
  return site && (i.opcode == Opcode::unknown || depends_on_unknown_words(i, *site));
}

} // namespace deadheat::ptx
