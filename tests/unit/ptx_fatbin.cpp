// Fat binaries: what nvcc writes, in every compression mode, and damaged ones.
#include "tracer/ptx/fatbin.h"
#include "tracer/ptx/static_runtime.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ptx_support.h"
#include "tracer/ptx/fatbin_choice.h"
#include "tracer/ptx/lexer.h"

namespace deadheat::ptx {
namespace {

namespace fs = std::filesystem;

template <typename T>
void put(std::string& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// One container with one stored PTX entry, as nvcc --compress-mode=none -lineinfo writes it.
std::string small_container(const std::string& payload, const std::string& options) {
  std::string header(64, '\0');
  std::string extra = "a.cu";
  extra.resize(8, '\0');
  std::string record(8, '\0');
  put(record, 0, std::uint32_t(80));
  put(record, 4, std::uint32_t(options.size()));
  extra += record + options;
  extra.resize((extra.size() + 8) / 8 * 8, '\0');
  header += extra;
  std::string padded = payload;
  padded.resize((payload.size() + 8) / 8 * 8, '\0');
  put(header, 0, std::uint16_t(1));
  put(header, 2, std::uint16_t(0x101));
  put(header, 4, std::uint32_t(header.size()));
  put(header, 8, std::uint64_t(padded.size()));
  put(header, 20, std::uint32_t(72));
  put(header, 26, std::uint16_t(9));
  put(header, 28, std::uint32_t(90));
  put(header, 32, std::uint32_t(64));
  put(header, 36, std::uint32_t(4));
  put(header, 40, std::uint64_t(0x100011));
  std::string container(16, '\0');
  put(container, 0, std::uint32_t(0xBA55ED50));
  put(container, 4, std::uint16_t(1));
  put(container, 6, std::uint16_t(16));
  put(container, 8, std::uint64_t(header.size() + padded.size()));
  return container + header + padded;
}

TEST(PtxFatbin, StoredEntry) {
  std::string bytes = small_container(".version 9.0\n", " -O1 -v  -maxrregcount=32 ");
  Expected<std::vector<FatbinEntry>> entries = fatbin_entries(bytes, "x");
  ASSERT_TRUE(entries) << entries.error().message();
  ASSERT_EQ(entries->size(), 1u);
  const FatbinEntry& e = (*entries)[0];
  EXPECT_EQ(e.kind, FatbinEntry::Kind::ptx);
  EXPECT_EQ(e.target(), "sm_90a");
  EXPECT_EQ(e.major, 9);
  EXPECT_EQ(e.name, "a.cu");
  EXPECT_EQ(e.options, " -O1 -v  -maxrregcount=32 ");
  EXPECT_EQ(e.max_registers(), 32u);
  EXPECT_EQ(*unpack(e, "x"), ".version 9.0\n");
}

TEST(PtxFatbin, Wrappers) {
  struct Wrapper {
    std::uint32_t magic, version;
    const void* data;
    const void* prelinked;
  };
  std::string main = small_container("main", ""), part = small_container("part", "");
  const void* parts[] = {part.data(), part.data(), nullptr};
  Wrapper one = {0x466243B1, 1, main.data(), nullptr}, two = {0x466243B1, 2, main.data(), parts};
  EXPECT_EQ(fatbin_parts_of_wrapper(&one)->size(), 1u);
  Expected<std::vector<std::vector<FatbinEntry>>> all = fatbin_parts_of_wrapper(&two);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3u);
  ASSERT_EQ((*all)[2].size(), 1u);
  EXPECT_EQ(*unpack((*all)[2][0], "x"), "part");
  Wrapper strange = {0x466243B1, 3, main.data(), nullptr}, wrong = {1, 1, main.data(), nullptr},
          none = {0x466243B1, 1, nullptr, nullptr};
  EXPECT_FALSE(fatbin_parts_of_wrapper(&strange));
  EXPECT_FALSE(fatbin_parts_of_wrapper(&wrong));
  EXPECT_FALSE(fatbin_parts_of_wrapper(&none));
  EXPECT_FALSE(fatbin_parts_of_wrapper(nullptr));
}

// Entries and payloads read without a crash, whatever the bytes; true when all went well.
bool read_all(const std::string& bytes) {
  Expected<std::vector<FatbinEntry>> entries = fatbin_entries(bytes, "damaged");
  if (!entries) {
    EXPECT_FALSE(entries.error().what.empty());
    EXPECT_EQ(entries.error().where, "damaged");
    return false;
  }
  bool good = true;
  for (const FatbinEntry& e : *entries) {
    Expected<std::string> payload = unpack(e, "damaged");
    if (!payload) {
      EXPECT_EQ(payload.error().where, "damaged");
      good = false;
    }
  }
  return good;
}

void damage(const std::string& bytes) {
  EXPECT_TRUE(read_all(bytes));
  for (std::size_t length = 0; length < bytes.size(); length += 16)
    EXPECT_FALSE(read_all(bytes.substr(0, length))) << length;
  std::size_t step = std::max<std::size_t>(1, bytes.size() / 3000);
  for (std::size_t at = 0; at < bytes.size(); at += at < 512 ? 1 : step) {
    for (std::uint8_t flip : {0x01, 0x80, 0xff}) {
      std::string other = bytes;
      other[at] = char(other[at] ^ flip);
      read_all(other);
    }
  }
}

TEST(PtxFatbin, DamagedContainers) { damage(small_container(std::string(300, 'x'), " -v ")); }

std::string words(const std::string& text) {
  std::string result;
  Expected<std::vector<Lexeme>> lexemes = lex(text, "x");
  EXPECT_TRUE(lexemes);
  if (!lexemes) return result;
  for (const Lexeme& l : *lexemes) result += text.substr(l.begin, l.end - l.begin) + " ";
  return result;
}

class Nvcc : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(PTX_NVCC).empty()) GTEST_SKIP() << "no nvcc";
    std::string pattern = (fs::temp_directory_path() / "ptx-fatbin-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    std::ofstream(directory_ / "a.cu")
        << "__global__ void k(float* p) { p[threadIdx.x] *= 2; }\n"
           "__global__ void l(float* p, int n) { for (int i = 0; i < n; ++i) p[i] += i; }\n"
           "int main() { k<<<1, 1>>>(0); l<<<1, 2>>>(0, 3); return 0; }\n";
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }
  bool run(const std::string& command) {
    return std::system(("cd " + directory_.string() + " && " + command).c_str()) == 0;
  }
  bool nvcc(const std::string& arguments) { return run(std::string(PTX_NVCC) + " " + arguments); }
  std::string container_of(const std::string& name) {  // the one with PTX in it
    std::string bytes = read_file(directory_ / name);
    Expected<ElfFile> elf = read_elf(bytes, name);
    EXPECT_TRUE(elf);
    if (!elf) return "";
    for (const ElfSection& section : elf->sections) {
      if (section.name != ".nv_fatbin") continue;
      std::string_view rest = section.bytes;
      std::size_t used = 0;
      for (; !rest.empty(); rest.remove_prefix(used)) {
        Expected<std::vector<FatbinEntry>> entries = fatbin_entries(rest, name, &used);
        EXPECT_TRUE(entries);
        if (!entries) return "";
        for (const FatbinEntry& e : *entries) {
          if (e.kind == FatbinEntry::Kind::ptx) return std::string(rest.substr(0, used));
        }
      }
    }
    return "";
  }
  fs::path directory_;
};

