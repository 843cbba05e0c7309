// What is written is what is read: every record kind, every member, across chunks.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>

#include "tests/unit/trace_directory.h"
#include "tests/unit/trace_generate.h"
#include "tracer/recorder/decoder.h"
#include "tracer/recorder/encoder.h"
#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace deadheat::trace {
namespace {

// ---- fields() names every member of every record.

struct Anything {
  template <class T> operator T() const;
};
template <class T, class... A> constexpr std::size_t members() {
  if constexpr (requires { T{A{}..., Anything{}}; }) {
    return members<T, A..., Anything>();
  } else {
    return sizeof...(A);
  }
}
struct CountFields {
  std::size_t count = 0;
  template <class... T> void operator()(T&...) { count += sizeof...(T); }
  void interned(std::string&) { count++; }
  void site(std::uint32_t&) { count++; }
  void mask(std::uint32_t&) { count++; }
  template <class Values> void column(Values&, std::uint32_t) { count++; }
};
// `context`: members that are not in the trace.
template <class T> void expect_all_fields(const char* name, bool compact, std::size_t context = 0) {
  T r{};
  CountFields walker;
  fields(walker, r);
  if (compact) {
    if constexpr (requires { r.warp.warp; }) {
      context++;
    } else {
      context += 2; // launch, block
    }
    if constexpr (requires { r.module; }) context++;
  }
  EXPECT_EQ(walker.count + context, members<T>()) << name;
}

TEST(TraceFields, NameEveryMember) {
#define EXPECT_FRAMED(type, number) expect_all_fields<type>(#type, false);
#define EXPECT_COMPACT(type, number) expect_all_fields<type>(#type, true);
  DEADHEAT_TRACE_FRAMED(EXPECT_FRAMED)
  DEADHEAT_TRACE_COMPACT(EXPECT_COMPACT)
  expect_all_fields<Dim3>("Dim3", false);
  expect_all_fields<SourceFrame>("SourceFrame", false);
  expect_all_fields<Site>("Site", false, 2); // outcome_unused, polls
  expect_all_fields<Bytes>("Bytes", false);
  expect_all_fields<MemoryRange>("MemoryRange", false);
  expect_all_fields<Launch>("Launch", false);
  expect_all_fields<Copy>("Copy", false);
  expect_all_fields<Set>("Set", false);
  expect_all_fields<HostCallback>("HostCallback", false);
  expect_all_fields<PoolOperation>("PoolOperation", false);
  expect_all_fields<Span>("Span", false);
  expect_all_fields<Effects::Change>("Effects::Change", false);
}

TEST(TraceFields, TagsAreDistinctAndCoverEveryRecord) {
  std::vector<int> tags;
#define TAG(type, number) tags.push_back(number);
  DEADHEAT_TRACE_FRAMED(TAG)
  EXPECT_TRUE(std::all_of(tags.begin(), tags.end(), [](int tag) { return tag > 0 && tag < context_tag; }));
  DEADHEAT_TRACE_COMPACT(TAG)
  EXPECT_EQ(tags.size() + 1, std::variant_size_v<Record>); // accesses have no tag of their own
  std::sort(tags.begin(), tags.end());
  EXPECT_EQ(std::adjacent_find(tags.begin(), tags.end()), tags.end());
}

// ---- Encoder and decoder.

void encode(Encoder& encoder, const Record& record) {
  std::visit(
      [&](const auto& r) {
        if constexpr (std::is_same_v<std::decay_t<decltype(r)>, Access>) {
          encoder.access(view_of(r));
        } else {
          encoder.record(r);
        }
      },
      record);
}

TEST(TraceCodec, EveryRecordKindComesBack) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Random random(seed);
    std::vector<Record> written;
    Encoder encoder;
    encoder.reserve(1);
    for (std::uint64_t n = *rc::gen::inRange(0, 120); n; n--) {
      written.push_back(random.any());
      encode(encoder, written.back());
    }
    RC_ASSERT(encoder.records() == written.size());
    const Payload payload = Payload::copy_of(encoder.payload());
    Decoder decoder(payload);
    for (const Record& expected : written) {
      const Decoder::Item item = decoder.next();
      Record record;
      if (item == Decoder::Item::access) {
        copy_to(decoder.access(), record.emplace<Access>());
      } else {
        RC_ASSERT(item == Decoder::Item::record);
        record = decoder.record();
      }
      RC_ASSERT(flat(record) == flat(expected));
    }
    RC_ASSERT(decoder.next() == Decoder::Item::end);
  }));
}

TEST(TraceCodec, NumbersOfAllSizes) {
  std::uint8_t bytes[32] = {};
  for (unsigned shift = 0; shift < 64; shift++) {
    const std::uint64_t bit = std::uint64_t(1) << shift;
    for (const std::uint64_t value : {bit, bit - 1, 0 - bit}) {
      const std::uint8_t* const end = put_varint(bytes, value);
      std::uint64_t read = 0;
      EXPECT_EQ(get_varint(bytes, read), end);
      EXPECT_EQ(read, value);
      EXPECT_LE(end - bytes, 10);
      EXPECT_EQ(unzigzag(zigzag(value)), value);
    }
  }
}

TEST(TraceCodec, AnAccessSaysWhenItIsAffine) {
  Access access;
  access.mask = 0x0FF0;
  for (unsigned lane = 0; lane < 32; lane++) access.address[lane] = 0x1000 - 16 * lane;
  Encoder encoder;
  encoder.reserve(1);
  encoder.access(view_of(access));
  const Payload payload = Payload::copy_of(encoder.payload());
  Decoder decoder(payload);
  ASSERT_EQ(decoder.next(), Decoder::Item::access);
  EXPECT_TRUE(decoder.access().affine);
  EXPECT_EQ(decoder.access().stride, -16);
  EXPECT_EQ(decoder.access().address[4], 0x1000u - 64);
  EXPECT_FALSE(decoder.access().strong);
}

