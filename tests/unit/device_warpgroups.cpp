// wgmma on the embedded device: against a GPU's results bit by bit, and against sums written down naively.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "device_support.h"
#include "engine_snippets.h"
#include "engine_warpgroup.h"
#include "replay/engine/warpgroup.h"
#include "tracer/ptx/matrix_descriptor.h"
#include "tracer/ptx/sites.h"

namespace deadheat::device_test {

using engine::all_warpgroup_cases;
using engine::Descriptor;
using engine::Element;
using engine::WarpgroupCase;

namespace {

class Rig90 : public Rig {
 public:
  explicit Rig90(const std::string& text, device::DeviceOptions options = {}) : Rig(text, nullptr, std::move(options)) {
    load();
  }
  std::vector<std::uint32_t> run(const std::string& kernel, const WarpgroupCase& c,
                                 const std::vector<std::uint32_t>& in) {
    const std::size_t results = std::size_t(c.trials) * 128 * c.sums();
    const std::uint64_t from = alloc(in.size() * 4), to = alloc(results * 4);
    copy(trace::Copy::Direction::h2d, from, std::uint64_t(in.data()), in.size() * 4);
    launch(kernel, c.trials, 128, {from, to});
    EXPECT_EQ(sync(), device::Progress::done) << c.code;
    return words(to, results);
  }
};

// ---- a product, naively

// Small numbers, which every type has exactly, and whose sums are exact.
std::uint32_t small(Element e, const std::string& type, int n) {
  switch (e) {
    case Element::f16: {
      static constexpr std::uint32_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
      return halves[std::abs(n)] | (n < 0 ? 0x8000u : 0);
    }
    case Element::bf16: {
      static constexpr std::uint32_t halves[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080};
      return halves[std::abs(n)] | (n < 0 ? 0x8000u : 0);
    }
    case Element::f32:
    case Element::tf32: return std::bit_cast<std::uint32_t>(float(n));
    case Element::e4m3: {
      static constexpr std::uint32_t eights[] = {0, 0x38, 0x40, 0x44, 0x48};
      return eights[std::abs(n)] | (n < 0 ? 0x80u : 0);
    }
    case Element::e5m2: {
      static constexpr std::uint32_t eights[] = {0, 0x3c, 0x40, 0x42, 0x44};
      return eights[std::abs(n)] | (n < 0 ? 0x80u : 0);
    }
    default: return type == "u8" ? std::uint32_t(std::abs(n)) : std::uint32_t(n) & 255;
  }
}

int number_at(std::uint64_t seed, bool any_sign) {
  const int n = int(engine::mix(seed) % 9) - 4;
  return any_sign ? n : std::abs(n);
}

struct Naive {
  const WarpgroupCase& c;
  std::string a_type, b_type;
  unsigned k = 0, a_bits = 0, image_elements = 0;
  std::vector<int> image, a_registers, metadata_index;