TEST_F(Nvcc, CompressionModes) {
  ASSERT_TRUE(nvcc("-arch=compute_90 -ptx a.cu -o a.ptx"));
  std::string plain = read_file(directory_ / "a.ptx");
  for (const char* mode : {"none", "speed", "balance", "size", "default"}) {
    for (const char* lines : {"", "-lineinfo"}) {
      SCOPED_TRACE(std::string(mode) + " " + lines);
      ASSERT_TRUE(nvcc(
          std::string(
              "-gencode arch=compute_90,code=[compute_90,sm_90] -maxrregcount=40 -cudart shared --compress-mode=") +
          mode + " " + lines + " a.cu -o a"));
      std::string bytes = read_file(directory_ / "a");
      Expected<std::vector<FatbinEntry>> entries = fatbin_entries_of_elf(bytes, "a");
      ASSERT_TRUE(entries) << entries.error().message();
      int ptx = 0, elf = 0;
      for (const FatbinEntry& e : *entries) {
        EXPECT_EQ(e.target(), "sm_90");
        Expected<std::string> payload = unpack(e, "a");
        ASSERT_TRUE(payload) << payload.error().message();
        if (e.kind == FatbinEntry::Kind::ptx) {
          ++ptx;
          EXPECT_EQ(e.max_registers(), 40u);
          EXPECT_EQ(e.name, *lines ? "a.cu" : "");
          if (!*lines) {
            EXPECT_EQ(words(*payload), words(plain));  // embedded PTX has other white space
          }
          Expected<Module> module = parse(*payload, "a");
          ASSERT_TRUE(module) << module.error().message();
          EXPECT_EQ(module->functions.size(), 2u);
        } else if (e.kind == FatbinEntry::Kind::elf) {
          ++elf;
          EXPECT_EQ(payload->substr(0, 4), "\177ELF");
        }
      }
      EXPECT_EQ(ptx, 1);
      EXPECT_GE(elf, 1);
      if (std::strcmp(mode, "balance") != 0) damage(container_of("a"));
    }
  }
}

