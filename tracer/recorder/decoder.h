// The raw bytes of an events chunk back to records.
//
// Thread-safety: a Payload is immutable; each Decoder belongs to one thread. Chunks decode on their own, so several
// threads can decode the chunks of a log at once.
//
// Invariants: no byte is trusted. Whatever the payload holds, a Decoder stops at its end or at the first thing that
// makes no sense, reads nothing outside of it, and allocates no more than the limits in trace_format.h allow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/recorder/access_view.h"
#include "tracer/recorder/codec.h"

namespace deadheat::trace {

// Raw bytes of a chunk, followed by record_slack zeros so that compact records are read without a check per byte.
class Payload {
 public:
  Payload() = default;
  explicit Payload(std::size_t size) : bytes_(size + record_slack) {}
  static Payload copy_of(std::span<const std::uint8_t> raw) {
    Payload payload(raw.size());
    if (!raw.empty()) std::memcpy(payload.bytes_.data(), raw.data(), raw.size());
    return payload;
  }
  std::size_t size() const { return bytes_.empty() ? 0 : bytes_.size() - record_slack; }
  std::uint8_t* data() { return bytes_.data(); }
  const std::uint8_t* data() const { return bytes_.data(); }

 private:
  std::vector<std::uint8_t> bytes_;
};

class Decoder {
 public:
  // The payload must outlive the decoder. `max_strings` bounds the string bytes of one record.
  explicit Decoder(const Payload& payload);
  Decoder(const Payload& payload, std::size_t max_strings);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  enum class Item {
    access, // access() holds it
    record, // record() holds it; never an Access
    end,    // no more records
    damaged // error() says what is wrong; nothing after it can be read
  };
  Item next();

  const AccessView& access() const { return view_; }
  const Record& record() const { return record_; }
  Record& record() { return record_; } // may be moved from
  const std::string& error() const { return error_; }
  std::size_t position() const { return std::size_t(at_ - begin_); } // of the next record, in the payload
  // So far: records (skipped ones too), lane accesses in them, framed records of unknown kinds, which are skipped.
  std::uint64_t records() const { return records_; }
  std::uint64_t accesses() const { return accesses_; }
  std::uint64_t skipped() const { return skipped_; }

 private:
  friend struct FieldReader;
  bool read_context(unsigned tag);
  bool read_access(unsigned tag);
  template <class T> bool read_framed(const std::uint8_t* end);
  template <class T> bool read_compact();
  Item damaged(const char* what);

  const std::uint8_t *begin_, *at_, *end_;
  std::size_t max_strings_;
  std::uint64_t records_ = 0, accesses_ = 0, skipped_ = 0;
  std::string error_;
  Record record_;
  AccessView view_;
  DeltaState state_;
  std::uint64_t address_[32] = {}, value_read_[32] = {}, value_written_[32] = {}, order_first_[32] = {},
                order_last_[32] = {};
  std::uint32_t digest_[32] = {};
};

} // namespace deadheat::trace
