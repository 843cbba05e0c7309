#include "tracer/recorder/writer.h"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <vector>

#include <xxhash.h>
#include <zstd.h>

#include "tracer/recorder/blobs.h"
#include "tracer/recorder/encoder.h"
#include "tracer/recorder/files.h"

namespace deadheat::trace {
namespace {

// A byte that is 1 in the process that made it and 0 in its forks, without a system call per look.
class HomeProcess {
 public:
  HomeProcess() {
    page_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page_ == MAP_FAILED) return;
    if (::madvise(page_, size, MADV_WIPEONFORK) == 0) {
      *static_cast<volatile std::uint8_t*>(page_) = 1;
    } else {
      ::munmap(page_, size);
      page_ = MAP_FAILED;
    }
  }
  ~HomeProcess() {
    if (page_ != MAP_FAILED) ::munmap(page_, size);
  }
  HomeProcess(const HomeProcess&) = delete;
  HomeProcess& operator=(const HomeProcess&) = delete;
  bool here() const {
    return page_ != MAP_FAILED ? *static_cast<volatile std::uint8_t*>(page_) == 1 : ::getpid() == pid_;
  }

 private:
  static constexpr std::size_t size = 4096;
  void* page_;
  pid_t pid_ = ::getpid();
};

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

} // namespace

struct TraceWriter::State {
  State(const std::string& where, WriterOptions given)
      : options(std::move(given)), directory(where), blobs(where, options.level) {}

  HomeProcess home;
  std::mutex mutex;
  WriterOptions options;
  std::string directory, path, final_path;
  File file;
  BlobWriter blobs;
  Encoder encoder;
  std::unique_ptr<ZSTD_CCtx, FreeContext> compressor;
  std::vector<std::uint8_t> stored; // chunk header and compressed payload
  std::uint32_t chunks = 0;
  std::uint64_t file_bytes = 0;     // up to the end of the last whole chunk
  WriterCounts counts;
  bool gap = false;                 // a record was left out: the next one stands behind a number that no chunk has
  bool stopped = false;             // failed or finished
  bool reported = false;
  std::optional<Error> error;       // of the call in progress
  std::optional<Error> failure;     // what stopped the writer

  bool open_log(std::uint32_t pid, std::uint64_t start);
  void fail(Error what);
  void flush_events();
  bool write_chunk(ChunkKind kind, std::span<const std::uint8_t> payload, std::uint32_t records,
                   std::uint32_t accesses);
  void lose(std::uint64_t records, const char* why);
  void show_gap();
  template <class T> void encode(const T& record);
  void flush_if_full() {
    if (encoder.size() >= options.chunk_bytes) flush_events();
  }
};

void TraceWriter::State::fail(Error what) {
  stopped = true;
  failure = what;
  if (!reported) error = std::move(what);
  reported = true;
}

void TraceWriter::State::lose(std::uint64_t records, const char* why) {
  counts.lost_records += records;
  gap = true;
  if (!reported) error = Error{std::string("a record was left out: ") + why, path, {}};
  reported = true;
}

bool TraceWriter::State::open_log(std::uint32_t pid, std::uint64_t start) {
  for (unsigned copy = 1;; copy++) { // a process that ran another program in its place has made PID.log already
    std::string name = std::to_string(pid);
    if (copy > 1) name += '-' + std::to_string(copy);
    final_path = directory + '/' + name + log_suffix;
    path = final_path + incomplete_suffix;
    if (::access(final_path.c_str(), F_OK) == 0 || ::access(path.c_str(), F_OK) == 0) continue;
    Expected<File> created = File::create(path);
    if (created && ::access(final_path.c_str(), F_OK) == 0) { // another process finished under this name meanwhile
      ::unlink(path.c_str());
      continue;
    }
    if (created) {
      file = std::move(*created);
      break;
    }
    if (errno == EEXIST) continue;
    failure = created.error();
    return false;
  }
  LogHeader header;
  header.pid = pid;
  header.start_nanoseconds = start;
  header.checksum = XXH3_64bits(&header, offsetof(LogHeader, checksum));
  if (const int number = file.write(&header, sizeof header)) {
    ::unlink(path.c_str());
    failure = system_error(number, "cannot write the log", path);
    return false;
  }
  file_bytes = sizeof header;
  return true;
}

