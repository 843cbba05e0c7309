#include "tracer/cupti/ptxas.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tracer/cupti/apart.h"
#include "tracer/cupti/no_signals.h"
#include "tracer/ptx/elf.h"

extern char** environ;

namespace deadheat::cupti {

namespace {

using How = Assembler::Result::How;

constexpr std::chrono::seconds most_for_a_question{20};
constexpr const char* empty_kernel = "deadheat_empty";

bool can_run(const std::string& path) {
  struct stat status{};
  return path.starts_with('/') && stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// The job's, but for what would bring this library, or the driver's use of it, into the process.
std::vector<std::string> environment_without_us() {
  std::vector<std::string> kept;
  for (char** at = environ; at && *at; ++at) {
    const std::string_view variable = *at;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool ours = name == "LD_PRELOAD" || name == "LD_AUDIT" || name == "CUDA_INJECTION64_PATH" ||
                      name == "NVTX_INJECTION64_PATH" || name.starts_with("DEADHEAT_");
    if (!ours) kept.emplace_back(variable);
  }
  return kept;
}

std::vector<std::string> usual_places() {
  std::vector<std::string> places;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) places.push_back(std::string(home) + "/bin/ptxas");
  }
  places.emplace_back("/usr/local/cuda/bin/ptxas");
  const char* list = std::getenv("PATH");
  for (std::string_view rest = list ? list : ""; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    places.push_back(std::string(folder) + "/ptxas");
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
  }
  return places;
}

// In the folders above files that are mapped: of a toolkit (lib64/libcudart.so), and of packages for Python, which lie
// side by side (torch/lib, nvidia/cu13/lib, triton/_C).
std::vector<std::string> places_beside_mapped_files() {
  std::set<std::string> folders;
  if (FILE* maps = std::fopen("/proc/self/maps", "re")) {
    char line[4352];
    std::string last;
    while (std::fgets(line, sizeof line, maps)) {
      const char* begin = std::strchr(line, '/');
      if (!begin) continue;
      std::string path(begin, std::strcspn(begin, "\n"));
      if (path == last) continue;
      last = path;
      for (std::size_t bar = path.rfind('/'); bar != std::string::npos && bar > 0; bar = path.rfind('/')) {
        path.resize(bar);
        if (!folders.insert(path).second) break; // and so those above it
      }
    }
    std::fclose(maps);
  }
  std::vector<std::string> places;
  for (const char* place :
       {"/bin/ptxas", "/nvidia/cu13/bin/ptxas", "/nvidia/cuda_nvcc/bin/ptxas", "/triton/backends/nvidia/bin/ptxas"}) {
    for (const std::string& folder : folders) places.push_back(folder + place);
  }
  return places;
}

// For this device; of code for one architecture or family only ("sm_90a") that.
std::string architecture_option(const Assembler::Module& module) {
  std::string option = "-arch=sm_" + std::to_string(module.architecture);
  if (module.target.ends_with('a') || module.target.ends_with('f')) option += module.target.back();
  return option;
}

Program program_for(const std::string& path, const Assembler::Module& module) {
  Program program;
  program.path = path;
  program.arguments = {architecture_option(module), "-lineinfo"};
  program.arguments.insert(program.arguments.end(), module.options.begin(), module.options.end());
  program.arguments.insert(program.arguments.end(), {apart_input, "-o", apart_output});
  program.input = module.text;
  return program;
}

// A signal that ended it; 0: none. What a shell ran that a signal ended exits with 128 more (a ptxas may be a script).
int signal_of(const Ended& ended) {
  if (ended.how == Ended::How::by_signal) return ended.status;
  return ended.how == Ended::How::exited && ended.status > 128 && ended.status <= 128 + SIGRTMAX ? ended.status - 128
                                                                                                 : 0;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

} // namespace

bool is_cubin(std::string_view bytes, const std::vector<std::string>& functions) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.e_machine != EM_CUDA || header.e_shoff == 0) return false;
  const std::uint64_t segments = std::uint64_t(header.e_phnum) * header.e_phentsize;
  if (header.e_phoff > bytes.size() || segments > bytes.size() - header.e_phoff) return false;
  const Expected<ptx::ElfFile> file = ptx::read_elf(bytes, "a cubin");
  return file && std::all_of(functions.begin(), functions.end(), [&](const std::string& name) {
           return std::find(file->functions.begin(), file->functions.end(), name) != file->functions.end();
         });
}

Assembler::Assembler(Takes takes, std::chrono::milliseconds most, ptx::CodeCache kept)
    : takes_(std::move(takes)),
      kept_(std::move(kept)),
      environment_(environment_without_us()),
      places_(usual_places()),
      most_(most) {
  if (const char* path = std::getenv("DEADHEAT_PTXAS")) named_ = path;
  if (const char* seconds = std::getenv("DEADHEAT_PTXAS_SECONDS")) {
    most_ = std::chrono::seconds(std::max(std::atoi(seconds), 1));
  }
}

