#include "tracer/recorder/encoder.h"

#include <stdexcept>

#include "tracer/recorder/fields.h"

namespace deadheat::trace {

// A varint of nine or ten bytes: the lowest 56 bits are spread over eight at once.
static std::uint8_t* put_long_varint(std::uint8_t* p, std::uint64_t v) {
  std::uint64_t low = (v & 0x0000'0000'0FFF'FFFF) | (v & 0x00FF'FFFF'F000'0000) << 4;
  low = (low & 0x0000'3FFF'0000'3FFF) | (low & 0x0FFF'C000'0FFF'C000) << 2;
  low = (low & 0x007F'007F'007F'007F) | (low & 0x3F80'3F80'3F80'3F80) << 1;
  low |= 0x8080'8080'8080'8080;
  std::memcpy(p, &low, 8);
  return put_varint(p + 8, v >> 56);
}

// Walks the fields of a record and appends them.
struct FieldWriter {
  Encoder& e;

  template <class... T> void operator()(T&... values) { (item(values), ...); }

  void number(std::uint64_t v) { e.at_ = put_varint(e.at_, v); }
  void bytes(const void* data, std::size_t size) {
    e.make_room(size);
    if (size) std::memcpy(e.at_, data, size);
    e.at_ += size;
  }
  void text(const std::string& s) {
    e.string_bytes_ += s.size();
    if (e.string_bytes_ > max_string_bytes) throw std::length_error("strings of a record");
    number(s.size());
    bytes(s.data(), s.size());
  }

  void item(bool v) { *e.at_++ = v; }
  void item(std::uint8_t v) { *e.at_++ = v; }
  void item(std::uint32_t v) { number(v); }
  void item(std::uint64_t v) { number(v); }
  void item(std::int32_t v) { number(zigzag(std::uint64_t(std::int64_t(v)))); }
  void item(const std::string& s) { text(s); }
  void item(const BlobHash& hash) { bytes(hash.data(), hash.size()); }
  void item(const std::vector<std::uint8_t>& v) {
    number(v.size());
    bytes(v.data(), v.size());
  }
  void item(const std::vector<std::uint64_t>& v) { // footprints: hundreds of addresses
    number(v.size());
    e.make_room(10 * v.size());
    for (const std::uint64_t n : v) e.at_ = n >> 56 ? put_long_varint(e.at_, n) : put_varint(e.at_, n);
  }
  template <class T> void item(const std::vector<T>& v) {
    number(v.size());
    for (const T& element : v) {
      e.make_room(0);
      item(element);
    }
  }
  template <class... T> void item(const std::variant<T...>& v) {
    *e.at_++ = std::uint8_t(v.index());
    std::visit([&](const auto& what) { item(what); }, v);
  }
  template <class T>
    requires std::is_enum_v<T>
  void item(T v) {
    *e.at_++ = std::uint8_t(v);
  }
  template <class T>
    requires std::is_class_v<T>
  void item(const T& v) {
    fields(*this, const_cast<T&>(v)); // this side only reads
  }

  void interned(const std::string& s) {
    auto [entry, fresh] = e.interned_.try_emplace(s, std::uint32_t(e.interned_.size()));
    if (!fresh) {
      e.string_bytes_ += s.size();
      if (e.string_bytes_ > max_string_bytes) throw std::length_error("strings of a record");
      number(entry->second + 1);
      return;
    }
    number(0);
    text(s);
  }

