// Kernels for tests of the device, written by hand as compiled code is (replay/engine/abi.h): state machines whose
// frame says where to go on. K<Mode> is the kernel as the code generator would build it for that mode.
//
//   template <engine::Mode M> std::int32_t kernel(ThreadContext* t, std::uint8_t* bytes) {
//     struct Mine : Frame { std::uint32_t i; }; auto& f = frame<Mine>(bytes);
//     BEGIN
//     STORE(site, address, std::uint32_t, value);
//     END
//   }
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "replay/device/device.h"
#include "tracer/ptx/parse.h"

namespace deadheat::device_test {

using engine::Mode;
using engine::Step;
using engine::ThreadContext;
using engine::WarpOp;

struct Frame {
  std::uint32_t resume, padding;
};
template <typename F> F& frame(std::uint8_t* bytes) { return *reinterpret_cast<F*>(bytes); }

inline std::uint8_t* host_of(ThreadContext* t, std::uint64_t a) {
  if (a - shared_window < window_bytes) return t->block->shared + (a - shared_window);
  if (a - local_window < window_bytes) return t->stack + (a - local_window);
  return reinterpret_cast<std::uint8_t*>(to_host(a));
}
template <typename T> T param(ThreadContext* t, std::uint32_t offset) {
  T value;
  std::memcpy(&value, t->block->launch->params + offset, sizeof value);
  return value;
}
inline std::uint32_t global_id(ThreadContext* t) { return t->block->linear * t->block->launch->ntid[0] + t->linear; }

template <Mode M> bool must_stop(ThreadContext* t, std::uint32_t site, std::uint64_t address, bool strong) {
  bool stop = M.record && strong;
  if (M.control) {
    stop |= t->block->launch->exec->quantum-- <= 0;
    stop |= t->block->launch->site_stop[site] != 0;
  }
  t->pending_site = site;
  t->pending_address = address;
  return stop;
}
template <Mode M> bool bad(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint32_t bytes,
                           bool write) {
  if (M.control) ++t->block->launch->exec->visible;
  return M.check && !t->block->launch->exec->services->check(t, site, address, bytes, write);
}
template <Mode M> void note_change(ThreadContext* t) {
  if (M.control) ++t->block->launch->exec->changes;
}
template <Mode M> void log(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint32_t digest) {
  if (!M.record) return;
  *t->log_cursor++ = {address, site, digest};
  if (t->log_cursor == t->log_end) t->block->launch->exec->services->log_full(t);
}
template <Mode M> void report(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint64_t read,
                              std::uint64_t written, bool wrote) {
  if (M.record) t->block->launch->exec->services->strong(t, site, address, read, written, wrote);
}
inline bool unchanged(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint64_t read) {
  const bool same = t->spin_site == site && t->spin_address == address && t->spin_value == read;
  t->spin_site = site, t->spin_address = address, t->spin_value = read;
  t->pending_address = address;
  return same;
}
inline std::int32_t rendezvous(ThreadContext* t, std::uint32_t site, WarpOp op, std::uint32_t mask, std::uint64_t a = 0,
                               std::uint64_t b = 0, std::uint64_t c = 0) {
  t->pending_site = site;
  t->arg[0] = std::uint64_t(op), t->arg[1] = mask, t->arg[2] = a, t->arg[3] = b, t->arg[4] = c;
  return std::int32_t(Step::warp);
}

#define BEGIN         \
  switch (f.resume) { \
    case 0:
#define END \
  }         \
  return std::int32_t(Step::exited);
#define STOP_AT(step, where)   \
  do {                         \
    f.resume = where;          \
    return std::int32_t(step); \
    case where:;               \
  } while (0)
#define STOP(step) STOP_AT(step, __LINE__)
#define BEFORE(site, address, bytes, strong, write)                \
  if (must_stop<M>(t, site, address, strong)) STOP(Step::visible); \
  if (bad<M>(t, site, address, bytes, write)) return std::int32_t(Step::fault)
#define LOAD(site, address, type, variable)           \
  BEFORE(site, address, sizeof(type), false, false);  \
  {                                                   \
    type v_;                                          \
    std::memcpy(&v_, host_of(t, address), sizeof v_); \
    variable = v_;                                    \
  }                                                   \
  log<M>(t, site, address, 0)
#define STORE(site, address, type, value)                       \
  BEFORE(site, address, sizeof(type), false, true);             \
  {                                                             \
    type v_ = type(value);                                      \
    std::memcpy(host_of(t, address), &v_, sizeof v_);           \
    note_change<M>(t);                                          \
    log<M>(t, site, address, deadheat::digest(&v_, sizeof v_)); \
  }
#define STRONG_LOAD(site, address, variable)       \
  BEFORE(site, address, 4, true, false);           \
  {                                                \
    std::uint32_t v_;                              \
    std::memcpy(&v_, host_of(t, address), 4);      \
    variable = v_;                                 \
  }                                                \
  report<M>(t, site, address, variable, 0, false); \
  if (unchanged(t, site, address, variable)) STOP_AT(Step::spin, __LINE__ + 100000)
#define STRONG_STORE(site, address, value)    \
  BEFORE(site, address, 4, true, true);       \
  {                                           \
    std::uint32_t v_ = value;                 \
    std::memcpy(host_of(t, address), &v_, 4); \
    note_change<M>(t);                        \
    report<M>(t, site, address, 0, v_, true); \
  }
#define ATOMIC_ADD(site, address, value, old)   \
  BEFORE(site, address, 4, true, true);         \
  {                                             \
    std::uint32_t v_;                           \
    std::memcpy(&v_, host_of(t, address), 4);   \
    old = v_;                                   \
    v_ += value;                                \
    std::memcpy(host_of(t, address), &v_, 4);   \
    note_change<M>(t);                          \
    report<M>(t, site, address, old, v_, true); \
  }
#define FENCE(site)                                        \
  if (must_stop<M>(t, site, 0, true)) STOP(Step::visible); \
  if (M.control) ++t->block->launch->exec->visible
#define BARRIER(site, number, count, predicate)                                         \
  t->pending_site = site, t->arg[0] = number, t->arg[1] = count, t->arg[2] = predicate; \
  STOP(Step::barrier)
#define WARP(...)                      \
  do {                                 \
    f.resume = __LINE__;               \
    return rendezvous(t, __VA_ARGS__); \
    case __LINE__:;                    \
  } while (0)

// ---- a compiler of such kernels

struct FakeKernel {
  engine::KernelInfo info;
  std::map<Mode, engine::FunctionDescriptor> code;
};
struct FakeSource { // what the "module" compiles to
  std::string ptx = ".version 9.0\n.target sm_90\n.address_size 64\n";
  std::vector<Site> sites;
  std::map<std::string, FakeKernel, std::less<>> kernels;

