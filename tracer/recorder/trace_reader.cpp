// The trace directory: its logs and its blobs. Chunks and records are reader.cpp's.
#include <dirent.h>
#include <sys/stat.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>
#include <tuple>

#include "tracer/recorder/blobs.h"
#include "tracer/recorder/files.h"
#include "tracer/recorder/reader.h"

namespace deadheat::trace {
namespace {

// PID[-COPY].log[.incomplete]; false for any other name.
bool parse_name(std::string_view name, LogInfo& info, std::uint32_t& copy) {
  info.name = name;
  info.incomplete = name.ends_with(incomplete_suffix);
  if (info.incomplete) name.remove_suffix(sizeof incomplete_suffix - 1);
  if (!name.ends_with(log_suffix)) return false;
  name.remove_suffix(sizeof log_suffix - 1);
  const char* const end = name.data() + name.size();
  auto [p, error] = std::from_chars(name.data(), end, info.pid);
  if (error != std::errc{}) return false;
  copy = 1;
  if (p != end && *p == '-') std::tie(p, error) = std::tuple(std::from_chars(p + 1, end, copy).ptr, error);
  return p == end;
}

} // namespace

Expected<TraceReader> TraceReader::open(const std::string& directory) {
  struct stat status{};
  if (::stat(directory.c_str(), &status) != 0) {
    return Error{errno == ENOENT ? "there is no such trace" : "cannot be opened", directory,
                 "record one with: deadheat record -- COMMAND"};
  }
  if (!S_ISDIR(status.st_mode)) return Error{"is not a trace: a trace is a directory", directory, {}};
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), ::closedir);
  if (!entries) return system_error(errno, "cannot read the directory", directory);

  TraceReader reader;
  reader.directory_ = directory;
  std::vector<std::pair<std::uint32_t, LogInfo>> found; // with the number of the copy
  while (const dirent* entry = ::readdir(entries.get())) {
    LogInfo info;
    std::uint32_t copy = 0;
    if (!parse_name(entry->d_name, info, copy)) continue;
    info.path = directory + '/' + info.name;
    // What has a log's name and cannot be one is found out when it is opened, not passed over.
    info.bytes = ::stat(info.path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? std::uint64_t(status.st_size) : 0;
    found.emplace_back(copy, std::move(info));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.pid, a.first, a.second.name) < std::tie(b.second.pid, b.first, b.second.name);
  });
  for (auto& [copy, info] : found) reader.logs_.push_back(std::move(info));
  if (reader.logs_.empty()) {
    return Error{"holds no log: nothing was recorded in it", directory, "record with: deadheat record -- COMMAND"};
  }
  return reader;
}

Expected<std::vector<std::uint8_t>> TraceReader::blob(const BlobHash& hash) const {
  return read_blob(directory_, hash);
}

Expected<std::vector<std::uint8_t>> TraceReader::bytes(const Bytes& bytes) const {
  if (bytes.inlined.size() == bytes.size) return bytes.inlined;
  Expected<std::vector<std::uint8_t>> read = blob(bytes.blob);
  if (read && read->size() != bytes.size) return Error{"a blob has not the size that the record says", directory_, {}};
  return read;
}

} // namespace deadheat::trace
