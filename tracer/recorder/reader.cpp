#include "tracer/recorder/reader.h"
#include "deadheat/trace_times.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <xxhash.h>
#include <zstd.h>

#include "tracer/recorder/files.h"

namespace deadheat::trace {
namespace {

constexpr std::size_t scan_bytes = 1 << 16;
constexpr std::size_t most_losses_said = 8; // one line each; one more for the rest

std::string count_of(std::uint64_t n, std::string_view what) {
  return std::to_string(n) + ' ' + std::string(what) + (n == 1 ? "" : what.ends_with('s') ? "es" : "s");
}

Error version_error(unsigned version, const std::string& path) {
  return Error{"trace format version " + std::to_string(version) + ", this deadheat reads version " +
                   std::to_string(format_version),
               path, "use the deadheat that recorded it, or record again"};
}

} // namespace

struct LogReader::State {
  std::string path;
  File file;
  std::uint64_t bytes = 0;
  LogHeader header;
  std::vector<ChunkInfo> events, others;
  std::optional<EndChunk> end;
  bool sound = true; // nothing missing so far
  std::vector<bool> reported, gaps; // of chunks of events; gaps: something is missing in front
  std::size_t rest_line = 0;
  std::uint64_t losses = 0, records_lost = 0;
  std::vector<std::string> warnings;
  std::vector<LostRange> lost;

  // Reading one record after another.
  std::size_t chunk = 0;
  Payload payload;
  std::unique_ptr<Decoder> decoder;

