// Random records of every kind, and records as flat text for comparison. Both walk the same list of fields that the
// encoder walks; trace_roundtrip.cpp checks that the list names every member.
#pragma once

#include <random>
#include <sstream>
#include <string>

#include "deadheat/trace_format.h"
#include "tracer/recorder/fields.h"

namespace deadheat::trace {

struct Random {
  std::mt19937_64 engine;
  explicit Random(std::uint64_t seed) : engine(seed) {}

  std::uint64_t below(std::uint64_t n) { return engine() % n; }
  std::uint64_t number(unsigned width) { // small, large and extreme ones
    const std::uint64_t all = width == 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << width) - 1;
    switch (below(6)) {
      case 0: return 0;
      case 1: return all;
      case 2: return below(200);
      default: return engine() >> below(64) & all;
    }
  }

  // ---- The walker.
  template <class... T> void operator()(T&... values) { (item(values), ...); }
  void item(bool& v) { v = below(2); }
  void item(std::uint8_t& v) { v = std::uint8_t(number(8)); }
  void item(std::uint32_t& v) { v = std::uint32_t(number(32)); }
  void item(std::uint64_t& v) { v = number(64); }
  void item(std::int32_t& v) { v = std::int32_t(number(32)); }
  void item(std::string& s) {
    static const char* const usual[] = {"", "_Z6kernelPf", "ld.global.f32", "/src/a.cu"};
    s = usual[below(4)];
    if (below(3) == 0) {
      s.clear();
      for (std::uint64_t n = below(40); n; n--) s += char(below(256));
    }
  }
  void item(BlobHash& hash) {
    for (std::uint8_t& byte : hash) byte = std::uint8_t(engine());
  }
  template <class T> void item(std::vector<T>& v) {
    v.resize(below(5));
    for (T& element : v) item(element);
  }
  template <class... T> void item(std::variant<T...>& v) {
    std::size_t which = below(sizeof...(T)), i = 0;
    ((i++ == which ? item(v.template emplace<T>()) : void()), ...);
  }
  template <class T>
    requires std::is_enum_v<T>
  void item(T& v) {
    v = T(below(last_value(T{}) + 1));
  }
  template <class T>
    requires std::is_class_v<T>
  void item(T& v) {
    fields(*this, v);
  }
  void interned(std::string& s) { item(s); }
  void site(std::uint32_t& v) { v = below(3) ? std::uint32_t(below(20)) : std::uint32_t(engine()); }
  void mask(std::uint32_t& v) { v = below(2) ? 0xFFFFFFFF : std::uint32_t(number(32)); }
  template <class Word> void column(std::array<Word, 32>& values, std::uint32_t mask) {
    const Word base = Word(engine() >> below(60)), step = Word(below(2) ? below(64) : engine());
    const std::uint64_t shape = below(4);
    for (unsigned lane = 0; lane < 32; lane++) {
      Word v = 0;
      if (shape == 0) v = base + step * Word(lane);
      if (shape == 1) v = base + step * Word(lane / 8);
      if (shape == 2) v = Word(engine() >> below(60));
      values[lane] = mask >> lane & 1 ? v : Word(0);
    }
  }

  // ---- Records.
  Warp warp() { return {std::uint32_t(below(3)), std::uint32_t(below(4)), std::uint32_t(below(4))}; }
  Access access() {
    Access a;
    a.warp = warp();
    a.module = std::uint32_t(below(3));
    site(a.site);
    do mask(a.mask);
    while (a.mask == 0);
    a.space = Space(below(10) ? 1 + below(2) : below(6));
    column(a.address, a.mask);
    if (below(2)) column(a.digest, a.mask);
    if (below(3) == 0) {
      column(a.value_read, a.mask);
      column(a.value_written, a.mask);
      column(a.order_first, a.mask);
      for (unsigned lane = 0; lane < 32; lane++) {
        if (a.mask >> lane & 1) a.order_last[lane] = a.order_first[lane] + (below(2) ? 0 : engine());
      }
      const std::uint32_t wrote = below(2) ? ~0u : std::uint32_t(engine());
      for (unsigned lane = 0; lane < 32; lane++) a.wrote[lane] = a.mask & wrote & 1u << lane;
    }
    return a;
  }
  template <class T> T record() {
    T r;
    item(r);
    if constexpr (requires { r.warp.warp; }) r.warp = warp();
    return r;
  }
  Record any() {
    if (below(3) == 0) return access();
    Record r;
    const std::uint64_t kinds = std::variant_size_v<Record>;
    pick(r, below(kinds), std::make_index_sequence<std::variant_size_v<Record>>{});
    return r;
  }

 private:
  template <std::size_t... I> void pick(Record& r, std::size_t which, std::index_sequence<I...>) {
    ((I == which ? pick_one<I>(r) : void()), ...);
  }
  template <std::size_t I> void pick_one(Record& r) {
    using T = std::variant_alternative_t<I, Record>;
    if constexpr (std::is_same_v<T, Access>) {
      r = access();
    } else {
      r = record<T>();
    }
  }
};

// Every value of a record, in order.
struct Flat {
  std::ostringstream out;

  template <class... T> void operator()(T&... values) { (item(values), ...); }
  template <class T>
    requires std::is_arithmetic_v<T>
  void item(T v) {
    out << std::int64_t(v) << ' ';
  }
  template <class T>
    requires std::is_enum_v<T>
  void item(T v) {
    out << unsigned(v) << ' ';
  }
  void item(const std::string& s) { out << s.size() << ':' << s << ' '; }
  template <class T, std::size_t N> void item(const std::array<T, N>& v) {
    for (const T& element : v) item(element);
  }
  template <class T> void item(const std::vector<T>& v) {
    out << '[' << v.size() << ' ';
    for (const T& element : v) item(element);
  }
  template <class... T> void item(const std::variant<T...>& v) {
    out << '<' << v.index() << ' ';
    std::visit([this](const auto& what) { this->item(what); }, v);
  }
  void item(const Warp& w) { out << w.launch << '/' << w.block << '/' << w.warp << ' '; }
  void item(const Access& a) {
    item(a.warp);
    (*this)(a.module, a.site, a.mask, a.space, a.address, a.digest, a.value_read, a.value_written, a.order_first,
            a.order_last, a.wrote);
  }
  template <class T>
    requires std::is_class_v<T>
  void item(const T& v) {
    if constexpr (requires { v.warp.warp; }) item(v.warp);
    if constexpr (requires {
                    v.launch;
                    v.block;
                    v.phase;
                  })
      (*this)(v.launch, v.block);
    if constexpr (requires { v.module; }) item(v.module);
    fields(*this, const_cast<T&>(v));
  }
  void interned(const std::string& s) { item(s); }
  void site(std::uint32_t v) { item(v); }
  void mask(std::uint32_t v) { item(v); }
  template <class Word> void column(const std::array<Word, 32>& values, std::uint32_t) { item(values); }
};

inline Process process_of(std::uint32_t pid) {
  Process process;
  process.pid = pid;
  process.start_nanoseconds = 1;
  process.command = {"./a.out"};
  return process;
}

inline std::string flat(const Record& record) {
  Flat flat;
  flat.item(record);
  return flat.out.str();
}

} // namespace deadheat::trace
