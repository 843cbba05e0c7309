// Runs of a session: what the host receives under a schedule.
#include <algorithm>
#include <cstring>
#include <set>

#include "deadheat/address.h"
#include "deadheat/conditions.h"
#include "replay/device/fault_text.h"
#include "replay/device/trace_sink.h"
#include "replay/engine/tables.h"
#include "replay/search/session.h"
#include "tracer/ptx/demangle.h"
#include "tracer/ptx/sites.h"

namespace deadheat::search {

namespace {

// Collects what the host would receive, and the shadows of it.
class Collector final : public device::Sink {
 public:
  using RowsOf = std::map<std::uint32_t, trace::MemoryRange>; // of copies of several rows, by operation
  explicit Collector(const RowsOf* rows = nullptr, const engine::Shadows* shadows = nullptr,
                     ShadowedRun* shadowed = nullptr)
      : rows_(rows), shadows_(shadows), shadowed_(shadowed) {}
  void record(const trace::Record& record) override {
    if (auto* read = std::get_if<trace::HostRead>(&record)) {
      outputs_.push_back({read->operation, read->address, read->data.inlined});
      if (rows_)
        if (auto rows = rows_->find(read->operation); rows != rows_->end()) outputs_.back().rows = rows->second;
      if (shadows_) take_shadows(outputs_.back());
    }
    if (shadows_) follow(record);
  }
  void weak_accesses(const trace::Warp&, std::uint32_t, const device::LaneLogs&) override {}
  trace::Bytes keep(const void* data, std::uint64_t size) override {
    auto* bytes = static_cast<const std::uint8_t*>(data);
    return {size, {bytes, bytes + size}, {}};
  }
  trace::BlobHash keep_blob(const void*, std::uint64_t) override { return {}; }

  std::vector<Output>& outputs() { return outputs_; }

 private:
  // The host looks at what a copy brought when its source may have changed again.
  void follow(const trace::Record& record) {
    if (auto* operation = std::get_if<trace::Operation>(&record)) {
      const auto* copy = std::get_if<trace::Copy>(&operation->what);
      if (copy && copy->direction == trace::Copy::Direction::d2h) copied_[operation->id].source = copy->source;
    } else if (auto* end = std::get_if<trace::OperationEnd>(&record)) {
      const auto copied = copied_.find(end->operation);
      if (copied == copied_.end()) return;
      Copied& copy = copied->second;
      for (std::uint64_t r = 0; r < copy.source.rows(); ++r)
        each_shadow(copy.source.row(r), copy.source.width, r * copy.source.width,
                    [&](std::uint64_t at, const engine::Shadow& shadow) { copy.shadows.emplace_back(at, shadow); });
    }
  }

  template <typename Do>
  void each_shadow(std::uint64_t row, std::uint64_t width, std::uint64_t offset, Do&& take) const {
    const std::uint64_t here = to_host(row);
    shadows_->each(here, width, [&](std::uint64_t address, const engine::Shadow& shadow) {
      if (address - here + engine::width_of(shadow.kind) / 8 <= width) take(offset + (address - here), shadow);
    });
  }

  // Those that belong to the bytes.
  void take_shadows(const Output& output) {
    auto take = [&](std::uint64_t at, const engine::Shadow& shadow) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, output.bytes.data() + at, engine::width_of(shadow.kind) / 8);
      if (bits == shadow.bits) shadowed_->elements.push_back({output.operation, output.address_at(at), shadow});
    };
    if (const auto copied = copied_.find(output.operation); copied != copied_.end()) {
      for (const auto& [at, shadow] : copied->second.shadows) take(at, shadow);
      copied_.erase(copied);
    } else if (output.operation == 0) {
      each_shadow(output.address, output.bytes.size(), 0, take);
    }
  }

  struct Copied {
    trace::MemoryRange source;
    std::vector<std::pair<std::uint64_t, engine::Shadow>> shadows; // by offset in the bytes
  };
  std::map<std::uint32_t, Copied> copied_; // by operation: what the host has still to look at
  std::vector<Output> outputs_;
  const RowsOf* rows_;
  const engine::Shadows* shadows_;
  ShadowedRun* shadowed_;
};

