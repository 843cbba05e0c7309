#include "tracer/ptx/scopes.h"

#include "deadheat/expected.h"

namespace deadheat::ptx {
namespace {

// "%r12" → "%r" and 12; false for names that are no member of a range ("%r012", "%r", "12").
bool split(std::string_view name, std::string_view& prefix, std::uint64_t& number) {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  std::size_t length = name.size() - digits;
  if (digits == 0 || length == 0 || length > 18 || (length > 1 && name[digits] == '0')) return false;
  number = 0;
  for (char c : name.substr(digits)) number = number * 10 + std::uint64_t(c - '0');
  prefix = name.substr(0, digits);
  return true;
}

}  // namespace

void Scopes::start(Function& function) {
  function_ = &function;
  names_.clear();
  ranges_.clear();
  undo_.clear();
  undo_.emplace_back();
  nested_ranges_ = 0;
}

void Scopes::leave() {
  DEADHEAT_CHECK(undo_.size() > 1);
  std::vector<Undo>& log = undo_.back();
  for (auto entry = log.rbegin(); entry != log.rend(); ++entry) {
    if (entry->range) {
      ranges_[entry->name] = entry->range_before;
    } else {
      names_[entry->name] = entry->before;
    }
  }
  undo_.pop_back();
}

void Scopes::set(std::string_view name, ScopedName entry) {
  ScopedName& slot = names_[name];
  if (entry.depth > 0) undo_[entry.depth].push_back({name, false, slot, {}});
  slot = entry;
}

std::uint32_t Scopes::add_registers(std::string_view name, Type type, std::uint8_t vector) {
  std::uint32_t first = std::uint32_t(function_->registers.size());
  if (vector == 1) {
    function_->registers.push_back({std::string(name), type});
  } else {
    for (std::uint8_t i = 0; i < vector; ++i) {
      function_->registers.push_back({std::string(name) + "." + "xyzw"[i], type});
    }
  }
  return first;
}

void Scopes::declare_register(std::string_view name, Type type, std::uint8_t vector) {
  set(name, {ScopedName::Kind::reg, vector, depth(), add_registers(name, type, vector)});
}

void Scopes::declare_range(std::string_view prefix, std::uint64_t count, Type type, std::uint8_t vector) {
  Range& slot = ranges_[prefix];
  if (depth() > 0) {
    undo_.back().push_back({prefix, true, {}, slot});
    ++nested_ranges_;
  }
  slot = {count, type, vector, depth()};
}

void Scopes::declare_variable(std::string_view name, std::uint32_t id) {
  set(name, {ScopedName::Kind::variable, 1, depth(), id});
}

void Scopes::declare_parameter(std::string_view name) { set(name, {ScopedName::Kind::parameter, 1, depth(), 0}); }

ScopedName Scopes::find(std::string_view name) {
  auto exact = names_.find(name);
  bool found = exact != names_.end() && exact->second.kind != ScopedName::Kind::none;
  if (found && nested_ranges_ == 0) return exact->second;
  std::string_view prefix;
  std::uint64_t number = 0;
  if (split(name, prefix, number)) {
    auto range = ranges_.find(prefix);
    if (range != ranges_.end() && number < range->second.count &&
        (!found || exact->second.depth < range->second.depth)) {
      const Range& r = range->second;
      ScopedName entry{ScopedName::Kind::reg, r.vector, r.depth, add_registers(name, r.type, r.vector)};
      set(name, entry);
      return entry;
    }
  }
  return found ? exact->second : ScopedName{};
}

}  // namespace deadheat::ptx