  explicit Naive(const WarpgroupCase& of) : c(of) {
    std::vector<std::string> words;
    std::string word;
    for (char x : c.opcode + ".") {
      if (x == '.')
        words.push_back(word), word.clear();
      else
        word += x;
    }
    for (std::size_t n = 0; n < words.size(); ++n)
      if (words[n].starts_with("m64n")) {
        k = unsigned(std::stoul(words[n].substr(words[n].find('k') + 1)));
        a_type = words[n + 2];
        b_type = words[n + 3];
      }
    a_bits = a_type == "b1" ? 1 : c.a == Element::tf32 ? 32 : c.a == Element::f16 || c.a == Element::bf16 ? 16 : 8;
  }
  unsigned stored() const { return c.sparse ? k / 2 : k; }
  bool immediate(unsigned n) const { // whether the nth is not that of a plain product
    unsigned at = 0;
    std::size_t from = 0;
    while ((from = c.immediates.find(", ", from)) != std::string::npos) {
      from += 2;
      if (at++ == n) return n < 2 ? c.immediates[from] == '-' : c.immediates[from] == '1';
    }
    return false;
  }
  // Byte of an element's beginning, by 9.7.15.5.1.2: `row` of a or column of b.
  static unsigned byte_of(const Descriptor& d, bool transposed, unsigned row, unsigned at, unsigned bits) {
    const unsigned width = d.swizzle ? 256u >> d.swizzle : 16; // bytes of a row of an atom
    unsigned offset = 0;
    if (!transposed) {
      const unsigned byte = at * bits / 8;
      offset = row % 8 * width + row / 8 * d.stride + byte / width * d.leading + byte % width;
    } else {
      const unsigned per_row = width * 8 / bits; // elements
      offset = row % per_row * bits / 8 + at % 8 * width;
      offset +=
          d.swizzle ? row / per_row * d.leading + at / 8 * d.stride : row / per_row * d.stride + at / 8 * d.leading;
    }
    unsigned address = (d.start + offset) % (1u << 18);
    if (d.swizzle == 1) address ^= address >> 3 & 0x70;
    if (d.swizzle == 2) address ^= address >> 3 & 0x30;
    if (d.swizzle == 3) address ^= address >> 3 & 0x10;
    return address;
  }
};

// Operands with small numbers, and the results that they must have. Empty where the case is about other bits.
struct Exact {
  std::vector<std::uint32_t> in, out;
};

Exact exact(const WarpgroupCase& c) {
  Naive naive(c);
  Exact e;
  const unsigned bits = naive.a_bits, stored = naive.stored(), sums = c.sums();
  const bool signs = naive.a_type != "u8" && naive.b_type != "u8";
  std::vector<std::uint8_t> image(c.shared_bytes, 0);
  std::map<unsigned, int> a_value, b_value; // by the bit where they begin
  auto fill = [&](unsigned begin, unsigned end, Element element, const std::string& type, std::map<unsigned, int>& to) {
    for (unsigned at = begin * 8; at < end * 8; at += bits) {
      if (bits == 1) {
        const int bit = int(engine::mix(at) & 1);
        image[at / 8] |= std::uint8_t(bit << at % 8);
        to[at] = bit;
        continue;
      }
      const int n = number_at(at, signs);
      const std::uint32_t word = small(element, type, n);
      std::memcpy(&image[at / 8], &word, bits / 8);
      to[at] = n;
    }
  };
  fill(0, c.b_begins, c.a, naive.a_type, a_value);
  fill(c.b_begins, c.shared_bytes, c.b, naive.b_type, b_value);
  if (c.b_begins == 0) a_value = b_value;
  e.in.resize(c.shared_bytes / 4);
  std::memcpy(e.in.data(), image.data(), image.size());
  // Registers: a by threads, whose places the manual's figures of mma tell; d; metadata: elements 1 and 2 of each four,
  // but where the chunk's number is odd 0 and 3.
  std::vector<int> a(64 * stored), before(64 * c.n);
  std::vector<std::uint32_t> d_words(128 * sums);
  for (unsigned thread = 0; thread < 128; ++thread) {
    const unsigned lane = thread % 32, warp = thread / 32;
    if (c.a_registers)
      for (unsigned reg = 0; reg < 4; ++reg) {
        std::uint32_t word = 0;
        for (unsigned n = 0; n < 32 / bits; ++n) {
          const unsigned row = warp * 16 + lane / 4 + reg % 2 * 8;
          const unsigned column = lane % 4 * (32 / bits) + n + reg / 2 * 4 * (32 / bits);
          const int value = bits == 1 ? int(engine::mix(thread * 977 + reg * 31 + n) & 1)
                                      : number_at(thread * 977 + reg * 31 + n, signs);
          a[row * stored + column] = value;
          word |= (bits == 1 ? std::uint32_t(value) : small(c.a, naive.a_type, value)) << n * bits % 32;
        }
        e.in.push_back(word);
      }
    for (unsigned w = 0; w < sums; ++w) {
      std::uint32_t word = 0;
      for (unsigned n = 0; n < (c.d == Element::f16 ? 2u : 1u); ++n) {
        const unsigned pair = c.d == Element::f16 ? w : w / 2, in_pair = c.d == Element::f16 ? n : w % 2;
        const unsigned row = warp * 16 + lane / 4 + pair % 2 * 8, column = pair / 2 * 8 + lane % 4 * 2 + in_pair;
        const int value = number_at(row * 1000 + column + 7, true);
        before[row * c.n + column] = value;
        word |= (c.d == Element::bits ? std::uint32_t(value) : small(c.d, "", value)) << 16 * n;
      }
      e.in.push_back(word);
    }
    if (c.sparse) { // 4 bits a chunk; of 16-bit rows in either half, of tf32 one bit of two counts
      std::uint32_t word = 0;
      for (unsigned chunk = 0; chunk < 8; ++chunk) {
        const bool odd = chunk % 2;
        word |= std::uint32_t(c.a == Element::tf32 ? (odd ? 0xe : 0x4) : odd ? 0xc : 0x9) << 4 * chunk;
      }
      e.in.push_back(word);
    }
  }
  auto place = [&](unsigned n) { // along K, of the stored element
    if (!c.sparse) return n;
    if (c.a == Element::tf32) return n * 2 + n % 2;
    const unsigned chunk = n / 2;
    return chunk * 4 + (chunk % 2 ? n % 2 * 3 : n % 2 + 1);
  };
  const int negative = (naive.immediate(0) ? -1 : 1) * (naive.immediate(1) ? -1 : 1);
  const bool a_transposed = !c.a_registers && naive.immediate(2), b_transposed = naive.immediate(c.a_registers ? 2 : 3);
  std::vector<long long> result(64 * c.n);
  for (unsigned row = 0; row < 64; ++row)
    for (unsigned column = 0; column < c.n; ++column) {
      long long sum = 0;
      for (unsigned n = 0; n < stored; ++n) {
        const unsigned byte_a = Naive::byte_of(c.a_at, a_transposed, row, n, bits);
        const int x = c.a_registers ? a[row * stored + n] : a_value[byte_a * 8 + (bits == 1 ? n % 8 : 0)];
        const unsigned at = place(n), byte_b = Naive::byte_of(c.b_at, b_transposed, column, at, bits);
        sum += x * b_value[byte_b * 8 + (bits == 1 ? at % 8 : 0)];
      }
      result[row * c.n + column] = sum * negative + (c.scale_d ? before[row * c.n + column] : 0);
    }
  for (unsigned thread = 0; thread < 128; ++thread)
    for (unsigned w = 0; w < sums; ++w) {
      std::uint32_t word = 0;
      for (unsigned n = 0; n < (c.d == Element::f16 ? 2u : 1u); ++n) {
        const unsigned pair = c.d == Element::f16 ? w : w / 2, in_pair = c.d == Element::f16 ? n : w % 2;
        const unsigned row = thread / 32 * 16 + thread % 32 / 4 + pair % 2 * 8,
                       column = pair / 2 * 8 + thread % 4 * 2 + in_pair;
        const long long sum = result[row * c.n + column];
        if (c.d == Element::bits) {
          word = std::uint32_t(sum);
        } else if (c.d == Element::f32) {
          word = std::bit_cast<std::uint32_t>(float(sum));
        } else if (sum) { // f16, exactly
          const int exponent = int(std::ilogb(double(std::llabs(sum))));
          const std::uint32_t fraction = std::uint32_t(std::ldexp(double(std::llabs(sum)), 10 - exponent)) & 0x3ff;
          word |= ((sum < 0 ? 0x8000u : 0) | std::uint32_t(exponent + 15) << 10 | fraction) << 16 * n;
        }
      }
      e.out.push_back(word);
    }
  return e;
}

} // namespace

TEST(Warpgroups, EqualNaiveProducts) {
  std::vector<WarpgroupCase> all = all_warpgroup_cases();
  Rig90 rig(engine::warpgroup_module(all));
  for (std::size_t k = 0; k < all.size(); ++k) {
    WarpgroupCase c = all[k];
    if (c.a_at.base || c.b_at.base || c.b_at.leading > c.shared_bytes) continue; // GPU's results tell
    c.trials = 1;
    const Exact e = exact(c);
    const std::vector<std::uint32_t> found = rig.run("warpgroup_" + std::to_string(k), c, e.in);
    std::size_t differ = 0;
    for (std::size_t n = 0; n < found.size(); ++n) differ += found[n] != e.out[n];
    EXPECT_EQ(differ, 0u) << c.code << ", of " << found.size();
  }
}

TEST(Warpgroups, EqualTheGpu) {
  std::map<std::string, std::string> expected;
  std::ifstream file(DEADHEAT_TEST_DATA "/engine_gpu_warpgroups.txt");
  ASSERT_TRUE(file) << "no reference results";
  for (std::string line; std::getline(file, line);)
    if (line.size() > 17 && line[0] != '#') expected[line.substr(17)] = line.substr(0, 16);
  const std::vector<WarpgroupCase> all = all_warpgroup_cases();
  EXPECT_EQ(expected.size(), all.size());
  Rig90 rig(engine::warpgroup_module(all));
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::vector<std::uint32_t> found =
        rig.run("warpgroup_" + std::to_string(k), all[k], engine::warpgroup_operands(all[k]));
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(engine::hash_words(found)));
    EXPECT_EQ(hash, expected[all[k].code]) << all[k].code;
  }
}

