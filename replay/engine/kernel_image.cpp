#include "replay/engine/kernel_image.h"

#include <cstring>
#include <type_traits>

namespace deadheat::engine {

namespace {

// One description of the layout for both directions: numbers as they lie in memory, lists behind their length.
class Writer {
 public:
  std::string bytes;
  template <typename T>
  bool number(T& v) {
    bytes.append(reinterpret_cast<const char*>(&v), sizeof v);
    return true;
  }
  bool text(std::string& s) {
    std::uint64_t n = s.size();
    number(n);
    bytes += s;
    return true;
  }
  template <typename T, typename Each>
  bool list(std::vector<T>& items, const Each& each) {
    std::uint64_t n = items.size();
    number(n);
    for (T& item : items) each(item);
    return true;
  }
};

class Reader {
 public:
  explicit Reader(const std::vector<char>& bytes) : at_(bytes.data()), rest_(bytes.size()) {}
  template <typename T>
  bool number(T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (rest_ < sizeof v) return false;
    std::memcpy(&v, at_, sizeof v);
    return skip(sizeof v);
  }
  bool text(std::string& s) {
    std::uint64_t n = 0;
    if (!number(n) || n > rest_) return false;
    s.assign(at_, n);
    return skip(n);
  }
  template <typename T, typename Each>
  bool list(std::vector<T>& items, const Each& each) {
    std::uint64_t n = 0;
    if (!number(n) || n > rest_) return false;
    items.resize(n);
    for (T& item : items)
      if (!each(item)) return false;
    return true;
  }
  bool done() const { return rest_ == 0; }

 private:
  bool skip(std::uint64_t n) {
    at_ += n;
    rest_ -= n;
    return true;
  }
  const char* at_;
  std::uint64_t rest_;
};

template <typename Stream>
bool fields(Stream& s, KernelImage& image) {
  auto number = [&](auto& v) { return s.number(v); };
  return s.list(image.frame_bytes, number) && s.list(image.params_offset, number) &&
         s.list(image.cleared_bytes, number) && s.text(image.object);
}

template <typename Stream>
bool fields(Stream& s, RegionImage& image) {
  auto number = [&](auto& v) { return s.number(v); };
  auto stop = [&](RegionStop& at) {
    return s.number(at.site) && s.list(at.needs, number) && s.list(at.changes, number) &&
           s.list(at.changes_inside, number);
  };
  auto guess = [&](RegionGuess& g) { return s.number(g.offset) && s.number(g.bytes) && s.number(g.stride); };
  auto range = [&](RegionRange& r) {
    return s.number(r.kind) && s.number(r.space) && s.number(r.operation) && s.number(r.low) && s.number(r.end);
  };
  return s.list(image.code.stops, stop) && s.list(image.code.guesses, guess) && s.list(image.code.ranges, range) &&
         s.number(image.code.saved_words) && s.number(image.code.frame_bytes) && s.text(image.object);
}

template <typename Image>
std::string written(const Image& image) {
  Writer w;
  fields(w, const_cast<Image&>(image));  // which a writer leaves alone
  return std::move(w.bytes);
}
template <typename Image>
bool understood(const std::vector<char>& bytes, Image& image) {
  Reader r(bytes);
  return fields(r, image) && r.done();
}

}  // namespace

std::string write(const KernelImage& image) { return written(image); }
std::string write(const RegionImage& image) { return written(image); }
bool read(const std::vector<char>& bytes, KernelImage& image) {
  return understood(bytes, image) && image.frame_bytes.size() == image.params_offset.size() &&
         image.frame_bytes.size() == image.cleared_bytes.size();
}
bool read(const std::vector<char>& bytes, RegionImage& image) { return understood(bytes, image); }

}  // namespace deadheat::engine