// The driver is asked once: to load even an empty module it may wait until the kernels that run have ended.
std::optional<bool> Assembler::driver_takes(const std::string& path, const Module& module, const std::string& cubin) {
  const std::string key = path + '\n' + architecture_option(module);
  {
    std::lock_guard hold(lock_);
    if (const auto known = taken_.find(key); known != taken_.end()) return known->second;
  }
  const std::optional<bool> takes = takes_(cubin);
  if (!takes) return std::nullopt;
  std::lock_guard hold(lock_);
  return taken_.emplace(key, *takes).first->second;
}

bool Assembler::does(const std::string& path, const Module& module) {
  const std::string head = ".version " + std::to_string(module.version / 10) + "." +
                           std::to_string(module.version % 10) + "\n.target " + std::string(module.target) +
                           "\n.address_size 64\n.visible .entry " + empty_kernel + "()\n{\n  ret;\n}\n";
  std::string key = path + '\n' + architecture_option(module) + '\n' + head;
  for (const std::string& option : module.options) key += option + '\n';
  {
    std::lock_guard hold(lock_);
    if (const auto known = answers_.find(key); known != answers_.end()) return known->second;
  }
  Module empty = module;
  empty.text = head;
  Program program = program_for(path, empty);
  program.environment = environment_;
  program.most = std::min<std::chrono::milliseconds>(most_, most_for_a_question);
  const Ended ended = run_apart(program);
  if (ended.how == Ended::How::not_begun) return false; // perhaps it can be later
  std::optional<bool> good =
      ended.how == Ended::How::exited && ended.status == 0 && is_cubin(ended.output, {empty_kernel});
  if (*good) good = driver_takes(path, module, ended.output);
  if (!good) return false;
  std::lock_guard hold(lock_);
  return answers_.emplace(std::move(key), *good).first->second;
}

std::string Assembler::choose(const Module& module) {
  if (distrusted_ || named_ == "0") return {};
  const auto first_of = [&](const std::vector<std::string>& places) -> std::string {
    for (const std::string& place : places) {
      if (can_run(place) && does(place, module)) return place;
    }
    return {};
  };
  if (!named_.empty()) return first_of({named_});
  std::string path = first_of(places_);
  return path.empty() ? first_of(places_beside_mapped_files()) : path;
}

// In parallel it makes the same code.
std::string Assembler::key_of(const std::string& path, const Module& module) const {
  struct stat status{};
  if (!kept_.enabled() || stat(path.c_str(), &status) != 0) return {};
  std::string key = "ptxas\n" + path;
  for (const auto number : {std::int64_t(status.st_size), std::int64_t(status.st_ino),
                            std::int64_t(status.st_mtim.tv_sec), std::int64_t(status.st_mtim.tv_nsec)})
    key += '\n' + std::to_string(number);
  for (const std::string& argument : program_for(path, module).arguments) key += '\n' + argument;
  return key.append("\n").append(module.text);
}

Assembler::Result Assembler::assemble(const Module& module) {
  Result result;
  const std::string path = choose(module);
  if (path.empty()) return result;
  const std::string key = key_of(path, module);
  if (const auto found = kept_.find(key); found && is_cubin({found->data(), found->size()}, module.functions)) {
    result.how = How::assembled;
    result.cubin.assign(found->data(), found->size());
    return result;
  }
  if (module.begins) module.begins();
  result = made_by(path, module);
  if (result.how == How::assembled && !key.empty()) on_quiet_thread([&] { kept_.keep(key, result.cubin); });
  return result;
}

Assembler::Result Assembler::made_by(const std::string& path, const Module& module) {
  Result result;
  // Where it does not come to an end so, it may be one of those that cannot (before CUDA 12), or cannot over this
  // module.
  if (module.in_parallel) result = assembled_by(path, module, true);
  const bool again = result.how == How::refused || (result.how == How::crashed && !result.late);
  return !module.in_parallel || again ? assembled_by(path, module, false) : result;
}

Assembler::Result Assembler::assembled_by(const std::string& path, const Module& module, bool in_parallel) {
  Result result;
  Program program = program_for(path, module);
  if (in_parallel) program.arguments.insert(program.arguments.begin() + 2, "-split-compile=0");
  program.environment = environment_;
  program.most = most_;
  Ended ended = run_apart(program);
  if (ended.how == Ended::How::not_begun) return result;
  result.late = ended.how == Ended::How::late;
  const int signal = signal_of(ended);
  if (ended.how == Ended::How::late || signal) {
    result.how = How::crashed;
    result.why = signal ? path + " crashed over it (signal " + std::to_string(signal) + ")"
                        : path + " did not end within " + std::to_string(most_.count() / 1000) + " s";
  } else if (ended.status != 0 || !is_cubin(ended.output, module.functions)) {
    result.how = How::refused;
    result.why = ended.status ? first_line(ended.said) : path + " wrote no whole cubin";
  } else {
    result.how = How::assembled;
    result.cubin = std::move(ended.output);
  }
  return result;
}

} // namespace deadheat::cupti
