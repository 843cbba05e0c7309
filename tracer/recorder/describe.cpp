#include "tracer/recorder/describe.h"
#include "deadheat/footprint.h"
#include "deadheat/trace_times.h"

#include <bit>
#include <cstdio>

#include "tracer/recorder/blobs.h"
#include "tracer/recorder/reader.h"

namespace deadheat::trace {
namespace {

// Builds a line of "name value" pairs.
class Line {
 public:
  explicit Line(const char* head) : text_(head) {}
  Line& word(const std::string& s) {
    text_ += ' ';
    for (const char c : s) { // names come from outside: keep the line one line
      if (static_cast<unsigned char>(c) >= ' ' && c != 0x7F) {
        text_ += c;
      } else {
        text_ += '?';
      }
    }
    return *this;
  }
  Line& field(const char* name, std::uint64_t value) { return word(name).word(std::to_string(value)); }
  Line& field(const char* name, const std::string& value) { return value.empty() ? *this : word(name).word(value); }
  Line& some(const char* name, std::uint64_t value) { return value ? field(name, value) : *this; } // unless 0
  Line& flag(bool set, const char* name) { return set ? word(name) : *this; }
  Line& hex(const char* name, std::uint64_t value) { return word(name).word(hex_of(value)); }
  Line& extent(const char* name, const Dim3& e) {
    return word(name).word(std::to_string(e.x) + 'x' + std::to_string(e.y) + 'x' + std::to_string(e.z));
  }
  Line& at(const Warp& w) { return field("launch", w.launch).field("block", w.block).field("warp", w.warp); }
  Line& site(std::uint32_t module, std::uint32_t number) {
    return word("site").word(std::to_string(module) + ':' + std::to_string(number));
  }
  Line& mask(std::uint32_t mask) {
    if (mask == 0xFFFFFFFF) return word("all lanes");
    char text[16];
    std::snprintf(text, sizeof text, "%08x", mask);
    return word("lanes").word(text);
  }
  Line& data(const Bytes& bytes) {
    field("bytes", bytes.size);
    return bytes.inlined.size() == bytes.size ? *this : field("blob", to_text(bytes.blob));
  }
  static std::string hex_of(std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

template <std::size_t N> const char* name_of(const char* const (&names)[N], unsigned value) {
  return value < N ? names[value] : "?";
}
const char* name_of(Space v) {
  static constexpr const char* names[] = {"generic", "global", "shared", "local", "param", "constant"};
  return name_of(names, unsigned(v));
}
const char* name_of(Ordering v) {
  static constexpr const char* names[] = {"weak", "relaxed",  "acquire", "release", "acq_rel",
                                          "sc",   "volatile", "mmio",    "nc"};
  return name_of(names, unsigned(v));
}
const char* name_of(Scope v) {
  static constexpr const char* names[] = {"none", "cta", "cluster", "gpu", "sys"};
  return name_of(names, unsigned(v));
}
const char* name_of(AccessKind v) { return word(v); }
const char* name_of(Proxy v) {
  static constexpr const char* names[] = {"generic", "async", "tensormap", "alias"};
  return name_of(names, unsigned(v));
}
const char* name_of(Allocate::Kind v) {
  static constexpr const char* names[] = {"device", "pinned", "managed", "pool", "symbol"};
  return name_of(names, unsigned(v));
}
const char* name_of(StreamCreate::Kind v) {
  static constexpr const char* names[] = {"legacy", "blocking", "non_blocking", "per_thread"};
  return name_of(names, unsigned(v));
}
const char* name_of(HostWait::Kind v) {
  static constexpr const char* names[] = {"device", "stream", "event", "operation"};
  return name_of(names, unsigned(v));
}
const char* name_of(Copy::Direction v) {
  static constexpr const char* names[] = {"h2h", "h2d", "d2h", "d2d"};
  return name_of(names, unsigned(v));
}
const char* name_of(Mbarrier::What v) {
  static constexpr const char* names[] = {"init",      "inval",       "arrive", "arrive_drop",
                                          "expect_tx", "complete_tx", "test",   "async_arrive"};
  return name_of(names, unsigned(v));
}
const char* name_of(MemoryError::Kind v) {
  static constexpr const char* names[] = {"out_of_bounds", "use_after_free", "misaligned",   "wrong_space",
                                          "uninitialized", "double_free",    "invalid_free", "stack_overflow",
                                          "trap",          "assertion",      "leak",         "api_error"};
  return name_of(names, unsigned(v));
}

std::string range_text(const MemoryRange& r) {
  std::string text = Line::hex_of(r.address) + "+" + std::to_string(r.width);
  if (r.height != 1 || r.depth != 1) {
    text += 'x' + std::to_string(r.height) + 'x' + std::to_string(r.depth) + " pitch " + std::to_string(r.pitch);
  }
  return text;
}

// What follows "operation 7 stream 1".
struct Work {
  Line& line;
  void operator()(const Marker&) { line.word("marker"); }
  void operator()(const Launch& r) {
    line.word("kernel").word(r.kernel).field("module", r.module).extent("grid", r.grid).extent("block", r.block);
    if (r.cluster.count() > 1) line.extent("cluster", r.cluster);
    line.some("static_shared", r.static_shared).some("dynamic_shared", r.dynamic_shared);
    line.flag(r.cooperative, "cooperative").flag(r.programmatic, "programmatic");
    line.word(r.instrumented ? "instrumented" : "opaque").word("arguments").data(r.arguments);
    each_reached(
        r.footprint, [&](std::uint32_t allocation) { line.field("reaches", allocation); },
        [&](std::uint64_t address, std::uint64_t bytes) {
          line.field("reaches", range_text({address, 0, bytes, 1, 1, 0}));
        });
  }
  void operator()(const Copy& r) {
    line.word("copy").word(name_of(r.direction)).field("to", range_text(r.destination));
    line.field("from", range_text(r.source)).field("api", r.api);
    line.flag(r.pageable_destination || r.pageable_source, "pageable").some("symbol_module", r.symbol_module);
    if (r.data.size) line.data(r.data);
  }
  void operator()(const Set& r) {
    line.word("set").field("to", range_text(r.destination)).hex("value", r.value);
    line.field("element_bytes", r.element_bytes).field("api", r.api);
  }
  void operator()(const HostCallback& r) { line.word("host_callback").field("api", r.api); }
  void operator()(const PoolOperation& r) {
    line.word(r.free ? "pool_free" : "pool_allocate").field("allocation", r.allocation);
  }
};

struct Describe {
  template <class R> static Line lanes(const char* head, const R& r) {
    Line line(head);
    line.at(r.warp).site(r.module, r.site).mask(r.mask);
    return line;
  }

  std::string operator()(const Process& r) {
    Line line("process");
    line.word(std::to_string(r.pid)).field("host", r.host).field("device", r.device_kind).field("seed", r.seed);
    line.word("command");
    for (const std::string& argument : r.command) line.word(argument);
    return line.take();
  }
  std::string operator()(const Device& r) {
    return Line("device")
        .word(std::to_string(r.id))
        .word(r.name)
        .word("sm_" + std::to_string(r.compute_major) + std::to_string(r.compute_minor))
        .field("multiprocessors", r.multiprocessors)
        .field("memory", r.memory_bytes)
        .take();
  }
  std::string operator()(const Module& r) {
    return Line("module")
        .word(std::to_string(r.id))
        .word(r.kind == Module::Kind::ptx ? "ptx" : "cubin")
        .field("image", to_text(r.image))
        .field("sites", r.sites.size())
        .field("origin", r.origin)
        .take();
  }
  std::string operator()(const Symbol& r) {
    return Line("symbol").word(r.name).field("module", r.module).field("allocation", r.allocation).take();
  }
  std::string operator()(const Allocate& r) {
    Line line("allocate");
    line.word(std::to_string(r.allocation)).word(name_of(r.kind)).hex("address", r.address).field("bytes", r.bytes);
    if (r.host_address) line.hex("host", r.host_address);
    return line.some("operation", r.operation).field("thread", r.host_thread).field("name", r.name).take();
  }
  std::string operator()(const Free& r) {
    return Line("free")
        .word(std::to_string(r.allocation))
        .some("operation", r.operation)
        .field("thread", r.host_thread)
        .take();
  }
  std::string operator()(const StreamCreate& r) {
    return Line("stream")
        .word(std::to_string(r.stream))
        .word(name_of(r.kind))
        .word("priority")
        .word(std::to_string(r.priority))
        .field("device", r.device)
        .field("thread", r.host_thread)
        .take();
  }
  std::string operator()(const StreamMaker& r) {
    return Line("stream_maker").word(std::to_string(r.stream)).field("library", r.library).take();
  }
  std::string operator()(const StreamDestroy& r) {
    return Line("stream_destroy").word(std::to_string(r.stream)).field("thread", r.host_thread).take();
  }
  std::string operator()(const EventRecord& r) {
    return Line("event_record")
        .field("event", r.event)
        .field("stream", r.stream)
        .field("operation", r.operation)
        .field("thread", r.host_thread)
        .take();
  }
  std::string operator()(const StreamWait& r) {
    return Line("stream_wait")
        .field("stream", r.stream)
        .field("event", r.event)
        .field("record", r.record_operation)
        .field("operation", r.operation)
        .field("thread", r.host_thread)
        .take();
  }
  std::string operator()(const HostWaitBegin& r) {
    return Line("host_wait_begin")
        .word(name_of(r.kind))
        .word(std::to_string(r.id))
        .field("thread", r.host_thread)
        .take();
  }
  std::string operator()(const HostWait& r) {
    return Line("host_wait")
        .word(name_of(r.kind))
        .word(std::to_string(r.id))
        .some("record", r.record_operation)
        .flag(r.query, "query")
        .field("thread", r.host_thread)
        .take();
  }
  std::string operator()(const Operation& r) {
    Line line("operation");
    line.word(std::to_string(r.id)).field("stream", r.stream).field("thread", r.host_thread).some("launch", r.launch);
    if (r.graph_launch) line.field("graph_launch", r.graph_launch).field("node", r.graph_node);
    for (const std::uint32_t dependency : r.node_dependencies) line.field("after", dependency);
    std::visit(Work{line}, r.what);
    return line.field("called_at", r.call_site).take();
  }
  std::string operator()(const GraphLaunch& r) {
    return Line("graph_launch")
        .word(std::to_string(r.id))
        .field("graph", r.graph)
        .field("stream", r.stream)
        .field("thread", r.host_thread)
        .take();
  }
  std::string operator()(const GraphEnd& r) { return Line("graph_end").word(std::to_string(r.id)).take(); }
  std::string operator()(const OperationBegin& r) { return Line("begin").field("operation", r.operation).take(); }
  std::string operator()(const OperationEnd& r) { return Line("end").field("operation", r.operation).take(); }
  std::string operator()(const HostRead& r) {
    return Line("host_read").some("operation", r.operation).hex("address", r.address).data(r.data).take();
  }
  std::string operator()(const HostWrite& r) {
    return Line("host_write").hex("address", r.address).data(r.data).take();
  }
  std::string operator()(const Window& r) {
    Line line("window");
    line.word(std::to_string(r.id)).word(r.opens ? "opens" : "closes");
    for (const Span& span : r.touched)
      line.field("touched", Line::hex_of(span.address) + "+" + std::to_string(span.bytes));
    return line.field("trouble", r.trouble).take();
  }
  std::string operator()(const Snapshot& r) {
    return Line("snapshot").field("window", r.window).hex("address", r.address).data(r.data).take();
  }
  std::string operator()(const Effects& r) {
    Line line("effects");
    line.field("operation", r.operation);
    for (const Effects::Change& change : r.changes) line.hex("address", change.address).data(change.data);
    return line.take();
  }
  std::string operator()(const Access& r) { return describe(view_of(r)); }
  std::string operator()(const Fence& r) {
    return lanes("fence", r).word(name_of(r.ordering)).word(name_of(r.scope)).word(name_of(r.proxy)).take();
  }
  std::string operator()(const BarrierArrive& r) {
    return lanes("barrier_arrive", r)
        .field("barrier", r.barrier)
        .field("phase", r.phase)
        .word(r.sync ? "sync" : "arrive")
        .take();
  }
  std::string operator()(const BarrierComplete& r) {
    return Line("barrier_complete")
        .field("launch", r.launch)
        .field("block", r.block)
        .field("barrier", r.barrier)
        .field("phase", r.phase)
        .take();
  }
  std::string operator()(const BlockBarrier& r) {
    return Line("block_barrier")
        .field("launch", r.launch)
        .field("block", r.block)
        .site(r.module, r.site)
        .field("barrier", r.barrier)
        .field("phase", r.phase)
        .take();
  }
  std::string operator()(const WarpBarrier& r) { return lanes("warp_barrier", r).take(); }
  std::string operator()(const WarpValue& r) { return lanes("warp_value", r).take(); }
  std::string operator()(const AsyncCopy& r) {
    Line line = lanes("async_copy", r);
    line.field("bytes", r.bytes);
    for (std::uint32_t rest = r.mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      line.word(Line::hex_of(r.destination[lane]) + "<-" + Line::hex_of(r.source[lane]));
      if (r.source_bytes[lane] < r.bytes) line.field("read", r.source_bytes[lane]); // the others become 0
    }
    return line.take();
  }
  std::string operator()(const BulkCopy& r) {
    Line line = lanes("bulk_copy", r);
    line.flag(r.further, "further");
    for (std::uint32_t rest = r.mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      line.word(Line::hex_of(r.destination[lane]) + "<-" + Line::hex_of(r.source[lane])).field("bytes", r.bytes[lane]);
      if (r.mbarrier[lane]) line.hex("mbarrier", r.mbarrier[lane]);
    }
    return line.take();
  }
  std::string operator()(const AsyncCommit& r) { return lanes("async_commit", r).take(); }
  std::string operator()(const AsyncWait& r) {
    return lanes("async_wait", r).field("pending", r.pending).flag(r.all, "all").flag(r.read_only, "read").take();
  }
  std::string operator()(const Mbarrier& r) {
    Line line = lanes("mbarrier", r);
    line.word(name_of(r.what)).word(name_of(r.ordering)).word(name_of(r.scope)).field("of_block", r.block);
    line.hex("succeeded", r.succeeded);
    for (std::uint32_t rest = r.mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      line.word(Line::hex_of(r.address[lane])).field("count", r.count[lane]).field("phase", r.phase[lane]);
    }
    return line.take();
  }
  std::string operator()(const ClusterBarrier& r) {
    return lanes("cluster_barrier", r)
        .word(r.wait ? "wait" : "arrive")
        .field("phase", r.phase)
        .flag(r.relaxed, "relaxed")
        .take();
  }
  std::string operator()(const ThreadExit& r) { return Line("exit").at(r.warp).mask(r.mask).take(); }
  std::string operator()(const MemoryError& r) {
    return Line("memory_error")
        .word(name_of(r.kind))
        .field("launch", r.launch)
        .field("block", r.block)
        .field("thread", r.thread)
        .site(r.module, r.site)
        .hex("address", r.address)
        .field("bytes", r.bytes)
        .some("nearest_allocation", r.nearest_allocation)
        .field("text", r.text)
        .take();
  }
  std::string operator()(const HeapBlock& r) {
    return Line("heap_block")
        .field("launch", r.launch)
        .field("block", r.block)
        .field("thread", r.thread)
        .hex("address", r.address)
        .field("bytes", r.bytes)
        .take();
  }
  std::string operator()(const HeapFree& r) {
    return Line("heap_free")
        .field("launch", r.launch)
        .field("block", r.block)
        .field("thread", r.thread)
        .site(r.module, r.site)
        .hex("address", r.address)
        .field("bytes", r.bytes)
        .take();
  }
  std::string operator()(const SyncError& r) {
    return Line("sync_error")
        .field("launch", r.launch)
        .field("block", r.block)
        .field("thread", r.thread)
        .site(r.module, r.site)
        .field("text", r.text)
        .take();
  }
  std::string operator()(const Incident& r) {
    return Line("incident").word(r.kind).field("count", r.count).word(r.text).take();
  }
  std::string operator()(const TensorMap& r) { return Line("tensor_map").field("bytes", r.bytes.size()).take(); }
  std::string operator()(const ProgramEnd& r) {
    return Line("program_end").word("status").word(std::to_string(r.status)).flag(!r.clean, "unclean").take();
  }
};

} // namespace

std::string describe(const Record& record) { return std::visit(Describe{}, record); }

std::string describe(std::uint32_t module, const Site& site) {
  Line line("site");
  line.word(std::to_string(module) + ':' + std::to_string(site.id)).word(site.opcode).word(name_of(site.access));
  line.word(name_of(site.ordering)).word(name_of(site.scope)).field("elements", site.elements);
  line.field("of_bytes", site.element_bytes).field("ptx_line", site.ptx_line);
  if (!site.source.empty()) line.word("at").word(site.source[0].file + ':' + std::to_string(site.source[0].line));
  return line.take();
}

std::string describe(const AccessView& r) {
  Line line = Describe::lanes("access", r);
  line.word(name_of(r.space));
  for (std::uint32_t rest = r.mask; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(std::countr_zero(rest));
    std::string text = Line::hex_of(r.address[lane]);
    if (r.digest && r.digest[lane]) text += '#' + Line::hex_of(r.digest[lane]).substr(2);
    if (r.strong) {
      text += " read " + Line::hex_of(r.value_read[lane]);
      if (r.wrote >> lane & 1) text += " wrote " + Line::hex_of(r.value_written[lane]);
      text += " order " + std::to_string(r.order_first[lane]);
      if (r.order_last[lane] != r.order_first[lane]) text += ".." + std::to_string(r.order_last[lane]);
    }
    line.word(text);
  }
  return line.take();
}

Expected<void> describe_records(const std::string& path, const std::function<void(const std::string&)>& line) {
  struct Print : RecordVisitor {
    const std::function<void(const std::string&)>* line = nullptr;
    bool access(const AccessView& view) override {
      (*line)(describe(view));
      return true;
    }
    bool record(Record& r) override {
      (*line)(describe(r));
      if (const auto* module = std::get_if<Module>(&r))
        for (const Site& site : module->sites) (*line)(describe(module->id, site));
      return true;
    }
  } print;
  print.line = &line;
  Expected<TraceReader> trace = TraceReader::open(path);
  if (!trace) return trace.error();
  for (std::size_t i = 0; i < trace->logs().size(); i++) {
    Expected<LogReader> log = trace->open_log(i);
    if (!log) {
      line("warning: " + log.error().message());
      continue;
    }
    log->for_each(print);
    each_time(*log, [&](const OperationTime& time) {
      line("time operation " + std::to_string(time.operation) + " begins " + std::to_string(time.begin) + " takes " +
           std::to_string(time.end - time.begin));
    });
    for (const std::string& warning : log->warnings()) line("warning: " + warning);
  }
  return {};
}

} // namespace deadheat::trace
