#include "replay/hardware/player.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "replay/device/memory.h"
#include "replay/hardware/own_kernels.h"
#include "replay/hardware/waiting.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/sites.h"
#include "tracer/ptx/turnstile.h"

namespace deadheat::hardware {

namespace {

constexpr std::uint64_t most_memory = std::uint64_t(64) << 30;
constexpr std::uint64_t control_bytes = 128, gate_offset = sizeof(ptx::TurnstileControl);
constexpr const char* heap_name = "device malloc heap"; // the GPU's own is used

std::string prefix_of(std::uint32_t launch) { return "__deadheat_" + std::to_string(launch) + "_"; }

} // namespace

Expected<void> Player::check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return {};
  // What a kernel did wrong comes back from whatever is called next, and makes the context useless.
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: sticky_ = result; break;
    default: break;
  }
  return driver_.check(result, what);
}

Expected<std::unique_ptr<Player>> Player::create(const Driver& driver, const Capsule& capsule, const Plan& plan) {
  Expected<CUdevice> device = driver.use_first_device();
  if (!device) return device.error();
  std::unique_ptr<Player> player(new Player(driver, capsule, plan));
  player->device_ = *device;
  char name[256] = {};
  if (driver.cuDeviceGetName(name, sizeof name, *device) == CUDA_SUCCESS) player->device_name_ = name;
  if (Expected<void> ready = player->prepare(); !ready) return ready.error();
  return player;
}

Expected<void> Player::prepare() {
  CUdeviceptr control = 0;
  if (Expected<void> ok = check(driver_.cuMemAlloc(&control, control_bytes), "cuMemAlloc"); !ok) return ok;
  control_ = control;
  if (Expected<void> ok = place_memory(); !ok) return ok;
  if (Expected<void> ok = make_room(); !ok) return ok;
  for (const trace::Record& command : capsule_.commands()) {
    auto* module = std::get_if<trace::Module>(&command);
    if (!module) continue;
    if (Expected<void> ok = load_module(*module); !ok) return ok;
  }
  std::map<std::uint32_t, trace::Allocate> named;
  for (const trace::Record& command : capsule_.commands()) {
    if (auto* allocate = std::get_if<trace::Allocate>(&command)) named[allocate->allocation] = *allocate;
    auto* symbol = std::get_if<trace::Symbol>(&command);
    if (!symbol) continue;
    auto module = modules_.find(symbol->module);
    if (module == modules_.end()) continue;
    auto variable = module->second.variables.find(symbol->name);
    if (variable == module->second.variables.end()) continue; // no kernel uses it: the driver left it out
    const trace::Allocate& record = named[symbol->allocation];
    map_.place_symbol(record.address, record.bytes, variable->second.at);
  }
  if (plan_.means == Means::gates) {
    if (Expected<void> ok = make_gate(); !ok) return ok;
    find_freed();
    if (freed_) {
      Expected<void> ok = check(driver_.cuDeviceGetDefaultMemPool(&pool_, device_), "cuDeviceGetDefaultMemPool");
      if (!ok) return ok;
    }
  }
  if (plan_.means == Means::turnstiles) {
    if (Expected<void> ok = make_wipe(); !ok) return ok;
  }
  return look_at_residency();
}