  void site(std::uint32_t site) {
    e.at_ = put_difference(e.at_, site, e.state_.site);
    e.state_.move_to(site);
  }
  void mask(std::uint32_t mask) { number(std::uint32_t(~mask)); }
  template <class Word> void column(const std::array<Word, 32>& values, std::uint32_t mask) {
    if (mask == 0) return;
    std::uint8_t* mode = e.at_++;
    std::uint64_t base = 0;
    std::int64_t stride = 0;
    *mode = std::uint8_t(put_column(e.at_, values.data(), mask, base, stride));
  }
};

void Encoder::reserve(std::size_t target) { make_room(target); }

void Encoder::make_room(std::size_t bytes) {
  const std::size_t used = begin_ ? size() : 0;
  const std::size_t needed = used + bytes + record_slack;
  if (needed <= capacity_) return;
  const std::size_t capacity = needed + needed / 2;
  std::unique_ptr<std::uint8_t[]> grown(new std::uint8_t[capacity]);
  if (used) std::memcpy(grown.get(), begin_.get(), used);
  begin_ = std::move(grown);
  at_ = begin_.get() + used;
  capacity_ = capacity;
}

void Encoder::clear() {
  if (capacity_ > 4 * chunk_target_bytes) { // a huge record went through: do not keep its room
    begin_.reset();
    at_ = nullptr;
    capacity_ = 0;
    reserve(chunk_target_bytes);
  }
  at_ = begin_.get();
  records_ = accesses_ = 0;
  state_ = DeltaState{};
}

void Encoder::go_to(const Warp& warp, std::uint32_t module) {
  Warp& now = state_.warp;
  unsigned changed = unsigned(warp.launch != now.launch) | unsigned(warp.block != now.block) << 1 |
                     unsigned(warp.warp != now.warp) << 2 | unsigned(module != state_.module) << 3;
  if (changed == 0) return;
  *at_++ = std::uint8_t(context_tag | changed);
  if (changed & 1) at_ = put_difference(at_, warp.launch, now.launch);
  if (changed & 2) at_ = put_difference(at_, warp.block, now.block);
  if (changed & 4) at_ = put_difference(at_, warp.warp, now.warp);
  if (changed & 8) at_ = put_difference(at_, module, state_.module);
  now = warp;
  state_.module = module;
}

namespace {

template <class T> constexpr std::uint8_t tag_of() {
#define DEADHEAT_TAG(type, number) \
  if (std::is_same_v<T, type>) return number;
  DEADHEAT_TRACE_FRAMED(DEADHEAT_TAG)
  DEADHEAT_TRACE_COMPACT(DEADHEAT_TAG)
#undef DEADHEAT_TAG
  return 0;
}

} // namespace

template <class T> void Encoder::record(const T& r) {
  FieldWriter out{*this};
  if constexpr (tag_of<T>() < context_tag) {
    const std::size_t start = begin_ ? size() : 0;
    try {
      if (!interned_.empty()) interned_.clear();
      string_bytes_ = 0;
      make_room(0);
      *at_++ = tag_of<T>();
      at_ += 4;
      out.item(r);
      const std::size_t length = size() - start - 5;
      if (length > max_record_bytes) throw std::length_error("record");
      const std::uint32_t frame = std::uint32_t(length);
      std::memcpy(begin_.get() + start + 1, &frame, 4);
    } catch (...) {
      at_ = begin_.get() + start;
      throw;
    }
  } else {
    make_room(0);
    if constexpr (requires { r.warp.warp; }) {
      if constexpr (requires { r.module; }) {
        go_to(r.warp, r.module);
      } else {
        go_to(r.warp, state_.module);
      }
    } else if constexpr (requires { r.module; }) {
      go_to({r.launch, r.block, state_.warp.warp}, r.module);
    } else {
      go_to({r.launch, r.block, state_.warp.warp}, state_.module);
    }
    *at_++ = tag_of<T>();
    out.item(r);
  }
  records_++;
}

#define DEADHEAT_INSTANTIATE(type, number) template void Encoder::record<type>(const type&);
DEADHEAT_TRACE_FRAMED(DEADHEAT_INSTANTIATE)
DEADHEAT_TRACE_COMPACT(DEADHEAT_INSTANTIATE)
#undef DEADHEAT_INSTANTIATE

namespace {

bool all_zero(const std::uint32_t* digest, std::uint32_t mask) {
  std::uint32_t any = 0;
  if (mask == full_mask) {
    for (unsigned lane = 0; lane < 32; lane++) any |= digest[lane];
  } else {
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) any |= digest[std::countr_zero(rest)];
  }
  return any == 0;
}

// Digests of the lanes in `mask`, not all zero; returns the mode.
unsigned put_digests(std::uint8_t*& p, const std::uint32_t* digest, std::uint32_t mask) {
  const unsigned first = unsigned(std::countr_zero(mask));
  std::uint32_t uneven = 0;
  std::int32_t step = 0;
  if (const std::uint32_t rest = mask & (mask - 1)) {
    const unsigned second = unsigned(std::countr_zero(rest));
    step = std::int32_t(digest[second] - digest[first]) / std::int32_t(second - first);
  }
  if (mask == full_mask) {
    for (unsigned i = 0; i < 31; i++) uneven |= (digest[i + 1] - digest[i]) ^ std::uint32_t(step);
  } else {
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      uneven |= digest[lane] ^ (digest[first] + std::uint32_t(step) * (lane - first));
    }
  }
  if (uneven == 0) {
    std::memcpy(p, &digest[first], 4);
    p += 4;
    if (step == 0) return 1;
    p = put_varint(p, zigzag(std::uint64_t(std::int64_t(step))));
    return 2;
  }
  if (mask == full_mask) {
    std::memcpy(p, digest, 128);
    p += 128;
    return 3;
  }
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    std::memcpy(p, &digest[std::countr_zero(rest)], 4);
    p += 4;
  }
  return 3;
}

} // namespace