// The instructions that shadows name.
void describe_places(device::Device& device, ShadowedRun& run) {
  auto describe = [&](std::uint64_t place) {
    if (!place || run.places.count(place)) return;
    RaceSide& side = run.places[place];
    side.name.module = engine::Shadows::module_of(place);
    engine::LoadedModule* module = device.module(side.name.module);
    if (!module) return;
    const ptx::Module& ptx = module->ptx();
    const std::uint32_t function = engine::Shadows::function_of(place), at = engine::Shadows::statement_of(place);
    if (function >= ptx.functions.size() || at >= ptx.functions[function].body.size()) return;
    const ptx::Instruction* instruction = ptx.functions[function].body[at].instruction();
    if (!instruction) return;
    side.kernel = ptx::demangle(ptx.functions[function].name);
    side.opcode = instruction->full_opcode();
    side.source = ptx::source_frames(ptx, instruction->location, ptx.functions[function].name);
    side.name.site = engine::no_site;
    for (const Site& site : module->sites())
      if (site.instruction == at && site.function == ptx.functions[function].name) side.name.site = site.id;
  };
  for (const ShadowedRun::Element& element : run.elements) {
    describe(element.shadow.where);
    describe(element.shadow.sum);
  }
  for (const auto& [place, sum] : run.sums) describe(place);
}

// Does `output` differ from what the reference has for the same operation?
bool departs(const Output& output, const Outputs& reference) {
  if (!output.operation) return false; // printf: compared at the end, it comes in pieces
  auto same = std::lower_bound(reference.outputs.begin(), reference.outputs.end(), output.operation,
                               [](const Output& a, std::uint32_t operation) { return a.operation < operation; });
  for (; same != reference.outputs.end() && same->operation == output.operation; ++same) {
    if (same->address == output.address) return same->bytes != output.bytes;
  }
  return false;
}

// Records until a condition of a graph is another than in the recorded run.
class UntilParted final : public device::Sink {
 public:
  UntilParted(device::Sink& sink, const Outputs& recorded, std::set<std::uint32_t> conditions)
      : sink_(sink), recorded_(recorded), conditions_(std::move(conditions)) {}
  void record(const trace::Record& record) override {
    const auto* read = std::get_if<trace::HostRead>(&record);
    if (read && conditions_.count(read->operation))
      parted_ |= departs({read->operation, read->address, read->data.inlined}, recorded_);
    if (!parted_) sink_.record(record);
  }
  void weak_accesses(const trace::Warp& warp, std::uint32_t module, const device::LaneLogs& logs) override {
    if (!parted_) sink_.weak_accesses(warp, module, logs);
  }
  trace::Bytes keep(const void* data, std::uint64_t size) override { return sink_.keep(data, size); }
  trace::BlobHash keep_blob(const void* data, std::uint64_t size) override { return sink_.keep_blob(data, size); }

  bool parted() const { return parted_; }

 private:
  device::Sink& sink_;
  const Outputs& recorded_;
  const std::set<std::uint32_t> conditions_;
  bool parted_ = false;
};

std::set<std::uint32_t> conditions_of(const Commands& commands) {
  std::set<std::uint32_t> reads;
  for (const auto& command : commands) {
    const auto* operation = std::get_if<trace::Operation>(command.get());
    const auto* copy = operation ? std::get_if<trace::Copy>(&operation->what) : nullptr;
    if (copy && copy->api == condition_read) reads.insert(operation->id);
  }
  return reads;
}

constexpr const char* hold_troubles[] = {
    "neither access was reached under this schedule",
    "one of the two accesses was not reached under this schedule: control flow depends on the order",
    "the access that should wait was reached, the one it waits for was not", "",
    "holding one access back stops everything else: something orders the two in this run"};

} // namespace

device::DeviceOptions Session::device_options(const Schedule& schedule, std::uint64_t budget) const {
  device::DeviceOptions options;
  if (device_) {
    const auto profile = profile_of(capability_text(device_->compute_major, device_->compute_minor));
    if (profile) options.profile = *profile;
  }
  options.seed = process_.seed;
  options.garbage = garbage_;
  options.live = false;
  options.record_accesses = false;
  options.modules = modules_;
  options.schedule = schedule;
  options.budget = budget;
  for (const auto& command : commands_)
    if (const auto* end = std::get_if<trace::OperationEnd>(command.get())) options.end_later.insert(end->operation);
  options.profile.memory_bytes = std::max(options.profile.memory_bytes, memory_bytes_ + (memory_bytes_ >> 3));
  return options;
}