// What the machine reads is what traces say: the units that a product of all warps reads are the stretches.
TEST(Warpgroups, ReadWhatTheirFootprintSays) {
  for (const WarpgroupCase& c : all_warpgroup_cases()) {
    auto module = ptx::parse(engine::warpgroup_module({c}), "test");
    ASSERT_TRUE(module);
    engine::WarpgroupOp op;
    for (const ptx::Statement& s : module->functions[0].body)
      if (const ptx::Instruction* i = s.instruction(); i && i->has(ptx::Modifier::mma_async)) {
        ASSERT_EQ(engine::describe_warpgroup(*i, op), "") << c.code;
        ASSERT_EQ(engine::WarpgroupOp::from(op.code()).code(), op.code());
      }
    const ptx::MatrixShape shape = ptx::matrix_shape(c.opcode);
    EXPECT_EQ(shape.n, op.n) << c.code;
    EXPECT_EQ(shape.a_row_bytes, op.a_row_bytes()) << c.code;
    EXPECT_EQ(shape.b_row_bytes, op.b_row_bytes()) << c.code;
    const std::uint64_t a = c.a_at.bits(), b = c.b_at.bits();
    for (unsigned warp = 0; warp < 4; ++warp) {
      std::set<std::uint32_t> read, said;
      if (!c.a_registers)
        for (std::uint32_t unit : engine::units_of(op, 'a', a, warp)) read.insert(unit);
      if (warp == 0)
        for (std::uint32_t unit : engine::units_of(op, 'b', b, warp)) read.insert(unit);
      for (const ptx::MatrixStretch& s :
           ptx::warp_reads(shape, c.a_registers ? nullptr : &a, op.a_transposed, b, op.b_transposed, warp))
        for (std::uint32_t at = 0; at < s.bytes; at += 16) said.insert(s.address + at);
      EXPECT_EQ(read, said) << c.code << ", warp " << warp;
    }
  }
}