  bool read_header(std::uint64_t offset, ChunkInfo& info, std::uint16_t& version) const;
  std::uint64_t find_header(std::uint64_t offset) const;
  Expected<void> index();
  void put_in_order(std::vector<LostRange>& missing);
  void find_gaps();
  void read_end();
  void warn_kinds();
  Expected<Payload> load(const ChunkInfo& info) const;
  void lose(LostRange range, const std::string& why);
  void lose_chunk(std::size_t number, const std::string& why);
  void say_lost(std::string line, const LostRange& range);
  void skip(std::size_t number, std::uint64_t records);
  void compare_counts(std::size_t number, std::uint64_t records, std::uint64_t accesses);
  bool open_next();
  Decoder::Item step();
};

// True when a whole, sensible header lies at `offset`.
bool LogReader::State::read_header(std::uint64_t offset, ChunkInfo& info, std::uint16_t& version) const {
  ChunkHeader h;
  if (file.read_at(offset, &h, sizeof h) != sizeof h) return false;
  if (h.magic != chunk_magic || h.checksum != XXH3_64bits(&h, offsetof(ChunkHeader, checksum))) return false;
  if (h.stored_bytes > max_chunk_bytes || h.raw_bytes > max_chunk_bytes) return false;
  if (h.codec != Codec::stored && h.codec != Codec::zstd) return false;
  if (h.codec == Codec::stored && h.stored_bytes != h.raw_bytes) return false;
  info = {offset, h.kind, h.codec, h.number, h.stored_bytes, h.raw_bytes, h.records, h.accesses, h.payload_checksum};
  version = h.version;
  return true;
}

// Offset of the first sensible header at or after `offset`; the file's size when there is none.
std::uint64_t LogReader::State::find_header(std::uint64_t offset) const {
  std::vector<std::uint8_t> window(scan_bytes + sizeof chunk_magic - 1);
  ChunkInfo info;
  std::uint16_t version;
  for (; offset < bytes; offset += scan_bytes) {
    const std::size_t n = file.read_at(offset, window.data(), window.size());
    if (n < sizeof chunk_magic) break;
    const std::uint8_t* const last = window.data() + (n - sizeof chunk_magic);
    for (const std::uint8_t* p = window.data(); p <= last; p++) {
      p = static_cast<const std::uint8_t*>(std::memchr(p, int(chunk_magic & 0xFF), std::size_t(last - p) + 1));
      if (!p) break;
      std::uint64_t magic;
      std::memcpy(&magic, p, sizeof magic);
      const std::uint64_t at = offset + std::uint64_t(p - window.data());
      if (magic == chunk_magic && read_header(at, info, version)) return at;
    }
    if (n < window.size()) break;
  }
  return bytes;
}

void LogReader::State::lose(LostRange range, const std::string& why) {
  sound = false;
  std::string line = path + ": " + why + ": lost ";
  if (range.chunks == 0) {
    line += count_of(range.bytes, "byte");
  } else if (range.chunks == 1) {
    line += "chunk " + std::to_string(range.first_chunk);
  } else {
    const std::uint64_t last = std::uint64_t(range.first_chunk) + range.chunks - 1;
    line += "chunks " + std::to_string(range.first_chunk) + " to " + std::to_string(last);
  }
  if (range.records) line += " (" + count_of(range.records, "record") + ')';
  line += " at offset " + std::to_string(range.offset);
  say_lost(std::move(line), range);
  lost.push_back(range);
}

void LogReader::State::say_lost(std::string line, const LostRange& range) {
  if (++losses <= most_losses_said) return warnings.push_back(std::move(line));
  records_lost += range.records;
  line = path + ": lost more in " + count_of(losses - most_losses_said, "place");
  if (records_lost) line += " (" + count_of(records_lost, "record") + " at least)";
  if (!rest_line) {
    rest_line = warnings.size();
    warnings.emplace_back();
  }
  warnings[rest_line] = std::move(line);
}

void LogReader::State::lose_chunk(std::size_t number, const std::string& why) {
  if (reported[number]) return;
  reported[number] = true;
  const ChunkInfo& info = events[number];
  lose({info.offset, sizeof(ChunkHeader) + info.stored_bytes, info.number, 1, info.records, info.accesses}, why);
}

void LogReader::State::skip(std::size_t number, std::uint64_t records) {
  if (reported[number]) return;
  reported[number] = true;
  sound = false;
  warnings.push_back(path + ": " + count_of(records, "record") + " of unknown kinds skipped in chunk " +
                     std::to_string(events[number].number));
}

// Header and checksums fit, and the chunk holds more or less than it says: another one, or its writer was wrong.
void LogReader::State::compare_counts(std::size_t number, std::uint64_t records, std::uint64_t accesses) {
  const ChunkInfo& info = events[number];
  if (reported[number] || (info.records == records && info.accesses == accesses)) return;
  reported[number] = true;
  sound = false;
  say_lost(path + ": chunk " + std::to_string(info.number) + " says that it has " + count_of(info.records, "record") +
               " with " + count_of(info.accesses, "access") + "; it has " + std::to_string(records) + " with " +
               std::to_string(accesses),
           {});
}

// Chunks that lie in another order than they were written in, or several times.
void LogReader::State::put_in_order(std::vector<LostRange>& missing) {
  sound = false;
  const auto earlier = [](const ChunkInfo& a, const ChunkInfo& b) { return a.number < b.number; };
  const auto differ = [](const ChunkInfo& a, const ChunkInfo& b) {
    return a.checksum != b.checksum || a.raw_bytes != b.raw_bytes;
  };
  std::stable_sort(events.begin(), events.end(), earlier);
  std::vector<ChunkInfo> kept;
  for (auto chunk = events.begin(); chunk != events.end();) {
    const auto next = std::upper_bound(chunk, events.end(), *chunk, earlier);
    // Of one number and not the same: which of them is the chunk, nobody knows.
    if (std::none_of(chunk, next, [&](const ChunkInfo& other) { return differ(*chunk, other); }))
      kept.push_back(*chunk);
    chunk = next;
  }
  const std::uint64_t left_out = events.size() - kept.size();
  events = std::move(kept);
  std::string line = path + ": chunks are out of order: they are read in the order of their numbers";
  if (left_out) line += ", without " + count_of(left_out, "chunk") + " of numbers that are there twice";
  warnings.push_back(std::move(line));

  missing.clear();
  std::vector<ChunkInfo> all = events;
  all.insert(all.end(), others.begin(), others.end());
  std::sort(all.begin(), all.end(), earlier);
  std::uint64_t expected = 0;
  for (const ChunkInfo& info : all) {
    if (info.number > expected) {
      missing.push_back({info.offset, 0, std::uint32_t(expected), std::uint32_t(info.number - expected), 0, 0});
    }
    expected = std::uint64_t(info.number) + 1;
  }
}

// Between two chunks of events may be some that hold no events.
void LogReader::State::find_gaps() {
  std::vector<std::uint32_t> apart;
  for (const ChunkInfo& info : others) {
    if (info.kind == ChunkKind::end || info.kind == times_chunk) apart.push_back(info.number);
  }
  std::sort(apart.begin(), apart.end());
  apart.erase(std::unique(apart.begin(), apart.end()), apart.end());
  gaps.resize(events.size());
  for (std::size_t i = 1; i < events.size(); i++) {
    const std::uint64_t before = events[i - 1].number, between = events[i].number - before - 1;
    const auto known = std::lower_bound(apart.begin(), apart.end(), events[i].number) -
                       std::upper_bound(apart.begin(), apart.end(), before);
    gaps[i] = between != std::uint64_t(std::max<std::ptrdiff_t>(known, 0));
  }
}

// Walks from header to header.
Expected<void> LogReader::State::index() {
  bytes = file.size();
  const std::size_t n = file.read_at(0, &header, sizeof header);
  std::uint64_t offset = sizeof header;
  if (n >= offsetof(LogHeader, pid) && header.magic == log_magic && header.endian != endian_mark) {
    if (header.endian == __builtin_bswap32(endian_mark)) {
      return Error{"was recorded on a machine of the other byte order", path, "read it on such a machine"};
    }
  }
  const bool header_sound = n == sizeof header && header.magic == log_magic && header.endian == endian_mark &&
                            header.checksum == XXH3_64bits(&header, offsetof(LogHeader, checksum));
  if (header_sound && header.version != format_version) return version_error(header.version, path);
  if (!header_sound) {
    if (find_header(0) == bytes) return Error{"is not a deadheat log, or nothing of it can be read", path, {}};
    header = LogHeader{};
    offset = std::min<std::uint64_t>(offset, find_header(0));
    lose({0, offset, 0, 0, 0, 0}, "the log's header is damaged");
  }

  std::vector<LostRange> missing;   // by the numbers of the chunks that are there
  bool in_order = true;
  std::uint32_t expected = 0;       // number of the next chunk
  std::uint64_t rescan = offset;    // where a header may begin if the next one is not in its place
  while (offset < bytes) {
    ChunkInfo info;
    std::uint16_t version = 0;
    if (!read_header(offset, info, version)) {
      const std::uint64_t found = find_header(rescan);
      if (found < offset) { // bytes are missing inside the chunk before
        offset = found;
        rescan = found + 1;
        continue;
      }
      LostRange range{offset, found - offset, expected, 0, 0, 0};
      ChunkInfo after;
      if (found < bytes && read_header(found, after, version) && after.number > expected) {
        range.chunks = after.number - expected;
        expected = after.number;
      }
      lose(range, found < bytes ? "damaged" : "the log is cut off");
      offset = found;
      rescan = found + 1;
      continue;
    }
    if (version != format_version) return version_error(version, path);
    in_order &= info.number >= expected;
    if (info.number > expected) missing.push_back({offset, 0, expected, info.number - expected, 0, 0});
    expected = info.number + 1;
    const std::uint64_t after = offset + sizeof(ChunkHeader) + info.stored_bytes;
    if (after > bytes) {
      const std::uint64_t found = find_header(offset + sizeof(ChunkHeader));
      lose({offset, found - offset, info.number, 1, info.records, info.accesses},
           found < bytes ? "damaged" : "the log is cut off");
      offset = found;
      rescan = found + 1;
      continue;
    }
    (info.kind == ChunkKind::events ? events : others).push_back(info);
    rescan = offset + sizeof(ChunkHeader);
    offset = after;
  }
  if (!in_order) put_in_order(missing);
  for (const LostRange& range : missing) lose(range, "chunks are missing");
  reported.resize(events.size());
  find_gaps();
  read_end();
  warn_kinds();
  return {};
}

void LogReader::State::read_end() {
  for (const ChunkInfo& info : others) {
    if (info.kind != ChunkKind::end) continue;
    Expected<Payload> raw = load(info);
    if (raw && raw->size() >= sizeof(EndChunk)) {
      end.emplace();
      std::memcpy(&*end, raw->data(), sizeof(EndChunk));
    } else {
      lose({info.offset, sizeof(ChunkHeader) + info.stored_bytes, info.number, 1, 0, 0}, "the end chunk is damaged");
      return;
    }
  }
  if (!end) {
    sound = false;
    warnings.push_back(path +
                       ": the recording did not end cleanly: the process was killed or could not write its log; "
                       "what it did last is missing");
    return;
  }
  if (end->lost_records) {
    sound = false;
    warnings.push_back(path + ": " + count_of(end->lost_records, "record") + " could not be written");
  }
  if (!sound) return; // it speaks of more than is there
  std::uint64_t records = 0, accesses = 0;
  for (const ChunkInfo& info : events) {
    records += info.records;
    accesses += info.accesses;
  }
  const std::uint64_t before = events.size() + others.size() - 1;
  if (end->records == records && end->accesses == accesses && end->chunks == before) return;
  sound = false;
  warnings.push_back(path + ": the end chunk speaks of " + count_of(end->chunks, "chunk") + " with " +
                     count_of(end->records, "record") + " and " + count_of(end->accesses, "access") + "; there are " +
                     std::to_string(before) + " with " + std::to_string(records) + " and " + std::to_string(accesses));
}

// Chunks of kinds that this reader leaves to others.
void LogReader::State::warn_kinds() {
  static constexpr std::pair<ChunkKind, const char*> names[] = {{ChunkKind::conflicts, "conflicts found on the device"},
                                                                {ChunkKind::snapshots, "snapshots"},
                                                                {ChunkKind::effects, "effects of opaque operations"},
                                                                {ChunkKind::devices, "several devices"}};
  std::vector<std::uint16_t> kinds;
  for (const ChunkInfo& info : others) {
    if (info.kind != ChunkKind::end && info.kind != times_chunk) kinds.push_back(std::uint16_t(info.kind));
  }
  std::sort(kinds.begin(), kinds.end());
  for (auto kind = kinds.begin(); kind != kinds.end();) {
    const auto last = std::upper_bound(kind, kinds.end(), *kind);
    std::string what = "kind " + std::to_string(*kind);
    for (const auto& [known, name] : names) {
      if (std::uint16_t(known) == *kind) what = name;
    }
    sound = false;
    warnings.push_back(path + ": " + count_of(std::uint64_t(last - kind), "chunk") + " skipped (" + what +
                       "), which this version does not read");
    kind = last;
  }
}

Expected<Payload> LogReader::State::load(const ChunkInfo& info) const {
  const auto damaged = [&](const char* what) {
    return Error{what, path + ": chunk " + std::to_string(info.number), {}};
  };
  try {
    std::vector<std::uint8_t> stored(info.codec == Codec::zstd ? info.stored_bytes : 0);
    Payload payload(info.raw_bytes);
    std::uint8_t* bytes_in = info.codec == Codec::zstd ? stored.data() : payload.data();
    if (file.read_at(info.offset + sizeof(ChunkHeader), bytes_in, info.stored_bytes) != info.stored_bytes) {
      return damaged("the log is cut off");
    }
    if (XXH3_64bits(bytes_in, info.stored_bytes) != info.checksum) return damaged("the checksum does not match");
    if (info.codec == Codec::zstd) {
      const std::size_t n = ZSTD_decompress(payload.data(), info.raw_bytes, stored.data(), stored.size());
      if (ZSTD_isError(n) || n != info.raw_bytes) return damaged("its compressed bytes make no sense");
    }
    return payload;
  } catch (...) {
    return damaged("no memory to read it");
  }
}

// Moves to the next events chunk that can be read.
bool LogReader::State::open_next() {
  decoder.reset();
  while (chunk < events.size()) {
    Expected<Payload> loaded = load(events[chunk]);
    if (!loaded) {
      lose_chunk(chunk++, loaded.error().what);
      continue;
    }
    payload = std::move(*loaded);
    decoder = std::make_unique<Decoder>(payload);
    return true;
  }
  return false;
}

// The next record of any chunk.
Decoder::Item LogReader::State::step() {
  while (decoder || open_next()) {
    const Decoder::Item item = decoder->next();
    if (item == Decoder::Item::access || item == Decoder::Item::record) return item;
    if (item == Decoder::Item::damaged) lose_chunk(chunk, "part of a chunk cannot be read, " + decoder->error());
    if (decoder->skipped()) skip(chunk, decoder->skipped());
    compare_counts(chunk, decoder->records(), decoder->accesses());
    decoder.reset();
    chunk++;
  }
  return Decoder::Item::end;
}

LogReader::LogReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LogReader::LogReader(LogReader&&) noexcept = default;
LogReader& LogReader::operator=(LogReader&&) noexcept = default;
LogReader::~LogReader() = default;

Expected<LogReader> LogReader::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  Expected<File> file = File::open(path);
  if (!file) return file.error();
  state->file = std::move(*file);
  if (Expected<void> indexed = state->index(); !indexed) return indexed.error();
  return LogReader(std::move(state));
}

