#include "replay/search/session.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "deadheat/address.h"
#include "replay/device/fault_text.h"
#include "replay/device/trace_sink.h"
#include "replay/engine/tables.h"
#include "tracer/ptx/demangle.h"
#include "tracer/ptx/sites.h"
#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace deadheat::search {

namespace {

template <typename... Types>
bool holds_any(const trace::Record& record) {
  return (std::holds_alternative<Types>(record) || ...);
}

// Records that Device::apply() executes, and what a capsule must hold to be replayed.
bool is_command(const trace::Record& record) {
  return holds_any<trace::Module, trace::Symbol, trace::Allocate, trace::Free, trace::StreamCreate,
                   trace::StreamDestroy, trace::EventRecord, trace::StreamWait, trace::HostWait, trace::Operation,
                   trace::GraphLaunch, trace::GraphEnd, trace::HostWrite, trace::Effects>(record);
}

// Hashes of the blobs that a command needs.
std::vector<trace::BlobHash> blobs_of(const trace::Record& record) {
  std::vector<trace::BlobHash> hashes;
  auto add = [&](const trace::Bytes& bytes) {
    if (bytes.size && bytes.inlined.empty()) hashes.push_back(bytes.blob);
  };
  if (auto* module = std::get_if<trace::Module>(&record)) hashes.push_back(module->image);
  if (auto* write = std::get_if<trace::HostWrite>(&record)) add(write->data);
  if (auto* effects = std::get_if<trace::Effects>(&record)) {
    for (const trace::Effects::Change& change : effects->changes) add(change.data);
  }
  if (auto* operation = std::get_if<trace::Operation>(&record)) {
    if (auto* launch = std::get_if<trace::Launch>(&operation->what)) add(launch->arguments);
    if (auto* copy = std::get_if<trace::Copy>(&operation->what)) add(copy->data);
  }
  return hashes;
}

// Puts bytes that are too many for a record into blobs.
void shrink(trace::Record& record, trace::TraceWriter& writer) {
  auto keep = [&](trace::Bytes& bytes) {
    if (!bytes.inlined.empty()) bytes = writer.bytes(bytes.inlined);
  };
  if (auto* effects = std::get_if<trace::Effects>(&record)) {
    for (trace::Effects::Change& change : effects->changes) keep(change.data);
  } else if (auto* operation = std::get_if<trace::Operation>(&record)) {
    if (auto* copy = std::get_if<trace::Copy>(&operation->what)) keep(copy->data);
  }
}

// Device memory that is live at once, at most.
std::uint64_t peak_of(const Commands& commands) {
  std::map<std::uint32_t, std::uint64_t> live;
  std::uint64_t now = 0, most = 0;
  for (const auto& command : commands) {
    if (auto* allocation = std::get_if<trace::Allocate>(command.get())) {
      live[allocation->allocation] = allocation->bytes;
      most = std::max(most, now += allocation->bytes);
    } else if (auto* free = std::get_if<trace::Free>(command.get())) {
      now -= live[free->allocation];
      live.erase(free->allocation);
    }
  }
  return most;
}

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
  }
  void weak_accesses(const trace::Warp&, std::uint32_t, const device::LaneLogs&) override {}
  trace::Bytes keep(const void* data, std::uint64_t size) override {
    auto* bytes = static_cast<const std::uint8_t*>(data);
    return {size, {bytes, bytes + size}, {}};
  }
  trace::BlobHash keep_blob(const void*, std::uint64_t) override { return {}; }

  std::vector<Output>& outputs() { return outputs_; }

 private:
  // Those that belong to the bytes, row by row.
  void take_shadows(const Output& output) {
    const std::vector<std::uint8_t>& bytes = output.bytes;
    for (std::uint64_t row = 0; row < bytes.size(); row += output.row_bytes()) {
      const std::uint64_t end = std::min<std::uint64_t>(bytes.size(), row + output.row_bytes());
      const std::uint64_t at = output.address_at(row), here = to_host(at);
      shadows_->each(here, end - row, [&](std::uint64_t address, const engine::Shadow& shadow) {
        const std::uint64_t offset = address - here, width = engine::width_of(shadow.kind) / 8;
        std::uint64_t bits = 0;
        if (row + offset + width > end) return;
        std::memcpy(&bits, bytes.data() + row + offset, width);
        if (bits == shadow.bits) shadowed_->elements.push_back({output.operation, at + offset, shadow});
      });
    }
  }

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

void sort_outputs(std::vector<Output>& outputs) {
  std::stable_sort(outputs.begin(), outputs.end(),
                   [](const Output& a, const Output& b) { return a.operation < b.operation; });
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

constexpr const char* hold_troubles[] = {
    "neither access was reached under this schedule",
    "one of the two accesses was not reached under this schedule: control flow depends on the order",
    "the access that should wait was reached, the one it waits for was not", "",
    "holding one access back stops everything else: something orders the two in this run"};

} // namespace