// Which PTX is the code that a device runs: what its machine code was made of, else what the driver compiles.
TEST_F(Nvcc, PtxOfWhatTheDeviceRuns) {
  const auto chosen = [&](const std::string& flags, int device, bool forced = false) -> std::string {
    if (!nvcc("-fatbin " + flags + " a.cu -o a.fatbin")) return "not compiled";
    const std::string bytes = read_file(directory_ / "a.fatbin");
    const Expected<std::vector<FatbinEntry>> entries = fatbin_entries(bytes, "a");
    if (!entries) return entries.error().message();
    const Expected<const FatbinEntry*> ptx = ptx_for_device(*entries, device, forced, "a.cu");
    return !ptx ? ptx.error().message() : *ptx ? (*ptx)->target() : "none";
  };
  const std::string code_80 = "-gencode arch=compute_80,code=[sm_80,compute_80] ",
                    machine_90a = "-gencode arch=compute_90a,code=sm_90a ",
                    ptx_90 = "-gencode arch=compute_90,code=compute_90 ";
  EXPECT_EQ(chosen(code_80, 80), "sm_80");
  EXPECT_EQ(chosen(code_80, 86), "sm_80");
  EXPECT_EQ(chosen(code_80, 90), "sm_80");
  EXPECT_EQ(chosen(code_80, 75), "none");
  EXPECT_EQ(chosen(code_80 + ptx_90, 86), "sm_80");
  EXPECT_EQ(chosen(code_80 + ptx_90, 90), "sm_90");
  EXPECT_EQ(chosen("-gencode arch=compute_80,code=[sm_90,compute_80] " + ptx_90, 90), "sm_80");
  EXPECT_EQ(chosen("-gencode arch=compute_80,code=[sm_90,compute_80] " + ptx_90, 90, true), "sm_90");
  EXPECT_EQ(chosen("-gencode arch=compute_90a,code=[sm_90a,compute_90a] " + ptx_90, 90), "sm_90a");
  EXPECT_EQ(chosen("-gencode arch=compute_90a,code=[sm_90a,compute_90a] " + ptx_90, 100), "sm_90");
  EXPECT_EQ(chosen("-gencode arch=compute_100f,code=[sm_103f,compute_100f]", 103), "sm_100f");
  EXPECT_EQ(chosen(machine_90a, 90), "none");
  EXPECT_EQ(chosen(machine_90a + "-gencode arch=compute_100,code=compute_100", 90), "none");
  const std::string other =
      "a.cu: the GPU runs machine code that was compiled for compute_90a, of which there is no PTX ("
      "build it with -gencode arch=compute_90a,code=compute_90a)";
  EXPECT_EQ(chosen(machine_90a + ptx_90, 90), other);
  EXPECT_EQ(chosen(machine_90a + code_80, 90), other);
}

