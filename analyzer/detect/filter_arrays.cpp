#include "analyzer/detect/filter_arrays.h"

#include <cstring>

namespace deadheat::detect {

void EntryArrays::clear(Name name) const {
  if (name.size < sheet) {
    for (unsigned i = 0; i < lines[name.size]; ++i) at<ArrayLine>(name.id)[i].marks = 0;
  } else {
    std::fill_n(at<SheetLine>(name.id), lines[name.size], SheetLine{});
  }
}

bool EntryArrays::insert(Name name, unsigned unit, Entry added) const {
  if (name.size == sheet) {
    *in_sheet(name.id, unit) = added;
    return true;
  }
  ArrayLine* const begin = at<ArrayLine>(name.id);
  const unsigned first = home(name.size, unit), most = std::min<unsigned>(ArrayLine::most_depth, lines[name.size] - 1u);
  unsigned number = first;
  for (unsigned depth = 0; depth <= most; ++depth, number = next_line(name.size, number)) {
    if (begin[number].taken() == ArrayLine::all) continue;
    begin[number].add(unit, added);
    if (depth) begin[first].deepen(depth);
    return true;
  }
  return false;
}

bool EntryArrays::erase(Name name, Entry* entry) {
  ++moves_;
  auto line_empty = [&](unsigned line) {
    if (name.size < sheet) return at<ArrayLine>(name.id)[line].taken() == 0;
    const SheetLine& of = at<SheetLine>(name.id)[line];
    return std::all_of(of.entry.begin(), of.entry.end(), [](const Entry& one) { return one.segment == 0; });
  };
  const auto line = unsigned(std::size_t(reinterpret_cast<unsigned char*>(entry) - at<unsigned char>(name.id)) / 64);
  if (name.size == sheet) {
    *entry = {};
  } else {
    ArrayLine& of = at<ArrayLine>(name.id)[line];
    of.marks &= ~(1u << unsigned(entry - of.entry.data()));
  }
  if (!line_empty(line)) return false;
  for (unsigned i = 0; i < lines[name.size]; ++i) {
    if (!line_empty(i)) return false;
  }
  return true;
}

void EntryArrays::swept(Name name) const {
  if (name.size == sheet) return;
  for (unsigned i = 0; i < lines[name.size]; ++i) {
    ArrayLine& line = at<ArrayLine>(name.id)[i];
    for (unsigned rest = line.taken(); rest; rest &= rest - 1) {
      if (!line.entry[unsigned(std::countr_zero(rest))].segment) line.marks &= ~(rest & -rest);
    }
  }
}

EntryArrays::Name EntryArrays::make(unsigned size) {
  const Name made{allocate(size), std::uint8_t(size)};
  clear(made);
  return made;
}

bool EntryArrays::move(Name from, Name to) const {
  bool good = true;
  each(from, [&](unsigned unit, const Entry& entry) { good = good && insert(to, unit, entry); });
  return good;
}

EntryArrays::Name EntryArrays::grow(Name from) {
  // The largest arrays have no room any more when they are full to seven eighths. What lies in one then makes a sheet
  // of 12 bytes an entry.
  static_assert(lines[sheet - 1] * ArrayLine::entries * 7 / 8 * 12 > lines[sheet] * 64);
  for (unsigned size = from.size + 1u;; ++size) {
    const Name to = make(size);
    if (move(from, to)) {
      free(from.size, from.id);
      return to;
    }
    free(to.size, to.id);
  }
}

std::uint32_t EntryArrays::allocate(unsigned size) {
  Pool& pool = pools_[size];
  ++pool.used;
  if (!pool.free.empty()) {
    const std::uint32_t id = pool.free.back();
    pool.free.pop_back();
    return id;
  }
  const std::uint32_t in_slab = pool.next % per_slab(size);
  if (in_slab == 0) {
    std::uint32_t slab = std::uint32_t(slabs_.size());
    if (unused_.empty()) {
      slabs_.emplace_back();
    } else {
      slab = unused_.back();
      unused_.pop_back();
    }
    if (slabs_[slab].begin) {
      --spare_;
    } else {
      slabs_[slab].begin.reset(static_cast<unsigned char*>(allocate_slab(!pool.slabs.empty())));
    }
    slabs_[slab].number = std::uint32_t(pool.slabs.size());
    pool.slabs.push_back(slab);
  }
  ++pool.next;
  return pool.slabs.back() * slab_lines + in_slab * lines[size];
}

void EntryArrays::free(unsigned size, std::uint32_t id) {
  ++moves_;
  --pools_[size].used;
  pools_[size].free.push_back(id);
}

std::uint64_t EntryArrays::bytes() const {
  std::uint64_t bytes = spare_ * slab_bytes;
  for (std::size_t size = 0; size < pools_.size(); ++size) {
    const Pool& pool = pools_[size];
    bytes += (pool.used + pool.free.size()) * lines[size] * 64 + pool.free.size() * sizeof(std::uint32_t);
  }
  return bytes;
}

bool EntryArrays::much_free() const {
  constexpr std::uint64_t little = 1 << 14;
  std::uint64_t used = 0, free = 0;
  for (std::size_t size = 0; size < pools_.size(); ++size) {
    used += std::uint64_t(pools_[size].used) * lines[size] * 64;
    free += pools_[size].free.size() * lines[size] * 64;
  }
  return free > used / 16 + little;
}

// Those in use become the first ones of their size.
void EntryArrays::begin_packing() {
  ++moves_;
  for (unsigned size = 0; size < pools_.size(); ++size) {
    std::erase_if(pools_[size].free, [&](std::uint32_t id) { return ordinal(size, id) >= pools_[size].used; });
  }
}

void EntryArrays::pack_one(unsigned size, std::uint32_t& id) {
  Pool& pool = pools_[size];
  if (pool.used == pool.next || ordinal(size, id) < pool.used) return;
  const std::uint32_t to = pool.free.back();
  pool.free.pop_back();
  std::memcpy(at<unsigned char>(to), at<unsigned char>(id), lines[size] * 64u);
  id = to;
}

void EntryArrays::end_packing(bool soon) {
  std::uint64_t used = 0;
  for (unsigned size = 0; size < pools_.size(); ++size) used += std::uint64_t(pools_[size].used) * lines[size] * 64;
  const std::size_t most = soon ? used / 16 / slab_bytes : 0;
  for (; spare_ > most; --spare_) slabs_[unused_[unused_.size() - spare_]].begin.reset();
  for (unsigned size = 0; size < pools_.size(); ++size) {
    Pool& pool = pools_[size];
    pool.next = pool.used;
    pool.free.shrink_to_fit();
    while (pool.slabs.size() > (pool.used + per_slab(size) - 1) / per_slab(size)) {
      const std::uint32_t slab = pool.slabs.back();
      pool.slabs.pop_back();
      if (spare_ < most) {
        ++spare_;
        unused_.push_back(slab);
      } else {
        slabs_[slab].begin.reset();
        unused_.insert(unused_.end() - std::ptrdiff_t(spare_), slab);
      }
    }
  }
}

} // namespace deadheat::detect
