// A witness unpacked: the commands of its run and the bytes that they hand to the device. Needs no engine, so that a
// machine with a GPU and without LLVM can replay witnesses.
//
// Thread-safety: immutable after open().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/trace.h"
#include "replay/search/temporary_directory.h"
#include "replay/search/witness.h"
#include "tracer/recorder/reader.h"

namespace deadheat::hardware {

class Capsule {
 public:
  static Expected<Capsule> open(const std::string& witness_file);

  const search::Witness& witness() const { return witness_; }
  const std::vector<trace::Record>& commands() const { return commands_; }
  std::uint64_t seed() const { return seed_; } // of the embedded device that made it
  Expected<std::vector<std::uint8_t>> blob(const trace::BlobHash& hash) const { return reader_.blob(hash); }
  Expected<std::vector<std::uint8_t>> bytes(const trace::Bytes& bytes) const { return reader_.bytes(bytes); }

 private:
  Capsule(search::TemporaryDirectory directory, search::Witness witness, trace::TraceReader reader)
      : directory_(std::move(directory)), witness_(std::move(witness)), reader_(std::move(reader)) {}

  search::TemporaryDirectory directory_;
  search::Witness witness_;
  trace::TraceReader reader_;
  std::vector<trace::Record> commands_;
  std::uint64_t seed_ = 0;
};

} // namespace deadheat::hardware
