// Runs the launches of recorded programs again on the embedded device, instrumented as they would be for a GPU, and
// compares what the instrumented code wrote into its buffers with what the engine itself saw in the same run.
//
//   compare_logs [--ptx DIR] [--slices N] TRACE…    one PASS or FAIL line a trace; exit status 1 when one failed
//   compare_logs --ptx DIR MODULE.ptx               only instruments it
//
// With --slices what the buffers hold is given in N slices, as if it were drained while the kernel runs, and what has
// come is put in order before the next one: as far as no ticket that is still to come is earlier.
//
// Instrumented PTX goes into DIR, a file a module, for the assembler.
//
// Compared are, for every thread, its accesses, fences, barriers, operations on mbarriers, copies, mallocs and frees in
// program order, with addresses, values and digests (not when it ends: the engine tells that only where a barrier
// depends on it); for every location the values that strong accesses wrote, in order; and for every address of the
// kernels' heap who took it and who gave it back, in order.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "deadheat/address.h"
#include "replay/device/device.h"
#include "tests/instrument/account.h"
#include "tracer/device_log/launch_log.h"
#include "tracer/device_log/slots.h"
#include "tracer/device_log/tensor_map.h"
#include "tracer/device_log/texture_objects.h"
#include "tracer/ptx/parse.h"
#include "tracer/recorder/reader.h"
#include "tracer/recorder/warp_log.h"

namespace deadheat {
namespace {

constexpr std::uint32_t rings = 4;
constexpr std::uint64_t ring_bytes = std::uint64_t(1) << 28;
constexpr std::uint64_t buffers_at = device_arena + (std::uint64_t(64) << 30);
constexpr std::uint32_t buffers_id = 0x7000'0000;

std::uint32_t slices = 1;
std::string ptx_folder; // where to write instrumented PTX; empty: nowhere
unsigned ptx_files = 0;

struct Code {
  std::string text;
  std::vector<Site> sites;
  ptx::Instrumentation instrumentation;
  std::vector<std::uint32_t> original; // site of the instrumented module → of the original; ~0: the clone's own
};

// Stores of whole matrices: which lane's registers hold what it stores the manual leaves open, so their digests are not
// compared.
bool matrix(const Site& site) { return site.opcode.rfind("wmma", 0) == 0 || site.opcode.rfind("stmatrix", 0) == 0; }

// Whether the clone added this site: it uses the clone's registers, or is a fence that is followed by what does.
bool added(const ptx::Function& f, std::size_t statement) {
  const ptx::Instruction& i = *f.body[statement].instruction();
  if (ptx::print(i, f).find("%dh_") != std::string::npos) return true;
  const ptx::Instruction* next = statement + 1 < f.body.size() ? f.body[statement + 1].instruction() : nullptr;
  return i.opcode == ptx::Opcode::fence && next && ptx::print(*next, f) == "mov.u32 %dh_t1, 0;";
}

// Ties the sites of clones to those of their originals: those that the clone did not add come in the same order.
std::string tie_sites(const ptx::Module& original, const ptx::SiteTable& sites, Code& code) {
  Expected<ptx::Module> module = ptx::parse(code.instrumentation.text, "instrumented");
  if (!module) return module.error().message();
  const ptx::SiteTable table = ptx::site_table(*module);
  code.original.assign(table.sites.size(), ~0u);
  for (std::size_t f = 0; f < module->functions.size(); ++f) {
    const ptx::Function& clone = module->functions[f];
    if (!clone.has_body || clone.name.rfind("__deadheat_", 0) != 0) continue;
    if (clone.name.rfind(ptx::heap_prefix, 0) == 0) { // one call of the runtime's; a clone calls these in its place
      for (std::uint32_t site : table.by_function[f]) {
        if (site != ptx::SiteTable::none && table.sites[site].kind == SiteKind::heap)
          code.original[site] = std::uint32_t(std::stoul(clone.name.substr(std::strlen(ptx::heap_prefix))));
      }
      continue;
    }
    std::vector<std::uint32_t> wanted;
    std::map<std::uint32_t, std::uint32_t> its_texels; // of the original, by the site of the instruction
    for (std::size_t o = 0; o < original.functions.size(); ++o) {
      if (original.functions[o].name != clone.name.substr(11) || !original.functions[o].has_body) continue;
      for (std::uint32_t s : sites.by_function[o]) {
        if (s != ptx::SiteTable::none && sites.sites[s].kind != SiteKind::heap) wanted.push_back(s);
      }
      for (const auto& [statement, first] : sites.texels[o]) its_texels[sites.site_of(o, statement)] = first;
    }
    std::size_t next = 0;
    for (std::size_t s = 0; s < clone.body.size(); ++s) {
      const std::uint32_t site = table.site_of(f, s);
      if (site == ptx::SiteTable::none || added(clone, s)) continue;
      if (next == wanted.size()) return clone.name + " has more sites than its original";
      const Site &mine = table.sites[site], &its = sites.sites[wanted[next]];
      if (mine.kind != its.kind || mine.access != its.access || mine.element_bytes != its.element_bytes) {
        return clone.name + ": " + mine.opcode + " stands for " + its.opcode;
      }
      if (const auto texels = table.texels[f].find(std::uint32_t(s)); texels != table.texels[f].end()) {
        for (std::uint32_t n = 0; n < ptx::SiteTable::texel_sizes; ++n)
          code.original[texels->second + n] = its_texels.at(wanted[next]) + n;
      }
      code.original[site] = wanted[next++];
    }
    if (next != wanted.size()) return clone.name + " has fewer sites than its original";
  }
  return {};
}

class Run final : public device::Sink, public trace::RecordVisitor {
 public:
  explicit Run(const trace::TraceReader& reader) : reader_(reader) {}