Expected<Session> Session::open(const std::string& trace) {
  Expected<trace::TraceReader> reader = trace::TraceReader::open(trace);
  if (!reader) return reader.error();
  for (std::size_t index = 0; index < reader->logs().size(); ++index) {
    Expected<trace::LogReader> log = reader->open_log(index);
    if (!log) return log.error();

    Session session;
    session.trace_ = trace;
    bool operations = false;
    struct Visitor : trace::RecordVisitor {
      Session& session;
      bool& operations;
      const trace::TraceReader& reader;
      Error error;
      Visitor(Session& s, bool& o, const trace::TraceReader& r) : session(s), operations(o), reader(r) {}
      std::vector<trace::Record> of_gpu;
      bool access(const trace::AccessView&) override { return true; }
      bool record(trace::Record& record) override {
        operations |= std::holds_alternative<trace::Operation>(record);
        if (auto* process = std::get_if<trace::Process>(&record)) session.process_ = *process;
        if (auto* read = std::get_if<trace::HostRead>(&record)) {
          Expected<std::vector<std::uint8_t>> bytes = reader.bytes(read->data);
          if (!bytes) {
            error = bytes.error();
            return false;
          }
          session.recorded_.outputs.push_back({read->operation, read->address, *std::move(bytes)});
        }
        if (session.process_.device_kind == "gpu") {
          if (is_command(record) || holds_any<trace::Window, trace::Snapshot>(record)) {
            of_gpu.push_back(std::move(record));
          }
          return true;
        }
        if (is_command(record)) session.commands_.push_back(std::make_shared<const trace::Record>(std::move(record)));
        return true;
      }
    } visitor(session, operations, *reader);
    if (!log->for_each(visitor)) return visitor.error;
    if (!operations) continue;
    if (session.process_.device_kind == "gpu") {
      if (Expected<void> taken = session.take(std::move(visitor.of_gpu)); !taken) {
        Error error = taken.error();
        if (error.where.empty()) error.where = trace;
        return error;
      }
    }
    session.memory_bytes_ = peak_of(session.commands_);
    sort_outputs(session.recorded_.outputs);
    return session;
  }
  return Error{"no operations to replay", trace};
}

Expected<void> Session::take(std::vector<trace::Record> records) {
  auto bytes = [this](const trace::Bytes& bytes) -> Expected<std::vector<std::uint8_t>> {
    if (bytes.inlined.size() == bytes.size) return bytes.inlined;
    return blob(bytes.blob);
  };
  Expected<MovedRun> run = from_window(std::move(records), bytes);
  if (!run) return run.error();
  commands_ = std::move(run->commands);
  moved_ = std::move(run->relocation);
  places_ = std::move(run->moved);
  blobs_.clear(); // what is needed of them is in the commands now
  process_.device_kind = "embedded";
  return {};
}

Expected<std::vector<std::uint8_t>> Session::blob(const trace::BlobHash& hash) const {
  auto found = blobs_.find(hash);
  if (found == blobs_.end()) {
    Expected<trace::TraceReader> reader = trace::TraceReader::open(trace_);
    if (!reader) return reader.error();
    Expected<std::vector<std::uint8_t>> bytes = reader->blob(hash);
    if (!bytes) return bytes.error();
    found = blobs_.emplace(hash, std::make_shared<const std::vector<std::uint8_t>>(*std::move(bytes))).first;
  }
  return *found->second;
}

device::DeviceOptions Session::device_options(const Schedule& schedule, std::uint64_t budget) const {
  device::DeviceOptions options;
  options.seed = process_.seed;
  options.garbage = garbage_;
  options.live = false;
  options.record_accesses = false;
  options.modules = modules_;
  options.schedule = schedule;
  options.budget = budget;
  options.profile.memory_bytes = std::max(options.profile.memory_bytes, memory_bytes_ + (memory_bytes_ >> 3));
  return options;
}

Expected<void> Session::record(const Schedule& schedule, const std::string& directory, std::uint64_t budget) const {
  Expected<std::unique_ptr<device::TraceSink>> sink = device::TraceSink::create(directory, process_);
  if (!sink) return sink.error();
  device::DeviceOptions options = device_options(schedule, budget);
  options.record_accesses = true;
  options.sink = sink->get();
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
  return (*sink)->finish(0);
}

const Site* Session::site(std::uint32_t module, std::uint32_t site) const {
  for (const auto& command : commands_) {
    auto* record = std::get_if<trace::Module>(command.get());
    if (record && record->id == module) return site < record->sites.size() ? &record->sites[site] : nullptr;
  }
  return nullptr;
}

const trace::Launch* Session::launch(std::uint32_t operation) const {
  for (const auto& command : commands_) {
    auto* record = std::get_if<trace::Operation>(command.get());
    if (record && record->id == operation) return std::get_if<trace::Launch>(&record->what);
  }
  return nullptr;
}

