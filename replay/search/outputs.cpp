#include "replay/search/outputs.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "deadheat/conditions.h"

namespace deadheat::search {

namespace {

std::string hexadecimal(XXH128_hash_t hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

// How the elements of one type are read, as doubles, and how far apart two of them are in units in the last place.
struct ElementType {
  const char* name;
  unsigned bytes;
  bool floating;
  int exponent_bits, mantissa_bits; // of floating types
  bool is_signed;
};
constexpr ElementType element_types[] = {
    {"f64", 8, true, 11, 52, true},  {"f32", 4, true, 8, 23, true},   {"tf32", 4, true, 8, 23, true},
    {"f16", 2, true, 5, 10, true},   {"f16x2", 2, true, 5, 10, true}, {"bf16", 2, true, 8, 7, true},
    {"bf16x2", 2, true, 8, 7, true}, {"s64", 8, false, 0, 0, true},   {"u64", 8, false, 0, 0, false},
    {"b64", 8, false, 0, 0, false},  {"s32", 4, false, 0, 0, true},   {"u32", 4, false, 0, 0, false},
    {"b32", 4, false, 0, 0, false},  {"s16", 2, false, 0, 0, true},   {"u16", 2, false, 0, 0, false},
    {"b16", 2, false, 0, 0, false},  {"s8", 1, false, 0, 0, true},    {"u8", 1, false, 0, 0, false},
    {"b8", 1, false, 0, 0, false},
};

const ElementType& element_type(const std::string& name) {
  for (const ElementType& type : element_types) {
    if (name == type.name) return type;
  }
  return element_types[std::size(element_types) - 2]; // u8
}

std::uint64_t load(const std::uint8_t* bytes, unsigned size) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, size);
  return value;
}

double value_of(const ElementType& type, std::uint64_t bits) {
  if (!type.floating) {
    if (!type.is_signed) return double(bits);
    unsigned shift = 64 - 8 * type.bytes;
    return double(std::int64_t(bits << shift) >> shift);
  }
  int exponent_mask = (1 << type.exponent_bits) - 1;
  int exponent = int(bits >> type.mantissa_bits) & exponent_mask;
  std::uint64_t mantissa = bits & ((std::uint64_t(1) << type.mantissa_bits) - 1);
  bool negative = bits >> (type.exponent_bits + type.mantissa_bits) & 1;
  int bias = exponent_mask >> 1;
  double magnitude;
  if (exponent == exponent_mask) {
    magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(double(mantissa), 1 - bias - type.mantissa_bits);
  } else {
    magnitude =
        std::ldexp(double(mantissa) + std::ldexp(1.0, type.mantissa_bits), exponent - bias - type.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

// Floating-point numbers in order as integers: neighbours are one apart.
std::int64_t ordinal(const ElementType& type, std::uint64_t bits) {
  unsigned sign = type.exponent_bits + type.mantissa_bits;
  std::uint64_t magnitude = bits & ((std::uint64_t(1) << sign) - 1);
  return bits >> sign & 1 ? -std::int64_t(magnitude) : std::int64_t(magnitude);
}

std::uint64_t distance(std::int64_t a, std::int64_t b) {
  return a > b ? std::uint64_t(a) - std::uint64_t(b) : std::uint64_t(b) - std::uint64_t(a);
}

Difference difference(const Output& a, const Output& b, const ValueTypes& types) {
  Difference result;
  ValueTypes::Place place = types.place(a.address);
  result.allocation = place.allocation;
  const bool condition = types.is_condition(a.address);
  result.type = types.at(a.address);
  const ElementType& type = element_type(result.type);
  std::size_t size = std::min(a.bytes.size(), b.bytes.size());
  bool nan_appears = false;
  auto compare_element = [&](std::size_t at, const ElementType& as) {
    std::uint64_t bits_a = load(&a.bytes[at], as.bytes), bits_b = load(&b.bytes[at], as.bytes);
    if (bits_a == bits_b) return;
    double value_a = value_of(as, bits_a), value_b = value_of(as, bits_b);
    if (result.elements++ == 0) {
      result.offset = place.offset + (a.address_at(at) - a.address);
      result.example = {result.offset, value_a, value_b};
    }
    if (std::isnan(value_a) != std::isnan(value_b)) nan_appears = true;
    double absolute = std::fabs(value_a - value_b);
    if (!std::isfinite(absolute)) return;
    result.max_abs = std::max(result.max_abs, absolute);
    double larger = std::max(std::fabs(value_a), std::fabs(value_b));
    if (larger > 0) result.max_relative = std::max(result.max_relative, absolute / larger);
    if (as.floating) {
      result.max_ulp = std::max(result.max_ulp, distance(ordinal(as, bits_a), ordinal(as, bits_b)));
    }
  };
  for (std::size_t row = 0; row < size; row += a.row_bytes()) { // no element lies in two rows
    const std::size_t end = std::min<std::size_t>(size, row + a.row_bytes());
    std::size_t at = row;
    for (; at + type.bytes <= end; at += type.bytes) compare_element(at, type);
    for (; at < end; ++at) compare_element(at, element_type("u8"));
  }
  if (a.bytes.size() != b.bytes.size()) {
    result.note =
        "one run delivered " + std::to_string(a.bytes.size()) + " bytes, the other " + std::to_string(b.bytes.size());
  } else if (condition) {
    result.note =
        "the condition of a graph's node: what the device runs from there on is another, and was not followed";
  } else if (nan_appears) {
    result.note = "NaN appears";
  }
  return result;
}

} // namespace

std::uint64_t Output::address_at(std::uint64_t offset) const {
  if (!rows.width) return address + offset;
  return rows.row(offset / rows.width) + offset % rows.width;
}

std::optional<std::uint64_t> Output::offset_of(std::uint64_t at) const {
  if (at < address) return std::nullopt;
  std::uint64_t offset = at - address;
  if (rows.width) {
    const std::uint64_t pitch = rows.row_pitch(), slice = rows.slice_pitch();
    if (slice == 0) return std::nullopt; // of an absurd height
    const std::uint64_t in_slice = offset % slice, row = in_slice / pitch, column = in_slice % pitch;
    if (row >= rows.height || column >= rows.width) return std::nullopt;
    offset = (offset / slice * rows.height + row) * rows.width + column;
  }
  if (offset >= bytes.size()) return std::nullopt;
  return offset;
}

void Outputs::sort() {
  std::stable_sort(outputs.begin(), outputs.end(),
                   [](const Output& a, const Output& b) { return a.operation < b.operation; });
}

std::string Outputs::digest(std::uint32_t last) const {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const Output& output : outputs) {
    if (output.operation > last) continue;
    std::uint64_t head[3] = {output.operation, output.address, output.bytes.size()};
    XXH3_128bits_update(state, head, sizeof head);
    XXH3_128bits_update(state, output.bytes.data(), output.bytes.size());
  }
  std::uint64_t tail = std::uint64_t(ending);
  XXH3_128bits_update(state, &tail, sizeof tail);
  std::string text = hexadecimal(XXH3_128bits_digest(state));
  XXH3_freeState(state);
  return text;
}

void ValueTypes::allocated(const trace::Allocate& allocation) { allocations_.push_back({allocation, {}}); }

ValueTypes::Allocation* ValueTypes::find(std::uint64_t address) {
  for (auto at = allocations_.rbegin(); at != allocations_.rend(); ++at) {
    if (address - at->record.address < at->record.bytes) return &*at;
  }
  return nullptr;
}

void ValueTypes::wrote(std::uint64_t address, std::uint64_t, const std::string& type) {
  Allocation* allocation = find(address);
  if (!allocation || type.empty()) return;
  for (auto& [name, count] : allocation->types) {
    if (name == type) {
      ++count;
      return;
    }
  }
  allocation->types.push_back({type, 1});
}

void ValueTypes::copied(const trace::Copy& copy) {
  if (copy.direction != trace::Copy::Direction::d2d) return;
  std::string type = at(copy.source.address);
  Allocation* destination = find(copy.destination.address);
  if (destination && destination->types.empty() && type != "u8") destination->types.push_back({type, 1});
}

std::vector<std::pair<std::uint32_t, std::string>> ValueTypes::known() const {
  std::vector<std::pair<std::uint32_t, std::string>> result;
  for (const Allocation& allocation : allocations_) {
    if (!allocation.types.empty()) result.emplace_back(allocation.record.allocation, at(allocation.record.address));
  }
  return result;
}

void ValueTypes::tell(std::uint32_t number, const std::string& type) {
  for (Allocation& allocation : allocations_) {
    if (allocation.record.allocation == number) allocation.types = {{type, 1}};
  }
}

std::string ValueTypes::at(std::uint64_t address) const {
  const Allocation* allocation = const_cast<ValueTypes*>(this)->find(address);
  std::string best = "u8";
  std::uint64_t most = 0;
  if (!allocation) return best;
  for (const auto& [name, count] : allocation->types) {
    if (count > most) {
      best = name;
      most = count;
    }
  }
  return best;
}

bool ValueTypes::is_condition(std::uint64_t address) const {
  const Allocation* allocation = const_cast<ValueTypes*>(this)->find(address);
  return allocation && allocation->record.name == conditions_memory;
}

ValueTypes::Place ValueTypes::place(std::uint64_t address) const {
  const Allocation* allocation = const_cast<ValueTypes*>(this)->find(address);
  if (!allocation) return {};
  return {allocation->record.allocation, address - allocation->record.address};
}

namespace {

// Behind printf and what was seen of memory that host and device share.
std::size_t first_copy(const Outputs& outputs, std::size_t from) {
  while (from < outputs.outputs.size() && !outputs.outputs[from].operation) ++from;
  return from;
}

// Of two outputs of one operation; where such come first.
std::optional<std::pair<std::size_t, std::size_t>> first_difference(const Outputs& a, std::size_t i, const Outputs& b,
                                                                    std::size_t j) {
  for (; i < a.outputs.size() && j < b.outputs.size(); ++i, ++j) {
    if (a.outputs[i].operation != b.outputs[j].operation) return std::nullopt;
    if (a.outputs[i].bytes != b.outputs[j].bytes) return std::pair(i, j);
  }
  return std::nullopt;
}

} // namespace

Comparison compare(const Outputs& a, const Outputs& b, const ValueTypes* types) {
  Comparison result;
  std::size_t i = 0, j = 0;
  while (i < a.outputs.size() && j < b.outputs.size()) {
    const Output &x = a.outputs[i], &y = b.outputs[j];
    if (x.operation != y.operation || x.bytes != y.bytes) break;
    ++i;
    ++j;
  }
  // That memory which host and device share changed elsewhere tells less than what a copy is found to have brought.
  const auto shared = [](const Output& output) { return !output.operation && output.address; };
  if (i < a.outputs.size() && j < b.outputs.size() && (shared(a.outputs[i]) || shared(b.outputs[j]))) {
    const std::size_t of_a = first_copy(a, i), of_b = first_copy(b, j);
    if (const auto copies = first_difference(a, of_a, b, of_b)) std::tie(i, j) = *copies;
  }
  bool a_left = i < a.outputs.size(), b_left = j < b.outputs.size();
  if (a_left && b_left && a.outputs[i].operation == b.outputs[j].operation) {
    result.differ = true;
    result.operation = a.outputs[i].operation;
    if (types) {
      Difference found = difference(a.outputs[i], b.outputs[j], *types);
      if (result.operation == 0 && found.allocation == 0) found.note = "printf output";
      result.differences.push_back(found);
    }
    return result;
  }
  if (a.ending != b.ending) {
    result.differ = true;
    if (types) {
      Difference found;
      const Outputs& wrong = a.ending == Ending::finished ? b : a;
      found.note = std::string(wrong.ending == Ending::hang ? "hang: " : "fault: ") + wrong.ending_text;
      result.differences.push_back(found);
    }
    return result;
  }
  if ((a_left || b_left) && a.ending == Ending::finished) {
    result.differ = true;
    result.operation = a_left ? a.outputs[i].operation : b.outputs[j].operation;
    if (types) {
      Difference found;
      found.note = "one run delivered bytes that the other did not";
      result.differences.push_back(found);
    }
  }
  return result;
}

} // namespace deadheat::search