Expected<void> Player::place_memory() {
  for (const trace::Record& command : capsule_.commands()) {
    auto* record = std::get_if<trace::Allocate>(&command);
    if (record && record->name != heap_name) map_.add(*record);
  }
  if (map_.device_bytes() > most_memory || map_.host_bytes() > most_memory) {
    return Error{"the recorded memory spans " + std::to_string((map_.device_bytes() + map_.host_bytes()) >> 30) +
                 " GiB: too much to be placed on a GPU"};
  }
  if (map_.device_bytes()) {
    CUdeviceptr at = 0;
    if (Expected<void> ok = check(driver_.cuMemAlloc(&at, map_.device_bytes()), "cuMemAlloc"); !ok) return ok;
    map_.place_device(at);
  }
  if (map_.host_bytes()) {
    void* at = nullptr;
    if (Expected<void> ok =
            check(driver_.cuMemHostAlloc(&at, map_.host_bytes(), CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc");
        !ok) {
      return ok;
    }
    map_.place_host(reinterpret_cast<std::uint64_t>(at));
  }
  return {};
}

// Everything whose making would wait for the device: in a run it would wait for gates, too.
Expected<void> Player::make_room() {
  std::uint64_t staged = 2 * device::Memory::segment_bytes;
  std::map<std::uint32_t, std::size_t> nodes;
  std::size_t most_nodes = 0;
  for (const trace::Record& command : capsule_.commands()) {
    if (auto* created = std::get_if<trace::StreamCreate>(&command)) stream_records_[created->stream] = *created;
    if (auto* record = std::get_if<trace::Allocate>(&command)) {
      if (AddressMap::is_symbol(*record)) staged += record->bytes + 256;
    }
    auto* operation = std::get_if<trace::Operation>(&command);
    if (!operation) continue;
    if (operation->graph_launch) most_nodes = std::max(most_nodes, ++nodes[operation->graph_launch]);
    if (auto* copy = std::get_if<trace::Copy>(&operation->what)) {
      staged += copy->source.width * copy->source.height * copy->source.depth + 256;
    }
  }
  if (staged > most_memory) return Error{"the witness copies too much to be replayed on a GPU"};
  Expected<std::uint8_t*> pattern = stage(staged);
  if (!pattern) return pattern.error();
  staging_.back().at += device::Memory::segment_bytes;
  staging_.back().bytes -= device::Memory::segment_bytes;
  staging_.back().used = 0;
  device::Memory::make_pattern(capsule_.seed(), *pattern);
  pattern_ = *pattern;
  for (const auto& [id, record] : stream_records_) {
    if (Expected<CUstream> made = stream(id); !made) return made.error();
  }
  if (most_nodes) {
    if (Expected<CUstream> made = node_stream(most_nodes - 1); !made) return made.error();
  }
  return check(driver_.cuStreamCreateWithPriority(&own_, CU_STREAM_NON_BLOCKING, 0), "cuStreamCreateWithPriority");
}

// The launches whose kernels get turnstiles.
std::vector<std::uint32_t> Player::named_launches() const {
  std::vector<std::uint32_t> launches;
  if (plan_.means == Means::gates) return launches;
  for (const AccessName* side : {&plan_.first, &plan_.second}) {
    if (side->launch && std::count(launches.begin(), launches.end(), side->launch) == 0)
      launches.push_back(side->launch);
  }
  return launches;
}

Expected<void> Player::load_module(const trace::Module& record) {
  if (record.kind != trace::Module::Kind::ptx) return {};
  Expected<std::vector<std::uint8_t>> blob = capsule_.blob(record.image);
  if (!blob) return blob.error();
  std::string text(blob->begin(), blob->end());
  Expected<ptx::Module> parsed = ptx::parse(text, record.origin);
  if (!parsed) return parsed.error();

  std::vector<ptx::TurnstileClone> clones;
  for (const trace::Record& command : capsule_.commands()) {
    auto* operation = std::get_if<trace::Operation>(&command);
    auto* launch = operation ? std::get_if<trace::Launch>(&operation->what) : nullptr;
    if (!launch || launch->module != record.id) continue;
    const std::vector<std::uint32_t> launches = named_launches();
    if (std::count(launches.begin(), launches.end(), operation->launch) == 0) continue;
    ptx::TurnstileClone clone{launch->kernel, prefix_of(operation->launch), {}};
    const AccessName* sides[] = {&plan_.first, &plan_.second};
    for (std::uint32_t side = 0; side < 2; ++side) {
      const AccessName& name = *sides[side];
      if (name.launch != operation->launch) continue;
      if (name.nth > 0xffffffffu) return Error{"the access comes too late in its thread", launch->kernel};
      clone.turnstiles.push_back({side, name.site, name.block, name.thread, std::uint32_t(name.nth)});
    }
    clones.push_back(std::move(clone));
  }
  if (!clones.empty()) {
    Expected<std::string> with = ptx::add_turnstiles(*parsed, ptx::site_table(*parsed), clones);
    if (!with) return with.error();
    text = *std::move(with);
  }

  Module& module = modules_[record.id];
  char log[4096] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUresult loaded = driver_.cuModuleLoadDataEx(&module.handle, text.c_str(), 2, options, values);
  if (loaded != CUDA_SUCCESS) {
    std::string said(log);
    if (std::size_t end = said.find('\n'); end != std::string::npos) said.resize(end);
    return Error{driver_.text(loaded) + (said.empty() ? "" : ": " + said), "module " + record.origin};
  }
  if (!clones.empty()) {
    CUdeviceptr at = 0;
    std::size_t size = 0;
    if (Expected<void> ok = check(driver_.cuModuleGetGlobal(&at, &size, module.handle, ptx::turnstile_variable),
                                  ptx::turnstile_variable);
        !ok) {
      return ok;
    }
    Expected<std::uint8_t*> staged = stage(8);
    if (!staged) return staged.error();
    std::memcpy(*staged, &control_, 8);
    if (Expected<void> ok = check(driver_.cuMemcpyAsync(at, CUdeviceptr(*staged), 8, nullptr), "cuMemcpyAsync"); !ok)
      return ok;
  }
  for (const ptx::Variable& v : parsed->variables) {
    const bool stored = (v.space == Space::global || v.space == Space::constant) && !v.opaque_reference &&
                        v.linkage != ptx::Variable::Linkage::extern_ && v.size != 0;
    if (!stored) continue;
    CUdeviceptr at = 0;
    std::size_t size = 0;
    // The driver leaves out what no kernel uses.
    if (driver_.cuModuleGetGlobal(&at, &size, module.handle, v.name.c_str()) != CUDA_SUCCESS) continue;
    Variable& variable = module.variables[v.name];
    variable.at = at;
    Expected<std::uint8_t*> staged = stage(size);
    if (!staged) return staged.error();
    if (Expected<void> ok = check(driver_.cuMemcpyAsync(CUdeviceptr(*staged), at, size, nullptr), v.name); !ok)
      return ok;
    if (Expected<void> ok = check(driver_.cuCtxSynchronize(), v.name); !ok) return ok;
    variable.first.assign(*staged, *staged + size);
  }
  return check(driver_.cuCtxSynchronize(), "module " + record.origin);
}

Expected<CUfunction> Player::own_kernel(const char* text, const char* name) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  if (Expected<void> ok = check(driver_.cuModuleLoadDataEx(&module, text, 0, nullptr, nullptr), name); !ok)
    return ok.error();
  if (Expected<void> ok = check(driver_.cuModuleGetFunction(&kernel, module, name), name); !ok) return ok.error();
  return kernel;
}

Expected<void> Player::make_gate() {
  Expected<CUfunction> kernel = own_kernel(gate_text, gate_name);
  if (!kernel) return kernel.error();
  gate_ = *kernel;
  return {};
}

Expected<void> Player::make_wipe() {
  Expected<CUfunction> kernel = own_kernel(wipe_text, wipe_name);
  if (!kernel) return kernel.error();
  wipe_ = *kernel;
  const std::pair<CUdevice_attribute, int*> wanted[] = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors_},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared_memory_}};
  for (const auto& [attribute, value] : wanted) {
    if (Expected<void> ok = check(driver_.cuDeviceGetAttribute(value, attribute, device_), "device"); !ok) return ok;
  }
  return check(driver_.cuFuncSetAttribute(wipe_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_memory_),
               wipe_name);
}