  std::uint32_t site(SiteKind kind, AccessKind access = AccessKind::read, Ordering ordering = Ordering::weak,
                     std::string opcode = "", std::uint8_t bytes = 4) {
    Site s;
    s.id = std::uint32_t(sites.size());
    s.kind = kind;
    s.access = access;
    s.ordering = ordering;
    s.scope = is_strong(ordering) ? Scope::gpu : Scope::none;
    s.opcode = std::move(opcode);
    s.element_bytes = bytes;
    s.space = Space::global;
    sites.push_back(s);
    return s.id;
  }
};
// Adds kernel<Mode> in the modes that the device asks for.
#define ADD_KERNEL(source, kernel, frame_size, shared)                                              \
  do {                                                                                              \
    FakeKernel& k_ = (source).kernels[#kernel];                                                     \
    k_.info.name = #kernel;                                                                         \
    k_.info.parameter_bytes = 64;                                                                   \
    k_.info.static_shared = shared;                                                                 \
    k_.info.dynamic_shared_offset = shared;                                                         \
    auto add_ = [&](Mode m, engine::EntryPoint e) { k_.code[m] = {e, frame_size, 0, frame_size}; }; \
    add_({false, false, false}, kernel<Mode{false, false, false}>);                                 \
    add_({false, false, true}, kernel<Mode{false, false, true}>);                                   \
    add_({true, false, false}, kernel<Mode{true, false, false}>);                                   \
    add_({true, false, true}, kernel<Mode{true, false, true}>);                                     \
    add_({false, true, false}, kernel<Mode{false, true, false}>);                                   \
    add_({false, true, true}, kernel<Mode{false, true, true}>);                                     \
    add_({true, true, false}, kernel<Mode{true, true, false}>);                                     \
    add_({true, true, true}, kernel<Mode{true, true, true}>);                                       \
  } while (0)

class FakeModule : public engine::LoadedModule {
 public:
  FakeModule(ptx::Module module, const FakeSource& source) : module_(std::move(module)), source_(source) {}
  const ptx::Module& ptx() const override { return module_; }
  const std::vector<Site>& sites() const override { return source_.sites; }
  const engine::KernelInfo* kernel(std::string_view name) const override {
    auto found = source_.kernels.find(name);
    return found == source_.kernels.end() ? nullptr : &found->second.info;
  }
  std::vector<std::string> kernel_names() const override { return {}; }
  const std::vector<std::string>& refusals() const override { return refusals_; }
  Expected<engine::KernelCode*> compile(std::string_view name, Mode mode) override {
    engine::KernelCode& code = code_[{std::string(name), mode}];
    static_cast<engine::FunctionDescriptor&>(code) = source_.kernels.find(name)->second.code.at(mode);
    return &code;
  }
  const engine::RegionCode* regions(std::string_view, bool) override { return nullptr; }
  const engine::FootprintCode* footprint(std::string_view) override { return nullptr; }
  std::vector<std::uint8_t> initial_bytes(const ptx::Variable& v) override { return v.initializer; }

 private:
  ptx::Module module_;
  const FakeSource& source_;
  std::map<std::pair<std::string, Mode>, engine::KernelCode> code_;
  std::vector<std::string> refusals_;
};
class FakeCompiler : public engine::Compiler {
 public:
  explicit FakeCompiler(const FakeSource& source) : source_(source) {}
  Expected<std::unique_ptr<engine::LoadedModule>> load(ptx::Module module, std::string,
                                                       std::function<std::uint64_t(std::string_view)>) override {
    return std::unique_ptr<engine::LoadedModule>(std::make_unique<FakeModule>(std::move(module), source_));
  }

 private:
  const FakeSource& source_;
};

// ---- a sink that keeps everything

struct WeakEntry {
  std::uint32_t launch, block, thread;
  engine::LogEntry entry;
};
class KeepingSink : public device::Sink {
 public:
  struct Item { // a record, or one call of weak_accesses
    trace::Record record;
    std::vector<WeakEntry> weak;
  };
  void record(const trace::Record& record) override {
    if (!ignore) items.push_back({record, {}});
  }
  bool ignore = false;
  void weak_accesses(const trace::Warp& warp, std::uint32_t, const device::LaneLogs& logs) override {
    items.emplace_back();
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      for (const engine::LogEntry* e = logs.begin[lane]; e != logs.end[lane]; ++e)
        items.back().weak.push_back({warp.launch, warp.block, warp.warp * 32 + lane, *e});
  }
  trace::Bytes keep(const void* data, std::uint64_t size) override {
    trace::Bytes bytes;
    bytes.size = size;
    bytes.inlined.assign(static_cast<const std::uint8_t*>(data), static_cast<const std::uint8_t*>(data) + size);
    return bytes;
  }
  trace::BlobHash keep_blob(const void* data, std::uint64_t size) override {
    trace::BlobHash hash{};
    hash[0] = std::uint8_t(blobs.size() + 1);
    blobs[hash].assign(static_cast<const std::uint8_t*>(data), static_cast<const std::uint8_t*>(data) + size);
    return hash;
  }
  template <typename T> std::vector<T> all() const {
    std::vector<T> found;
    for (const Item& item : items)
      if (item.weak.empty())
        if (auto* r = std::get_if<T>(&item.record)) found.push_back(*r);
    return found;
  }
  std::vector<std::uint8_t> host_reads() const {
    std::vector<std::uint8_t> bytes;
    for (const auto& r : all<trace::HostRead>())
      bytes.insert(bytes.end(), r.data.inlined.begin(), r.data.inlined.end());
    return bytes;
  }
  std::vector<Item> items;
  std::map<trace::BlobHash, std::vector<std::uint8_t>> blobs;
};

// ---- a device with these kernels, and shorthands

class Rig {
 public:
  explicit Rig(const FakeSource& source, device::DeviceOptions options = {})
      : Rig(source.ptx, std::make_unique<FakeCompiler>(source), std::move(options)) {}
  // No compiler: the engine's.
  Rig(std::string ptx, std::unique_ptr<engine::Compiler> compiler, device::DeviceOptions options)
      : ptx_(std::move(ptx)) {
    options.sink = options.sink ? options.sink : &sink;
    options.modules = device::make_module_cache(std::move(compiler));
    auto made = device::Device::create(std::move(options));
    EXPECT_TRUE(made) << made.error().message();
    if (made) device = std::move(*made);
  }
  void load() {
    auto id = device->load_module(ptx_, "test");
    ASSERT_TRUE(id) << id.error().message();
    module = *id;
  }
  std::uint64_t alloc(std::uint64_t bytes) {
    auto a = device->allocate(trace::Allocate::Kind::device, bytes, 0);
    EXPECT_TRUE(a);
    return a ? a->address : 0;
  }
  std::uint32_t launch(const std::string& kernel, std::uint32_t grid, std::uint32_t block,
                       std::vector<std::uint64_t> parameters, std::uint32_t stream = 1) {
    trace::Launch l;
    l.kernel = kernel;
    l.grid.x = grid;
    l.block.x = block;
    return launch(std::move(l), parameters, stream);
  }
  std::uint32_t launch(trace::Launch l, const std::vector<std::uint64_t>& parameters, std::uint32_t stream = 1) {
    l.module = module;
    l.arguments.size = parameters.size() * 8;
    l.arguments.inlined.resize(l.arguments.size);
    if (!parameters.empty()) std::memcpy(l.arguments.inlined.data(), parameters.data(), l.arguments.size);
    return submit(l, stream);
  }
  std::uint32_t copy(trace::Copy::Direction direction, std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
                     std::uint32_t stream = 1) {
    trace::Copy c;
    c.direction = direction;
    c.destination.address = to;
    c.source.address = from;
    c.destination.width = c.source.width = bytes;
    return submit(c, stream);
  }
  std::uint32_t set(std::uint64_t to, std::uint32_t value, std::uint64_t bytes, std::uint32_t stream = 1) {
    trace::Set s;
    s.destination.address = to;
    s.destination.width = bytes;
    s.value = value;
    return submit(s, stream);
  }
  template <typename What> std::uint32_t submit(What what, std::uint32_t stream) {
    trace::Operation operation;
    operation.stream = stream;
    operation.what = std::move(what);
    auto id = device->submit(std::move(operation));
    EXPECT_TRUE(id) << id.error().message();
    return id ? *id : 0;
  }
  // Of the HostCallback that is submitted next. `code` tells functions apart.
  void next_function(std::function<void()> function, const void* code = nullptr) {
    device->next_callback({code, [function = std::move(function)] {
                             function();
                             return device::RunsOn();
                           }});
  }
  device::Progress sync() { return device->wait({}); }
  std::vector<std::uint32_t> words(std::uint64_t address, std::size_t count) {
    std::vector<std::uint32_t> out(count);
    const std::uint8_t* from = device->peek(address, count * 4);
    EXPECT_NE(from, nullptr);
    if (from) std::memcpy(out.data(), from, count * 4);
    return out;
  }
  // Copies words to the host, so that they are among what the host has read.
  std::vector<std::uint32_t> read(std::uint64_t address, std::size_t count) {
    std::vector<std::uint32_t> out(count);
    copy(trace::Copy::Direction::d2h, std::uint64_t(out.data()), address, count * 4);
    sync();
    return out;
  }
  KeepingSink sink;
  std::unique_ptr<device::Device> device;
  std::uint32_t module = 0;

 private:
  std::string ptx_;
};

// Feeds the commands that a recording holds to a device that replays; the recording's own device ends.
struct Replayed {
  device::Progress progress = device::Progress::done;
  std::vector<std::uint8_t> host_reads;
  device::ChoiceSummary choices;
  std::vector<Switch> switches;
  std::vector<OldRead> old_reads;
  std::string stuck;
};
inline Replayed replay(const FakeSource& source, Rig& recording, Schedule schedule = {}, std::uint64_t seed = 0,
                       std::uint64_t budget = 0, std::vector<device::Performed>* performed = nullptr,
                       device::Chooser* chooser = nullptr) {
  recording.device.reset(); // one device exists at a time
  const KeepingSink& recorded = recording.sink;
  device::DeviceOptions options;
  options.live = false;
  options.seed = seed;
  options.record_accesses = false;
  options.schedule = std::move(schedule);
  options.budget = budget;
  options.performed = performed;
  options.chooser = chooser;
  Rig rig(source, std::move(options));
  Replayed result;
  auto blob = [&](const trace::BlobHash& hash) -> Expected<std::vector<std::uint8_t>> {
    return recorded.blobs.at(hash);
  };
  for (const KeepingSink::Item& item : recorded.items) {
    if (!item.weak.empty()) continue;
    auto progress = rig.device->apply(item.record, blob);
    EXPECT_TRUE(progress) << progress.error().message();
    if (!progress) break;
    result.progress = *progress;
    if (result.progress != device::Progress::done) break;
  }
  result.host_reads = rig.sink.host_reads();
  result.choices = rig.device->choices();
  result.switches = rig.device->switches();
  result.old_reads = rig.device->old_reads();
  result.stuck = rig.device->stuck_description();
  return result;
}

} // namespace deadheat::device_test
