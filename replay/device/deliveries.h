// What the host finds in its memory where operations put something, once it may look there: when it has waited for the
// operation. Bytes that others have left on top by then are gone, those of operations that it has not waited for are
// not there yet. So it shows which of two unordered writes came last, and nothing depends on when operations that the
// host does not wait for are performed.
//
// Of what nobody waits for so much is kept, in operations and in bytes; beyond that the oldest count as looked at.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "deadheat/trace.h"

namespace deadheat::device {

class Deliveries {
 public:
  // What the host finds of what `operation` brought it; `source`: device address of the first byte.
  using Found =
      std::function<void(std::uint32_t operation, std::uint64_t source, const std::vector<std::uint8_t>& bytes)>;

  struct Limits {
    std::size_t operations = 1 << 16;
    std::uint64_t bytes = std::uint64_t(256) << 20;
    std::uint64_t compared = std::uint64_t(16) << 20; // by may_have_written
  };
  explicit Deliveries(Found found) : Deliveries(std::move(found), Limits()) {}
  Deliveries(Found found, Limits limits) : found_(std::move(found)), limits_(limits) {}

  // `after`: as StreamOrder::submitted gives them.
  void submitted(std::uint32_t operation, const std::vector<std::uint32_t>& after);

  // Operations as they are performed. A copy that brings the host bytes, row by row one after another:
  void brought(std::uint32_t operation, std::uint64_t source, const trace::MemoryRange& destination,
               std::vector<std::uint8_t> bytes);
  // Any other write; `bytes` is called where it meets something that the host has still to look at.
  void wrote(std::uint32_t operation, const trace::MemoryRange& destination,
             const std::function<std::vector<std::uint8_t>()>& bytes);
  // A write that nobody saw: what differs from what is known to have been written, where `is_there` says that the host
  // and the device share the memory. It is read at its address. Where more bytes are kept than can be compared each
  // time, nothing is looked for.
  void may_have_written(std::uint32_t operation, const std::function<bool(std::uint64_t address)>& is_there);

  // The host knows that these are complete, and what comes before them.
  void waited_for(const std::vector<std::uint32_t>& operations);
  // A host function begins: it knows of what comes before it.
  void begun(std::uint32_t operation);
  void end(); // it will not wait any more

 private:
  struct Write {
    std::uint32_t operation = 0;
    std::uint64_t source = 0;
    trace::MemoryRange destination;
    std::vector<std::uint8_t> bytes;
    bool to_find = false; // the host has still to look at it
    bool known = false;
  };
  struct Operation {
    std::vector<std::uint32_t> after;
    bool wrote = false;
  };
  class Image;
  void add(Write write);
  void find(Write& write, const Image* image);
  void drop_oldest();
  void forget_known();
  bool meets(const trace::MemoryRange& range) const;

  Found found_;
  const Limits limits_;
  std::map<std::uint32_t, Operation> unknown_; // not known to be complete
  std::deque<Write> writes_; // as they were performed
  std::uint64_t bytes_ = 0; // in these
};

} // namespace deadheat::device
