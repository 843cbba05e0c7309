#include "replay/engine/shadow.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "replay/engine/numeric.h"

namespace deadheat::engine {

namespace {

constexpr std::uint64_t low_bits(std::uint64_t bits, unsigned width) {
  return width >= 64 ? bits : bits & ((std::uint64_t(1) << width) - 1);
}

std::uint64_t mix(std::uint64_t z) { // splitmix64
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

struct Format {
  int fraction, least, most; // bits; exponents of normal numbers
};
Format format_of(FloatKind kind) {
  switch (kind) {
    case FloatKind::f16: return {10, -14, 15};
    case FloatKind::bf16: return {7, -126, 127};
    case FloatKind::f64: return {52, -1022, 1023};
    default: return {23, -126, 127};
  }
}

int exponent_of(double magnitude) { // of zeros the least
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(magnitude);
  const int field = int(bits >> 52 & 2047);
  return field ? field - 1023 : -1022;
}

} // namespace

double widened(FloatKind kind, std::uint64_t bits) {
  switch (kind) {
    case FloatKind::f16:
      return double(numeric::widen(std::uint32_t(bits & 0xffff), std::uint32_t(numeric::Format::f16)));
    case FloatKind::bf16: return double(std::bit_cast<float>(std::uint32_t(bits) << 16));
    case FloatKind::f32: return double(std::bit_cast<float>(std::uint32_t(bits)));
    case FloatKind::f64: return std::bit_cast<double>(bits);
    case FloatKind::none: break;
  }
  return 0;
}

double ulp_of(FloatKind kind, double magnitude) {
  const Format f = format_of(kind);
  const int exponent = std::clamp(exponent_of(std::fabs(magnitude)), f.least, f.most) - f.fraction;
  if (exponent >= -1022) return std::bit_cast<double>(std::uint64_t(exponent + 1023) << 52);
  return std::bit_cast<double>(std::uint64_t(1) << std::max(exponent + 1074, 0)); // subnormal
}

// ---- one shadow

Shadow Shadow::of(FloatKind kind, std::uint64_t bits) {
  Shadow s;
  s.kind = kind;
  s.bits = bits;
  s.value = widened(kind, bits);
  s.magnitude = std::fabs(s.value);
  return s;
}

bool Shadow::trivial() const {
  if (kind == FloatKind::none) return true;
  const double real = widened(kind, bits);
  const bool same = std::bit_cast<std::uint64_t>(real) == std::bit_cast<std::uint64_t>(value) ||
                    (std::isnan(real) && std::isnan(value));
  return same && roundings == 0 && cuts == 0 && sum == 0 && !(magnitude > std::fabs(real));
}

double tolerance(const Shadow& s) {
  const double ulps = std::sqrt(double(s.roundings)) + double(s.cuts);
  return std::max(1.0, ulps) * ulp_of(s.kind, std::max(s.magnitude, std::fabs(s.value)));
}

namespace {
// Both are NaN, or the value is the infinity that the shadow's sign and size call for.
bool same_without_number(const Shadow& s, double real) {
  if (std::isnan(real)) return std::isnan(s.value);
  if (!std::isinf(real)) return false;
  const Format f = format_of(s.kind);
  const double largest = (2 - std::ldexp(1.0, -f.fraction)) * std::ldexp(1.0, f.most);
  return real > 0 ? s.value > largest : s.value < -largest;
}
} // namespace

double distance_in_ulp(const Shadow& s) {
  const double real = widened(s.kind, s.bits);
  if (real == s.value || same_without_number(s, real)) return 0;
  if (!std::isfinite(real) || !std::isfinite(s.value)) return std::numeric_limits<double>::infinity();
  return std::fabs(real - s.value) / ulp_of(s.kind, s.value);
}

bool is_right(const Shadow& s) {
  const double real = widened(s.kind, s.bits);
  if (real == s.value || same_without_number(s, real)) return true;
  return std::fabs(real - s.value) <= tolerance(s); // false where one is no number
}

// ---- registers

Shadow read_lane(const RegisterShadow* reg, std::uint64_t bits, unsigned at, FloatKind kind, bool& restarted) {
  const std::uint64_t own = low_bits(bits >> at, width_of(kind));
  if (!reg) return Shadow::of(kind, own);
  const Shadow& lane = reg->lane[at ? 1 : 0];
  if (lane.kind == kind && lane.bits == own && (at == 0 || at == width_of(kind))) return lane;
  // A bf16 above zeros is a float.
  const Shadow& high = reg->lane[1];
  if (kind == FloatKind::f32 && at == 0 && high.kind == FloatKind::bf16 && (own & 0xffff) == 0 &&
      high.bits == own >> 16) {
    Shadow wide = high;
    wide.kind = kind;
    wide.bits = own;
    return wide;
  }
  restarted |= any_lane(reg, bits);
  Shadow fresh = Shadow::of(kind, own);
  const Shadow& loaded = reg->lane[0]; // by Shadows::load, from memory without a shadow
  if (loaded.kind == FloatKind::none && loaded.origin[0] && loaded.bits == bits)
    fresh.origin[0] = loaded.origin[0] + at / 8;
  return fresh;
}

bool any_lane(const RegisterShadow* reg, std::uint64_t bits) {
  if (!reg) return false;
  for (unsigned n = 0; n < 2; ++n) {
    const Shadow& lane = reg->lane[n];
    if (lane.kind == FloatKind::none) continue;
    const unsigned width = width_of(lane.kind);
    if (n == 1 && width > 32) continue;
    if (low_bits(n ? bits >> width : bits, width) == lane.bits && !lane.trivial()) return true;
  }
  return false;
}

// ---- memory

Shadows::Page* Shadows::page_of(std::uint64_t address) const {
  const std::uint64_t number = address / page_bytes;
  if (number == last_page_) return last_;
  auto found = pages_.find(number);
  last_page_ = number;
  return last_ = found == pages_.end() ? nullptr : found->second.get();
}

const Shadow* Shadows::find(std::uint64_t address) const {
  const Page* page = page_of(address);
  const std::uint32_t at = page ? page->at[address % page_bytes / 2] : 0;
  return at ? &shadows_[at] : nullptr;
}

void Shadows::put(std::uint64_t address, const Shadow& shadow) {
  forget(address, width_of(shadow.kind) / 8);
  if (shadow.trivial() || address % 2) return;
  Page* page = page_of(address);
  if (!page) {
    page = (pages_[address / page_bytes] = std::make_unique<Page>()).get();
    last_ = page;
  }
  std::uint32_t& at = page->at[address % page_bytes / 2];
  if (unused_.empty()) {
    at = std::uint32_t(shadows_.size());
    shadows_.push_back(shadow);
  } else {
    at = unused_.back();
    unused_.pop_back();
    shadows_[at] = shadow;
  }
  shadows_[at].origin[0] = shadows_[at].origin[1] = 0;
  ++page->used;
}

void Shadows::forget(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address / 2 * 2; at < end;) {
    Page* page = page_of(at);
    const std::uint64_t next = (at / page_bytes + 1) * page_bytes;
    if (!page || !page->used) {
      at = next;
      continue;
    }
    for (; at < std::min(end, next); at += 2) {
      std::uint32_t& known = page->at[at % page_bytes / 2];
      if (!known) continue;
      unused_.push_back(known);
      known = 0;
      --page->used;
    }
    if (page->used == 0) {
      pages_.erase((next - 1) / page_bytes);
      last_page_ = ~std::uint64_t(0);
    }
  }
}

void Shadows::each(std::uint64_t address, std::uint64_t bytes,
                   const std::function<void(std::uint64_t, const Shadow&)>& body) const {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = (address + 1) / 2 * 2; at < end;) {
    const Page* page = page_of(at);
    const std::uint64_t next = (at / page_bytes + 1) * page_bytes;
    for (; page && at < std::min(end, next); at += 2)
      if (const std::uint32_t known = page->at[at % page_bytes / 2]) body(at, shadows_[known]);
    at = next;
  }
}

