#include "tracer/ptx/contractions.h"

#include <elf.h>

#include <cstring>
#include <map>

#include "tracer/ptx/instrument.h"

namespace deadheat::ptx {

namespace {

constexpr std::size_t instruction_bytes = 16;
constexpr std::string_view text_section = ".text.";

bool differ(const Products& a, const Products& b) {
  return (a.fused > b.fused && a.apart < b.apart) || (a.fused < b.fused && a.apart > b.apart);
}

constexpr std::uint64_t zeros = 0xff; // the register of them

std::uint64_t word_at(std::string_view code, std::size_t at) {
  std::uint64_t word;
  std::memcpy(&word, code.data() + at, sizeof word);
  return word;
}

// a * b + c of half precision. Bits 9 to 11 of the operation: in which places constants stand. A constant is two
// values.
void count_half(std::uint64_t low, std::uint64_t high, Products& half) {
  const std::uint64_t a = low >> 24 & 0xff, constant = low >> 32, third = high & 0xff;
  const unsigned kinds = low >> 9 & 7;
  const bool bfloat = high >> 21 & 1;
  const bool c_is_third = kinds != 2 && kinds != 3; // else c is the constant, or of constant memory
  if (a == zeros) return; // a constant is put into a register
  if (c_is_third && third == zeros)
    ++half.apart;
  else if (kinds != 4 || constant != (bfloat ? 0x3f803f80u : 0x3c003c00u)) // 1, 1: a sum
    ++half.fused;
}

} // namespace

// The processor is in the flags: of version 8 of the format in the second byte, before in the first (CUDA binary
// utilities say nothing of it; a test of ours asks ptxas).
unsigned architecture_of(std::string_view cubin) {
  constexpr unsigned char later_format = 8;
  Elf64_Ehdr header;
  if (cubin.size() < sizeof header) return 0;
  std::memcpy(&header, cubin.data(), sizeof header);
  return header.e_ident[EI_ABIVERSION] >= later_format ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff;
}

ProductsByPrecision products(std::string_view code, unsigned architecture) {
  ProductsByPrecision found;
  for (std::size_t at = 0; at + instruction_bytes <= code.size(); at += instruction_bytes) {
    const std::uint64_t low = word_at(code, at), high = word_at(code, at + 8);
    switch (low & 0x1ff) {
      case 0x020: ++found.single.apart; break;
      case 0x023: ++found.single.fused; break;
      case 0x028: ++found.doubled.apart; break;
      case 0x02b: ++found.doubled.fused; break;
      case 0x032: ++found.half.apart; break;
      case 0x031: count_half(low, high, found.half); break;
      case 0x035:
        if (architecture < 100) count_half(low, high, found.half);
        break;
      case 0x04a: ++found.twofold.apart; break;
      case 0x049: ++found.twofold.fused; break;
      default: break;
    }
  }
  return found;
}

bool contracted_differently(const ProductsByPrecision& a, const ProductsByPrecision& b) {
  return differ(a.single, b.single) || differ(a.twofold, b.twofold) || differ(a.doubled, b.doubled) ||
         differ(a.half, b.half);
}

std::vector<std::string> contracted_differently(std::string_view cubin) {
  std::vector<std::string> found;
  const Expected<ElfFile> file = read_elf(cubin, "a cubin");
  if (!file) return found;
  const unsigned architecture = architecture_of(cubin);
  std::map<std::string_view, std::string_view> functions;
  for (const ElfSection& section : file->sections) {
    if (section.name.starts_with(text_section)) {
      functions.emplace(section.name.substr(text_section.size()), section.bytes);
    }
  }
  for (const auto& [name, code] : functions) {
    const auto clone = functions.find(clone_prefix + std::string(name));
    if (clone != functions.end() &&
        contracted_differently(products(code, architecture), products(clone->second, architecture))) {
      found.emplace_back(name);
    }
  }
  return found;
}

} // namespace deadheat::ptx
