#include "tracer/recorder/decoder.h"

#include <bit>

#include "deadheat/trace_format.h"
#include "tracer/recorder/fields.h"

namespace deadheat::trace {
namespace {

constexpr std::uint64_t zeros[32] = {};
constexpr std::uint32_t no_digests[32] = {};

} // namespace

// Walks the fields of a record and fills them from [p, end). After anything unreadable `ok` is false and what is left
// reads as zeros.
struct FieldReader {
  DeltaState& state;
  const std::uint8_t* p;
  const std::uint8_t* end;
  std::size_t strings_left;
  bool ok = true;
  std::vector<std::string> interned_strings = {};

  template <class... T> void operator()(T&... values) { (item(values), ...); }

  std::size_t left() const { return std::size_t(end - p); }
  std::uint8_t byte() {
    if (p == end) {
      ok = false;
      return 0;
    }
    return *p++;
  }
  std::uint64_t number() {
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const std::uint8_t b = byte();
      v |= std::uint64_t(b & 0x7F) << shift;
      if (!(b & 0x80)) return v;
    }
    ok = false;
    return 0;
  }
  // A count of things that take at least a byte each.
  std::size_t count() {
    const std::uint64_t n = number();
    if (n > left()) {
      ok = false;
      return 0;
    }
    return std::size_t(n);
  }
  bool spend(std::size_t bytes) {
    if (bytes > strings_left) ok = false;
    if (ok) strings_left -= bytes;
    return ok;
  }

  void item(bool& v) {
    const std::uint8_t b = byte();
    if (b > 1) ok = false;
    v = b == 1;
  }
  void item(std::uint8_t& v) { v = byte(); }
  void item(std::uint32_t& v) {
    const std::uint64_t n = number();
    if (n > 0xFFFFFFFF) ok = false;
    v = std::uint32_t(n);
  }
  void item(std::uint64_t& v) { v = number(); }
  void item(std::int32_t& v) {
    const std::int64_t n = std::int64_t(unzigzag(number()));
    if (n != std::int32_t(n)) ok = false;
    v = std::int32_t(n);
  }
  void item(std::string& s) {
    const std::size_t n = count();
    if (!spend(n)) return;
    s.assign(reinterpret_cast<const char*>(p), n);
    p += n;
  }
  void item(BlobHash& hash) {
    if (left() < hash.size()) {
      ok = false;
      return;
    }
    std::memcpy(hash.data(), p, hash.size());
    p += hash.size();
  }
  void item(std::vector<std::uint8_t>& v) {
    const std::size_t n = count();
    if (!ok) return;
    v.assign(p, p + n);
    p += n;
  }
  template <class T> void item(std::vector<T>& v) {
    v.clear();
    for (std::size_t n = count(); n && ok; n--) item(v.emplace_back());
  }
  template <class... T> void item(std::variant<T...>& v) {
    const std::size_t index = byte();
    std::size_t i = 0;
    const bool known = ((i++ == index ? (item(v.template emplace<T>()), true) : false) || ...);
    if (!known) ok = false;
  }
  template <class T>
    requires std::is_enum_v<T>
  void item(T& v) {
    const std::uint8_t b = byte();
    if (b > last_value(T{})) ok = false;
    v = ok ? T(b) : T{};
  }
  template <class T>
    requires std::is_class_v<T>
  void item(T& v) {
    fields(*this, v);
  }

  void interned(std::string& s) {
    const std::uint64_t index = number();
    if (index == 0) {
      item(s);
      interned_strings.push_back(s);
      return;
    }
    if (index > interned_strings.size()) ok = false;
    if (ok && spend(interned_strings[index - 1].size())) s = interned_strings[index - 1];
  }

  void site(std::uint32_t& site) {
    site = state.site + std::uint32_t(unzigzag(number()));
    state.move_to(site);
  }
  void mask(std::uint32_t& mask) {
    item(mask);
    mask = ~mask;
  }
  // Unchecked bytes: at most 32 · 8 + 21 beyond `end`, which the payload's slack covers.
  template <class Word> void column(std::array<Word, 32>& values, std::uint32_t mask) {
    if (mask == 0 || !ok) return;
    const std::uint8_t mode = byte();
    std::uint64_t base = 0;
    std::int64_t stride = 0;
    if (mode > 3 || !get_column(p, Column(mode), values.data(), mask, base, stride) || p > end) {
      ok = false;
      p = end;
    }
  }
};

Decoder::Decoder(const Payload& payload) : Decoder(payload, max_string_bytes) {}

Decoder::Decoder(const Payload& payload, std::size_t max_strings)
    : begin_(payload.data()), at_(begin_), end_(begin_ + payload.size()), max_strings_(max_strings) {}

Decoder::Item Decoder::damaged(const char* what) {
  error_ = std::string(what) + " at byte " + std::to_string(position());
  end_ = at_;
  return Item::damaged;
}

bool Decoder::read_context(unsigned tag) {
  const std::uint8_t* p = at_ + 1;
  const auto changed = [&](std::uint32_t& part) {
    std::uint64_t value;
    p = get_difference(p, value, part);
    part = std::uint32_t(value);
  };
  if (tag & 1) changed(state_.warp.launch);
  if (tag & 2) changed(state_.warp.block);
  if (tag & 4) changed(state_.warp.warp);
  if (tag & 8) changed(state_.module);
  if (p > end_) return false;
  at_ = p;
  return true;
}

template <class T> bool Decoder::read_framed(const std::uint8_t* end) {
  FieldReader in{state_, at_ + 5, end, max_strings_};
  fields(in, record_.emplace<T>());
  return in.ok;
}