  std::string problem; // of the trace, not of the comparison
  Account engine, buffers;
  std::uint64_t instrumented = 0, guessed = 0, damaged = 0, settled = 0, unknown_objects = 0;
  bool too_large = false;

  bool start() {
    device::DeviceOptions options;
    options.live = false;
    options.sink = this;
    Expected<std::unique_ptr<device::Device>> made = device::Device::create(std::move(options));
    if (!made) return fail(made.error());
    device_ = std::move(*made);
    trace::Allocate room;
    room.allocation = buffers_id;
    room.address = to_device(buffers_at);
    room.bytes = sizeof(device_log::Head) + rings * sizeof(device_log::RingState) +
                 rings * (ring_bytes + device_log::slack_bytes);
    if (Expected<device::Progress> done = device_->apply(room, none_); !done) return fail(done.error());
    auto* at = reinterpret_cast<std::uint8_t*>(buffers_at);
    const device_log::Head head;
    std::memcpy(at, &head, sizeof head);
    for (std::uint32_t i = 0; i < rings; ++i) {
      device_log::RingState state;
      state.reserved = device_log::first_position;
      state.limit = device_log::first_position + ring_bytes;
      state.base = to_device(data(i));
      state.mask = ring_bytes - 1;
      std::memcpy(at + sizeof head + i * sizeof state, &state, sizeof state);
    }
    return true;
  }

  // The trace's commands, changed, into the device.
  bool access(const trace::AccessView&) override { return true; }
  bool record(trace::Record& record) override {
    if (auto* module = std::get_if<trace::Module>(&record)) return load(*module);
    if (auto* operation = std::get_if<trace::Operation>(&record)) {
      if (auto* launch = std::get_if<trace::Launch>(&operation->what)) change(*launch, operation->launch);
      if (auto* copy = std::get_if<trace::Copy>(&operation->what); copy && copy->data.size) {
        if (Expected<std::vector<std::uint8_t>> bytes = reader_.bytes(copy->data)) {
          find_maps(*bytes);
          find_object(copy->destination.address, *bytes);
        }
      }
    }
    Expected<device::Progress> done = device_->apply(record, [&](const trace::BlobHash& hash) { return blob(hash); });
    if (!done) return fail(done.error());
    if (*done == device::Progress::fault) return fail(Error{"the device faults"});
    return true;
  }

  void finish() {
    (void)device_->drain();
    std::vector<const std::uint8_t*> found[rings]; // segments
    for (std::uint32_t i = 0; i < rings; ++i) {
      device_log::RingState state;
      std::memcpy(&state, reinterpret_cast<const void*>(buffers_at + sizeof(device_log::Head) + i * sizeof state),
                  sizeof state);
      if (state.reserved > device_log::first_position + ring_bytes) { // nobody drains the rings here
        too_large = true;
        return;
      }
      for (std::uint64_t position = device_log::first_position; position < state.reserved;) {
        const auto* at = reinterpret_cast<const std::uint8_t*>(data(i) + (position & (ring_bytes - 1)));
        const device_log::SegmentHeader header = device_log::header_of(at);
        if (header.tag != (position ^ device_log::tag_key) || !logs_.count(header.control)) {
          ++damaged;
          return;
        }
        found[i].push_back(at);
        position += (*shapes_[header.control].segments)[header.segment].bytes;
      }
    }
    give(found);
    for (auto& [launch, log] : logs_) {
      current_ = launch;
      log->finish();
      guessed += log->guessed();
      unknown_objects += log->unknown_objects();
      damaged += log->damaged();
    }
  }

