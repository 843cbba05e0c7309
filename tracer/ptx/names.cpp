#include "tracer/ptx/names.h"

#include <array>
#include <cstddef>

#include "deadheat/expected.h"

namespace deadheat::ptx {
namespace {

constexpr std::string_view opcode_names[] = {
    "",
#define DEADHEAT_PTX_OPCODE(id, text) text,
#include "deadheat/ptx_opcodes.def"
#undef DEADHEAT_PTX_OPCODE
};

constexpr std::string_view modifier_names[] = {
    "",
#define DEADHEAT_PTX_MODIFIER(id, text) text,
#include "deadheat/ptx_modifiers.def"
#undef DEADHEAT_PTX_MODIFIER
};

struct TypeRow {
  std::string_view name;
  unsigned bits;
};
// In the order of enum Type.
constexpr TypeRow type_rows[] = {
    {"", 0},        {"b1", 1},   {"b8", 8},      {"b16", 16},        {"b32", 32},     {"b64", 64},   {"b128", 128},
    {"u8", 8},      {"u16", 16}, {"u32", 32},    {"u64", 64},        {"s8", 8},       {"s16", 16},   {"s32", 32},
    {"s64", 64},    {"f16", 16}, {"f16x2", 32},  {"bf16", 16},       {"bf16x2", 32},  {"tf32", 32},  {"f32", 32},
    {"f32x2", 64},  {"f64", 64}, {"pred", 1},    {"u8x4", 32},       {"s8x4", 32},    {"u16x2", 32}, {"s16x2", 32},
    {"e4m3", 8},    {"e5m2", 8}, {"e4m3x2", 16}, {"e5m2x2", 16},     {"e2m1", 4},     {"e2m1x2", 8}, {"e2m3", 6},
    {"e2m3x2", 16}, {"e3m2", 6}, {"e3m2x2", 16}, {"ue8m0", 8},       {"ue8m0x2", 16}, {"s4", 4},     {"u4", 4},
    {"s2", 2},      {"u2", 2},   {"texref", 64}, {"samplerref", 64}, {"surfref", 64},
};
static_assert(std::size(type_rows) == std::size_t(Type::surfref) + 1);

// Open-addressing table from word to row number, filled once.
template <std::size_t Slots>
class WordTable {
 public:
  template <typename Names>
  explicit WordTable(const Names& names) {
    static_assert((Slots & (Slots - 1)) == 0);
    std::uint16_t row = 0;
    for (const auto& name : names) {
      if (row != 0) insert(name, row);
      ++row;
    }
  }
  std::uint16_t find(std::string_view word) const {  // 0: not there
    for (std::size_t i = hash(word);; ++i) {
      const Slot& slot = slots_[i % Slots];
      if (slot.row == 0 || slot.word == word) return slot.row;
    }
  }

 private:
  struct Slot {
    std::string_view word;
    std::uint16_t row = 0;
  };
  static std::size_t hash(std::string_view word) {
    std::size_t h = 14695981039346656037ull;
    for (char c : word) h = (h ^ std::uint8_t(c)) * 1099511628211ull;
    return h ^ (h >> 29);
  }
  void insert(std::string_view word, std::uint16_t row) {
    std::size_t i = hash(word);
    while (slots_[i % Slots].row != 0) ++i;
    slots_[i % Slots] = {word, row};
  }
  std::array<Slot, Slots> slots_;
};

std::array<std::string_view, std::size(type_rows)> type_names() {
  std::array<std::string_view, std::size(type_rows)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = type_rows[i].name;
  return names;
}

static_assert(std::size(opcode_names) < 512 && std::size(modifier_names) < 1024);

}  // namespace

unsigned bits(Type type) { return type_rows[std::size_t(type)].bits; }
std::string_view name(Type type) { return type_rows[std::size_t(type)].name; }
std::string_view name(Opcode opcode) { return opcode_names[std::size_t(opcode)]; }
std::string_view name(Modifier modifier) { return modifier_names[std::size_t(modifier)]; }

Opcode find_opcode(std::string_view word) {
  static const WordTable<512> table(opcode_names);
  return Opcode(table.find(word));
}

Modifier find_modifier(std::string_view word) {
  static const WordTable<2048> table(modifier_names);
  return Modifier(table.find(word));
}

std::optional<Type> find_type(std::string_view word) {
  static const WordTable<128> table(type_names());
  std::uint16_t row = table.find(word);
  if (row == 0) return std::nullopt;
  return Type(row);
}

std::optional<Space> find_space(std::string_view word) {
  if (word == "global") return Space::global;
  if (word == "shared") return Space::shared;
  if (word == "local") return Space::local;
  if (word == "param") return Space::param;
  if (word == "const") return Space::constant;
  return std::nullopt;
}

}  // namespace deadheat::ptx
