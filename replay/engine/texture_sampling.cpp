// What a fetch makes of the texels that it reads (CUDA C++ Programming Guide, "Texture Fetching"; PTX ISA, tex and
// tld4). Which these are tells ptx/texture.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "replay/engine/texture.h"

namespace deadheat::engine {

namespace {

float as_float(std::uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
std::uint32_t as_bits(float f) {
  std::uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

float srgb_to_linear(float c) { return c <= 0.04045f ? c / 12.92f : std::pow((c + 0.055f) / 1.055f, 2.4f); }

std::uint32_t channel_bits(const TextureDescriptor& d, const std::uint32_t (&texel)[4], unsigned channel) {
  const unsigned at = channel * d.format.bits;
  const std::uint32_t word = texel[at / 32] >> at % 32;
  return d.format.bits == 32 ? word : word & ((1u << d.format.bits) - 1);
}

} // namespace

std::uint32_t channel_value(const TextureDescriptor& d, const std::uint32_t (&texel)[4], unsigned channel) {
  const bool integers = d.format.kind != ChannelKind::float_ && !d.normalized_values;
  if (channel >= d.format.channels) return 0; // as an H100 gives them, the fourth too
  const std::uint32_t bits = channel_bits(d, texel, channel);
  const unsigned width = d.format.bits;
  if (d.format.kind == ChannelKind::float_) {
    if (width == 32) return bits;
    const auto half = std::uint16_t(bits);
    _Float16 value;
    std::memcpy(&value, &half, sizeof value);
    return as_bits(float(value));
  }
  const std::int32_t extended = std::int32_t(bits << (32 - width)) >> (32 - width);
  if (integers) return d.format.kind == ChannelKind::signed_ ? std::uint32_t(extended) : bits;
  if (d.format.kind == ChannelKind::signed_)
    return as_bits(std::max(float(extended) / float((1 << (width - 1)) - 1), -1.0f));
  const float value = float(bits) / float((1u << width) - 1);
  return as_bits(d.srgb && channel < 3 && width == 8 ? srgb_to_linear(value) : value);
}

namespace {

void take(TextureAccess& a, const ptx::Texels& texels) {
  a.next = 0;
  a.count = texels.count;
  a.bytes = texels.bytes;
  a.filtered = texels.filtered;
  for (unsigned n = 0; n < texels.count; ++n) {
    TextureAccess::Texel& t = a.texels[n];
    t = {};
    t.address = texels.at[n].address;
    t.weight = texels.at[n].weight;
    if (t.address) continue;
    t.written = 15;
    if (!a.given.form.integer_coordinates) // else zeros, whatever the mode: so does an H100
      for (unsigned c = 0; c < 4; ++c) t.bits[c] = as_bits(a.descriptor.border[c]);
  }
}

} // namespace

void plan_fetch(TextureAccess& a) { take(a, ptx::fetched_texels(a.descriptor, a.given)); }
void plan_gather(TextureAccess& a) { take(a, ptx::gathered_texels(a.descriptor, a.given)); }

namespace {

std::uint32_t value_of(const TextureAccess& a, const TextureAccess::Texel& texel, unsigned channel) {
  if (texel.address) return channel_value(a.descriptor, texel.bits, channel);
  constexpr std::uint32_t nothing[4] = {};
  return channel < a.descriptor.format.channels ? texel.bits[channel] : channel_value(a.descriptor, nothing, channel);
}

void take_channel(TextureAccess& a, unsigned channel) {
  if (!a.filtered) {
    a.value[channel] = value_of(a, a.texels[0], channel);
    a.undefined[channel] = a.texels[0].written >> channel & 1 ? 0 : ~0u;
    return;
  }
  double sum = 0;
  bool written = true;
  for (unsigned n = 0; n < a.count; ++n) {
    const TextureAccess::Texel& t = a.texels[n];
    if (t.weight == 0) continue;
    sum += double(t.weight) * as_float(value_of(a, t, channel));
    written &= t.written >> channel & 1;
  }
  const TexelFormat& f = a.descriptor.format;
  const bool half = f.kind == ChannelKind::float_ && f.bits == 16; // what is made of halves is one
  a.value[channel] = as_bits(half ? float(_Float16(float(sum))) : float(sum));
  a.undefined[channel] = written ? 0 : ~0u;
}

} // namespace

void finish_fetch(TextureAccess& a) {
  for (unsigned c = 0; c < 4; ++c) {
    if (a.given.form.op == TextureOp::gather) {
      a.value[c] = value_of(a, a.texels[c], a.given.form.component);
      a.undefined[c] = a.texels[c].written >> a.given.form.component & 1 ? 0 : ~0u;
    } else {
      take_channel(a, c);
    }
    if (!a.given.form.half_results) continue;
    const auto half = _Float16(as_float(a.value[c]));
    std::uint16_t bits;
    std::memcpy(&bits, &half, sizeof bits);
    a.value[c] = bits;
  }
}

} // namespace deadheat::engine