const std::string& LogReader::path() const { return state_->path; }
std::uint32_t LogReader::pid() const { return state_->header.pid; }
std::uint64_t LogReader::start_nanoseconds() const { return state_->header.start_nanoseconds; }

bool LogReader::next(Record& record) {
  switch (state_->step()) {
    case Decoder::Item::access: {
      Access* access = std::get_if<Access>(&record);
      copy_to(state_->decoder->access(), access ? *access : record.emplace<Access>());
      return true;
    }
    case Decoder::Item::record: record = std::move(state_->decoder->record()); return true;
    default: return false;
  }
}

bool LogReader::for_each(RecordVisitor& visitor) {
  for (;;) {
    const Decoder::Item item = state_->step();
    if (item == Decoder::Item::access) {
      if (!visitor.access(state_->decoder->access())) return false;
    } else if (item == Decoder::Item::record) {
      if (!visitor.record(state_->decoder->record())) return false;
    } else {
      return true;
    }
  }
}

void LogReader::rewind() {
  state_->decoder.reset();
  state_->chunk = 0;
}

std::size_t LogReader::chunk_count() const { return state_->events.size(); }
const ChunkInfo& LogReader::chunk_info(std::size_t index) const { return state_->events[index]; }
Expected<Payload> LogReader::chunk(std::size_t index) const { return state_->load(state_->events[index]); }
void LogReader::note_damage(std::size_t index, const std::string& why) { state_->lose_chunk(index, why); }
bool LogReader::gap_before(std::size_t index) const { return state_->gaps[index]; }
void LogReader::note_skipped(std::size_t index, std::uint64_t records) { state_->skip(index, records); }
void LogReader::note_counts(std::size_t index, std::uint64_t records, std::uint64_t accesses) {
  state_->compare_counts(index, records, accesses);
}
const std::vector<ChunkInfo>& LogReader::other_chunks() const { return state_->others; }
Expected<Payload> LogReader::payload(const ChunkInfo& info) const { return state_->load(info); }
bool LogReader::complete() const { return state_->sound; }
const std::vector<std::string>& LogReader::warnings() const { return state_->warnings; }
const std::vector<LostRange>& LogReader::lost() const { return state_->lost; }
const EndChunk* LogReader::end() const { return state_->end ? &*state_->end : nullptr; }

void LogReader::verify() {
  for (std::size_t i = 0; i < state_->events.size(); i++) {
    if (Expected<Payload> loaded = state_->load(state_->events[i]); !loaded) {
      state_->lose_chunk(i, loaded.error().what);
    }
  }
}

} // namespace deadheat::trace