TEST(TraceCodec, UnknownFramedRecordsAreSkipped) {
  Encoder encoder;
  encoder.reserve(1);
  encoder.record(Incident{"before", 1, "x"});
  const std::size_t second = encoder.size();
  encoder.record(Incident{"unknown", 1, "x"});
  encoder.record(Incident{"after", 1, "x"});
  std::vector<std::uint8_t> bytes(encoder.payload().begin(), encoder.payload().end());
  bytes[second] = 63;
  const Payload payload = Payload::copy_of(bytes);
  Decoder decoder(payload);
  ASSERT_EQ(decoder.next(), Decoder::Item::record);
  ASSERT_EQ(decoder.next(), Decoder::Item::record);
  EXPECT_EQ(std::get<Incident>(decoder.record()).kind, "after");
  EXPECT_EQ(decoder.next(), Decoder::Item::end);
  EXPECT_EQ(decoder.skipped(), 1u);
}

// Whatever the bytes are, the decoder ends; the address sanitizer watches that it stays inside.
TEST(TraceCodec, AnyBytesEnd) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Random random(seed);
    Encoder encoder;
    encoder.reserve(1);
    for (unsigned n = 0; n < 20; n++) encode(encoder, random.any());
    std::vector<std::uint8_t> bytes(encoder.payload().begin(), encoder.payload().end());
    for (unsigned n = 0; n < 4; n++) bytes[random.below(bytes.size())] = std::uint8_t(random.engine());
    bytes.resize(random.below(bytes.size() + 1));
    const Payload payload = Payload::copy_of(bytes);
    Decoder decoder(payload);
    std::size_t items = 0;
    while (decoder.next() < Decoder::Item::end) items++;
    RC_ASSERT(items <= bytes.size());
    RC_ASSERT(decoder.position() <= bytes.size());
  }));
}

// ---- Through a log.

TEST(TraceLog, RecordsCrossChunks) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    TestDirectory directory;
    Random random(seed);
    WriterOptions options;
    options.chunk_bytes = *rc::gen::inRange(1, 3000);
    std::vector<Record> written;
    {
      Process process = random.record<Process>();
      process.pid = 17;
      process.start_nanoseconds = 5;
      auto writer = TraceWriter::create(directory.file("run"), process, options);
      RC_ASSERT(writer.has_value());
      written.push_back(process);
      for (std::uint64_t n = *rc::gen::inRange(0, 200); n; n--) {
        written.push_back(random.any());
        (*writer)->write(written.back());
        if (random.below(20) == 0) (*writer)->flush();
      }
      RC_ASSERT((*writer)->finish(3).has_value());
      written.push_back(ProgramEnd{3, true});
      RC_ASSERT((*writer)->counts().lost_records == 0u);
    }
    auto trace = TraceReader::open(directory.file("run"));
    RC_ASSERT(trace.has_value());
    RC_ASSERT(trace->logs().size() == 1u);
    RC_ASSERT(trace->logs()[0].name == "17.log");
    auto log = trace->open_log(0);
    RC_ASSERT(log.has_value());
    RC_ASSERT(log->pid() == 17u);
    Record record;
    for (const Record& expected : written) {
      RC_ASSERT(log->next(record));
      RC_ASSERT(flat(record) == flat(expected));
    }
    RC_ASSERT(!log->next(record));
    RC_ASSERT(log->complete());
    RC_ASSERT(log->warnings().empty());
    RC_ASSERT(log->end()->records == written.size());
    RC_ASSERT(log->end()->status == 3);

    // Each chunk decodes on its own, in any order.
    std::size_t records = 0;
    for (std::size_t chunk = log->chunk_count(); chunk-- > 0;) {
      auto payload = log->chunk(chunk);
      RC_ASSERT(payload.has_value());
      Decoder decoder(*payload);
      std::size_t in_chunk = 0;
      while (decoder.next() < Decoder::Item::end) in_chunk++;
      RC_ASSERT(in_chunk == log->chunk_info(chunk).records);
      records += in_chunk;
    }
    RC_ASSERT(records == written.size());
  }));
}

TEST(TraceLog, ARecordLargerThanAChunkIsWhole) {
  TestDirectory directory;
  Module module;
  module.id = 1;
  for (unsigned i = 0; i < 60000; i++) {
    Site site;
    site.id = i;
    site.function = std::string(300, 'f') + std::to_string(i % 7);
    site.source = {{"inlined", "/a/very/long/path/kernel.cu", i, 3}, {"outer", "/a/very/long/path/kernel.cu", 1, 1}};
    module.sites.push_back(site);
  }
  auto writer = TraceWriter::create(directory.path(), Process{});
  ASSERT_TRUE(writer);
  (*writer)->write(module);
  (*writer)->write(OperationBegin{1});
  ASSERT_TRUE((*writer)->finish(0));
  auto trace = TraceReader::open(directory.path());
  auto log = trace->open_log(0);
  Record record;
  ASSERT_TRUE(log->next(record)); // Process
  ASSERT_TRUE(log->next(record));
  EXPECT_EQ(flat(record), flat(module));
  EXPECT_GT(log->chunk_info(1).raw_bytes, chunk_target_bytes);
  EXPECT_LT(log->chunk_info(1).raw_bytes, 4 * chunk_target_bytes); // repeated strings are written once
  ASSERT_TRUE(log->next(record));
  EXPECT_TRUE(std::holds_alternative<OperationBegin>(record));
}

} // namespace
} // namespace deadheat::trace