bool TraceWriter::State::write_chunk(ChunkKind kind, std::span<const std::uint8_t> payload, std::uint32_t records,
                                     std::uint32_t accesses) {
  ChunkHeader header;
  header.kind = kind;
  header.number = chunks;
  header.raw_bytes = std::uint32_t(payload.size());
  header.records = records;
  header.accesses = accesses;
  const std::size_t bound = ZSTD_compressBound(payload.size());
  if (stored.size() < sizeof header + bound) stored.resize(sizeof header + bound);
  std::uint8_t* body = stored.data() + sizeof header;
  const std::size_t size =
      ZSTD_compressCCtx(compressor.get(), body, bound, payload.data(), payload.size(), options.level);
  if (!ZSTD_isError(size) && size < payload.size()) {
    header.codec = Codec::zstd;
    header.stored_bytes = std::uint32_t(size);
  } else {
    if (!payload.empty()) std::memcpy(body, payload.data(), payload.size());
    header.stored_bytes = header.raw_bytes;
  }
  header.payload_checksum = XXH3_64bits(body, header.stored_bytes);
  header.checksum = XXH3_64bits(&header, offsetof(ChunkHeader, checksum));
  std::memcpy(stored.data(), &header, sizeof header);
  const std::size_t whole = sizeof header + header.stored_bytes;
  if (const int number = file.write(stored.data(), whole)) {
    file.truncate(file_bytes); // so that the log ends with a whole chunk
    fail(system_error(number, "recording stopped, the log cannot be written", path));
    return false;
  }
  if (stored.size() > 4 * chunk_target_bytes) std::vector<std::uint8_t>().swap(stored);
  chunks++;
  file_bytes += whole;
  counts.raw_bytes += payload.size();
  counts.file_bytes = file_bytes;
  return true;
}

void TraceWriter::State::flush_events() {
  if (encoder.records() == 0) return;
  const std::uint32_t records = encoder.records(), accesses = encoder.accesses();
  if (!write_chunk(ChunkKind::events, encoder.payload(), records, accesses)) {
    counts.lost_records += records;
    counts.records -= records;
    counts.accesses -= accesses;
  }
  encoder.clear();
}

// Readers see from the chunks' numbers where something is missing, and what it may have ordered.
void TraceWriter::State::show_gap() {
  if (!gap) return;
  flush_events();
  chunks++;
  gap = false;
}

template <class T> void TraceWriter::State::encode(const T& record) {
  show_gap();
  if (stopped) {
    counts.lost_records++;
    return;
  }
  try {
    encoder.record(record);
  } catch (const std::length_error&) {
    return lose(1, "it is larger than the format allows");
  } catch (...) {
    return lose(1, "out of memory");
  }
  counts.records++;
  flush_if_full();
}

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

// Runs `body` under the lock in the process that made the writer, and reports an error after the lock is released.
template <class Body> void TraceWriter::locked(Body&& body) noexcept {
  if (!state_->home.here()) return;
  std::optional<Error> error;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    try {
      body(*state_);
    } catch (...) { // no memory
      state_->counts.lost_records++;
      state_->gap = true;
    }
    if (!state_->error) return;
    error.swap(state_->error);
  }
  try {
    if (state_->options.on_error) state_->options.on_error(*error);
  } catch (...) {
  }
}

Expected<std::unique_ptr<TraceWriter>> TraceWriter::create(const std::string& directory, Process process,
                                                           WriterOptions options) {
  try {
    if (Expected<void> made = make_directory(directory); !made) return made.error();
    options.chunk_bytes = std::clamp<std::size_t>(options.chunk_bytes, 1, max_chunk_bytes - max_record_bytes - 4096);
    std::unique_ptr<State> state(new State(directory, std::move(options)));
    if (process.pid == 0) process.pid = std::uint32_t(::getpid());
    if (process.start_nanoseconds == 0) {
      timespec now{};
      ::clock_gettime(CLOCK_REALTIME, &now);
      process.start_nanoseconds = std::uint64_t(now.tv_sec) * 1000000000u + std::uint64_t(now.tv_nsec);
    }
    state->encoder.reserve(state->options.chunk_bytes);
    state->compressor.reset(ZSTD_createCCtx());
    if (!state->compressor) return Error{"no memory to compress the log", directory, {}};
    if (!state->open_log(process.pid, process.start_nanoseconds)) return *state->failure;
    state->encode(process);
    state->flush_events();
    if (state->stopped) {
      ::unlink(state->path.c_str());
      return *state->failure;
    }
    return std::unique_ptr<TraceWriter>(new TraceWriter(std::move(state)));
  } catch (...) {
    return Error{"no memory to record", directory, {}};
  }
}

TraceWriter::~TraceWriter() {
  if (state_) flush();
}

template <class T> void TraceWriter::write(const T& record) noexcept {
  locked([&](State& s) {
    if (s.stopped) {
      s.counts.lost_records++;
    } else {
      s.encode(record);
    }
  });
}

#define DEADHEAT_INSTANTIATE(type, number) template void TraceWriter::write<type>(const type&) noexcept;
DEADHEAT_TRACE_FRAMED(DEADHEAT_INSTANTIATE)
DEADHEAT_TRACE_COMPACT(DEADHEAT_INSTANTIATE)
#undef DEADHEAT_INSTANTIATE