namespace {

WarpgroupCase plain_case() {
  for (const WarpgroupCase& c : all_warpgroup_cases())
    if (!c.a_registers && !c.sparse && c.n == 8) return c;
  return {};
}

device::DeviceOptions checked() {
  device::DeviceOptions o;
  o.check = o.record_accesses = o.unwritten = true;
  return o;
}

// The case's kernel with a piece of its text in place of another.
std::string changed(const WarpgroupCase& c, const std::string& from, const std::string& to) {
  std::string text = engine::warpgroup_module({c});
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

std::vector<trace::MemoryError> memory_errors(const std::string& text, WarpgroupCase c) {
  c.trials = 1;
  Rig90 rig(text, checked());
  const std::vector<std::uint32_t> in = engine::warpgroup_operands(c);
  const std::uint64_t from = rig.alloc(in.size() * 4), to = rig.alloc(4096);
  rig.copy(trace::Copy::Direction::h2d, from, std::uint64_t(in.data()), in.size() * 4);
  rig.launch("warpgroup_0", 1, 128, {from, to});
  if (rig.sync() == device::Progress::done) rig.read(to, 512);
  return rig.sink.all<trace::MemoryError>();
}

} // namespace

// As GPU traces have it: a warp's own rows of a, and all of b for the first.
TEST(Warpgroups, AreRecorded) {
  WarpgroupCase c = plain_case();
  c.trials = 1;
  Rig90 rig(engine::warpgroup_module({c}), checked());
  rig.run("warpgroup_0", c, engine::warpgroup_operands(c));
  auto reads = rig.sink.all<trace::BulkCopy>();
  ASSERT_EQ(reads.size(), 5u);
  std::stable_sort(reads.begin(), reads.end(), [](const auto& x, const auto& y) { return x.warp.warp < y.warp.warp; });
  for (unsigned n = 0; n < 5; ++n) {
    const unsigned warp = n < 2 ? 0 : n - 1;
    EXPECT_EQ(reads[n].warp.warp, warp);
    EXPECT_EQ(reads[n].mask, 1u);
    EXPECT_EQ(reads[n].further, n == 1);
    EXPECT_EQ(reads[n].source[0], shared_window + (n == 1 ? 2048 : 512 * warp));
    EXPECT_EQ(reads[n].bytes[0], n == 1 ? 256u : 512u);
    EXPECT_EQ(reads[n].destination[0], 0u);
    EXPECT_EQ(reads[n].mbarrier[0], 0u);
  }
  EXPECT_EQ(rig.sink.all<trace::AsyncCommit>().size(), 4u);
  EXPECT_EQ(rig.sink.all<trace::AsyncWait>().size(), 4u);
  EXPECT_EQ(rig.sink.all<trace::WarpValue>().size(), 0u);
  EXPECT_EQ(rig.sink.all<trace::SyncError>().size(), 0u);
  EXPECT_EQ(rig.sink.all<trace::MemoryError>().size(), 0u);
}

TEST(Warpgroups, MatricesMustLieInSharedMemory) {
  WarpgroupCase c = plain_case();
  EXPECT_EQ(memory_errors(engine::warpgroup_module({c}), c).size(), 0u);
  c.b_at.start = c.shared_bytes - 240; // its last 16 bytes do not
  const auto errors = memory_errors(engine::warpgroup_module({c}), c);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, trace::MemoryError::Kind::out_of_bounds);
  EXPECT_EQ(errors[0].address, shared_window + c.shared_bytes);
  EXPECT_EQ(errors[0].access, AccessKind::read);
}

