#include "replay/search/window.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "deadheat/address.h"
#include "deadheat/host_waits.h"
#include "tracer/ptx/tensor_map.h"

namespace deadheat::search {

namespace {

constexpr std::uint64_t alignment = 512;  // of places (replay/device/memory.h)
// Left to what the embedded device places itself: workspaces, the heap of kernels, variables the trace does not have.
constexpr std::uint64_t own_memory = std::uint64_t(1) << 30;
constexpr std::uint32_t legacy_stream = 1;

bool shared(trace::Allocate::Kind kind) {
  return kind == trace::Allocate::Kind::pinned || kind == trace::Allocate::Kind::managed;
}

template <typename... Types>
bool holds_any(const trace::Record& record) {
  return (std::holds_alternative<Types>(record) || ...);
}

}  // namespace

bool is_command(const trace::Record& record) {
  return holds_any<trace::Module, trace::Symbol, trace::Allocate, trace::Free, trace::StreamCreate,
                   trace::StreamDestroy, trace::EventRecord, trace::StreamWait, trace::HostWait, trace::HostWaitBegin,
                   trace::Operation, trace::GraphLaunch, trace::GraphEnd, trace::HostWrite, trace::Effects>(record);
}

bool is_of_windows(const trace::Record& record) {
  return is_command(record) || holds_any<trace::Window, trace::Snapshot, trace::TensorMap>(record);
}

// ---- where memory lies

std::uint64_t Relocation::first_device() { return device_arena + own_memory; }
std::uint64_t Relocation::first_host() { return pinned_arena + own_memory; }

void Relocation::allocated(trace::Allocate& record) {
  auto [place, fresh] = places_.try_emplace(record.allocation, 0);
  if (fresh) {
    const std::uint64_t size = (record.bytes + alignment / 2 + alignment) / alignment * alignment + alignment;
    if (shared(record.kind)) {
      place->second = next_host_;
      next_host_ += size;
    } else {
      place->second = to_device(next_device_);
      next_device_ += size;
    }
  }
  const std::uint64_t end = record.address + record.bytes;
  for (auto at = live_.lower_bound(record.address); at != live_.end() && at->first < end;) at = live_.erase(at);
  live_[record.address] = {record.bytes, place->second, record.allocation};
  addresses_[record.allocation] = record.address;
  record.address = place->second;
  record.host_address = shared(record.kind) ? place->second : 0;
}

void Relocation::freed(const trace::Free& record) {
  auto address = addresses_.find(record.allocation);
  if (address == addresses_.end()) return;
  auto at = live_.find(address->second);
  if (at != live_.end() && at->second.allocation == record.allocation) live_.erase(at);
  addresses_.erase(address);
}

Relocation Relocation::again() const {
  Relocation fresh;
  fresh.places_ = places_;
  fresh.next_device_ = next_device_;
  fresh.next_host_ = next_host_;
  fresh.tensor_maps_ = tensor_maps_;
  return fresh;
}

std::uint64_t Relocation::here(std::uint64_t address) const {
  auto above = live_.upper_bound(address);
  if (above == live_.begin()) return 0;
  const auto& [base, memory] = *std::prev(above);
  // One past the end is an address of the allocation too, where it is not another's.
  return address - base <= memory.bytes ? memory.here + (address - base) : 0;
}

bool Relocation::move(trace::MemoryRange& range) const {
  const std::uint64_t moved = here(range.address);
  if (moved) range.address = moved;
  return moved != 0;
}

void Relocation::explain(const trace::TensorMap& map) {
  if (map.bytes.size() == ptx::tensor_map_bytes && map.described.size() == ptx::tensor_map_bytes &&
      ptx::decoded(map.described.data()))
    tensor_maps_[map.bytes] = map.described;
}

// With its address here; of memory that is not live as it was.
std::vector<std::uint8_t> Relocation::map_here(const std::vector<std::uint8_t>& described) const {
  ptx::TensorMap map = *ptx::decoded(described.data());
  if (const std::uint64_t moved = here(map.address)) map.address = moved;
  const ptx::TensorMapBytes bytes = ptx::encoded(map);
  return {bytes.begin(), bytes.end()};
}

void Relocation::move_words(std::vector<std::uint8_t>& bytes, std::uint64_t at) const {
  std::vector<std::pair<std::size_t, std::vector<std::uint8_t>>> maps;
  std::size_t place = (ptx::tensor_map_alignment - at % ptx::tensor_map_alignment) % ptx::tensor_map_alignment;
  for (; !tensor_maps_.empty() && place + ptx::tensor_map_bytes <= bytes.size(); place += ptx::tensor_map_alignment) {
    const auto begin = bytes.begin() + std::ptrdiff_t(place);
    const auto found = tensor_maps_.find({begin, begin + ptx::tensor_map_bytes});
    if (found != tensor_maps_.end()) maps.emplace_back(place, map_here(found->second));
  }
  if (!live_.empty()) {
    const std::uint64_t least = live_.begin()->first;
    const std::uint64_t most = live_.rbegin()->first + live_.rbegin()->second.bytes;
    for (std::size_t word_at = 0; word_at + 8 <= bytes.size(); word_at += 8) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + word_at, 8);
      if (word < least || word > most) continue;
      if (const std::uint64_t moved = here(word)) std::memcpy(bytes.data() + word_at, &moved, 8);
    }
  }
  for (const auto& [map_at, map] : maps) std::copy(map.begin(), map.end(), bytes.begin() + std::ptrdiff_t(map_at));
}