std::vector<std::pair<std::uint32_t, trace::MemoryRange>> Session::unread_copies() const {
  if (moved_) return {}; // a window's memory is read when it ends
  struct Use {
    std::uint32_t operation;
    std::uint64_t address, end;
  };
  std::vector<Use> uses, device;
  std::vector<std::pair<std::uint32_t, trace::MemoryRange>> unread;
  auto use = [&](std::uint32_t operation, const trace::MemoryRange& range) {
    uses.push_back({operation, range.address, range.address + range.extent()});
  };
  for (const auto& command : commands_) {
    if (std::holds_alternative<trace::GraphLaunch>(*command)) return {};
    if (auto* allocation = std::get_if<trace::Allocate>(command.get()))
      if (allocation->kind == trace::Allocate::Kind::device)
        device.push_back({0, allocation->address, allocation->address + allocation->bytes});
    auto* operation = std::get_if<trace::Operation>(command.get());
    if (!operation) continue;
    if (auto* copy = std::get_if<trace::Copy>(&operation->what)) {
      use(operation->id, copy->source);
      if (copy->direction == trace::Copy::Direction::d2d && copy->destination.height * copy->destination.depth == 1)
        unread.emplace_back(operation->id, copy->destination);
    }
  }
  std::erase_if(unread, [&](const auto& copy) {
    const auto& [operation, range] = copy;
    auto meets = [&](const Use& u) { return u.address < range.address + range.width && range.address < u.end; };
    return std::none_of(device.begin(), device.end(), meets) ||
           std::any_of(uses.begin(), uses.end(), [&](const Use& u) { return u.operation != operation && meets(u); });
  });
  return unread;
}

const std::map<std::uint32_t, trace::MemoryRange>& Session::rows() const {
  if (rows_) return *rows_;
  rows_.emplace();
  for (const auto& command : commands_) {
    auto* operation = std::get_if<trace::Operation>(command.get());
    auto* copy = operation ? std::get_if<trace::Copy>(&operation->what) : nullptr;
    if (copy && copy->source.height * copy->source.depth > 1) rows_->emplace(operation->id, copy->source);
  }
  return *rows_;
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
  sort_outputs(run.outputs.outputs);
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

Expected<const ValueTypes*> Session::value_types() const {
  if (types_) return static_cast<const ValueTypes*>(types_.get());
  Expected<trace::TraceReader> reader = trace::TraceReader::open(trace_);
  if (!reader) return reader.error();
  auto types = std::make_shared<ValueTypes>();
  std::map<std::uint32_t, std::vector<Site>> sites;
  struct Visitor : trace::RecordVisitor {
    ValueTypes& types;
    std::map<std::uint32_t, std::vector<Site>>& sites;
    std::optional<Relocation> moved; // where things lie here, as of the record
    const std::map<std::uint32_t, trace::Allocate>& places;
    Visitor(ValueTypes& t, std::map<std::uint32_t, std::vector<Site>>& s, std::optional<Relocation> m,
            const std::map<std::uint32_t, trace::Allocate>& p)
        : types(t), sites(s), moved(std::move(m)), places(p) {}
    std::uint64_t here(std::uint64_t address) const { return moved ? moved->here(address) : address; }
    bool access(const trace::AccessView& access) override {
      if (access.space != Space::global || !access.mask) return true;
      auto table = sites.find(access.module);
      if (table == sites.end() || access.site >= table->second.size()) return true;
      const Site& site = table->second[access.site];
      unsigned lane = unsigned(std::countr_zero(access.mask)); // one lane speaks for the warp
      if (site.access != AccessKind::read) types.wrote(here(access.address[lane]), site.element_bytes, site.type);
      return true;
    }
    bool record(trace::Record& record) override {
      if (auto* module = std::get_if<trace::Module>(&record)) sites[module->id] = std::move(module->sites);
      if (auto* allocation = std::get_if<trace::Allocate>(&record)) {
        if (moved && !places.count(allocation->allocation)) return true;
        if (moved) moved->allocated(*allocation);
        types.allocated(*allocation);
      }
      if (auto* free = std::get_if<trace::Free>(&record); free && moved) moved->freed(*free);
      if (auto* operation = std::get_if<trace::Operation>(&record)) {
        auto* copy = std::get_if<trace::Copy>(&operation->what);
        if (copy && moved) {
          moved->move(copy->destination);
          moved->move(copy->source);
        }
        if (copy) types.copied(*copy);
      }
      return true;
    }
  } visitor(*types, sites, moved_ ? std::optional<Relocation>(moved_->again()) : std::nullopt, places_);
  for (std::size_t index = 0; index < reader->logs().size(); ++index) {
    Expected<trace::LogReader> log = reader->open_log(index);
    if (log) log->for_each(visitor);
  }
  types_ = types;
  return static_cast<const ValueTypes*>(types_.get());
}

Expected<void> Session::save(const std::string& directory, std::size_t count) const {
  Expected<std::unique_ptr<trace::TraceWriter>> writer = trace::TraceWriter::create(directory, process_, {.level = 9});
  if (!writer) return writer.error();
  for (std::size_t index = 0; index < std::min(count, commands_.size()); ++index) {
    const trace::Record& command = *commands_[index];
    for (const trace::BlobHash& hash : blobs_of(command)) {
      Expected<std::vector<std::uint8_t>> bytes = blob(hash);
      if (!bytes) return bytes.error();
      (*writer)->add_blob(*bytes);
    }
    trace::Record record = command;
    shrink(record, **writer);
    (*writer)->write(record);
  }
  return (*writer)->finish(0);
}

} // namespace deadheat::search