void Encoder::access(const AccessView& view) {
  namespace bits = access_bits;
  const std::uint32_t mask = view.mask;
  if (mask == 0) return;
  make_room(0);
  go_to(view.warp, view.module);

  std::uint8_t* tag = at_++;
  unsigned head = access_tag, extra = 0;
  std::uint8_t* extras = nullptr;
  const bool other_space = view.space != Space::global && view.space != Space::shared;
  const bool digests = view.digest && !all_zero(view.digest, mask);
  if (digests || view.strong || other_space) extras = at_++;
  if (view.space == Space::shared) head |= bits::shared;
  if (other_space) {
    extra |= bits::other_space;
    *at_++ = std::uint8_t(view.space);
  }
  if (state_.of(state_.site).next != view.site) {
    head |= bits::named_site;
    at_ = put_difference(at_, view.site, state_.site);
  }
  state_.move_to(view.site);
  if (mask != full_mask) {
    if (mask == state_.mask) {
      head |= 1u << bits::mask_shift;
    } else {
      head |= 2u << bits::mask_shift;
      at_ = put_varint(at_, mask);
    }
  }
  state_.mask = mask;
  DeltaState::Slot& slot = state_.of(view.site);
  head |= unsigned(put_column(at_, view.address, mask, slot.base, slot.stride)) << bits::column_shift;
  if (digests) extra |= put_digests(at_, view.digest, mask);
  if (view.strong) {
    extra |= bits::strong;
    std::uint8_t* modes = at_++;
    std::uint64_t base = 0;
    std::int64_t stride = 0;
    unsigned columns = unsigned(put_column(at_, view.value_read, mask, base, stride));
    base = 0, stride = 0;
    columns |= unsigned(put_column(at_, view.value_written, mask, base, stride)) << 2;
    stride = 0;
    columns |= unsigned(put_column(at_, view.order_first, mask, state_.order, stride)) << 4;
    std::uint64_t width[32] = {};
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      width[lane] = view.order_last[lane] - view.order_first[lane];
    }
    base = 0, stride = 0;
    columns |= unsigned(put_column(at_, width, mask, base, stride)) << 6;
    *modes = std::uint8_t(columns);
    const std::uint32_t wrote = view.wrote & mask;
    if (wrote == mask) {
      extra |= 1u << bits::wrote_shift;
    } else if (wrote != 0) {
      extra |= 2u << bits::wrote_shift;
      at_ = put_varint(at_, wrote);
    }
  }
  if (extras) {
    head |= bits::extras;
    *extras = std::uint8_t(extra);
  }
  *tag = std::uint8_t(head);
  records_++;
  accesses_ += std::uint32_t(std::popcount(mask));
}

} // namespace deadheat::trace
