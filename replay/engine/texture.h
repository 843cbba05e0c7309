// Texture and surface objects: what they are in the device's memory, and what compiled code asks of them (PTX ISA,
// sections "Texture Instructions" and "Surface Instructions"; CUDA C++ Programming Guide, "Texture Fetching").
//
// A handle is the device address of a TextureDescriptor, which the call that makes the object writes by an ordinary
// copy: replays have it like all memory. Arrays are allocations with a layout of our own (level_layout). An instruction
// touches some texels, each an access of the texel's bytes: `texture_step` works them out, then performs them one by
// one, each a visible operation, until it is through or the thread must stop. What it needs to go on lies in the
// thread's frame (TextureAccess).
//
// Invariants: a texel's access is logged with the site for its size (ptx::SiteTable::texels). Every address is checked,
// in every mode.
//
// Thread-safety: as compiled code has it; the rest are pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "replay/engine/abi.h"

namespace deadheat::engine {

enum class ChannelKind : std::uint8_t { unsigned_, signed_, float_ };

struct TexelFormat {
  std::uint8_t channels = 1, bits = 32; // bits of a channel: 8, 16, 32
  ChannelKind kind = ChannelKind::unsigned_;
  std::uint32_t bytes() const { return channels * bits / 8u; }
};

enum class AddressMode : std::uint8_t { wrap, clamp, mirror, border }; // cudaTextureAddressMode

inline constexpr std::uint64_t descriptor_magic = 0x6a6f656c65786554, no_last_launch = ~std::uint64_t(0);
inline constexpr unsigned most_levels = 17;

// Little-endian, in device memory, aligned to its size.
struct TextureDescriptor {
  enum class Resource : std::uint8_t { linear, pitch, array };

  std::uint64_t magic = descriptor_magic;
  std::uint64_t last_launch = no_last_launch; // destroyed: later launches may not use it
  std::uint64_t base = 0; // device address of level 0
  std::uint64_t pitch = 0; // of linear memory; 0: the layout of arrays
  std::uint32_t width = 0, height = 1, depth = 1, layers = 1; // of level 0, in texels; a cube map has a layer a face
  std::uint32_t levels = 1;
  std::uint8_t dimensions = 1;
  bool surface = false, layered = false, cubemap = false;
  Resource resource = Resource::array;
  TexelFormat format;
  AddressMode address[3] = {};
  bool linear = false, normalized_coordinates = false, normalized_values = false, srgb = false;
  bool linear_levels = false, seamless = false, mipmapped = false;
  std::uint8_t reserved[6] = {};
  float border[4] = {}, bias = 0, least_level = 0, greatest_level = 0; // the border's colour, of integers, as bits
  // What the object shows of the array (cudaResourceViewDesc).
  std::uint32_t first_level = 0, shown_levels = 1, first_layer = 0, shown_layers = 1, unused = 0;
};
static_assert(sizeof(TextureDescriptor) == 128);

struct LevelLayout {
  std::uint64_t address = 0, pitch = 0, slice = 0; // bytes; slices are depths or layers
  std::uint32_t width = 1, height = 1, depth = 1;
  std::uint64_t slices = 1;
};
LevelLayout level_layout(const TextureDescriptor& descriptor, unsigned level); // of the array
LevelLayout shown_level(const TextureDescriptor& descriptor, unsigned level); // of what the object shows
std::uint64_t array_bytes(const TextureDescriptor& descriptor); // of all levels

// ---- instructions

enum class TextureOp : std::uint8_t { fetch, gather, load, store, store_formatted };
enum class Geometry : std::uint8_t { _1d, _2d, _3d, a1d, a2d, cube, acube };
enum class LevelOperand : std::uint8_t { none, level, gradient };
enum class OutOfRange : std::uint8_t { trap, clamp, zero };

struct TextureForm {
  TextureOp op = TextureOp::fetch;
  Geometry geometry = Geometry::_1d;
  LevelOperand level = LevelOperand::none;
  bool integer_coordinates = false, half_results = false;
  std::uint8_t component = 0; // of gathers
  OutOfRange out_of_range = OutOfRange::trap;
  std::uint8_t access_bytes = 0; // of surface loads and stores of binary data
};
static_assert(sizeof(TextureForm) == 8);

inline constexpr unsigned most_texels = 16;

// In the frame. Compiled code fills the first part and takes the results.
struct TextureAccess {
  std::uint64_t object = 0;
  TextureForm form;
  std::uint32_t site = 0, texel_site = 0; // of the instruction; the first of those by size
  std::uint32_t phase = 0; // 0: begins
  std::uint32_t layer = 0;
  std::uint32_t coordinate[3] = {}; // as bits
  std::uint32_t level = 0; // float
  std::uint32_t gradient[2][3] = {}; // floats, by x and by y
  std::int32_t offset[3] = {};
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

// Fills texels, count, bytes and `filtered` from form, coordinates and descriptor.
void plan_fetch(TextureAccess& access);
void plan_gather(TextureAccess& access);
// The results of what was read.
void finish_fetch(TextureAccess& access);
// One channel as the instruction sees it: a float's bits, or an integer.
std::uint32_t channel_value(const TextureDescriptor& descriptor, const std::uint32_t (&texel)[4], unsigned channel);

} // namespace deadheat::engine