Expected<bool> Session::record(const Schedule& schedule, const std::string& directory, std::uint64_t budget) const {
  Expected<std::unique_ptr<device::TraceSink>> sink = device::TraceSink::create(directory, process_);
  if (!sink) return sink.error();
  device::DeviceOptions options = device_options(schedule, budget);
  options.record_accesses = true;
  UntilParted until(**sink, recorded_, conditions_of(commands_));
  options.sink = &until;
  {
    Expected<std::unique_ptr<device::Device>> device = device::Device::create(options);
    if (!device) return device.error();
    auto blob_of = [this](const trace::BlobHash& hash) { return blob(hash); };
    device::Progress progress = device::Progress::done;
    for (const auto& command : commands_) {
      Expected<device::Progress> applied = (*device)->apply(*command, blob_of);
      if (!applied) return applied.error();
      progress = *applied;
      if (progress == device::Progress::fault || progress == device::Progress::hang) break;
    }
    if (progress != device::Progress::fault && progress != device::Progress::hang) (*device)->drain();
  }
  if (Expected<void> finished = (*sink)->finish(0); !finished) return finished.error();
  return !until.parted();
}

std::string Session::text_of(const trace::MemoryError& fault) const {
  const Site* where = site(fault.module, fault.site);
  for (const auto& command : commands_) {
    const auto* operation = std::get_if<trace::Operation>(command.get());
    const auto* launch = operation ? std::get_if<trace::Launch>(&operation->what) : nullptr;
    if (!launch || operation->launch != fault.launch) continue;
    const device::FaultedLaunch of{ptx::brief_name(launch->kernel), launch->grid, launch->block};
    return device::fault_text(fault, &of, where);
  }
  return device::fault_text(fault, nullptr, nullptr);
}

Expected<Run> Session::run(const Schedule& schedule, const Outputs* reference, std::uint64_t budget,
                           std::vector<device::Performed>* performed, device::Chooser* chooser,
                           ShadowedRun* shadowed) const {
  engine::Shadows shadows;
  Collector collector(&rows(), shadowed ? &shadows : nullptr, shadowed);
  device::DeviceOptions options = device_options(schedule, budget);
  options.sink = &collector;
  if (shadowed) options.shadows = &shadows;
  options.performed = performed;
  options.chooser = chooser;
  Expected<std::unique_ptr<device::Device>> device = device::Device::create(options);
  if (!device) return device.error();

  Run run;
  auto blob_of = [this](const trace::BlobHash& hash) { return blob(hash); };
  device::Progress progress = device::Progress::done;
  std::size_t seen = 0;
  bool parted = false;
  for (const auto& command : commands_) {
    Expected<device::Progress> applied = (*device)->apply(*command, blob_of);
    ++run.commands;
    if (!applied) return applied.error();
    progress = *applied;
    for (; reference && seen < collector.outputs().size(); ++seen) {
      parted |= departs(collector.outputs()[seen], *reference);
    }
    if (progress == device::Progress::fault || progress == device::Progress::hang || parted) break;
  }
  if (!parted && progress != device::Progress::fault && progress != device::Progress::hang) {
    progress = (*device)->drain();
  }

  run.outputs.outputs = std::move(collector.outputs());
  run.outputs.sort();
  if (progress == device::Progress::fault) {
    run.outputs.ending = Ending::fault;
    const auto& fault = (*device)->fault();
    run.outputs.ending_text = fault ? text_of(*fault) : "";
  } else if (progress == device::Progress::hang) {
    run.outputs.ending = Ending::hang;
    run.outputs.ending_text = (*device)->stuck_description();
  }
  if (shadowed) {
    shadowed->sums = shadows.accumulations();
    shadowed->restarts = shadows.restarts();
    describe_places(**device, *shadowed);
  }
  run.choices = (*device)->choices();
  run.switches = (*device)->switches();
  run.old_reads = (*device)->old_reads();
  for (std::size_t hold = 0; hold < schedule.holds.size(); ++hold) {
    std::uint8_t state = hold < run.choices.hold_state.size() ? run.choices.hold_state[hold] : 0;
    if (state == 3) continue;
    run.holds_kept = false;
    run.hold_trouble = hold_troubles[std::min<std::size_t>(state, 4)];
  }
  return run;
}

} // namespace deadheat::search
