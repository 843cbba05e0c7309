// printf of the device: its format string and argument buffer to text.
#include <cstdio>
#include <cstring>

#include "replay/device/services.h"

namespace deadheat::device {

namespace {

class Arguments {
 public:
  Arguments(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
  template <typename T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value{};
    if (bytes_ && at_ + sizeof(T) <= size_) std::memcpy(&value, bytes_ + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  const std::uint8_t* bytes_;
  std::size_t size_, at_ = 0;
};

template <typename T>
std::string one(const std::string& specification, T value) {
  char small[128];
  const int length = std::snprintf(small, sizeof small, specification.c_str(), value);
  if (length < 0) return {};
  if (std::size_t(length) < sizeof small) return std::string(small, std::size_t(length));
  std::string text(std::size_t(length) + 1, 0);
  std::snprintf(text.data(), text.size(), specification.c_str(), value);
  text.pop_back();
  return text;
}

} // namespace

std::string format_device(const std::string& format, const std::uint8_t* arguments, std::size_t argument_bytes,
                          std::string (*read_string)(void*, std::uint64_t), void* context, std::int32_t* count) {
  Arguments next(arguments, argument_bytes);
  std::string out;
  *count = 0;
  for (std::size_t i = 0; i < format.size();) {
    if (format[i] != '%') {
      out += format[i++];
      continue;
    }
    const std::size_t start = i++;
    if (i < format.size() && format[i] == '%') {
      out += '%';
      ++i;
      continue;
    }
    // %[flags][width][.precision][size]type; a '*' takes its value from the arguments.
    std::string specification = "%";
    while (i < format.size() && std::strchr("-+ #0", format[i])) specification += format[i++];
    for (int part = 0; part < 2; ++part) {
      if (part == 1) {
        if (i >= format.size() || format[i] != '.') break;
        specification += format[i++];
      }
      if (i < format.size() && format[i] == '*') {
        specification += std::to_string(next.next<std::int32_t>());
        ++i;
      } else {
        while (i < format.size() && format[i] >= '0' && format[i] <= '9') specification += format[i++];
      }
    }
    if (specification.size() > 32) specification = "%"; // no width that long is meant
    bool wide = false;
    while (i < format.size() && std::strchr("hlLzjt", format[i])) {
      wide |= format[i] != 'h';
      ++i;
    }
    const char type = i < format.size() ? format[i] : 0;
    if (type) ++i;
    ++*count;
    switch (type) {
      case 'd':
      case 'i':
        out += wide ? one(specification + "ll" + type, static_cast<long long>(next.next<std::int64_t>()))
                    : one(specification + type, next.next<std::int32_t>());
        break;
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        out += wide ? one(specification + "ll" + type, static_cast<unsigned long long>(next.next<std::uint64_t>()))
                    : one(specification + type, next.next<std::uint32_t>());
        break;
      case 'c': out += one(specification + type, next.next<std::int32_t>()); break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A': out += one(specification + type, next.next<double>()); break;
      case 'p': out += one(specification + type, reinterpret_cast<void*>(next.next<std::uint64_t>())); break;
      case 's': {
        const std::uint64_t address = next.next<std::uint64_t>();
        out += one(specification + type, address ? read_string(context, address).c_str() : "(null)");
        break;
      }
      default: // as CUDA does: what is not understood is printed as it stands
        --*count;
        out.append(format, start, i - start);
        break;
    }
  }
  return out;
}

} // namespace deadheat::device
