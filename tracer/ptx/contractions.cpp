#include "tracer/ptx/contractions.h"

#include <map>

#include "tracer/ptx/instrument.h"

namespace deadheat::ptx {

namespace {

constexpr std::size_t instruction_bytes = 16;
constexpr std::string_view text_section = ".text.";

bool differ(const Products& a, const Products& b) {
  return (a.fused > b.fused && a.apart < b.apart) || (a.fused < b.fused && a.apart > b.apart);
}

} // namespace

ProductsByPrecision products(std::string_view code) {
  ProductsByPrecision found;
  for (std::size_t at = 0; at + instruction_bytes <= code.size(); at += instruction_bytes) {
    const unsigned low = static_cast<unsigned char>(code[at]), high = static_cast<unsigned char>(code[at + 1]);
    switch (low | (high & 1) << 8) {
      case 0x020: ++found.single.apart; break;
      case 0x023: ++found.single.fused; break;
      case 0x028: ++found.doubled.apart; break;
      case 0x02b: ++found.doubled.fused; break;
      case 0x04a: ++found.twofold.apart; break;
      case 0x049: ++found.twofold.fused; break;
      default: break;
    }
  }
  return found;
}

bool contracted_differently(const ProductsByPrecision& a, const ProductsByPrecision& b) {
  return differ(a.single, b.single) || differ(a.twofold, b.twofold) || differ(a.doubled, b.doubled);
}

std::vector<std::string> contracted_differently(std::string_view cubin) {
  std::vector<std::string> found;
  const Expected<ElfFile> file = read_elf(cubin, "a cubin");
  if (!file) return found;
  std::map<std::string_view, std::string_view> functions;
  for (const ElfSection& section : file->sections) {
    if (section.name.starts_with(text_section)) {
      functions.emplace(section.name.substr(text_section.size()), section.bytes);
    }
  }
  for (const auto& [name, code] : functions) {
    const auto clone = functions.find(clone_prefix + std::string(name));
    if (clone != functions.end() && contracted_differently(products(code), products(clone->second))) {
      found.emplace_back(name);
    }
  }
  return found;
}

} // namespace deadheat::ptx
