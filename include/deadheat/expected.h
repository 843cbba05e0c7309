// Errors as values: the one error type of the whole project.
//
// An Error says what went wrong, where, and what to do about it, in one line a user can act on.
// Expected<T> holds either a T or an Error. Functions that can fail for reasons outside the program
// (files, PTX text, command lines, devices) return it; broken invariants use DEADHEAT_CHECK instead.
//
// Thread-safety: plain values. No exception ever leaves a deadheat library.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace deadheat {

struct Error {
  std::string what;       // what went wrong: "expected a register"
  std::string where = {}; // a file, "file:line:column", a kernel: empty where there is no place to name
  std::string hint = {};  // what to do: a command, an option; empty when there is nothing useful to say

  // "where: what (hint)", one line.
  std::string message() const {
    std::string text = where.empty() ? what : where + ": " + what;
    if (!hint.empty()) text += " (" + hint + ")";
    return text;
  }
};

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "deadheat: internal error at %s:%d: %s\n", file, line, condition);
  std::abort();
}
// Invariants, checked in release builds too.
#define DEADHEAT_CHECK(condition) ((condition) ? void(0) : ::deadheat::check_failed(#condition, __FILE__, __LINE__))

template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  bool has_value() const { return state_.index() == 0; }

  // The value; only when has_value().
  T& operator*() & {
    DEADHEAT_CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  const T& operator*() const& {
    DEADHEAT_CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  T&& operator*() && {
    DEADHEAT_CHECK(has_value());
    return std::move(*std::get_if<0>(&state_));
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  // The error; only when !has_value().
  const Error& error() const {
    DEADHEAT_CHECK(!has_value());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Error error) : error_(std::move(error)) {}
  explicit operator bool() const { return !error_; }
  bool has_value() const { return !error_; }
  const Error& error() const {
    DEADHEAT_CHECK(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

} // namespace deadheat