  // The least and the greatest ticket in a segment: of the device, of the ring.
  struct Tickets {
    std::uint64_t least[2] = {~std::uint64_t(0), ~std::uint64_t(0)}, greatest[2] = {0, 0};
  };
  Tickets tickets(const std::uint8_t* segment) {
    Tickets found;
    auto add = [&](bool of_ring, std::uint64_t first, std::uint64_t last) {
      found.least[of_ring] = std::min(found.least[of_ring], first);
      found.greatest[of_ring] = std::max(found.greatest[of_ring], last);
    };
    const device_log::SegmentHeader header = device_log::header_of(segment);
    for (const ptx::Slot& slot : (*shapes_[header.control].segments)[header.segment].slots) {
      if (!device_log::ticketed(slot)) continue;
      const std::uint64_t after = device_log::u64_at(segment, slot.offset + 8, 0);
      const bool one = slot.after_only || slot.kind == ptx::Slot::Kind::heap;
      add(slot.in_block, one ? after : device_log::u64_at(segment, slot.offset, 0), after);
      const std::uint64_t of_ring = slot.both_tickets ? device_log::u64_at(segment, slot.offset + 16, 0) : 0;
      if (slot.both_tickets) add(true, of_ring, of_ring);
    }
    return found;
  }

  // Slice by slice, from all rings. A slice ends where all later tickets are greater than all earlier ones.
  void give(const std::vector<const std::uint8_t*> (&found)[rings]) {
    std::size_t at[rings] = {};
    std::uint64_t last = 0, last_of_ring[rings] = {};
    auto give_to = [&](std::uint32_t ring, std::size_t to) {
      for (; at[ring] < to; ++at[ring]) {
        const std::uint8_t* segment = found[ring][at[ring]];
        const Tickets t = tickets(segment);
        last = std::max(last, t.greatest[0]);
        last_of_ring[ring] = std::max(last_of_ring[ring], t.greatest[1]);
        logs_[device_log::header_of(segment).control]->segment(segment);
      }
    };
    for (std::uint32_t slice = 1;; ++slice) {
      for (std::uint32_t i = 0; i < rings; ++i) give_to(i, found[i].size() * slice / slices);
      if (slice == slices) return;
      for (bool any = true; any;) {
        any = false;
        for (std::uint32_t i = 0; i < rings; ++i) {
          std::size_t to = at[i];
          for (std::size_t k = at[i]; k < found[i].size(); ++k) {
            const Tickets t = tickets(found[i][k]);
            if (t.least[0] <= last || t.least[1] <= last_of_ring[i]) to = k + 1;
          }
          any |= to > at[i];
          give_to(i, to);
        }
      }
      for (auto& [launch, log] : logs_) {
        current_ = launch;
        log->mark(slice);
        log->settle(slice + 1);
        settled += log->settled();
      }
    }
  }

  // ---- what the engine saw
  void record(const trace::Record& record) override {
    if (auto* access = std::get_if<trace::Access>(&record)) {
      const Code* code = code_of(access->module);
      if (!code || code->original[access->site] == ~0u) return;
      const trace::AccessView view = trace::view_of(*access);
      const std::uint32_t site = code->original[access->site];
      engine.strong(view, code->sites[site], site);
      return;
    }
    std::visit(
        [&](const auto& r) {
          if constexpr (requires {
                          r.module;
                          r.site;
                        }) {
            if (const Code* code = code_of(r.module)) {
              if constexpr (std::is_same_v<std::decay_t<decltype(r)>, trace::Fence>) {
                const std::uint32_t site = code->original[r.site];
                if (site != ~0u && code->sites[site].kind == SiteKind::dependency) waited_.insert(r.warp.launch);
              }
              engine.record(record, code->original);
            }
          } else if constexpr (std::is_same_v<std::decay_t<decltype(r)>, trace::ThreadExit>) {
            if (shapes_.count(r.warp.launch)) engine.record(record, {});
          } else if constexpr (std::is_same_v<std::decay_t<decltype(r)>, trace::HeapBlock>) {
            if (shapes_.count(r.launch)) engine.record(record, {});
          }
        },
        record);
  }
  void weak_accesses(const trace::Warp& warp, std::uint32_t module, const device::LaneLogs& logs) override {
    const Code* code = code_of(module);
    if (!code) return;
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (const engine::LogEntry* e = logs.begin[lane]; e != logs.end[lane]; ++e) {
        if (code->original[e->site] == ~0u) continue;
        const bool unread = matrix(code->sites[code->original[e->site]]);
        const Space space = trace::space_of(e->address);
        if (space != Space::global && space != Space::shared) continue;
        engine.weak(warp, lane, code->original[e->site], space, e->address - trace::window_start(space),
                    unread ? 0 : e->digest, code->sites[code->original[e->site]].access != AccessKind::read);
      }
    }
  }
  trace::Bytes keep(const void* data, std::uint64_t size) override {
    auto* bytes = static_cast<const std::uint8_t*>(data);
    return {size, {bytes, bytes + size}, {}};
  }
  trace::BlobHash keep_blob(const void*, std::uint64_t) override { return {}; }

