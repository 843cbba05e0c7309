// Fuzz target: fat binary containers and ELF files that hold them.
#include <cstdint>
#include <string_view>

#include "tests/fuzz/ptx_fuzz_targets.h"
#include "tracer/ptx/fatbin.h"
#include "tracer/ptx/fatbin_choice.h"
#include "tracer/ptx/static_runtime.h"

namespace deadheat {

int fuzz_fatbin(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)ptx::virtual_architecture(bytes);
  const ptx::StaticRuntime runtime = ptx::static_runtime_in(bytes);
  for (std::size_t i = 1; i < runtime.functions.size(); ++i) {
    DEADHEAT_CHECK(runtime.functions[i].address - runtime.functions[i - 1].address >= ptx::StaticRuntime::room);
  }
  for (bool elf : {false, true}) {
    Expected<std::vector<ptx::FatbinEntry>> entries =
        elf ? ptx::fatbin_entries_of_elf(bytes, "fuzz") : ptx::fatbin_entries(bytes, "fuzz");
    if (!entries) continue;
    std::uint64_t unpacked = 0;
    for (const ptx::FatbinEntry& entry : *entries) {
      unpacked += entry.size;
      if (unpacked > (std::uint64_t(64) << 20)) break;  // honest large sizes are slow, not wrong
      Expected<std::string> payload = ptx::unpack(entry, "fuzz");
      DEADHEAT_CHECK(!payload || payload->size() <= entry.size);
      (void)entry.max_registers();
      (void)entry.target();
    }
    if (unpacked > (std::uint64_t(64) << 20)) continue;
    for (const int capability : {75, 90, 103}) {
      const Expected<const ptx::FatbinEntry*> ptx = ptx::ptx_for_device(*entries, capability, false, "fuzz");
      DEADHEAT_CHECK(!ptx || !*ptx || (*ptx)->kind == ptx::FatbinEntry::Kind::ptx);
    }
  }
  return 0;
}

}  // namespace deadheat

#ifdef DEADHEAT_FUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return deadheat::fuzz_fatbin(data, size);
}
#endif