// ---- the run

namespace {

class Mover {
 public:
  Mover(std::vector<trace::Record>& records, const ReadBytes& bytes) : records_(records), bytes_(bytes) {}

  Expected<MovedRun> run() {
    if (Expected<void> found = find_window(); !found) return found.error();
    if (Expected<void> found = find_written_host_memory(); !found) return found.error();
    for (std::size_t i = 0; i < records_.size() && i < end_; ++i) {
      if (i == begin_) {
        if (Expected<void> opened = open(); !opened) return opened.error();
        continue;
      }
      Expected<void> done = i < begin_ ? before(records_[i]) : inside(records_[i]);
      if (!done) return done.error();
    }
    close();
    return std::move(run_);
  }

 private:
  void add(trace::Record record) { run_.commands.push_back(std::make_shared<const trace::Record>(std::move(record))); }
  void allocate(trace::Allocate record) {
    run_.relocation.allocated(record);
    run_.moved[record.allocation] = record;
    add(std::move(record));
  }

  Expected<void> find_window() {
    std::uint32_t id = 0;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if (const auto* window = std::get_if<trace::Window>(&records_[i])) {
        if (window->opens && !id) {
          id = window->id;
          begin_ = i;
          at_start_ = next_operation_ == 1;
        } else if (!window->opens && window->id == id && id) {
          end_ = std::min(end_, i);
          closed_ = true;
          if (!window->trouble.empty()) return Error{"the window cannot be run again: " + window->trouble};
          for (const trace::Span& span : window->touched) outputs_.push_back(span);
        }
      } else if (const auto* operation = std::get_if<trace::Operation>(&records_[i])) {
        next_operation_ = std::max(next_operation_, operation->id + 1);
      } else if (const auto* map = std::get_if<trace::TensorMap>(&records_[i])) {
        run_.relocation.explain(*map);
      } else if (auto* snapshot = std::get_if<trace::Snapshot>(&records_[i])) {
        if (snapshot->window == id) snapshots_.push_back(snapshot);
      }
    }
    if (!id) {
      return Error{"was recorded on a GPU without what it takes to run it again", {}, "deadheat record --window"};
    }
    // What the memory held is known only once a window has closed.
    if (!closed_ && !at_start_) return Error{"the window cannot be run again: the recording ended inside of it"};
    return {};
  }

  // ---- before the window

  Expected<void> before(trace::Record& record) {
    if (auto* allocation = std::get_if<trace::Allocate>(&record)) {
      allocation->operation = 0;
      live_[allocation->allocation] = std::move(*allocation);
    } else if (auto* free = std::get_if<trace::Free>(&record)) {
      live_.erase(free->allocation);
    } else if (auto* symbol = std::get_if<trace::Symbol>(&record)) {
      symbols_.push_back(std::move(*symbol));
    } else if (has_code(record) || std::holds_alternative<trace::StreamCreate>(record) ||
               std::holds_alternative<trace::StreamDestroy>(record)) {
      add(std::move(record));
    }
    return {};
  }

  // Of opaque kernels there is none.
  static bool has_code(const trace::Record& record) {
    const auto* module = std::get_if<trace::Module>(&record);
    return module && module->kind == trace::Module::Kind::ptx;
  }

