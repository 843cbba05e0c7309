// What compiled code calls for tex, tld4, suld, sust, txq and suq: objects, addresses, and the accesses themselves.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "deadheat/trace.h"
#include "replay/engine/texture.h"
#include "replay/engine/written.h"

namespace deadheat::engine {

namespace {

using Fault = trace::MemoryError::Kind;
using Texel = TextureAccess::Texel;

ExecContext& exec_of(ThreadContext* thread) { return *thread->block->launch->exec; }

bool writes(const TextureAccess& a) {
  return a.given.form.op == TextureOp::store || a.given.form.op == TextureOp::store_formatted;
}
bool of_surface(const TextureAccess& a) { return a.given.form.op == TextureOp::load || writes(a); }

// By the shadow that compiled code looks at, too: 16 bytes a granule.
bool is_valid(const ExecContext& exec, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t in_arena = address - to_device(device_arena);
  if (in_arena >= device_arena_bytes || !exec.shadow) return false;
  for (std::uint64_t at = in_arena; at < in_arena + bytes; at = (at / 16 + 1) * 16) {
    const std::uint64_t end = std::min(in_arena + bytes, (at / 16 + 1) * 16) - at / 16 * 16;
    if (exec.shadow[at / 16] < end) return false;
  }
  return true;
}

TextureStep fail(ThreadContext* thread, const TextureAccess& a, Fault kind, std::uint64_t address, const char* text) {
  exec_of(thread).services->fault(thread, a.site, std::uint32_t(kind), text);
  thread->fault_address = address;
  thread->fault_access = std::uint32_t(writes(a) ? AccessKind::write : AccessKind::read);
  return TextureStep::fault;
}

const TextureDescriptor* descriptor_at(const ExecContext& exec, std::uint64_t object) {
  if (object % sizeof(TextureDescriptor) || !is_valid(exec, object, sizeof(TextureDescriptor))) return nullptr;
  const auto* d = reinterpret_cast<const TextureDescriptor*>(to_host(object));
  return d->magic == descriptor_magic ? d : nullptr;
}

TextureStep find_object(ThreadContext* thread, TextureAccess& a) {
  const TextureDescriptor* d = descriptor_at(exec_of(thread), a.object);
  const bool surface = of_surface(a);
  if (!d)
    return fail(thread, a, Fault::wrong_space, a.object,
                surface ? "the handle is no surface object" : "the handle is no texture object");
  if (d->surface != surface)
    return fail(thread, a, Fault::wrong_space, a.object,
                surface ? "the handle is a texture object's, not a surface object's"
                        : "the handle is a surface object's, not a texture object's");
  if (thread->block->launch->gridid > d->last_launch)
    return fail(thread, a, Fault::use_after_free, a.object,
                surface ? "the surface object was destroyed before the launch"
                        : "the texture object was destroyed before the launch");
  a.descriptor = *d;
  return TextureStep::done;
}

// ---- surfaces

TextureStep plan_surface(ThreadContext* thread, TextureAccess& a) {
  using What = ptx::SurfaceTexel::What;
  const ptx::SurfaceTexel place = ptx::surface_texel(a.descriptor, a.given);
  a.bytes = place.bytes;
  a.count = a.next = 0;
  switch (place.what) {
    case What::outside: return fail(thread, a, Fault::out_of_bounds, a.object, "coordinates outside of the surface");
    case What::nothing:
      if (!writes(a)) std::fill(std::begin(a.value), std::end(a.value), 0);
      return TextureStep::done;
    case What::too_wide: return fail(thread, a, Fault::out_of_bounds, a.object, "the access is wider than the surface");
    case What::misaligned:
      return fail(thread, a, Fault::misaligned, a.object,
                  "the first coordinate, in bytes, is no multiple of the access");
    case What::there: break;
  }
  Texel& t = a.texels[a.count++];
  t = {};
  t.address = place.address;
  if (a.given.form.op == TextureOp::store_formatted)
    ptx::format_texel(a.descriptor.format, a.value, t.bits);
  else if (writes(a))
    std::memcpy(t.bits, a.value, sizeof t.bits);
  return TextureStep::done;
}

// ---- one access

void log(ThreadContext* thread, std::uint32_t site, std::uint64_t address, std::uint32_t digest) {
  LogEntry& entry = *thread->log_cursor++;
  entry = {address, site, digest};
  if (thread->log_cursor == thread->log_end) exec_of(thread).services->log_full(thread);
}

// Memory of the host counts as written (written.h).
bool is_tracked(std::uint64_t address) { return address - to_device(device_arena) < device_arena_bytes; }

// Channels of the texel whose bytes were all written.
std::uint32_t written_channels(const TextureAccess& a, std::uint64_t host) {
  const std::uint8_t* shadow = written_shadow_of(host);
  const std::uint32_t channel = of_surface(a) ? 4 : std::max(1u, a.descriptor.format.bits / 8u);
  std::uint32_t written = 0;
  for (std::uint32_t c = 0; c < 4; ++c) {
    bool all = true;
    for (std::uint32_t b = c * channel; b < std::min((c + 1) * channel, a.bytes); ++b) all &= shadow[b] == 0xff;
    written |= std::uint32_t(all) << c;
  }
  return written;
}

void note_origin(ThreadContext* thread, std::uint32_t site, std::uint64_t address, std::uint32_t bytes) {
  thread->undefined_site = site;
  thread->undefined_bytes = bytes;
  thread->undefined_address = address;
}

void perform(ThreadContext* thread, TextureAccess& a, Texel& t, std::uint32_t site, std::uint32_t mode) {
  const std::uint64_t host = to_host(t.address);
  auto* memory = reinterpret_cast<void*>(host);
  t.written = 15;
  if (writes(a)) {
    std::memcpy(memory, t.bits, a.bytes);
    ++exec_of(thread).changes;
    if (mode & texture_written && is_tracked(t.address)) std::memset(written_shadow_of(host), 0xff, a.bytes);
  } else {
    std::memcpy(t.bits, memory, a.bytes);
    if (mode & texture_written && is_tracked(t.address)) t.written = written_channels(a, host);
    if (t.written != 15) note_origin(thread, site, t.address, a.bytes);
  }
  if (mode & texture_record) log(thread, site, t.address, writes(a) ? digest(t.bits, a.bytes) : 0);
}

// Whether the thread stops before the access: as compiled code does before others (access.h, before_access).
bool stops_before(ThreadContext* thread, TextureAccess& a, const Texel& t, std::uint32_t site) {
  ExecContext& exec = exec_of(thread);
  if (!a.resumed) {
    const bool used_up = exec.quantum-- <= 0;
    if (used_up || thread->block->launch->site_stop[site]) {
      thread->pending_site = site;
      thread->pending_address = t.address;
      a.resumed = 1;
      return true;
    }
  }
  a.resumed = 0;
  ++exec.visible;
  return false;
}

TextureStep perform_all(ThreadContext* thread, TextureAccess& a, std::uint32_t mode) {
  const std::uint32_t site = a.texel_site + std::uint32_t(std::countr_zero(a.bytes));
  for (; a.next < a.count; ++a.next) {
    Texel& t = a.texels[a.next];
    if (!t.address) continue;
    if (mode & texture_control && stops_before(thread, a, t, site)) return TextureStep::visible;
    const ExecContext& exec = exec_of(thread);
    if (!is_valid(exec, t.address, a.bytes) &&
        !exec.services->check(thread, site, t.address, a.bytes, writes(a) ? 1 : 0))
      return TextureStep::fault;
    perform(thread, a, t, site, mode);
  }
  return TextureStep::done;
}

TextureStep begin(ThreadContext* thread, TextureAccess& a) {
  a.phase = 1;
  a.resumed = 0;
  std::fill(std::begin(a.undefined), std::end(a.undefined), 0);
  if (const TextureStep found = find_object(thread, a); found != TextureStep::done) return found;
  if (of_surface(a)) return plan_surface(thread, a);
  (a.given.form.op == TextureOp::gather ? plan_gather : plan_fetch)(a);
  return TextureStep::done;
}

void finish(TextureAccess& a) {
  a.phase = 0;
  if (!of_surface(a)) return finish_fetch(a);
  if (writes(a) || !a.count) return;
  std::memcpy(a.value, a.texels[0].bits, sizeof a.value);
  for (unsigned word = 0; word < 4; ++word) a.undefined[word] = a.texels[0].written >> word & 1 ? 0 : ~0u;
}

// ---- txq, suq: the encodings of channel types and orders are those of PTX (opaque types)

std::uint32_t channel_data_type(const TextureDescriptor& d) {
  const bool small = d.format.bits == 8;
  switch (d.format.kind) {
    case ChannelKind::float_: return d.format.bits == 16 ? 0x10dd : 0x10de;
    case ChannelKind::signed_:
      if (d.normalized_values) return small ? 0x10d0 : 0x10d1;
      return small ? 0x10d7 : d.format.bits == 16 ? 0x10d8 : 0x10d9;
    default:
      if (d.normalized_values) return small ? 0x10d2 : 0x10d3;
      return small ? 0x10da : d.format.bits == 16 ? 0x10db : 0x10dc;
  }
}

std::uint32_t channel_order(const TexelFormat& f) {
  return f.channels == 1 ? 0x10b0 : f.channels == 2 ? 0x10b2 : 0x10b5;
}

// wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border (PTX ISA, "Texture Sampler and Surface Types").
std::uint32_t address_code(AddressMode mode) {
  constexpr std::uint32_t codes[] = {0, 3, 1, 4};
  return codes[unsigned(mode)];
}

} // namespace

extern "C" {

std::uint32_t deadheat_texture_step(ThreadContext* thread, TextureAccess* access, std::uint32_t mode) {
  TextureStep step = TextureStep::done;
  if (access->phase == 0) step = begin(thread, *access);
  if (step == TextureStep::done) step = perform_all(thread, *access, mode);
  if (step == TextureStep::done) finish(*access);
  return std::uint32_t(step);
}

std::uint32_t deadheat_texture_query(ThreadContext* thread, std::uint64_t object, std::uint32_t query,
                                     std::uint32_t level) {
  const TextureDescriptor* d = descriptor_at(exec_of(thread), object);
  if (!d) return 0;
  const LevelLayout l = shown_level(*d, std::min(level, d->shown_levels - 1));
  switch (TextureQuery(query)) {
    case TextureQuery::width: return l.width;
    case TextureQuery::height: return d->dimensions > 1 ? l.height : 0;
    case TextureQuery::depth: return d->dimensions > 2 ? l.depth : 0;
    case TextureQuery::channel_data_type: return channel_data_type(*d);
    case TextureQuery::channel_order: return channel_order(d->format);
    case TextureQuery::normalized_coords: return d->normalized_coordinates;
    case TextureQuery::array_size: return d->layered ? d->shown_layers : 0;
    case TextureQuery::num_mipmap_levels: return d->shown_levels;
    case TextureQuery::num_samples: return 1;
    case TextureQuery::filter_mode: return d->linear;
    case TextureQuery::addr_mode_0: return address_code(d->address[0]);
    case TextureQuery::addr_mode_1: return address_code(d->address[1]);
    case TextureQuery::addr_mode_2: return address_code(d->address[2]);
  }
  return 0;
}

} // extern "C"

} // namespace deadheat::engine
