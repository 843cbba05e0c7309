#include "replay/hardware/capsule.h"

namespace deadheat::hardware {

Expected<Capsule> Capsule::open(const std::string& witness_file) {
  Expected<search::TemporaryDirectory> directory = search::TemporaryDirectory::create();
  if (!directory) return directory.error();
  Expected<search::Witness> witness = search::read_witness(witness_file, directory->path());
  if (!witness) return witness.error();
  Expected<trace::TraceReader> reader = trace::TraceReader::open(directory->path());
  if (!reader) return reader.error();
  if (reader->logs().empty()) return Error{"the witness has no commands", witness_file};
  Expected<trace::LogReader> log = reader->open_log(0);
  if (!log) return log.error();
  Capsule capsule(*std::move(directory), *std::move(witness), *std::move(reader));
  struct Visitor : trace::RecordVisitor {
    Capsule& capsule;
    explicit Visitor(Capsule& c) : capsule(c) {}
    bool access(const trace::AccessView&) override { return true; }
    bool record(trace::Record& record) override {
      if (auto* process = std::get_if<trace::Process>(&record)) capsule.seed_ = process->seed;
      capsule.commands_.push_back(std::move(record));
      return true;
    }
  } visitor(capsule);
  log->for_each(visitor);
  if (!log->complete()) return Error{"the witness's commands cannot be read whole", witness_file, "make it again"};
  return capsule;
}

} // namespace deadheat::hardware