  bool touched(const trace::Allocate& allocation) const {
    auto meets = [&](std::uint64_t address, std::uint64_t bytes) {
      return address < allocation.address + allocation.bytes && allocation.address < address + bytes;
    };
    return allocation.kind == trace::Allocate::Kind::symbol ||
           std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& s) { return meets(s.address, s.bytes); }) ||
           std::any_of(snapshots_.begin(), snapshots_.end(),
                       [&](const auto* s) { return meets(s->address, s->data.size); });
  }

  Expected<void> open() {
    const bool all = snapshots_.empty() && outputs_.empty();  // a window over everything, or one that was cut off
    for (auto& [id, allocation] : live_) {
      if (all || touched(allocation)) allocate(std::move(allocation));
    }
    for (trace::Symbol& symbol : symbols_) {
      if (run_.moved.count(symbol.allocation)) add(std::move(symbol));
    }
    for (trace::Snapshot* snapshot : snapshots_) {
      trace::MemoryRange range{snapshot->address, snapshot->data.size, snapshot->data.size, 1, 1, snapshot->data.size};
      if (!run_.relocation.move(range)) continue;
      Expected<std::vector<std::uint8_t>> data = bytes_(snapshot->data);
      if (!data) return data.error();
      run_.relocation.move_words(*data, snapshot->address);
      trace::Copy copy;
      copy.direction = trace::Copy::Direction::h2d;
      copy.destination = range;
      copy.source = range;
      copy.source.address = 0;
      copy.pageable_source = true;
      copy.api = "window";
      copy.data.size = data->size();
      copy.data.inlined = std::move(*data);
      submit(std::move(copy));
    }
    if (!snapshots_.empty()) add(trace::HostWait{});
    return {};
  }

  void submit(trace::Copy copy) {
    trace::Operation operation;
    operation.id = next_operation_++;
    operation.stream = legacy_stream;
    operation.what = std::move(copy);
    add(std::move(operation));
  }

  // ---- inside

  Expected<void> inside(trace::Record& record) {
    if (auto* allocation = std::get_if<trace::Allocate>(&record)) {
      allocate(std::move(*allocation));
    } else if (auto* free = std::get_if<trace::Free>(&record)) {
      const bool known = run_.moved.count(free->allocation);
      run_.relocation.freed(*free);
      if (known) add(std::move(record));
    } else if (auto* effects = std::get_if<trace::Effects>(&record)) {
      return these_effects(std::move(*effects));
    } else if (auto* operation = std::get_if<trace::Operation>(&record)) {
      return this_operation(std::move(*operation));
    } else if (auto* wait = std::get_if<trace::StreamWait>(&record)) {
      if (seen_.count(wait->record_operation)) add(std::move(record));
    } else if (auto* wait = std::get_if<trace::HostWait>(&record)) {
      const bool of_event = wait->kind == trace::HostWait::Kind::event;
      if (!of_event || seen_.count(wait->record_operation)) add(std::move(record));
    } else if (auto* write = std::get_if<trace::HostWrite>(&record); write && write->data.size) {
      if (const std::uint64_t moved = run_.relocation.here(write->address)) {
        if (Expected<void> done = move_change(write->address, write->data); !done) return done;
        write->address = moved;
        add(std::move(record));
      }
    } else if (has_code(record) || std::holds_alternative<trace::Symbol>(record) ||
               std::holds_alternative<trace::HostWaitBegin>(record) ||
               std::holds_alternative<trace::StreamCreate>(record) ||
               std::holds_alternative<trace::StreamDestroy>(record) ||
               std::holds_alternative<trace::EventRecord>(record) ||
               std::holds_alternative<trace::GraphLaunch>(record) || std::holds_alternative<trace::GraphEnd>(record)) {
      add(std::move(record));
    }
    return {};
  }

  // `at`: where they lie on the GPU.
  Expected<void> move_data(trace::Bytes& bytes, std::uint64_t at) {
    Expected<std::vector<std::uint8_t>> data = bytes_(bytes);
    if (!data) return data.error();
    run_.relocation.move_words(*data, at);
    bytes.size = data->size();
    bytes.inlined = std::move(*data);
    return {};
  }

  // Bytes that begin anywhere: addresses among them lie at multiples of 8 of memory, not of the change.
  Expected<void> move_change(std::uint64_t address, trace::Bytes& bytes) {
    Expected<std::vector<std::uint8_t>> data = bytes_(bytes);
    if (!data) return data.error();
    const std::uint64_t before = address % 8;
    data->insert(data->begin(), before, 0);
    run_.relocation.move_words(*data, address - before);
    data->erase(data->begin(), data->begin() + std::ptrdiff_t(before));
    bytes = {data->size(), std::move(*data), {}};
    return {};
  }

  Expected<void> these_effects(trace::Effects effects) {
    std::vector<trace::Effects::Change> kept;
    for (trace::Effects::Change& change : effects.changes) {
      const std::uint64_t moved = run_.relocation.here(change.address);
      if (!moved) continue;
      if (Expected<void> done = move_change(change.address, change.data); !done) return done;
      change.address = moved;
      kept.push_back(std::move(change));
    }
    effects.changes = std::move(kept);
    // A host function's come when it has run; a replay knows them before.
    const auto of = std::find_if(run_.commands.rbegin(), run_.commands.rend(), [&](const auto& command) {
      auto* operation = std::get_if<trace::Operation>(command.get());
      return operation && operation->id == effects.operation;
    });
    if (of != run_.commands.rend()) {
      run_.commands.insert(std::prev(of.base()), std::make_shared<const trace::Record>(std::move(effects)));
      return {};
    }
    by_effect_.insert(effects.operation);
    add(std::move(effects));
    return {};
  }

  // Page-locked memory that operations of the window write: where what the host writes is recorded, copies out of it
  // are executed as they are, since what they bring depends on what comes first. From memory that only the host writes
  // they bring what they brought when they were recorded.
  Expected<void> find_written_host_memory() {
    std::map<std::uint64_t, trace::Allocate> locked; // by address
    std::set<std::uint32_t> functions;
    bool inside = false, told = false;
    for (std::size_t i = 0; i < records_.size() && i < end_; ++i) {
      inside |= i == begin_;
      const trace::Record& record = records_[i];
      if (const auto* memory = std::get_if<trace::Allocate>(&record)) {
        if (memory->kind == trace::Allocate::Kind::pinned) locked[memory->address] = *memory;
      } else if (std::holds_alternative<trace::HostWrite>(record)) {
        told |= inside;
      } else if (const auto* operation = std::get_if<trace::Operation>(&record);
                 operation && std::holds_alternative<trace::HostCallback>(operation->what)) {
        functions.insert(operation->id);
      } else if (const auto* effects = std::get_if<trace::Effects>(&record);
                 effects && inside && functions.count(effects->operation)) {
        for (const trace::Effects::Change& change : effects->changes)
          written_.push_back({change.address, change.data.size});
      } else if (const auto* operation = std::get_if<trace::Operation>(&record); operation && inside && told) {
        if (Expected<void> done = note_written(*operation, locked); !done) return done;
      }
    }
    return {};
  }

  Expected<void> note_written(const trace::Operation& operation,
                              const std::map<std::uint64_t, trace::Allocate>& locked) {
    const auto holder = [&](std::uint64_t address) -> const trace::Allocate* {
      const auto above = locked.upper_bound(address);
      if (above == locked.begin()) return nullptr;
      const trace::Allocate& memory = std::prev(above)->second;
      return address - memory.address < memory.bytes ? &memory : nullptr;
    };
    if (const auto* copy = std::get_if<trace::Copy>(&operation.what)) {
      if (holder(copy->destination.address))
        written_.push_back({copy->destination.address, copy->destination.extent()});
    } else if (const auto* set = std::get_if<trace::Set>(&operation.what)) {
      if (holder(set->destination.address)) written_.push_back({set->destination.address, set->destination.extent()});
    } else if (const auto* launch = std::get_if<trace::Launch>(&operation.what); launch && !locked.empty()) {
      Expected<std::vector<std::uint8_t>> arguments = bytes_(launch->arguments);
      if (!arguments) return arguments.error();
      for (std::size_t at = 0; at + 8 <= arguments->size(); at += 8) {
        std::uint64_t word;
        std::memcpy(&word, arguments->data() + at, 8);
        if (const trace::Allocate* memory = holder(word)) written_.push_back({memory->address, memory->bytes});
      }
    }
    return {};
  }

  bool written_by_device(const trace::MemoryRange& range) const {
    return std::any_of(written_.begin(), written_.end(), [&](const trace::Span& span) {
      return range.address < span.address + span.bytes && span.address < range.address + range.extent();
    });
  }

  static Error missing(const trace::Operation& operation, const std::string& what) {
    return Error{"operation " + std::to_string(operation.id) + " cannot be run again: " + what};
  }

  Expected<void> this_operation(trace::Operation operation) {
    seen_.insert(operation.id);
    if (auto* launch = std::get_if<trace::Launch>(&operation.what)) {
      if (!launch->instrumented && !by_effect_.count(operation.id)) {
        return missing(operation, "what the opaque kernel " + launch->kernel + " did is not in the trace");
      }
      if (Expected<void> moved = move_data(launch->arguments, 0); !moved) return moved;
    } else if (auto* copy = std::get_if<trace::Copy>(&operation.what)) {
      using Direction = trace::Copy::Direction;
      const bool may_change = written_by_device(copy->source);
      const bool from_host = copy->direction == Direction::h2d || copy->direction == Direction::h2h;
      const bool to_host = copy->direction == Direction::d2h || copy->direction == Direction::h2h;
      // A batch's source that was read out of its stream's order: the copy itself reads it here.
      if (!operation.graph_launch && !copy->destination.address && copy->api.find("Batch") != std::string::npos) {
        operation.what = trace::Marker{};
        add(std::move(operation));
        return {};
      }
      if (!from_host) copy->pageable_source = false;
      const bool by_host = copy->api == host_itself; // with the bytes that it wrote
      if (by_host) {
        if (Expected<void> moved = move_change(copy->source.address, copy->data); !moved) return moved;
      }
      const std::uint64_t to_address = copy->destination.address;
      const bool from = run_.relocation.move(copy->source), to = run_.relocation.move(copy->destination);
      if ((!from && !from_host) || (!to && !to_host)) {
        return missing(operation, copy->api + " of memory that the trace does not know (an array, perhaps)");
      }
      // The host's own, and no memory here.
      if (!from) copy->source.address = 0;
      if (!to) copy->destination.address = 0;
      if (by_host) {
        if (!to) operation.what = trace::Marker{}; // nobody touches that memory here
      } else if (from_host && from && may_change) {
        copy->data = {}; // read when the copy runs
      } else if (from_host && copy->data.size) {
        if (Expected<void> moved = move_data(copy->data, to_address); !moved) return moved;
      } else if (from_host && !from) {
        return missing(operation, "the bytes that " + copy->api + " brought are not in the trace");
      }
    } else if (auto* set = std::get_if<trace::Set>(&operation.what)) {
      if (!run_.relocation.move(set->destination)) {
        return missing(operation, set->api + " of memory that the trace does not know");
      }
    } else if (auto* pool = std::get_if<trace::PoolOperation>(&operation.what)) {
      if (!run_.moved.count(pool->allocation)) operation.what = trace::Marker{};
    }
    add(std::move(operation));
    return {};
  }

  // ---- behind the window: the host looks at what it touched

  void close() {
    add(trace::HostWait{});
    for (const trace::Span& span : outputs_) {
      trace::MemoryRange range{span.address, span.bytes, span.bytes, 1, 1, span.bytes};
      if (!run_.relocation.move(range)) continue;
      trace::Copy copy;
      copy.direction = trace::Copy::Direction::d2h;
      copy.source = range;
      copy.destination = range;
      copy.destination.address = 0;
      copy.pageable_destination = true;
      copy.api = "the window's end";
      submit(std::move(copy));
    }
    add(trace::HostWait{});
  }

  std::vector<trace::Record>& records_;
  const ReadBytes& bytes_;
  MovedRun run_;
  std::size_t begin_ = 0, end_ = ~std::size_t(0);
  bool at_start_ = false, closed_ = false; // the window opens before any operation; it was closed
  std::vector<trace::Span> outputs_, written_; // written_: page-locked memory, by operations of the window
  std::vector<trace::Snapshot*> snapshots_;
  std::map<std::uint32_t, trace::Allocate> live_; // before the window, by number
  std::vector<trace::Symbol> symbols_;
  std::set<std::uint32_t> seen_, by_effect_; // operations
  std::uint32_t next_operation_ = 1;
};

} // namespace

Expected<MovedRun> from_window(std::vector<trace::Record> records, const ReadBytes& bytes) {
  return Mover(records, bytes).run();
}

} // namespace deadheat::search
