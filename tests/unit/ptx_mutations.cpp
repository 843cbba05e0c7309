// The fuzz targets over deterministic mutations of small seeds.
#include <random>

#include "ptx_support.h"
#include "tests/fuzz/ptx_fuzz_targets.h"

namespace deadheat::ptx {
namespace {

std::vector<std::string> ptx_seeds() {
  return {
      print(kernel_of(
          "ts: .branchtargets A, B;\n.loc 1 2 3, function_name a, inlined_at 1 1 1\n@%p1 brx.idx %r1, ts;\nA: B:\n"
          "{ .param .b32 q; call (q), f, (q, 1+(2<<3)); }\nld.global.v2.f32 {%f1, %f2}, [g+-4];\n"
          "mov.b32 %r1, 0x1F;\nbra A;\nL: { L: bra L; }\nmov.b64 {%r1, %r2}, %rd1;")),
      ".version 9.0\n.target sm_90\n.global .align 8 .u64 p[] = {generic(x)+8, 0xFF00(y), {1.5, 2}};\n"
      ".func (.reg .f32 %o) f(.reg .f32 %i) { ex2.approx.f32 %o, %i; ret; }\n"
      ".section .debug_str { $L: .b8 65,0 .b32 $L+4 }\n.file 1 \"a\"\n.extern .func g(.param .b32 x);\n",
      read_file(std::string(PTX_CORPUS) + "/groups.90.ptx").substr(0, 20000),
  };
}

// Flips, copies, cuts and inserts, `count` times from a fixed seed.
template <typename Target>
void mutate(const std::string& seed, int count, Target target) {
  std::mt19937 random(unsigned(seed.size()));
  auto run = [&](const std::string& text) { target(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()); };
  run(seed);
  if (seed.empty()) return;
  for (int round = 0; round < count; ++round) {
    std::string text = seed;
    for (unsigned edits = 1 + random() % 4; edits > 0 && !text.empty(); --edits) {
      std::size_t at = random() % text.size(), length = 1 + random() % 24;
      switch (random() % 6) {
        case 0: text[at] = char(text[at] ^ (1 << random() % 8)); break;
        case 1: text.erase(at, length); break;
        case 2: text.insert(at, text.substr(random() % text.size(), length)); break;
        case 3: text.insert(at, 1, "{}[]()<>,;:@!|+-.%\"/0"[random() % 21]); break;
        case 4: text.resize(at); break;
        case 5: text[at] = char(random()); break;
      }
    }
    run(text);
  }
}

TEST(PtxMutations, Text) {
  for (const std::string& seed : ptx_seeds()) mutate(seed, seed.size() > 5000 ? 300 : 3000, fuzz_ptx);
}

TEST(PtxMutations, Fatbin) {
  std::string self = read_file("/proc/self/exe").substr(0, 1 << 16);  // an ELF header with its tables cut off
  mutate(self, 200, fuzz_fatbin);
  std::string container("\x50\xed\x55\xba\x01\x00\x10\x00\x50\x00\x00\x00\x00\x00\x00\x00", 16);
  std::string header(64, '\0');
  header[0] = 1;
  header[4] = 64;
  header[8] = 16;
  header[16] = 11;
  header[41] = 0x20;  // LZ4
  header[56] = 32;
  container += header + std::string(
                            "\x1f"
                            "A\x01\x00\x07\x50"
                            "BBBBB\0\0\0\0\0",
                            16);
  mutate(container, 20000, fuzz_fatbin);
  container[16 + 41] = char(0x80);  // zstd
  container[16 + 16] = 10;
  container.replace(80, 16,
                    std::string("\x28\xb5\x2f\xfd\x20\x20\x03\x01\x00"
                                "A\0\0\0\0\0\0",
                                16));
  mutate(container, 20000, fuzz_fatbin);
}

}  // namespace
}  // namespace deadheat::ptx