void TraceWriter::write(const Record& record) noexcept {
  if (record.valueless_by_exception()) return;
  std::visit([this](const auto& r) { write(r); }, record);
}

void TraceWriter::write(const AccessView& access) noexcept {
  if (access.mask == 0) return;
  locked([&](State& s) {
    s.show_gap();
    if (s.stopped) {
      s.counts.lost_records++;
      return;
    }
    s.encoder.access(access);
    s.counts.records++;
    s.counts.accesses += std::uint64_t(std::popcount(access.mask));
    s.flush_if_full();
  });
}

void TraceWriter::write_warp(const Warp& warp, std::uint32_t module, const LaneLog (&lanes)[32]) noexcept {
  locked([&](State& s) {
    AccessView view;
    view.warp = warp;
    view.module = module;
    merge_warp(lanes, [&](std::uint32_t site, std::uint32_t mask, Space space, const std::uint64_t* address,
                          const std::uint32_t* digest) {
      s.show_gap();
      if (s.stopped) {
        s.counts.lost_records++;
        return;
      }
      view.site = site;
      view.mask = mask;
      view.space = space;
      view.address = address;
      view.digest = digest;
      s.encoder.access(view);
      s.counts.records++;
      s.counts.accesses += std::uint64_t(std::popcount(mask));
      s.flush_if_full();
    });
  });
}

BlobHash TraceWriter::add_blob(std::span<const std::uint8_t> bytes) noexcept {
  const BlobHash hash = hash_blob(bytes);
  locked([&](State& s) {
    if (s.stopped) {
      s.counts.lost_records++;
      return;
    }
    Expected<BlobHash> added = s.blobs.add(bytes);
    if (added) return;
    s.counts.lost_records++;
    if (!s.reported) s.error = added.error();
    s.reported = true;
  });
  return hash;
}

Bytes TraceWriter::bytes(std::span<const std::uint8_t> bytes) noexcept {
  Bytes kept;
  this->bytes(bytes, kept);
  return kept;
}

void TraceWriter::bytes(std::span<const std::uint8_t> bytes, Bytes& kept) noexcept {
  kept.size = bytes.size();
  kept.inlined.clear();
  kept.blob = {};
  try {
    if (bytes.size() <= inline_bytes) return kept.inlined.assign(bytes.begin(), bytes.end());
  } catch (...) {
  }
  kept.blob = add_blob(bytes);
}

void TraceWriter::write_chunk(ChunkKind kind, std::span<const std::uint8_t> payload) noexcept {
  locked([&](State& s) {
    if (payload.size() > max_chunk_bytes) return s.lose(1, "it is larger than the format allows");
    if (!s.stopped) s.flush_events();
    if (s.stopped || !s.write_chunk(kind, payload, 0, 0)) s.counts.lost_records++;
  });
}

void TraceWriter::flush() noexcept {
  locked([](State& s) {
    if (!s.stopped) s.flush_events();
  });
}

Expected<void> TraceWriter::finish(std::int32_t status, bool clean) noexcept {
  Expected<void> result;
  locked([&](State& s) {
    if (s.stopped) {
      if (s.failure) result = *s.failure;
      return;
    }
    s.encode(ProgramEnd{status, clean});
    if (!s.stopped) s.flush_events();
    EndChunk end;
    end.records = s.counts.records;
    end.accesses = s.counts.accesses;
    end.lost_records = s.counts.lost_records;
    end.raw_bytes = s.counts.raw_bytes;
    end.chunks = s.chunks;
    end.status = status;
    const std::span<const std::uint8_t> payload(reinterpret_cast<const std::uint8_t*>(&end), sizeof end);
    if (s.stopped || !s.write_chunk(ChunkKind::end, payload, 0, 0)) {
      result = *s.failure;
      return;
    }
    s.stopped = true;
    s.file.close();
    if (::rename(s.path.c_str(), s.final_path.c_str()) != 0) {
      s.fail(system_error(errno, "cannot rename the log", s.path));
      result = *s.failure;
    }
  });
  return result;
}

void TraceWriter::discard() noexcept {
  locked([](State& s) {
    if (s.stopped && !s.file.is_open()) return;
    s.stopped = true;
    s.encoder.clear();
    s.file.close();
    ::unlink(s.path.c_str());
    ::rmdir(s.directory.c_str());
  });
}

WriterCounts TraceWriter::counts() const noexcept {
  if (!state_->home.here()) return {};
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->counts;
}

const std::string& TraceWriter::directory() const noexcept { return state_->directory; }
const std::string& TraceWriter::log_path() const noexcept { return state_->path; }

} // namespace deadheat::trace