void Shadows::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  std::vector<std::pair<std::uint64_t, Shadow>> taken;
  each(from, bytes, [&](std::uint64_t address, const Shadow& s) { taken.push_back({address - from, s}); });
  forget(to, bytes);
  for (const auto& [offset, s] : taken)
    if (offset + width_of(s.kind) / 8 <= bytes) put(to + offset, s);
}

void Shadows::load(RegisterShadow& to, std::uint64_t address, unsigned width, std::uint64_t bits) {
  to = {};
  bool dropped = false;
  auto take = [&](unsigned lane, unsigned at, FloatKind only) {
    const Shadow* s = find(address + at / 8);
    if (!s || (only != FloatKind::none && s->kind != only)) return false;
    const unsigned own = width_of(s->kind);
    if (at + own > width || s->bits != low_bits(bits >> at, own)) {
      dropped = true;
      return false;
    }
    to.lane[lane] = *s;
    to.lane[lane].origin[0] = address + at / 8;
    to.lane[lane].added = false;
    return true;
  };
  take(0, 0, FloatKind::none);
  const FloatKind first = to.lane[0].kind;
  if (first == FloatKind::none || width_of(first) * 2 == width) {
    if (width == 64)
      take(1, 32, FloatKind::f32);
    else if (width == 32 && !take(1, 16, FloatKind::bf16))
      take(1, 16, FloatKind::f16);
  }
  if (to.lane[0].kind == FloatKind::none) to.lane[0].origin[0] = address, to.lane[0].bits = bits;
  if (dropped) restart();
}

void Shadows::store(std::uint64_t address, unsigned width, const RegisterShadow* from, std::uint64_t bits) {
  forget(address, width / 8);
  if (!from) return;
  for (unsigned n = 0; n < 2; ++n) {
    const Shadow& lane = from->lane[n];
    const unsigned own = width_of(lane.kind), at = n ? own : 0;
    if (lane.kind == FloatKind::none) continue;
    if (at + own <= width && lane.bits == low_bits(bits >> at, own)) put(address + at / 8, lane);
  }
}

// ---- orders of additions

void Shadows::accumulated(std::uint64_t place, std::uint64_t address, std::uint32_t launch, std::uint64_t thread,
                          bool atomic) {
  Site& site = sites_[place];
  ++site.times;
  site.atomic = atomic;
  Order& order = site.addresses[address];
  if (order.digest && order.launch == launch && order.last != thread) site.several_threads = true;
  order.last = thread;
  order.launch = launch;
  order.digest = mix(order.digest ^ mix(std::uint64_t(launch) << 48 ^ thread)) | 1;
}

std::map<std::uint64_t, Accumulation> Shadows::accumulations() const {
  std::map<std::uint64_t, Accumulation> all;
  for (const auto& [place, site] : sites_) {
    Accumulation& a = all[place];
    a.times = site.times;
    a.several_threads = site.several_threads;
    a.atomic = site.atomic;
    for (const auto& [address, order] : site.addresses) a.order += mix(address ^ order.digest);
  }
  return all;
}

} // namespace deadheat::engine
