// The names of one function while it is parsed: registers, variables and parameters in nested scopes (PTX ISA 5.4.4,
// 6.1). Lookup is one hash probe; leaving a scope undoes what it declared.
//
// Registers of a range (.reg .b32 %r<100>) get a number in Function::registers when they are first looked up, so a
// hostile range costs nothing.
//
// Thread-safety: none; one parser owns it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

struct ScopedName {
  enum class Kind : std::uint8_t { none, reg, variable, parameter };
  Kind kind = Kind::none;
  std::uint8_t vector = 1;  // of registers: 2 or 4 for .v2 and .v4, whose components are `id` and following
  std::uint32_t depth = 0;  // of the scope that declared it
  std::uint32_t id = 0;     // register or variable number
};

class Scopes {
 public:
  // Forgets everything and starts on `function`, which must outlive the use.
  void start(Function& function);
  void enter() { undo_.emplace_back(); }
  void leave();  // not the outermost
  std::uint32_t depth() const { return std::uint32_t(undo_.size() - 1); }

  void declare_register(std::string_view name, Type type, std::uint8_t vector);
  void declare_range(std::string_view prefix, std::uint64_t count, Type type, std::uint8_t vector);
  void declare_variable(std::string_view name, std::uint32_t id);
  void declare_parameter(std::string_view name);

  ScopedName find(std::string_view name);  // Kind::none if it is not declared here

 private:
  struct Range {
    std::uint64_t count = 0;
    Type type = Type::none;
    std::uint8_t vector = 1;
    std::uint32_t depth = 0;
  };
  struct Undo {
    std::string_view name;
    bool range = false;
    ScopedName before;
    Range range_before;
  };
  void set(std::string_view name, ScopedName entry);
  std::uint32_t add_registers(std::string_view name, Type type, std::uint8_t vector);

  Function* function_ = nullptr;
  std::unordered_map<std::string_view, ScopedName> names_;
  std::unordered_map<std::string_view, Range> ranges_;
  std::vector<std::vector<Undo>> undo_;
  std::uint32_t nested_ranges_ = 0;  // ranges declared in inner scopes so far: then found names may be hidden by one
};

}  // namespace deadheat::ptx
