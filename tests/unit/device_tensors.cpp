// Copies by tensor maps as kernels use them (PTX ISA 9.7.9.27), and maps that kernels change (9.7.9.28, 9.7.13.5).
#include <algorithm>

#include "device_ptx.h"
#include "tracer/ptx/tensor_map.h"

namespace deadheat::device_test {

using device::Progress;
using ptx::Swizzle;
using ptx::TensorMap;
using ptx::TensorType;

namespace {

constexpr std::uint32_t untouched = 0xeeee'eeee, shown_words = 1008; // of s, but for its mbarriers
using Words = std::vector<std::uint32_t>;

TensorMap rows(std::uint64_t columns, std::uint64_t rows, std::uint32_t box_columns, std::uint32_t box_rows) {
  TensorMap map;
  map.rank = 2;
  map.type = TensorType::u32;
  map.size = {columns, rows};
  map.stride = {4, columns * 4};
  map.box = {box_columns, box_rows};
  map.step = {1, 1, 1, 1, 1};
  return map;
}

Words counted(std::uint32_t n, std::uint32_t from) {
  Words values(n);
  for (std::uint32_t i = 0; i < n; ++i) values[i] = from + i;
  return values;
}

std::string list(const std::string& what, std::size_t count) {
  std::string text = "{";
  for (std::size_t n = 0; n < count; ++n) text += (n ? ", " : "") + what + std::to_string(n);
  return text + "}";
}

std::string coordinates(const ptx::TensorPlace& place) {
  std::string text;
  for (unsigned d = 0; d < ptx::most_dimensions; ++d)
    text += "mov.b32 %r" + std::to_string(d) + ", " + std::to_string(place.at[d]) + ";\n";
  for (unsigned n = 0; n < 3; ++n)
    text += "mov.b16 %h" + std::to_string(n) + ", " + std::to_string(place.offsets[n]) + ";\n";
  return text;
}

// All of s is `untouched`, or counts up from 5000; the map lies at %rd31.
std::string prepare(bool counts) {
  std::string text;
  for (int k = 0; k < 16; ++k) {
    text += "add.u32 %r8, %r30, " + std::to_string(64 * k) + ";\nshl.b32 %r9, %r8, 2;\nadd.u32 %r9, %r9, %r29;\n";
    text += counts ? "add.u32 %r10, %r8, 5000;\n" : "mov.b32 %r10, " + std::to_string(std::int32_t(untouched)) + ";\n";
    if (k == 15) text += "setp.lt.u32 %p0, %r8, 1008;\n@%p0 ";
    text += "st.shared.u32 [%r9], %r10;\n";
  }
  return text + "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
}

std::string load(const TensorMap& map, const ptx::TensorPlace& place, std::uint32_t bytes) {
  const std::string form = std::to_string(map.rank) + "d.shared::cluster.global" + (map.im2col ? ".im2col" : ".tile");
  return only_thread_0(coordinates(place) +
                           "mbarrier.init.shared::cta.b64 [%r20], 1;\nfence.mbarrier_init.release.cluster;\n"
                           "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], " +
                           std::to_string(bytes) + ";\ncp.async.bulk.tensor." + form +
                           ".mbarrier::complete_tx::bytes [%r29], [%rd31, " + list("%r", map.rank) + "], [%r20]" +
                           (map.im2col ? ", " + list("%h", map.rank - 2u) : "") + ";\n",
                       0) +
         "bar.sync 0;\n" + wait_parity("%r20", "0", 1);
}

// s, but for its mbarriers, into out.
std::string show() {
  std::string text;
  for (int k = 0; k < 16; ++k) {
    text += "add.u32 %r8, %r30, " + std::to_string(64 * k) +
            ";\nsetp.lt.u32 %p0, %r8, 1008;\nshl.b32 %r9, %r8, 2;\ncvt.u64.u32 %rd0, %r9;\nadd.u64 %rd0, %rd0, %rd30;\n"
            "add.u32 %r9, %r9, %r29;\n@%p0 ld.shared.u32 %r10, [%r9];\n@%p0 st.global.u32 [%rd0], %r10;\n";
  }
  return text;
}

std::string store(const TensorMap& map, const ptx::TensorPlace& place, const std::string& operation = "") {
  return only_thread_0(coordinates(place) + "cp." + (operation.empty() ? "" : "reduce.") + "async.bulk.tensor." +
                           std::to_string(map.rank) + "d.global.shared::cta" + operation +
                           (map.im2col ? ".im2col_no_offs" : "") + ".bulk_group [%rd31, " + list("%r", map.rank) +
                           "], [%r29];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
                       0);
}

std::uint64_t map_in(PtxRig& rig, const TensorMap& map) {
  const ptx::TensorMapBytes bytes = ptx::encoded(map);
  Words words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return rig.words_of(words);
}

// What s holds once a box has come: word by word, of tensors that begin with `first`, and count up.
Words loaded(const TensorMap& map, const ptx::TensorPlace& place, std::uint32_t first) {
  Words s(shown_words, untouched);
  for (const ptx::TensorPiece& piece : pieces_of(map, place, 0)) {
    for (std::uint32_t at = 0; at < piece.bytes; at += 4) {
      const std::uint32_t unit = (piece.offset + at) / 16 * 16;
      const std::uint32_t offset =
          piece.swizzled ? swizzled_offset(map.swizzle, 0, unit) + (piece.offset + at) % 16 : piece.offset + at;
      s[offset / 4] =
          piece.address ? first + std::uint32_t(piece.address + at - map.address) / 4 : std::uint32_t(filler(map));
    }
  }
  return s;
}

struct Case {
  TensorMap map;
  ptx::TensorPlace place;
};
std::vector<Case> cases() {
  std::vector<Case> all{{rows(20, 12, 8, 4), {{0, 0}, {}}},
                        {rows(20, 12, 8, 4), {{16, -2}, {}}},
                        {rows(20, 12, 8, 4), {{-4, 10}, {}}},
                        {rows(20, 12, 8, 4), {{100, 0}, {}}}};
  Case c{rows(40, 20, 32, 7), {{4, 3}, {}}};
  for (const Swizzle swizzle : {Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128}) {
    c.map.swizzle = swizzle;
    c.map.box[0] = 4u << unsigned(swizzle);
    c.place.at[0] = 4;
    all.push_back(c);
    c.place.at[0] = 40 - std::int32_t(c.map.box[0]) / 2; // half of each row lies outside
    all.push_back(c);
  }
  c = {rows(20, 12, 4, 6), {{0, 1}, {}}};
  c.map.step[1] = 2;
  all.push_back(c);
  c = {};
  c.map.rank = 5;
  c.map.type = TensorType::f32;
  c.map.fills_nan = true;
  c.map.size = {8, 3, 4, 2, 2};
  c.map.stride = {4, 32, 96, 384, 768};
  c.map.box = {4, 2, 2, 2, 2};
  c.map.step = {1, 1, 1, 1, 1};
  c.place.at = {4, 2, -1, 1, 0};
  all.push_back(c);
  c.map.rank = 4;
  c.map.fills_nan = false;
  c.map.im2col = true;
  c.map.size = {8, 4, 3, 2};
  c.map.stride = {4, 32, 128, 384};
  c.map.lower = {-1, -1};
  c.map.upper = {-1, -1};
  c.map.channels = 4;
  c.map.pixels = 20;
  c.place = {{4, 1, -1, 0}, {2, 1}};
  all.push_back(c);
  return all;
}

} // namespace

TEST_P(Ptx, BoxesOfTensors) {
  for (std::size_t n = 0; n < cases().size(); ++n) {
    auto [map, place] = cases()[n];
    const std::uint32_t bytes = box_bytes(map);
    PtxRig rig(kernel("k", prepare(false) + load(map, place, bytes) + show()), GetParam());
    const std::uint64_t tensor = rig.words_of(counted(1024, 100)), out = rig.alloc(4 * shown_words);
    map.address = tensor;
    rig.launch("k", 1, 64, {out, map_in(rig, map)});
    ASSERT_EQ(rig.sync(), Progress::done) << n << ": " << rig.device->stuck_description();
    EXPECT_EQ(rig.words(out, shown_words), loaded(map, place, 100)) << n;
    EXPECT_EQ(rig.errors(), std::vector<std::string>{}) << n;
    if (!mode_options(GetParam()).record_accesses) continue;
    // A record a stretch, and as many completions: of all bytes, those outside of the tensor, too.
    const auto pieces = pieces_of(map, place, 0);
    const auto copies = rig.sink.all<trace::BulkCopy>();
    ASSERT_EQ(copies.size(), pieces.size()) << n;
    std::uint32_t completed = 0, completions = 0;
    for (std::size_t k = 0; k < copies.size(); ++k) {
      EXPECT_EQ(copies[k].further, k > 0);
      EXPECT_EQ(copies[k].source[0], pieces[k].address);
      EXPECT_EQ(copies[k].destination[0], shared_window + pieces[k].offset);
      EXPECT_EQ(copies[k].bytes[0], pieces[k].bytes);
    }
    for (const auto& r : rig.sink.all<trace::Mbarrier>()) {
      if (r.what != trace::Mbarrier::What::complete_tx) continue;
      completed += r.count[0];
      ++completions;
    }
    EXPECT_EQ(completed, bytes);
    EXPECT_EQ(completions, pieces.size());
  }
}

TEST_P(Ptx, BoxesIntoTensors) {
  for (std::size_t n = 0; n < cases().size(); ++n) {
    auto [map, place] = cases()[n];
    place.offsets = {};
    const bool before = std::any_of(place.at.begin(), place.at.end(), [](std::int32_t at) { return at < 0; });
    PtxRig rig(kernel("k", prepare(true) + store(map, place)), GetParam());
    const std::uint64_t tensor = rig.words_of(Words(1024, 7));
    map.address = tensor;
    rig.launch("k", 1, 64, {tensor, map_in(rig, map)});
    ASSERT_EQ(rig.sync(), before ? Progress::fault : Progress::done) << n;
    if (before) continue;
    Words expected(1024, 7);
    const Words box = loaded(map, place, 0); // which word of the tensor lies where
    for (std::uint32_t at = 0; at < box_bytes(map) / 4; ++at) {
      const bool inside = box[at] < 1024 && !(box[at] == 0 && filler(map) == 0);
      if (inside) expected[box[at]] = 5000 + at;
    }
    for (const ptx::TensorPiece& piece : pieces_of(map, place, 0)) // word 0, which zeros look like
      if (piece.address == tensor) expected[0] = 5000 + piece.offset / 4;
    EXPECT_EQ(rig.words(tensor, 1024), expected) << n;
    EXPECT_EQ(rig.errors(), std::vector<std::string>{}) << n;
  }
}

// As an H100 does it: to the nearest value, of ties to the even one.
TEST_P(Ptx, LoadsOfTfloat32Round) {
  TensorMap map = rows(16, 1, 16, 1);
  map.type = TensorType::tf32;
  const Words in{0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x3f800001, 0x3f800fff, 0x3f801000, 0x3f801001,
                 0x3f802fff, 0x3f803000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x7fc00001, 0xbf801000};
  const Words expected{0x00000000, 0x80000000, 0x00800000, 0x00800000, 0x3f800000, 0x3f800000, 0x3f800000, 0x3f802000,
                       0x3f802000, 0x3f804000, 0x7f800000, 0x7f800000, 0xff800000, 0x7fffe000, 0x7fffe000, 0xbf800000};
  PtxRig rig(kernel("k", prepare(false) + load(map, {}, 64) + show()), GetParam());
  map.address = rig.words_of(in);
  const std::uint64_t out = rig.alloc(4 * shown_words);
  rig.launch("k", 1, 64, {out, map_in(rig, map)});
  ASSERT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(rig.words(out, 16), expected);
}

// By the map's type, of every operation; the others end the launch, as they do on an H100.
TEST_P(Ptx, ReductionsIntoTensors) {
  struct Reduction {
    const char* operation;
    TensorType type;
    std::uint32_t memory, result; // repeated; the operand is 5000 and up as an integer of 32 bits
    bool there = true;
  };
  const Reduction reductions[] = {{".add", TensorType::u32, 10, 5010},
                                  {".add", TensorType::s32, 0xffff'ffff, 4999},
                                  {".min", TensorType::u32, 0x8000'0000, 5000},
                                  {".min", TensorType::s32, 0x8000'0000, 0x8000'0000},
                                  {".max", TensorType::u32, 0x8000'0000, 0x8000'0000},
                                  {".max", TensorType::s32, 0x8000'0000, 5000},
                                  {".inc", TensorType::u32, 9, 10},
                                  {".dec", TensorType::u32, 0, 5000},
                                  {".and", TensorType::u32, 0xff, 5000 & 0xff},
                                  {".or", TensorType::s32, 0x10000, 0x10000 + 5000},
                                  {".xor", TensorType::u32, 5000, 0},
                                  {".add", TensorType::f32, 0, 5000},
                                  {".add", TensorType::tf32, 0, 5000},
                                  {".add", TensorType::f32_ftz, 0, 0}, // 5000 is a denormal
                                  {".add", TensorType::s64, 0, 0, false},
                                  {".add", TensorType::u8, 0, 0, false},
                                  {".add", TensorType::u16, 0, 0, false},
                                  {".inc", TensorType::s32, 0, 0, false},
                                  {".min", TensorType::f32, 0, 0, false},
                                  {".min", TensorType::f64, 0, 0, false},
                                  {".and", TensorType::f16, 0, 0, false}};
  for (const Reduction& r : reductions) {
    TensorMap map = rows(64, 2, 4, 1);
    map.type = r.type;
    map.stride[0] = map.element_bytes();
    map.box[0] = 16 / map.element_bytes();
    PtxRig rig(kernel("k", prepare(true) + store(map, {}, r.operation)), GetParam());
    map.address = rig.words_of(Words(256, r.memory));
    rig.launch("k", 1, 64, {map.address, map_in(rig, map)});
    const std::string what = std::string(r.operation) + " of " + std::string(name_of(r.type));
    ASSERT_EQ(rig.sync(), r.there ? Progress::done : Progress::fault) << what;
    if (!r.there) continue;
    EXPECT_EQ(rig.words(map.address, 1)[0], r.result) << what;
  }
}

TEST_P(Ptx, MisusedTensorMaps) {
  if (!mode_options(GetParam()).check) return;
  struct Misuse {
    const char* what;
    const char* error;
    std::function<void(TensorMap&)> change;
    std::uint64_t map_at = 0; // beyond where it should be
    const char* to = "[%r29]";
    std::int32_t x = 0;
  };
  const Misuse all[] = {
      {"the box is misaligned", "misaligned", {}, 0, "[%r29+64]"},
      {"the map is misaligned", "misaligned", {}, 16},
      {"no map", "fault", {}, 256},
      {"other dimensions", "fault", [](TensorMap& m) { m.rank = 1; }},
      {"another mode", "fault", [](TensorMap& m) { m.rank = 3, m.im2col = true, m.channels = 4, m.pixels = 1; }},
      {"a box of more than shared memory", "out of bounds", [](TensorMap& m) { m.box = {256, 5}; }},
      {"a tensor beyond its memory", "out of bounds", [](TensorMap& m) { m.stride[1] = 1 << 20; }},
      {"a box that begins within 16 bytes", "fault", {}, 0, "[%r29]", 3},
      {"a tensor nowhere", "out of bounds", [](TensorMap& m) { m.address = 64; }},
  };
  for (const Misuse& misuse : all) {
    TensorMap map = rows(20, 12, 8, 4);
    std::string body = prepare(false) + load(map, {{misuse.x}, {}}, 128);
    body.replace(body.find("[%r29], [%rd31"), 6, misuse.to);
    PtxRig rig(kernel("k", body), GetParam());
    map.address = rig.words_of(counted(1024, 0));
    if (misuse.change) misuse.change(map);
    const std::uint64_t other = rig.words_of(Words(256, 0)), at = map_in(rig, map);
    rig.launch("k", 1, 64, {other, misuse.map_at == 256 ? other : at + misuse.map_at});
    EXPECT_EQ(rig.sync(), Progress::fault) << misuse.what;
    EXPECT_EQ(rig.errors(), std::vector<std::string>{misuse.error}) << misuse.what;
  }
}

TEST_P(Ptx, TensorsThatWereFreed) {
  if (!mode_options(GetParam()).check) return;
  TensorMap map = rows(20, 12, 8, 4);
  PtxRig rig(kernel("k", prepare(false) + load(map, {}, 128)), GetParam());
  map.address = rig.words_of(counted(1024, 0));
  const std::uint64_t out = rig.alloc(64), at = map_in(rig, map);
  ASSERT_TRUE(rig.device->release(map.address, 0));
  rig.launch("k", 1, 64, {out, at});
  EXPECT_EQ(rig.sync(), Progress::fault);
  EXPECT_EQ(rig.errors(), std::vector<std::string>{"use after free"});
}

// A map is copied into shared memory, changed there field by field, and handed on through global memory.
TEST_P(Ptx, MapsThatKernelsMake) {
  std::string body = prepare(false);
  body +=
      "shl.b32 %r8, %r30, 2;\ncvt.u64.u32 %rd0, %r8;\nadd.u64 %rd0, %rd0, %rd31;\nadd.u32 %r9, %r29, %r8;\n"
      "setp.lt.u32 %p1, %r30, 32;\n@%p1 ld.global.u32 %r10, [%rd0];\n@%p1 st.shared.u32 [%r9+2048], %r10;\nbar.sync "
      "0;\n";
  body += only_thread_0(
      "add.u32 %r8, %r29, 2048;\n"
      "add.u64 %rd2, %rd30, 4096;\n"
      "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r8], %rd2;\n"
      "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r8], 1;\n"
      "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r8], 0, 16;\n"
      "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r8], 1, 3;\n"
      "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r8], 0, 64;\n"
      "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r8], 0, 4;\n"
      "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r8], 1, 4;\n"
      "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r8], 1, 1;\n"
      "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r8], 7;\n" // f32
      "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r8], 0;\n"
      "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r8], 0;\n"
      "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r8], 1;\n",
      5);
  body +=
      "bar.sync 0;\nsetp.ge.u32 %p1, %r30, 32;\n@%p1 bra $behind;\nadd.u64 %rd3, %rd30, 8192;\nadd.u32 %r8, %r29, "
      "2048;\n"
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%r8], 128;\n"
      "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n$behind:\nbar.sync 0;\nadd.u64 %rd31, %rd30, 8192;\n";
  TensorMap changed = rows(16, 3, 4, 4);
  changed.type = TensorType::f32;
  changed.fills_nan = true;
  const ptx::TensorPlace place{{4, 1}, {}};
  body += load(changed, place, 64) + show();
  PtxRig rig(".visible .entry unused() { ret; }\n" + kernel("k", body), GetParam());
  TensorMap map = rows(20, 12, 8, 4);
  map.swizzle = Swizzle::bytes32;
  const std::uint64_t out = rig.words_of(counted(4096, 0));
  map.address = out;
  rig.launch("k", 1, 64, {out, map_in(rig, map)});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  Words expected = loaded(changed, place, 1024);
  const Words found = rig.words(out, shown_words);
  EXPECT_EQ(Words(found.begin(), found.begin() + 64), Words(expected.begin(), expected.begin() + 64));
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
}

} // namespace deadheat::device_test
