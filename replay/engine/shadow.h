// Shadows: what each floating-point value would be had it been computed in double.
//
// Code compiled with Mode::precision computes beside every floating-point result the same operation on the doubles that
// its operands carry (shadow_step.h), and loads, stores, atomics, shuffles, calls and copies take shadows along. What a
// shadow is:
//  - value       the double. Control flow follows the real values, and so does rounding to an integer: it is a
//  decision.
//  - magnitude   the same computation with the magnitudes of its terms: of a sum the sum of their magnitudes. How far
//                rounding may take a result away from `value` is relative to this, not to what is left after
//                cancellation.
//  - roundings   how many results on the longest way to this one were rounded to the nearest number, and how many
//  (cuts)
//                in one direction: by .rz, .rm, .rp, or by matrix instructions, for which see tolerance().
//  - lost, where the instruction at which most of the difference between the real value and `value` came about, and how
//                much of it, at the magnitude it has by now.
//  - sum         the last atomic or protected read-modify-write that added to it.
// A shadow belongs to the bits that it was computed with. Where a register or memory holds other bits, the value starts
// again from itself; so it does where code takes floats apart or puts them together by integer arithmetic. That is
// counted where it loses something. Moves of whole halves (mov of vectors, prmt, shifts by 16, masks) and of signs are
// followed.
//
// Deterministic: doubles computed by operations that are the same on every x86-64-v3 machine (numeric.h).
//
// Thread-safety: none; one machine at a time uses a Shadows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace deadheat::engine {

enum class FloatKind : std::uint8_t { none, f16, bf16, f32, f64 };
constexpr unsigned width_of(FloatKind kind) {
  return kind == FloatKind::none ? 0 : kind == FloatKind::f64 ? 64 : kind == FloatKind::f32 ? 32 : 16;
}
double widened(FloatKind kind, std::uint64_t bits);
// Of a kind: the distance of neighbouring numbers at a magnitude; of the least numbers below it.
double ulp_of(FloatKind kind, double magnitude);

struct Shadow {
  double value = 0, magnitude = 0, lost = 0;
  std::uint64_t where = 0; // of `lost`: Shadows::place(); 0: nowhere
  std::uint64_t sum = 0; // such a place; 0: none
  std::uint64_t origin[2] = {}; // host addresses that it was loaded from, and was at most added to since; 0: none
  std::uint64_t bits = 0; // that it belongs to
  std::uint32_t roundings = 0, cuts = 0;
  FloatKind kind = FloatKind::none; // none: there is no shadow
  bool added = false; // of `origin`: something was

  static Shadow of(FloatKind kind, std::uint64_t bits); // starts from the value
  bool trivial() const; // says no more than the value does
};

// Whether a result may be as far from its shadow as it is: within sqrt(roundings) + cuts ulp of its type at its
// magnitude.
//
// A sum of n terms in a format of unit roundoff u = ulp / 2, added one by one, differs by at most lambda sqrt(n) u
// times the sum of magnitudes, but for a probability that falls with exp(-lambda^2 / 2), as long as its roundings are
// independent and without bias (Higham, Mary: A New Approach to Probabilistic Rounding Error Analysis, 2019); more than
// that comes of roundings that all go one way, as of a sum that swallows its terms. lambda is 2 here; the n that
// matters is that of the longest chain (a tree of additions has its height). Results that are cut off in one direction
// may each be an ulp away, all to the same side.
double tolerance(const Shadow& shadow);
// How far a real value is from its shadow, in ulp of its kind at the shadow's value; 0 where both are NaN, or where the
// shadow is beyond the largest number and the value infinite; infinite where only one is finite.
double distance_in_ulp(const Shadow& shadow);
bool is_right(const Shadow& shadow);

// Of a register: one value from bit 0, or two halves (of the register) side by side. What was loaded from memory
// without a shadow has origin and bits in the first lane, and no kind.
struct RegisterShadow {
  Shadow lane[2];
};
// The shadow of the `kind` at bit `at` of a register that holds `bits`; if there is none that belongs to them, one that
// starts from the value. `restarted` is then set where another was dropped.
Shadow read_lane(const RegisterShadow* reg, std::uint64_t bits, unsigned at, FloatKind kind, bool& restarted);
bool any_lane(const RegisterShadow* reg, std::uint64_t bits); // a shadow that says more than the value

// Threads that add to one place in memory, by atomics or by loads and stores: in which order.
struct Accumulation {
  std::uint64_t times = 0;
  bool several_threads = false; // of one launch added to one address
  bool atomic = false;
  std::uint64_t order = 0; // digest of the orders at all addresses
};

class Shadows {
 public:
  static std::uint64_t place(std::uint32_t module, std::uint64_t function_and_statement) {
    return (std::uint64_t(module) + 1) << 48 | (function_and_statement & 0xffff'ffff'ffffull);
  }
  static std::uint64_t in_function(std::uint32_t function, std::uint32_t statement) {
    return std::uint64_t(function) << 32 | statement;
  }
  static std::uint32_t module_of(std::uint64_t place) { return std::uint32_t(place >> 48) - 1; }
  static std::uint32_t function_of(std::uint64_t place) { return std::uint32_t(place >> 32 & 0xffff); }
  static std::uint32_t statement_of(std::uint64_t place) { return std::uint32_t(place); }

  // ---- memory, by host address
  const Shadow* find(std::uint64_t address) const;
  void put(std::uint64_t address, const Shadow& shadow); // the element's; forgets it where it is trivial
  void forget(std::uint64_t address, std::uint64_t bytes);
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  // A register's shadow from memory that holds `bits`, and back. `width` in bits.
  void load(RegisterShadow& to, std::uint64_t address, unsigned width, std::uint64_t bits);
  void store(std::uint64_t address, unsigned width, const RegisterShadow* from, std::uint64_t bits);
  // Calls body(address, shadow) for each element in the range that has one, by address.
  void each(std::uint64_t address, std::uint64_t bytes,
            const std::function<void(std::uint64_t, const Shadow&)>& body) const;

  // ---- what is counted
  void restart() { ++restarts_; }
  std::uint64_t restarts() const { return restarts_; }
  std::uint64_t steps = 0; // results computed twice
  // A thread (unique in its launch) has added to the address by the instruction at `place`.
  void accumulated(std::uint64_t place, std::uint64_t address, std::uint32_t launch, std::uint64_t thread, bool atomic);
  std::map<std::uint64_t, Accumulation> accumulations() const; // by place

 private:
  static constexpr std::uint64_t page_bytes = 4096;
  struct Page { // an index into shadows_ for each two bytes; 0: none
    std::uint32_t at[page_bytes / 2] = {};
    std::uint32_t used = 0;
  };
  Page* page_of(std::uint64_t address) const;

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  mutable std::uint64_t last_page_ = ~std::uint64_t(0);
  mutable Page* last_ = nullptr;
  std::vector<Shadow> shadows_ = std::vector<Shadow>(1);
  std::vector<std::uint32_t> unused_;
  std::uint64_t restarts_ = 0;
  struct Order {
    std::uint64_t last = 0, digest = 0;
    std::uint32_t launch = 0;
  };
  struct Site {
    std::uint64_t times = 0;
    bool several_threads = false, atomic = false;
    std::unordered_map<std::uint64_t, Order> addresses;
  };
  std::map<std::uint64_t, Site> sites_;
};

} // namespace deadheat::engine
