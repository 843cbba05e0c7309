// Texture and surface objects, and which texels an instruction touches (PTX ISA, "Texture Instructions" and "Surface
// Instructions"; CUDA C++ Programming Guide, "Texture Fetching"): one rule for the engine, which performs the accesses,
// and for the tracer on GPUs, which works out from a log what they were.
//
// Arrays have a layout of our own (level_layout). An instruction is told by its form and by what it is given, as bits.
//
// Thread-safety: pure functions and plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

enum class ChannelKind : std::uint8_t { unsigned_, signed_, float_ };

struct TexelFormat {
  std::uint8_t channels = 1, bits = 32; // bits of a channel: 8, 16, 32
  ChannelKind kind = ChannelKind::unsigned_;
  std::uint32_t bytes() const { return channels * bits / 8u; }
};

enum class AddressMode : std::uint8_t { wrap, clamp, mirror, border }; // cudaTextureAddressMode

inline constexpr std::uint64_t descriptor_magic = 0x6a6f656c65786554, no_last_launch = ~std::uint64_t(0);

// Little-endian; on the embedded device it lies in device memory, aligned to its size.
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
// What an array is of that extent, as the program gave it; `layered` and `cubemap` say what its slices are.
void set_extent(TextureDescriptor& array, std::uint64_t width, std::uint64_t height, std::uint64_t depth);
TextureDescriptor array_of_level(const TextureDescriptor& mipmapped, unsigned level); // an array of its own, there
// Of a resource view (cudaResourceViewFormat, CUresourceViewFormat); none: of compressed blocks.
std::optional<TexelFormat> view_format(unsigned number);

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

// What an instruction is given besides its object.
struct TextureOperands {
  TextureForm form;
  std::uint32_t layer = 0;
  std::uint32_t coordinate[3] = {}; // as bits
  std::uint32_t level = 0; // of integer coordinates a number, else a float
  std::uint32_t gradient[2][3] = {}; // floats, by x and by y
  std::int32_t offset[3] = {};
};

struct Texel {
  std::uint64_t address = 0; // 0: none, beyond the border or the end of linear memory
  float weight = 0;
};
struct Texels {
  std::uint32_t count = 0, bytes = 0; // bytes: of a texel
  bool filtered = false;
  Texel at[most_texels];
};
Texels fetched_texels(const TextureDescriptor& descriptor, const TextureOperands& given);
// The four texels that a bilinear fetch would weigh: lower left, lower right, upper right, upper left.
Texels gathered_texels(const TextureDescriptor& descriptor, const TextureOperands& given);

// suld, sust: the first coordinate counts bytes, of formatted stores texels (PTX ISA, sust).
struct SurfaceTexel {
  enum class What : std::uint8_t { there, nothing, outside, too_wide, misaligned } what = What::there;
  std::uint64_t address = 0;
  std::uint32_t bytes = 0; // of the access
};
SurfaceTexel surface_texel(const TextureDescriptor& descriptor, const TextureOperands& given);
// What a formatted store leaves of its values.
void format_texel(const TexelFormat& format, const std::uint32_t (&value)[4], std::uint32_t (&bits)[4]);

// ---- instructions as they are written

enum class TextureTrouble : std::uint8_t { // why one is not followed
  none,
  operands,
  types,
  vectors,
  references, // of module scope
  samplers, // apart from their textures
  residency, // of texels, asked for
  cube_gathers,
  depths, // compared
  samples // several a texel
};

struct TextureInstruction {
  TextureForm form;
  std::uint8_t coordinates = 0; // without the layer
  bool layered = false;
  std::uint8_t elements = 0, element_bytes = 0; // of what a surface's instruction loads or stores
  const Operand *object = nullptr, *place = nullptr; // place: layer and coordinates, a vector or one alone
  const Operand *level = nullptr, *gradient[2] = {}, *offset = nullptr; // null: it has none
  const Operand* value = nullptr; // loaded or stored; of tex and tld4 the results
};
// Of tex, tld4, suld and sust. What is found points into the instruction.
TextureTrouble texture_instruction(const Instruction& instruction, TextureInstruction& found);

// The nth 32-bit word of a vector, or of one alone; null where it is not given.
inline const Operand* word_of(const Operand& from, std::size_t n) {
  if (from.kind != Operand::Kind::vector) return n == 0 ? &from : nullptr;
  return n < from.elements.size() ? &from.elements[n] : nullptr;
}

} // namespace deadheat::ptx