void Player::find_freed() {
  for (const trace::Record& command : capsule_.commands()) {
    auto* operation = std::get_if<trace::Operation>(&command);
    auto* pool = operation ? std::get_if<trace::PoolOperation>(&operation->what) : nullptr;
    if (!pool || !pool->free) continue;
    if (operation->id == plan_.first.operation || operation->id == plan_.second.operation) freed_ = pool->allocation;
  }
}

Expected<CUfunction> Player::function(const trace::Operation& operation, const trace::Launch& launch) {
  auto module = modules_.find(launch.module);
  if (module == modules_.end()) return Error{"the witness does not hold the kernel's PTX", launch.kernel};
  const std::vector<std::uint32_t> named = named_launches();
  const bool cloned = std::count(named.begin(), named.end(), operation.launch) != 0;
  const std::string name = (cloned ? prefix_of(operation.launch) : "") + launch.kernel;
  CUfunction found = nullptr;
  if (Expected<void> ok = check(driver_.cuModuleGetFunction(&found, module->second.handle, name.c_str()), name); !ok)
    return ok.error();
  if (launch.dynamic_shared > 48 * 1024 - launch.static_shared) {
    if (Expected<void> ok = check(driver_.cuFuncSetAttribute(found, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                             int(launch.dynamic_shared)),
                                  name);
        !ok) {
      return ok.error();
    }
  }
  return found;
}

