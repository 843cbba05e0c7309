// Classifies a module's instructions into sites (deadheat/site.h): the memory and synchronization instructions, what
// they mean to the memory model, and where they come from.
//
// Not sites: accesses to .param space (arguments, not memory that threads share), prefetches, and instructions on
// registers only. mma, wmma.mma and movmatrix are warp_value sites: lanes exchange registers.
//
// Invariants: sites are numbered in source order over all functions with a body, those of SiteKind::heap behind all
// others, those of texels behind these; sites[i].id == i.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/ptx.h"
#include "deadheat/site.h"

namespace deadheat::ptx {

struct SiteTable {
  static constexpr std::uint32_t none = ~std::uint32_t(0);
  std::vector<Site> sites;
  // by_function[f][s]: the site of statement s of Module::functions[f], or none; empty for functions without a body.
  std::vector<std::vector<std::uint32_t>> by_function;

  // texels[f][s]: of tex, tld4, suld and sust, which are opaque sites by themselves, the first of texel_sizes sites: an
  // access of 1, 2, 4, 8 and 16 bytes. Which of them a texel is, the object tells that the program gives.
  static constexpr unsigned texel_sizes = 5;
  std::vector<std::map<std::uint32_t, std::uint32_t>> texels;

  std::uint32_t site_of(std::size_t function, std::size_t statement) const { return by_function[function][statement]; }
};

SiteTable site_table(const Module& module);
std::vector<Site> sites(const Module& module);

// What one instruction means to the memory model, by its opcode and modifiers alone: no value for instructions that are
// no site. `entry`: the function is a kernel (its ret ends the thread). Fills kind, access, space, ordering, scope,
// proxy, flags, element_bytes, elements and type (as written).
std::optional<Site> classify(const Instruction& instruction, bool entry);

// Does an asynchronous operation complete on an mbarrier? st.async and red.async that name one need not say so
// (PTX ISA 9.7.9.12, 9.7.13.7: the default of the completion mechanism).
bool completes_on_mbarrier(const Instruction& instruction);

// A memory or synchronization instruction with an opcode or a word that ptx_opcodes.def and ptx_modifiers.def do not
// have: what it does nobody knows, so that its site is opaque, which it would not be if all were known.
bool of_later_ptx(const Instruction& instruction);

// The opaque site of a texture or surface instruction that has others for its texels (SiteTable::texels).
bool is_texture(const Site& site);
bool is_texel(const Site& site); // one of those others

// A write that leaves values that nobody may rely on: what it writes is not known.
bool is_discard(const Site& site);
inline constexpr std::uint32_t discarded_bytes = 128; // and what its address is a multiple of

// Bytes of what a site reads or writes at once. An atomic operation on a packed type is one on each of its two values
// (PTX ISA 9.0, 8.2.2): f16x2 does not overlap a u32 completely, and does overlap an f16 so.
std::uint8_t value_bytes(const Site& site);

// How the lanes of a warp share a matrix that wmma.load or wmma.store accesses: pieces of equal size of its lines
// (rows, or columns with .col), in order. Which lane accesses what the manual leaves open (PTX ISA 9.7.14.4); all
// together access the matrix. No value for other instructions.
struct MatrixPieces {
  std::uint32_t line_bytes = 0, piece_bytes = 0, element_bits = 0;
};
std::optional<MatrixPieces> matrix_pieces(const Instruction& instruction);

// The inlining chain of a location, innermost first; `function` is the (mangled) function that holds it.
std::vector<SourceFrame> source_frames(const Module& module, std::uint32_t location, std::string_view function);

} // namespace deadheat::ptx
