// The patterns of analyzer_patterns.h as plain C++ threads, to be built with ThreadSanitizer: tsan_patterns PATTERN
// ACCESSES THREADS does so many accesses and prints the CPU seconds that they took.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t warps = 8, lanes = 32, turns = 8;
constexpr std::uint64_t table_words = std::uint64_t(1) << 24, byte_table = std::uint64_t(1) << 22;
constexpr std::uint32_t counters = 1 << 16;

std::uint32_t scatter(std::uint64_t i) {
  i *= 0x9e3779b97f4a7c15u;
  i ^= i >> 32;
  return std::uint32_t((i * 0xd6e8feb86659fd93u) >> 32);
}

std::vector<std::uint32_t> table(table_words), output, sums(counters);
std::vector<std::uint8_t> bytes(byte_table);

void tiled(std::uint64_t block, std::uint32_t* tile) {
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    const std::uint32_t* from = &table[(block * turns + turn) * 1024 % table_words];
    for (std::uint32_t i = 0; i < 4 * warps * lanes; ++i) tile[i] = from[i];
    for (std::uint32_t w = 0; w < warps; ++w) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        std::uint32_t sum = 0;
        for (unsigned i = 0; i < 8; ++i) sum += tile[32 * i + lane] * tile[32 * w + i];
        output[(block * warps + w) * lanes + lane] = sum;
      }
    }
  }
}

std::uint32_t read_some(const char* pattern, std::uint64_t first, std::uint64_t count) {
  std::uint32_t sum = 0;
  if (!std::strcmp(pattern, "scattered")) {
    for (std::uint64_t i = first; i < first + count; ++i) sum += table[scatter(i) % table_words];
  } else if (!std::strcmp(pattern, "bytes")) {
    for (std::uint64_t i = first; i < first + count; ++i) sum += bytes[scatter(i) % byte_table];
  } else {
    for (std::uint64_t i = first; i < first + count; ++i) {
      __atomic_fetch_add(&sums[scatter(i) % counters], 1u, __ATOMIC_RELAXED);
    }
  }
  return sum;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* pattern = argv[1];
  const std::uint64_t accesses = std::strtoull(argv[2], nullptr, 10), threads = std::strtoull(argv[3], nullptr, 10);
  const bool is_tiled = !std::strcmp(pattern, "tiled");
  const std::uint64_t blocks = accesses / (std::uint64_t(warps) * lanes * turns * (is_tiled ? 25 : 16));
  if (is_tiled) output.resize(blocks * warps * lanes + 1);
  std::vector<std::thread> pool;
  std::vector<std::uint32_t> results(threads * 64);
  for (std::uint64_t t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      std::vector<std::uint32_t> tile(4 * warps * lanes);
      const std::uint64_t begin = blocks * t / threads, end = blocks * (t + 1) / threads;
      for (std::uint64_t block = begin; is_tiled && block < end; ++block) tiled(block, tile.data());
      const std::uint64_t each = std::uint64_t(warps) * lanes * turns * 16;
      if (!is_tiled) results[t * 64] = read_some(pattern, begin * each, (end - begin) * each);
    });
  }
  for (std::thread& thread : pool) thread.join();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double seconds = double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                         1e-6 * double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  std::printf("%.6f %u\n", seconds, results[0]);
}
