// Little traces for the analyzer's tests: one module whose sites are made up as they are needed, launches and their
// records in the order they are given.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analyzer/detect/analyze.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/sites.h"
#include "tracer/recorder/writer.h"

namespace deadheat::test {

inline constexpr std::uint64_t memory = 0x8000'0000'0000;

class LittleTrace {
 public:
  LittleTrace() {
    std::string pattern = (std::filesystem::temp_directory_path() / "analyzer-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) std::abort();
    root_ = pattern;
    allocate(1, memory, 1 << 16);
  }
  ~LittleTrace() { std::filesystem::remove_all(root_); }

  template <typename T>
  void add(const T& record) {
    records_.push_back(record);
  }

  // Records are missing here: a chunk says what this analyzer cannot read.
  void gap() { gaps_.insert(records_.size()); }

  void allocate(std::uint32_t id, std::uint64_t address, std::uint64_t bytes) {
    trace::Allocate allocation;
    allocation.allocation = id;
    allocation.address = address;
    allocation.bytes = bytes;
    add(allocation);
  }
  void stream(std::uint32_t id, trace::StreamCreate::Kind kind = trace::StreamCreate::Kind::non_blocking) {
    trace::StreamCreate create;
    create.stream = id;
    create.kind = kind;
    add(create);
  }

  // A site with its own source line; the line is what reports name it by.
  struct SiteOf {
    AccessKind access = AccessKind::read;
    Space space = Space::global;
    Ordering ordering = Ordering::weak;
    Scope scope = Scope::none;
    unsigned bytes = 4, elements = 1;
    SiteKind kind = SiteKind::access;
    const char* opcode = "";
    bool in_loop = false;
    Proxy proxy = Proxy::generic;
  };
  std::uint32_t site(std::uint32_t line, const SiteOf& of) {
    Site site;
    site.id = std::uint32_t(sites_.size());
    site.kind = of.kind;
    site.access = of.access;
    site.space = of.space;
    site.ordering = of.ordering;
    site.scope = of.scope;
    site.element_bytes = std::uint8_t(of.bytes);
    site.elements = std::uint8_t(of.elements);
    site.opcode = of.opcode;
    site.proxy = of.proxy;
    site.in_loop = of.in_loop;
    site.type = "u32";
    site.source.push_back({"", "a.cu", line, 1});
    sites_.push_back(site);
    return site.id;
  }

  // Of a site that is inlined: all frames, the innermost first.
  void source(std::uint32_t site, std::vector<SourceFrame> frames) { sites_[site].source = std::move(frames); }
  AccessKind kind(std::uint32_t site) const { return sites_[site].access; }

  // The module's text and, in place of made-up ones, its sites: those of a kernel with that body.
  void kernel(const std::string& body) {
    ptx_ =
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry kernel()\n{\n.reg .pred %p<9>;\n"
        ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n" +
        body + "\nret;\n}\n";
    const auto parsed = ptx::parse(ptx_, "a.ptx");
    ASSERT_TRUE(parsed) << parsed.error().message();
    sites_ = ptx::sites(*parsed);
  }

  void text(std::string ptx) { ptx_ = std::move(ptx); } // the module's, beside made-up sites

  // Submits and begins a launch; returns its number.
  std::uint32_t launch(std::uint32_t stream = 1, Dim3 grid = {4, 1, 1}, Dim3 block = {64, 1, 1},
                       Dim3 cluster = {1, 1, 1}) {
    std::uint32_t number = submit_launch(stream, grid, block, cluster);
    begin(operation_of(number));
    return number;
  }
  std::uint32_t submit_launch(std::uint32_t stream = 1, Dim3 grid = {4, 1, 1}, Dim3 block = {64, 1, 1},
                              Dim3 cluster = {1, 1, 1}) {
    trace::Launch launch;
    launch.module = 1;
    launch.kernel = "kernel";
    launch.grid = grid;
    launch.block = block;
    launch.cluster = cluster;
    launch.instrumented = true;
    std::uint32_t number = ++launches_;
    trace::Operation operation;
    operation.launch = number;
    operation.what = launch;
    launch_operations_.push_back(submit(operation, stream));
    return number;
  }
  std::uint32_t submit(trace::Operation operation, std::uint32_t stream) {
    operation.id = ++operations_;
    operation.stream = stream;
    add(operation);
    return operation.id;
  }
  std::uint32_t next_operation() const { return operations_ + 1; }
  std::uint32_t operation_of(std::uint32_t launch) const { return launch_operations_[launch - 1]; }
  void begin(std::uint32_t operation) { add(trace::OperationBegin{operation}); }
  void end(std::uint32_t operation) { add(trace::OperationEnd{operation}); }
  void end_launch(std::uint32_t launch) { end(operation_of(launch)); }

  // One lane's access.
  void access(std::uint32_t launch, std::uint32_t block, std::uint32_t thread, std::uint32_t site,
              std::uint64_t address, std::uint32_t digest = 0, std::uint64_t read = 0, std::uint64_t written = 0) {
    const Site& of = sites_[site];
    trace::Access access;
    unsigned lane = thread % 32;
    access.warp = {launch, block, thread / 32};
    access.module = 1;
    access.site = site;
    access.mask = 1u << lane;
    access.space = of.space;
    access.address[lane] = address;
    access.digest[lane] = digest;
    if (is_strong(of.ordering)) {
      access.value_read[lane] = read;
      access.value_written[lane] = written;
      access.order_first[lane] = access.order_last[lane] = ++ticket_;
      access.wrote[lane] = of.access != AccessKind::read;
    }
    add(access);
  }
  // A weak access by all lanes of `mask` to one address.
  void broadcast(std::uint32_t launch, std::uint32_t block, std::uint32_t warp, std::uint32_t mask, std::uint32_t site,
                 std::uint64_t address) {
    trace::Access access;
    access.warp = {launch, block, warp};
    access.module = 1;
    access.site = site;
    access.mask = mask;
    access.space = sites_[site].space;
    for (unsigned lane = 0; lane < 32; ++lane) access.address[lane] = address;
    add(access);
  }
  void fence(std::uint32_t launch, std::uint32_t block, std::uint32_t thread, Scope scope,
             Ordering ordering = Ordering::sc) {
    trace::Fence fence;
    fence.warp = {launch, block, thread / 32};
    fence.mask = 1u << thread % 32;
    fence.scope = scope;
    fence.ordering = ordering;
    add(fence);
  }
  void block_barrier(std::uint32_t launch, std::uint32_t block, std::uint32_t site = 0) {
    trace::BlockBarrier barrier;
    barrier.module = 1;
    barrier.site = site;
    barrier.launch = launch;
    barrier.block = block;
    add(barrier);
  }
  void warp_barrier(std::uint32_t launch, std::uint32_t block, std::uint32_t warp, std::uint32_t mask) {
    trace::WarpBarrier barrier;
    barrier.warp = {launch, block, warp};
    barrier.mask = mask;
    add(barrier);
  }

  unsigned jobs = 0; // as many as there are cores
  std::uint64_t memory_limit = 0; // AnalyzeOptions
  std::string device_kind;
  Analysis analyze() {
    std::string directory = root_ + "/" + std::to_string(++written_) + ".deadheat";
    trace::Process process;
    process.device_kind = device_kind;
    auto writer = trace::TraceWriter::create(directory, process);
    EXPECT_TRUE(writer);
    trace::Module module;
    module.id = 1;
    module.sites = sites_;
    if (!ptx_.empty())
      module.image = (*writer)->add_blob({reinterpret_cast<const std::uint8_t*>(ptx_.data()), ptx_.size()});
    (*writer)->write(module);
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if (gaps_.count(i)) (*writer)->write_chunk(trace::ChunkKind::snapshots, std::vector<std::uint8_t>(8));
      (*writer)->write(records_[i]);
    }
    EXPECT_TRUE((*writer)->finish(0));
    detect::AnalyzeOptions options;
    options.jobs = jobs;
    options.memory_limit = memory_limit;
    Expected<Analysis> analysis = detect::analyze(directory, options);
    EXPECT_TRUE(analysis) << (analysis ? "" : analysis.error().message());
    return analysis ? *analysis : Analysis{};
  }
  // The lines of the races found, as "first-second" in increasing order, class strong marked.
  std::vector<std::string> races() {
    std::vector<std::string> result;
    for (const Race& race : analyze().races) {
      auto line = [](const RaceSide& side) { return side.source.empty() ? 0u : side.source[0].line; };
      std::uint32_t a = line(race.first), b = line(race.second);
      result.push_back(std::to_string(std::min(a, b)) + "-" + std::to_string(std::max(a, b)) +
                       (race.race_class == RaceClass::strong ? " strong" : ""));
    }
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  std::string root_, ptx_;
  std::vector<Site> sites_;
  std::vector<trace::Record> records_;
  std::set<std::size_t> gaps_; // in front of records
  std::vector<std::uint32_t> launch_operations_;
  std::uint32_t launches_ = 0, operations_ = 0, written_ = 0;
  std::uint64_t ticket_ = 0;
};

} // namespace deadheat::test
