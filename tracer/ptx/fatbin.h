// Fat binaries: the containers in which nvcc puts PTX and machine code into host programs.
//
// Format (as nvcc 13 writes it; NVIDIA does not document it). Integers are little-endian.
//   Wrapper, in .nvFatBinSegment, handed to __cudaRegisterFatBinary:
//     u32 magic 0x466243B1, u32 version, container*, and of version 2 container** (NULL-terminated, prelinked parts)
//   Container: u32 magic 0xBA55ED50, u16 version 1, u16 header size 16, u64 bytes of entries that follow. .nv_fatbin
//   holds several, 8-byte aligned.
//   Entry: header, then payload. Offsets in the header count from its start.
//     0 u16 kind   2 u16 version   4 u32 header size   8 u64 payload size, padded to 8   16 u32 compressed size or 0
//     20 u32 offset of the option record (u32 offset, u32 length of a string) or 0   24 u16 minor, u16 major version
//     28 u32 architecture   32 u32 offset, u32 length of the name   40 u64 flags   56 u64 uncompressed size
//
// Invariants: no offset, length or size is trusted; whatever the bytes, the result is a value or one Error. Entries
// view the bytes they were read from, which must outlive them.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/expected.h"
#include "tracer/ptx/elf.h"

namespace deadheat::ptx {

struct FatbinEntry {
  enum class Kind : std::uint16_t { ptx = 1, elf = 2, lto_ir = 8 };  // other values occur: kept as they are
  // Bits of `flags`.
  static constexpr std::uint64_t is_64_bit = 0x1, has_debug = 0x2, is_linux = 0x10, lz4 = 0x2000, zstd = 0x8000,
                                 arch_specific = 0x100000, family_specific = 0x200000;  // sm_90a, sm_100f

  Kind kind = Kind::ptx;
  std::uint32_t architecture = 0;      // 90
  std::uint16_t major = 0, minor = 0;  // of the PTX version, for PTX
  std::uint64_t flags = 0;
  std::string_view name;     // source file, with -G or -lineinfo
  std::string_view options;  // of PTX: ptxas options: " -maxrregcount=32 --generate-line-info "
  std::string_view stored;   // payload as stored
  std::uint64_t size = 0;    // of the payload once unpacked (stored size, with padding, where it is not packed)

  bool compressed() const { return flags & (lz4 | zstd); }
  unsigned max_registers() const;  // of the options
  std::string target() const;      // "sm_90a"
};

// The least that -maxrregcount says in options of nvcc, NVRTC, nvJitLink or ptxas, "=" or a space before the number
// (ptxas takes it among -Xptxas' options, too); 0: none does.
unsigned max_registers(std::string_view options);

// The entries of one container; `origin` names the bytes in errors. Bytes after the container are ignored and
// `consumed`, if not null, tells where it ends.
Expected<std::vector<FatbinEntry>> fatbin_entries(std::string_view container, std::string_view origin,
                                                  std::size_t* consumed = nullptr);

// The entries of every container in the section .nv_fatbin of an ELF file in memory, in order. A file without the
// section has none.
Expected<std::vector<FatbinEntry>> fatbin_entries_of_elf(std::string_view elf, std::string_view origin);

// What is behind a wrapper as given to __cudaRegisterFatBinary, container by container: the main one and, of version 2,
// the prelinked ones, of a source file each, which are to be linked. The pointers must be valid (the program's own
// image): lengths are taken from the container headers.
Expected<std::vector<std::vector<FatbinEntry>>> fatbin_parts_of_wrapper(const void* wrapper);

// As above for a container in memory whose length only its own header tells.
Expected<std::vector<FatbinEntry>> fatbin_entries_at(const void* container);

// The payload, unpacked; of PTX without the NULs that end it. At most 1 GiB.
Expected<std::string> unpack(const FatbinEntry& entry, std::string_view origin);

} // namespace deadheat::ptx