// Blocks that wait for each other must be on the device together.
Expected<void> Player::look_at_residency() {
  if (plan_.means != Means::turnstiles || plan_.first.launch != plan_.second.launch ||
      plan_.first.block == plan_.second.block)
    return {};
  for (const trace::Record& command : capsule_.commands()) {
    auto* operation = std::get_if<trace::Operation>(&command);
    auto* launch = operation ? std::get_if<trace::Launch>(&operation->what) : nullptr;
    if (!launch || operation->launch != plan_.first.launch) continue;
    Expected<CUfunction> kernel = function(*operation, *launch);
    if (!kernel) return kernel.error();
    int blocks = 0, processors = 0;
    if (Expected<void> ok = check(driver_.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                      &blocks, *kernel, int(launch->block.count()), launch->dynamic_shared),
                                  launch->kernel);
        !ok) {
      return ok;
    }
    if (Expected<void> ok = check(
            driver_.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_), "device");
        !ok) {
      return ok;
    }
    const std::uint64_t room = std::uint64_t(blocks) * std::uint64_t(processors), grid = launch->grid.count();
    if (room < 2) {
      return Error{"blocks " + std::to_string(plan_.first.block) + " and " + std::to_string(plan_.second.block) +
                   " cannot be on the device together: it holds one block of this kernel at a time"};
    }
    if (room < grid) {
      notes_.push_back("of the kernel's " + std::to_string(grid) + " blocks " + std::to_string(room) +
                       " are on the device together: block " + std::to_string(plan_.first.block) + " and block " +
                       std::to_string(plan_.second.block) +
                       " meet only where the blocks between them end while one of the two waits");
    }
    return {};
  }
  return {};
}

// Page-locked memory for the rest of the run.
Expected<std::uint8_t*> Player::stage(std::uint64_t bytes) {
  constexpr std::uint64_t least = std::uint64_t(1) << 20;
  bytes = (bytes + 255) / 256 * 256;
  for (Staging& chunk : staging_) {
    if (chunk.bytes - chunk.used < bytes) continue;
    chunk.used += bytes;
    return chunk.at + chunk.used - bytes;
  }
  void* at = nullptr;
  const std::uint64_t size = std::max(bytes, least);
  if (Expected<void> ok = check(driver_.cuMemHostAlloc(&at, size, 0), "cuMemHostAlloc"); !ok) return ok.error();
  staging_.push_back({static_cast<std::uint8_t*>(at), size, bytes});
  return staging_.back().at;
}