// What nobody wrote comes to the host with the sums.
TEST(Warpgroups, ReadWhatNobodyWrote) {
  const WarpgroupCase c = plain_case();
  const auto errors = memory_errors(changed(c, "st.shared.u32 [%r4], %r2;", ""), c);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, trace::MemoryError::Kind::uninitialized);
  // Sums that nobody wrote matter only where they are added to.
  WarpgroupCase of_zero = c;
  of_zero.scale_d = false;
  EXPECT_EQ(memory_errors(engine::warpgroup_module({of_zero}), of_zero).size(), 0u);
}

// A product that a hold delays to the wait, two that add to its sums meanwhile, and what moves them about.
TEST(Warpgroups, SumsComeAsLateAsTheWait) {
  unsigned seen = 0;
  for (WarpgroupCase c : all_warpgroup_cases()) {
    const bool wanted = c.opcode.find("m64n64") != std::string::npos && c.a_at.start == 0 && c.b_at.start == 2048;
    if (!wanted && !(c.a_registers && c.n == 8 && c.a == Element::f16)) continue;
    ++seen;
    c.trials = 1;
    const std::string plain = engine::warpgroup_module({c});
    const std::size_t at = plain.find("wgmma.mma_async"), end = plain.find(";", at) + 1;
    const std::string product = plain.substr(at, end - at);
    std::string text = plain;
    text.insert(end, "\nmov.b64 %rd6, {%d0, %d1};\n" + product + "\nmov.b64 {%d0, %d1}, %rd6;\n" + product);
    std::uint32_t first_product = ~0u, last_store = 0;
    for (const Site& s : ptx::site_table(*ptx::parse(text, "test")).sites) {
      if (s.opcode.starts_with("wgmma.mma_async")) first_product = std::min(first_product, s.id);
      if (s.opcode.starts_with("st.global")) last_store = s.id;
    }
    const std::vector<std::uint32_t> in = engine::warpgroup_operands(c);
    const std::vector<std::uint32_t> expected = Rig90(text).run("warpgroup_0", c, in);
    for (std::uint32_t warp : {0u, 2u}) {
      device::DeviceOptions held;
      held.schedule.kind = Schedule::Kind::holds;
      held.schedule.holds.push_back(
          {{0, 1, 0, 32 * warp, 1, first_product, 0}, {0, 1, 0, 32 * warp, 1, last_store, 0}});
      Rig90 rig(text, held);
      EXPECT_EQ(rig.run("warpgroup_0", c, in), expected) << c.code;
      EXPECT_EQ(rig.device->choices().hold_state, std::vector<std::uint8_t>{4}) << c.code; // let go at the wait
    }
  }
  EXPECT_GT(seen, 4u);
}

TEST(Warpgroups, AllWarpsMultiply) {
  WarpgroupCase c = plain_case();
  c.trials = 1;
  Rig90 rig(changed(c, "wgmma.fence.sync.aligned;", "setp.lt.u32 %p, %r0, 96;\n@!%p exit;\n"), checked());
  rig.run("warpgroup_0", c, engine::warpgroup_operands(c));
  const auto errors = rig.sink.all<trace::SyncError>();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].thread, 96u);
  EXPECT_NE(errors[0].text.find("1, 1, 1, 0 times"), std::string::npos) << errors[0].text;
}

TEST(Warpgroups, LanesHaveOneDescriptor) {
  WarpgroupCase c = plain_case();
  c.trials = 1;
  Rig90 rig(changed(c, "wgmma.fence.sync.aligned;",
                    "shr.u32 %r4, %r0, 4;\ncvt.u64.u32 %rd5, %r4;\n"
                    "and.b64 %rd5, %rd5, 1;\nadd.u64 %rd4, %rd4, %rd5;\n"),
            checked());
  rig.run("warpgroup_0", c, engine::warpgroup_operands(c));
  const auto errors = rig.sink.all<trace::SyncError>();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].text.find("different matrix descriptors"), std::string::npos) << errors[0].text;
}

} // namespace deadheat::device_test
