// Texture and surface objects: what they are in the device's memory, and what compiled code asks of them (PTX ISA,
// sections "Texture Instructions" and "Surface Instructions"; CUDA C++ Programming Guide, "Texture Fetching").
//
// A handle is the device address of a TextureDescriptor (ptx/texture.h), which the call that makes the object writes by
// an ordinary copy: replays have it like all memory. Arrays are allocations with a layout of our own (level_layout). An
// instruction touches some texels, each an access of the texel's bytes, as ptx/texture.h has them: `texture_step`
// performs them one by one, each a visible operation, until it is through or the thread must stop. What it needs to go
// on lies in the thread's frame (TextureAccess).
//
// Invariants: a texel's access is logged with the site for its size (ptx::SiteTable::texels). Every address is checked,
// in every mode.
//
// Thread-safety: as compiled code has it; the rest are pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "replay/engine/abi.h"
#include "tracer/ptx/texture.h"

namespace deadheat::engine {

using ptx::AddressMode;
using ptx::array_bytes;
using ptx::ChannelKind;
using ptx::descriptor_magic;
using ptx::Geometry;
using ptx::level_layout;
using ptx::LevelLayout;
using ptx::LevelOperand;
using ptx::most_texels;
using ptx::no_last_launch;
using ptx::OutOfRange;
using ptx::shown_level;
using ptx::TexelFormat;
using ptx::TextureDescriptor;
using ptx::TextureForm;
using ptx::TextureOp;
using ptx::TextureOperands;

// In the frame. Compiled code fills the first part and takes the results.
struct TextureAccess {
  std::uint64_t object = 0;
  TextureOperands given;
  std::uint32_t site = 0, texel_site = 0; // of the instruction; the first of those by size
  std::uint32_t phase = 0; // 0: begins
  std::uint32_t value[4] = {}; // stored, or the results
  std::uint32_t undefined[4] = {}; // bits of the results that nobody wrote

  // texture_step's own.
  struct Texel {
    std::uint64_t address = 0; // 0: none, `bytes` holds the border's colour as floats or bits
    float weight = 0;
    std::uint32_t written = 0; // channels all of whose bits were written
    std::uint32_t bits[4] = {}; // as it lies in memory; of the border channel by channel
  };
  std::uint32_t count = 0, next = 0, bytes = 0, resumed = 0, filtered = 0, pad = 0;
  TextureDescriptor descriptor;
  Texel texels[most_texels];
};

enum TextureMode : std::uint32_t { texture_record = 1, texture_control = 2, texture_written = 4 };
enum class TextureStep : std::uint32_t { done, visible, fault };

extern "C" {
// Performs the access as far as it goes; TextureStep says what the thread is to do.
std::uint32_t deadheat_texture_step(ThreadContext* thread, TextureAccess* access, std::uint32_t mode);
// txq, suq: `query` is a TextureQuery. Of what is no object 0.
std::uint32_t deadheat_texture_query(ThreadContext* thread, std::uint64_t object, std::uint32_t query,
                                     std::uint32_t level);
}
enum class TextureQuery : std::uint32_t {
  width,
  height,
  depth,
  channel_data_type,
  channel_order,
  normalized_coords,
  array_size,
  num_mipmap_levels,
  num_samples,
  filter_mode,
  addr_mode_0,
  addr_mode_1,
  addr_mode_2
};

// ---- what a fetch computes (texture_sampling.cpp)

// Fills texels, count, bytes and `filtered` from what is given and the descriptor.
void plan_fetch(TextureAccess& access);
void plan_gather(TextureAccess& access);
// The results of what was read.
void finish_fetch(TextureAccess& access);
// One channel as the instruction sees it: a float's bits, or an integer.
std::uint32_t channel_value(const TextureDescriptor& descriptor, const std::uint32_t (&texel)[4], unsigned channel);

} // namespace deadheat::engine