template <class T> bool Decoder::read_compact() {
  FieldReader in{state_, at_ + 1, end_, 0};
  T& r = record_.emplace<T>();
  if constexpr (requires { r.warp.warp; }) {
    r.warp = state_.warp;
  } else {
    r.launch = state_.warp.launch;
    r.block = state_.warp.block;
  }
  if constexpr (requires { r.module; }) r.module = state_.module;
  fields(in, r);
  if (in.ok) at_ = in.p;
  return in.ok;
}

bool Decoder::read_access(unsigned tag) {
  namespace bits = access_bits;
  const std::uint8_t* p = at_ + 1;
  std::uint64_t number;
  const unsigned extra = tag & bits::extras ? *p++ : 0;
  if (extra >> 6) return false;
  view_.space = tag & bits::shared ? Space::shared : Space::global;
  if (extra & bits::other_space) {
    if (*p > last_value(Space{})) return false;
    view_.space = Space(*p++);
  }
  std::uint32_t site = state_.of(state_.site).next;
  if (tag & bits::named_site) {
    p = get_difference(p, number, state_.site);
    site = std::uint32_t(number);
  }
  state_.move_to(site);
  std::uint32_t mask = full_mask;
  switch (tag >> bits::mask_shift & 3) {
    case 0: break;
    case 1: mask = state_.mask; break;
    case 2:
      p = get_varint(p, number);
      mask = std::uint32_t(number);
      break;
    default: return false;
  }
  if (mask == 0) return false;
  state_.mask = mask;

  DeltaState::Slot& slot = state_.of(site);
  const Column column = Column(tag >> bits::column_shift & 3);
  if (!get_column(p, column, address_, mask, slot.base, slot.stride)) return false;
  view_.affine = column == Column::expected || column == Column::affine;
  view_.stride = view_.affine ? slot.stride : 0;

  const unsigned first = unsigned(std::countr_zero(mask));
  const unsigned digests = extra & bits::digest_mask;
  view_.digest = digests ? digest_ : no_digests;
  if (digests == 3 && mask == full_mask) {
    std::memcpy(digest_, p, 128);
    p += 128;
  } else if (digests == 3) {
    for (std::uint32_t rest = mask; rest; rest &= rest - 1, p += 4) std::memcpy(&digest_[std::countr_zero(rest)], p, 4);
  } else if (digests) {
    std::uint32_t base, step = 0;
    std::memcpy(&base, p, 4);
    p += 4;
    if (digests == 2) {
      p = get_varint(p, number);
      step = std::uint32_t(unzigzag(number));
    }
    for (unsigned lane = first; lane < 32; lane++) digest_[lane] = base + step * (lane - first);
  }

  view_.strong = extra & bits::strong;
  view_.wrote = 0;
  if (view_.strong) {
    const unsigned modes = *p++;
    std::uint64_t base = 0;
    std::int64_t stride = 0;
    if (!get_column(p, Column(modes & 3), value_read_, mask, base, stride)) return false;
    base = 0, stride = 0;
    if (!get_column(p, Column(modes >> 2 & 3), value_written_, mask, base, stride)) return false;
    stride = 0;
    if (!get_column(p, Column(modes >> 4 & 3), order_first_, mask, state_.order, stride)) return false;
    base = 0, stride = 0;
    if (!get_column(p, Column(modes >> 6), order_last_, mask, base, stride)) return false;
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      order_last_[lane] += order_first_[lane];
    }
    switch (extra >> bits::wrote_shift & 3) {
      case 0: break;
      case 1: view_.wrote = mask; break;
      case 2:
        p = get_varint(p, number);
        view_.wrote = std::uint32_t(number) & mask;
        break;
      default: return false;
    }
  }
  if (p > end_) return false;
  view_.warp = state_.warp;
  view_.module = state_.module;
  view_.site = site;
  view_.mask = mask;
  view_.address = address_;
  view_.value_read = view_.strong ? value_read_ : zeros;
  view_.value_written = view_.strong ? value_written_ : zeros;
  view_.order_first = view_.strong ? order_first_ : zeros;
  view_.order_last = view_.strong ? order_last_ : zeros;
  at_ = p;
  return true;
}

Decoder::Item Decoder::next() {
  while (at_ < end_) {
    const unsigned tag = *at_;
    if (tag & access_tag) {
      if (!read_access(tag)) return damaged("an access that makes no sense");
      records_++;
      accesses_ += std::uint64_t(std::popcount(view_.mask));
      return Item::access;
    }
    if (tag >= context_tag && tag < context_tag + 16) {
      if (!read_context(tag)) return damaged("a context that makes no sense");
      continue;
    }
    if (tag < context_tag) {
      std::uint32_t length = 0;
      if (end_ - at_ < 5) return damaged("a record that is cut off");
      std::memcpy(&length, at_ + 1, 4);
      if (length > std::size_t(end_ - at_) - 5) return damaged("a record longer than its chunk");
      const std::uint8_t* end = at_ + 5 + length;
      bool read = false;
      switch (tag) {
#define DEADHEAT_READ(type, number) \
  case number: read = read_framed<type>(end); break;
        DEADHEAT_TRACE_FRAMED(DEADHEAT_READ)
#undef DEADHEAT_READ
        default:
          records_++;
          skipped_++;
          at_ = end;
          continue;
      }
      if (!read) return damaged("a record that makes no sense");
      records_++;
      at_ = end;
      return Item::record;
    }
    bool read = false;
    switch (tag) {
#define DEADHEAT_READ(type, number) \
  case number: read = read_compact<type>(); break;
      DEADHEAT_TRACE_COMPACT(DEADHEAT_READ)
#undef DEADHEAT_READ
      default: break;
    }
    if (!read) return damaged("a record that makes no sense");
    records_++;
    return Item::record;
  }
  return Item::end;
}

} // namespace deadheat::trace
