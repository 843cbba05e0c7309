#include "replay/search/session.h"

#include <algorithm>
#include <bit>
#include <set>

#include "tracer/ptx/sites.h"
#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace deadheat::search {

namespace {

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
      std::set<std::uint32_t> launches, running;
      struct Function {
        unsigned waits = 0;
        bool begun = false;
      };
      std::map<std::uint32_t, Function> functions; // host functions, by operation
      bool access(const trace::AccessView&) override { return true; }
      bool record(trace::Record& record) override {
        operations |= std::holds_alternative<trace::Operation>(record);
        if (auto* operation = std::get_if<trace::Operation>(&record)) {
          if (std::holds_alternative<trace::Launch>(operation->what)) launches.insert(operation->id);
        } else if (auto* begin = std::get_if<trace::OperationBegin>(&record)) {
          if (launches.count(begin->operation)) running.insert(begin->operation);
        } else if (auto* end = std::get_if<trace::OperationEnd>(&record)) {
          running.erase(end->operation);
        }
        const bool ends_function = follow_functions(record);
        if (auto* process = std::get_if<trace::Process>(&record)) session.process_ = *process;
        if (auto* device = std::get_if<trace::Device>(&record); device && session.process_.device_kind != "gpu")
          session.device_ = *device;
        if (auto* read = std::get_if<trace::HostRead>(&record)) {
          Expected<std::vector<std::uint8_t>> bytes = reader.bytes(read->data);
          if (!bytes) {
            error = bytes.error();
            return false;
          }
          session.recorded_.outputs.push_back({read->operation, read->address, *std::move(bytes)});
        }
        if (session.process_.device_kind == "gpu") {
          if (is_of_windows(record)) of_gpu.push_back(std::move(record));
          return true;
        }
        if (auto* effects = std::get_if<trace::Effects>(&record)) {
          of_host_function(std::move(*effects));
        } else if (is_command(record) || ends_function) {
          session.commands_.push_back(std::make_shared<const trace::Record>(std::move(record)));
        }
        return true;
      }
      // Is this the end of a host function that ran on beside the host, as a second wait says (host_functions.cpp)? Of
      // a run that was saved no other is kept.
      bool follow_functions(const trace::Record& record) {
        if (auto* operation = std::get_if<trace::Operation>(&record)) {
          if (std::holds_alternative<trace::HostCallback>(operation->what)) functions[operation->id];
        } else if (auto* wait = std::get_if<trace::HostWait>(&record)) {
          const auto function = functions.find(wait->id);
          if (wait->kind == trace::HostWait::Kind::operation && function != functions.end()) ++function->second.waits;
        } else if (auto* begin = std::get_if<trace::OperationBegin>(&record)) {
          const auto function = functions.find(begin->operation);
          if (function != functions.end()) function->second.begun = true;
        } else if (auto* end = std::get_if<trace::OperationEnd>(&record)) {
          const auto function = functions.find(end->operation);
          return function != functions.end() && (function->second.waits > 1 || !function->second.begun);
        }
        return false;
      }
      // It was recorded when the function had run; a replay knows it before.
      void of_host_function(trace::Effects effects) {
        Commands& all = session.commands_;
        const auto of = std::find_if(all.rbegin(), all.rend(), [&](const auto& command) {
          auto* operation = std::get_if<trace::Operation>(command.get());
          return operation && operation->id == effects.operation;
        });
        all.insert(of == all.rend() ? all.end() : std::prev(of.base()),
                   std::make_shared<const trace::Record>(std::move(effects)));
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
    session.recorded_.sort();
    session.broke_off_ = !visitor.running.empty();
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

std::uint32_t Session::before(std::uint32_t operation) const {
  std::map<std::uint32_t, std::uint32_t> last; // by stream
  for (const auto& command : commands_) {
    auto* record = std::get_if<trace::Operation>(command.get());
    if (!record) continue;
    std::uint32_t& in_stream = last[record->stream];
    if (record->id == operation && record->graph_launch)
      return record->node_dependencies.empty() ? 0 : record->node_dependencies.back();
    if (record->id == operation) return in_stream;
    if (!std::holds_alternative<trace::Marker>(record->what)) in_stream = record->id;
  }
  return 0;
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
      if (site.access != AccessKind::read && !ptx::is_discard(site))
        types.wrote(here(access.address[lane]), site.element_bytes, site.type);
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

Session Session::first(std::size_t commands) const {
  Session other = *this;
  other.commands_.resize(std::min(commands, commands_.size()));
  std::set<std::uint32_t> kept;
  for (const auto& command : other.commands_)
    if (const auto* operation = std::get_if<trace::Operation>(command.get())) kept.insert(operation->id);
  for (std::size_t index = other.commands_.size(); index < commands_.size(); ++index) {
    const auto* end = std::get_if<trace::OperationEnd>(commands_[index].get());
    if (end && kept.count(end->operation)) other.commands_.push_back(commands_[index]);
  }
  return other;
}

Expected<void> Session::save(const std::string& directory) const {
  Expected<std::unique_ptr<trace::TraceWriter>> writer = trace::TraceWriter::create(directory, process_, {.level = 9});
  if (!writer) return writer.error();
  if (device_) {
    trace::Record device = *device_;
    (*writer)->write(device);
  }
  for (const auto& kept : commands_) {
    const trace::Record& command = *kept;
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