 private:
  friend struct BufferOutput;
  static Expected<std::vector<std::uint8_t>> none_(const trace::BlobHash&) { return Error{"no blob"}; }
  static std::uint64_t data(std::uint32_t ring) {
    return buffers_at + sizeof(device_log::Head) + rings * sizeof(device_log::RingState) +
           ring * (ring_bytes + device_log::slack_bytes);
  }
  bool fail(const Error& error) {
    problem = error.message();
    return false;
  }
  const Code* code_of(std::uint32_t module) const {
    auto found = codes_.find(module);
    return found == codes_.end() ? nullptr : &found->second;
  }

  bool load(const trace::Module& module) {
    Expected<std::vector<std::uint8_t>> text = reader_.blob(module.image);
    if (!text) return fail(text.error());
    Code code;
    code.text.assign(text->begin(), text->end());
    Expected<ptx::Module> parsed = ptx::parse(code.text, module.origin);
    if (!parsed) return fail(parsed.error());
    const ptx::SiteTable table = ptx::site_table(*parsed);
    Expected<ptx::Instrumentation> made = ptx::instrument(*parsed, table);
    if (!made) return fail(made.error());
    code.sites = table.sites;
    code.instrumentation = std::move(*made);
    if (std::string why = tie_sites(*parsed, table, code); !why.empty()) return fail(Error{why});
    trace::Module changed = module;
    changed.image = {};
    changed.image[0] = std::uint8_t(module.id);
    changed.image[15] = 0xDE;
    texts_[changed.image] = code.instrumentation.text;
    if (!ptx_folder.empty())
      std::ofstream(ptx_folder + "/" + std::to_string(++ptx_files) + ".ptx") << code.instrumentation.text;
    codes_[module.id] = std::move(code);
    Expected<device::Progress> done = device_->apply(changed, [&](const trace::BlobHash& hash) { return blob(hash); });
    return done ? true : fail(done.error());
  }

  Expected<std::vector<std::uint8_t>> blob(const trace::BlobHash& hash) {
    auto found = texts_.find(hash);
    if (found == texts_.end()) return reader_.blob(hash);
    return std::vector<std::uint8_t>(found->second.begin(), found->second.end());
  }

  void change(trace::Launch& launch, std::uint32_t number);
  void find_maps(const std::vector<std::uint8_t>& bytes);
  void find_object(std::uint64_t address, const std::vector<std::uint8_t>& bytes);