TEST_F(Nvcc, DamagedElfFiles) {
  ASSERT_TRUE(nvcc("-arch=sm_90 -cudart shared a.cu -o a"));
  std::string bytes = read_file(directory_ / "a");
  for (std::size_t length = 0; length < bytes.size(); length += 16) {
    (void)fatbin_entries_of_elf(bytes.substr(0, length), "cut");
  }
  for (std::size_t at = 0; at < bytes.size(); at += at < 64 || at + 4096 > bytes.size() ? 1 : 97) {
    std::string other = bytes;
    other[at] = char(other[at] ^ 0xff);
    (void)fatbin_entries_of_elf(other, "flipped");
  }
}

TEST_F(Nvcc, DamagedStaticRuntimes) {
  ASSERT_TRUE(nvcc("-arch=sm_90 -cudart static a.cu -o a"));
  const std::string bytes = read_file(directory_ / "a"), path = directory_ / "other";
  const std::size_t functions = static_runtime(directory_ / "a").functions.size();
  EXPECT_GT(functions, 300u);
  // Sections' headers, which come last, the symbols, and their names before them.
  for (std::size_t at = bytes.size() - 4096; at < bytes.size(); at += 7) {
    std::string other = bytes;
    other[at] = char(other[at] ^ 0xff);
    std::ofstream(path, std::ios::binary) << other;
    EXPECT_LE(static_runtime(path).functions.size(), functions);
  }
  for (std::size_t length = 64; length < bytes.size(); length += bytes.size() / 50) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, length);
    EXPECT_TRUE(static_runtime(path).functions.empty());
  }
}

TEST_F(Nvcc, FindsTheStaticRuntime) {
  for (const char* relocatable : {"", "-rdc=true"}) {
    ASSERT_TRUE(nvcc(std::string("-cudart static ") + relocatable + " a.cu -o static"));
    ASSERT_TRUE(nvcc(std::string("-cudart shared ") + relocatable + " a.cu -o shared"));
    ASSERT_TRUE(
        run("cp static static.stripped && strip -s static.stripped && cp shared shared.stripped && strip -s "
            "shared.stripped"));
    EXPECT_TRUE(links_cudart_statically(directory_ / "static"));
    EXPECT_TRUE(links_cudart_statically(directory_ / "static.stripped"));
    EXPECT_FALSE(links_cudart_statically(directory_ / "shared"));
    EXPECT_FALSE(links_cudart_statically(directory_ / "shared.stripped"));
    const StaticRuntime runtime = static_runtime(directory_ / "static");
    EXPECT_TRUE(runtime.of_13);
    for (const char* name :
         {"cudaMalloc", "cudaLaunchKernel", "__cudaRegisterFunction", "__cudaPushCallConfiguration"}) {
      EXPECT_EQ(std::count_if(runtime.functions.begin(), runtime.functions.end(),
                              [&](const StaticRuntime::Function& function) { return function.name == name; }),
                1)
          << name;
    }
    for (std::size_t i = 1; i < runtime.functions.size(); ++i) {
      EXPECT_GE(runtime.functions[i].address - runtime.functions[i - 1].address, StaticRuntime::room);
    }
    for (const char* none : {"static.stripped", "shared", "shared.stripped"})
      EXPECT_TRUE(static_runtime(directory_ / none).functions.empty()) << none;
  }
  EXPECT_FALSE(links_cudart_statically("/bin/ls"));
  EXPECT_FALSE(links_cudart_statically("/no/such/file"));
  EXPECT_FALSE(links_cudart_statically(directory_));
  EXPECT_FALSE(links_cudart_statically(directory_ / "a.cu"));
}

TEST(PtxFatbin, FilesWithoutAny) {
  Expected<MappedFile> file = MappedFile::open("/proc/self/exe");
  ASSERT_TRUE(file);
  Expected<std::vector<FatbinEntry>> entries = fatbin_entries_of_elf(file->bytes(), "self");
  ASSERT_TRUE(entries);
  EXPECT_TRUE(entries->empty());
  EXPECT_FALSE(fatbin_entries_of_elf("not an elf", "x"));
  EXPECT_FALSE(MappedFile::open("/no/such/file"));
}

}  // namespace
}  // namespace deadheat::ptx