Expected<void> Player::reset(const PlayRequest& request) {
  for (Staging& chunk : staging_) chunk.used = 0;
  for (auto* events : {&ended_, &started_}) {
    for (auto& [id, event] : *events) driver_.cuEventDestroy(event);
    events->clear();
  }
  graph_stream_.clear();
  graph_nodes_.clear();
  stream_of_.clear();
  allocations_.clear();
  submitted_.clear();
  deliveries_.clear();
  delivered_into_.clear();
  outputs_.clear();
  host_memory_.emplace();
  order_ = request.order;
  if (Expected<void> ok = give_freed(own_); !ok) return ok;

  Expected<std::uint8_t*> staged = stage(control_bytes);
  if (!staged) return staged.error();
  std::memset(*staged, 0, control_bytes);
  ptx::TurnstileControl control;
  if (request.order == Order::first_then_second) control.held = 2;
  if (request.order == Order::second_then_first) control.held = 1;
  control.patience = turnstile_looks;
  control.sleep = turnstile_sleep;
  control.delay = request.delay;
  control.seed = request.seed;
  std::memcpy(*staged, &control, sizeof control);
  if (Expected<void> ok = check(driver_.cuMemcpyAsync(control_, CUdeviceptr(*staged), control_bytes, nullptr), "reset");
      !ok) {
    return ok;
  }
  for (const auto& [id, module] : modules_) {
    for (const auto& [name, variable] : module.variables) {
      Expected<std::uint8_t*> first = stage(variable.first.size());
      if (!first) return first.error();
      std::memcpy(*first, variable.first.data(), variable.first.size());
      if (Expected<void> ok =
              check(driver_.cuMemcpyAsync(variable.at, CUdeviceptr(*first), variable.first.size(), nullptr), name);
          !ok) {
        return ok;
      }
    }
  }
  return check(driver_.cuCtxSynchronize(), "reset");
}

Expected<Played> Player::run(const PlayRequest& request) {
  Played played;
  if (Expected<void> ok = reset(request); !ok) return ok.error();
  Expected<void> done;
  for (const trace::Record& command : capsule_.commands()) {
    done = apply(command);
    if (!done) break;
  }
  if (done) done = check(driver_.cuCtxSynchronize(), "the end of the run");
  if (!done && sticky_ == CUDA_SUCCESS) return done.error();
  if (sticky_ != CUDA_SUCCESS) {
    played.broken = true;
    played.outputs.ending = search::Ending::fault;
    played.outputs.ending_text = driver_.text(sticky_);
  } else {
    look_at_host_memory();
    for (const Delivery& delivery : deliveries_) {
      search::Output output{delivery.operation, delivery.source, {delivery.bytes, delivery.bytes + delivery.size}};
      map_.to_recorded(output.bytes.data(), output.bytes.size());
      outputs_.push_back(std::move(output));
    }
    if (Expected<void> ok = read_control(request, played); !ok) return ok.error();
  }
  std::stable_sort(outputs_.begin(), outputs_.end(),
                   [](const search::Output& a, const search::Output& b) { return a.operation < b.operation; });
  played.outputs.outputs = std::move(outputs_);
  return played;
}

// What turnstiles and gates say about the run.
Expected<void> Player::read_control(const PlayRequest& request, Played& played) {
  Expected<std::uint8_t*> staged = stage(control_bytes);
  if (!staged) return staged.error();
  if (Expected<void> ok =
          check(driver_.cuMemcpyAsync(CUdeviceptr(*staged), control_, control_bytes, nullptr), "control");
      !ok) {
    return ok;
  }
  if (Expected<void> ok = check(driver_.cuCtxSynchronize(), "control"); !ok) return ok;
  if (plan_.means == Means::gates) {
    std::uint32_t words[2];
    std::memcpy(words, *staged + gate_offset, sizeof words);
    played.gave_up = words[1] != 0;
    played.first_reached = submitted_.count(plan_.first.operation) != 0;
    played.second_reached = submitted_.count(plan_.second.operation) != 0;
    if (!played.gave_up && played.first_reached && played.second_reached) played.had = request.order;
    return {};
  }
  ptx::TurnstileControl control;
  std::memcpy(&control, *staged, sizeof control);
  const auto &first = control.side[0], &second = control.side[1];
  played.first_reached = first.went != 0;
  played.second_reached = second.went != 0;
  played.gave_up = first.gave_up || second.gave_up;
  if (first.passed && first.passed < second.went) played.had = Order::first_then_second;
  if (second.passed && second.passed < first.went) played.had = Order::second_then_first;
  return {};
}

} // namespace deadheat::hardware
