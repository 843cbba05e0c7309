#include "tracer/ptx/fatbin_choice.h"

#include <cstring>

namespace deadheat::ptx {

namespace {

using Kind = FatbinEntry::Kind;
constexpr std::uint64_t specific = FatbinEntry::arch_specific | FatbinEntry::family_specific;

// Code for sm_90a runs on 9.0 only, that for sm_100f on its family: 10.0, 10.3.
bool features_there(const FatbinEntry& entry, unsigned capability) {
  if (entry.flags & FatbinEntry::arch_specific) return entry.architecture == capability;
  if (entry.flags & FatbinEntry::family_specific) return entry.architecture / 10 == capability / 10;
  return true;
}

// The last one of the newest that run; of equal ones that for this very architecture.
template <typename Runs>
const FatbinEntry* newest(const std::vector<FatbinEntry>& entries, Kind kind, unsigned capability, Runs&& runs) {
  const FatbinEntry* best = nullptr;
  for (const FatbinEntry& entry : entries) {
    if (entry.kind != kind || entry.architecture > capability || !features_there(entry, capability) || !runs(entry))
      continue;
    if (!best || entry.architecture > best->architecture ||
        (entry.architecture == best->architecture && entry.flags & specific))
      best = &entry;
  }
  return best;
}

std::string name_of(unsigned architecture, std::uint64_t flags) {
  const char* suffix = flags & FatbinEntry::arch_specific ? "a" : flags & FatbinEntry::family_specific ? "f" : "";
  return "compute_" + std::to_string(architecture) + suffix;
}

} // namespace

unsigned virtual_architecture(std::string_view machine_code) {
  const Expected<ElfFile> file = read_elf(machine_code, "machine code");
  if (!file) return 0;
  for (const ElfSection& section : file->sections) {
    // An ELF note (Elf64_Nhdr, "NVIDIA Corp"), then u16 version, u16 virtual architecture, u32 version of the toolkit.
    constexpr std::size_t header = 12, owner = 12;
    std::uint16_t architecture = 0;
    if (section.name != ".note.nv.cuinfo" || section.bytes.size() < header + owner + 2 + sizeof architecture) continue;
    std::memcpy(&architecture, section.bytes.data() + header + owner + 2, sizeof architecture);
    return architecture;
  }
  return 0;
}

Expected<const FatbinEntry*> ptx_for_device(const std::vector<FatbinEntry>& entries, int capability, bool forced,
                                            std::string_view origin) {
  const auto device = unsigned(capability);
  const auto any = [](const FatbinEntry&) { return true; };
  const FatbinEntry* const ptx = newest(entries, Kind::ptx, device, any);
  const FatbinEntry* const machine = newest(entries, Kind::elf, device, [&](const FatbinEntry& entry) {
    return entry.architecture / 10 == device / 10; // of the device's major version
  });
  // Beside machine code there often is PTX for devices to come alone, of which this one runs none.
  if (forced || !machine || !ptx) return ptx;
  const Expected<std::string> code = unpack(*machine, origin);
  if (!code) return code.error();
  const unsigned said = virtual_architecture(*code), made_for = said ? said : machine->architecture;
  for (const FatbinEntry& entry : entries) {
    if (entry.kind == Kind::ptx && entry.architecture == made_for &&
        (entry.flags & specific) == (machine->flags & specific))
      return &entry;
  }
  const std::string name = name_of(made_for, machine->flags);
  return Error{"the GPU runs machine code that was compiled for " + name + ", of which there is no PTX",
               std::string(origin), "build it with -gencode arch=" + name + ",code=" + name};
}

} // namespace deadheat::ptx