  const trace::TraceReader& reader_;
  std::unique_ptr<device::Device> device_;
  std::map<std::uint32_t, Code> codes_;
  std::map<trace::BlobHash, std::string> texts_;
  std::map<std::uint32_t, device_log::Shape> shapes_;
  std::map<std::uint32_t, std::unique_ptr<device_log::LaunchLog>> logs_;
  std::map<std::uint32_t, std::unique_ptr<device_log::Output>> outputs_;
  device_log::TensorMaps tensor_maps_;
  device_log::TextureObjects textures_;
  std::set<std::uint32_t> waited_; // launches that waited for the one before them
  std::uint32_t current_ = 0;
};

struct BufferOutput final : device_log::Output {
  Run& run;
  const Code& code;
  std::vector<std::uint32_t> same;
  BufferOutput(Run& r, const Code& c) : run(r), code(c) {
    for (std::uint32_t s = 0; s < code.sites.size(); ++s) same.push_back(s);
  }
  void access(const trace::AccessView& a) override {
    const Site& site = code.sites[a.site];
    if (a.strong) return run.buffers.strong(a, site, a.site);
    each_lane(a.mask, [&](unsigned lane) {
      run.buffers.weak(a.warp, lane, a.site, a.space, a.address[lane], a.digest && !matrix(site) ? a.digest[lane] : 0,
                       site.access != AccessKind::read);
    });
  }
  void record(const trace::Record& record) override {
    // The engine knows whether there was a launch to wait for.
    auto* fence = std::get_if<trace::Fence>(&record);
    if (fence && code.sites[fence->site].kind == SiteKind::dependency && !run.waited_.count(fence->warp.launch)) return;
    run.buffers.record(record, same);
  }
};

void Run::change(trace::Launch& launch, std::uint32_t number) {
  auto found = codes_.find(launch.module);
  if (found == codes_.end()) return;
  const Code& code = found->second;
  const ptx::InstrumentedKernel* kernel = nullptr;
  for (const ptx::InstrumentedKernel& k : code.instrumentation.kernels) {
    if (k.name == launch.kernel) kernel = &k;
  }
  launch.instrumented = kernel != nullptr;
  if (!kernel) return;
  ++instrumented;
  device_log::Control control;
  control.rings = to_device(buffers_at);
  control.control = number;
  control.ring_mask = rings - 1;
  if (launch.arguments.inlined.size() != launch.arguments.size) {
    Expected<std::vector<std::uint8_t>> bytes = reader_.bytes(launch.arguments);
    if (bytes) launch.arguments.inlined = std::move(*bytes);
  }
  find_maps(launch.arguments.inlined);
  launch.arguments.inlined.resize(kernel->parameter_offset + sizeof control);
  std::memcpy(launch.arguments.inlined.data() + kernel->parameter_offset, &control, sizeof control);
  launch.arguments.size = launch.arguments.inlined.size();
  launch.kernel = kernel->clone;
  device_log::Shape shape;
  shape.launch = number;
  shape.module = launch.module;
  shape.blocks = std::uint32_t(launch.grid.count());
  shape.threads = std::uint32_t(launch.block.count());
  shape.grid = launch.grid;
  shape.cluster = launch.cluster;
  shape.unseen_arrivals = kernel->unseen_arrivals;
  shape.programmatic = launch.programmatic;
  shape.strong = kernel->strong;
  shape.segments = &code.instrumentation.segments;
  shape.sites = &code.sites;
  shape.tensor_maps = &tensor_maps_;
  shape.textures = textures_.now(nullptr);
  shapes_[number] = shape;
  engine.block_threads[number] = buffers.block_threads[number] = shape.threads;
  engine.extents[number] = buffers.extents[number] = {shape.grid, shape.cluster};
  outputs_[number] = std::make_unique<BufferOutput>(*this, code);
  logs_[number] = std::make_unique<device_log::LaunchLog>(shape, *outputs_[number]);
}

// Tensor maps that the host hands to kernels: their bytes tell what they are, since they are the embedded device's own.
void Run::find_maps(const std::vector<std::uint8_t>& bytes) {
  for (std::size_t at = 0; at + ptx::tensor_map_bytes <= bytes.size(); at += ptx::tensor_map_alignment) {
    if (const auto map = ptx::decoded(bytes.data() + at)) tensor_maps_.made(bytes.data() + at, *map);
  }
}

// An object is a descriptor in the embedded device's memory, and its address the handle.
void Run::find_object(std::uint64_t address, const std::vector<std::uint8_t>& bytes) {
  ptx::TextureDescriptor object;
  if (bytes.size() != sizeof object) return;
  std::memcpy(&object, bytes.data(), sizeof object);
  if (object.magic == ptx::descriptor_magic) textures_.made(nullptr, address, object.surface, object);
}

template <typename Map>
std::string first_difference(const Map& engine, const Map& buffers,
                             std::string (*name)(const typename Map::key_type&)) {
  for (const auto& [key, seen] : engine) {
    auto found = buffers.find(key);
    static const typename Map::mapped_type none;
    const auto& mine = found == buffers.end() ? none : found->second;
    for (std::size_t i = 0; i < std::max(seen.size(), mine.size()); ++i) {
      auto say = [&](const auto& list) -> std::string {
        if (i >= list.size()) return "nothing";
        if constexpr (std::is_same_v<std::decay_t<decltype(list[i])>, std::string>)
          return list[i];
        else
          return std::to_string(list[i]);
      };
      if (say(seen) != say(mine)) {
        return name(key) + ", event " + std::to_string(i) + ": the engine saw " + say(seen) + ", the buffers hold " +
               say(mine);
      }
    }
  }
  return engine.size() == buffers.size() ? "" : "the buffers hold threads or locations that the engine did not see";
}

int compare(const std::string& path) {
  Expected<trace::TraceReader> reader = trace::TraceReader::open(path);
  if (!reader) {
    std::printf("FAIL %s: %s\n", path.c_str(), reader.error().message().c_str());
    return 1;
  }
  std::uint64_t launches = 0, events = 0, settled = 0;
  std::string why;
  for (std::size_t index = 0; index < reader->logs().size() && why.empty(); ++index) {
    Expected<trace::LogReader> log = reader->open_log(index);
    if (!log) continue;
    Run run(*reader);
    if (!run.start() || !log->for_each(run)) {
      why = run.problem;
      break;
    }
    run.finish();
    if (run.too_large) why = "its log is larger than the rings";
    if (run.damaged) why = "segments make no sense";
    if (run.unknown_objects) why = std::to_string(run.unknown_objects) + " accesses are by objects that nobody made";
    // Where weak stores race with atomic operations, their place in the order is not known.
    if (run.buffers.unexplained || (run.guessed && run.buffers.guessed.empty()))
      why = std::to_string(run.guessed) + " reads saw what no write explains";
    for (const std::string& location : run.buffers.guessed) {
      run.engine.written.erase(location);
      run.buffers.written.erase(location);
    }
    if (why.empty()) why = run.buffers.disorder;
    if (why.empty()) {
      why = first_difference(
          run.engine.threads, run.buffers.threads, +[](const Account::Thread& t) {
            return "launch " + std::to_string(std::get<0>(t)) + " block " + std::to_string(std::get<1>(t)) +
                   " thread " + std::to_string(std::get<2>(t));
          });
    }
    if (why.empty()) {
      why = first_difference(
          run.engine.written, run.buffers.written, +[](const std::string& l) { return "location " + l; });
    }
    launches += run.instrumented;
    settled += run.settled;
    for (const auto& [thread, list] : run.buffers.threads) events += list.size();
  }
  if (why.empty())
    std::printf("PASS %s: %llu launches, %llu events, %llu settled early\n", path.c_str(), (unsigned long long)launches,
                (unsigned long long)events, (unsigned long long)settled);
  else
    std::printf("FAIL %s: %s\n", path.c_str(), why.c_str());
  return why.empty() ? 0 : 1;
}

// What the embedded device cannot run.
int only_instrument(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Expected<ptx::Module> module = ptx::parse(text, path);
  Expected<ptx::Instrumentation> made =
      module ? ptx::instrument(*module, ptx::site_table(*module)) : Expected<ptx::Instrumentation>(module.error());
  std::string why = made ? "" : made.error().message();
  std::uint32_t kernels = 0;
  for (std::size_t i = 0; made && i < made->kernels.size(); ++i, ++kernels) {
    if (made->kernels[i].left_out) why = made->kernels[i].name + ": accesses are left out";
  }
  if (made && !made->notes.empty()) why = made->notes.front();
  if (made && !ptx_folder.empty()) std::ofstream(ptx_folder + "/" + std::to_string(++ptx_files) + ".ptx") << made->text;
  if (why.empty() && kernels)
    std::printf("PASS %s: %u kernels are instrumented\n", path.c_str(), kernels);
  else
    std::printf("FAIL %s: %s\n", path.c_str(), why.empty() ? "no kernel" : why.c_str());
  return why.empty() && kernels ? 0 : 1;
}

} // namespace
} // namespace deadheat

int main(int argc, char** argv) {
  int failed = 0;
  int first = 1;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    if (std::string(argv[first]) == "--ptx") deadheat::ptx_folder = argv[first + 1];
    if (std::string(argv[first]) == "--slices")
      deadheat::slices = std::uint32_t(std::max(1, std::atoi(argv[first + 1])));
  }
  for (int i = first; i < argc; ++i) {
    const bool module = std::string_view(argv[i]).ends_with(".ptx");
    failed += module ? deadheat::only_instrument(argv[i]) : deadheat::compare(argv[i]);
  }
  return failed ? 1 : 0;
}
