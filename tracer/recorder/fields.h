// The fields of every record but accesses, in the order in which they are written: one list that encoder and decoder
// both walk. `a` is either of them: a(x, …) numbers, enums, strings, vectors, nested records; a.interned(s) a string
// that repeats within the record; a.site(n), a.mask(m), a.column(values, mask) coded against the delta state.
#pragma once

#include "deadheat/trace.h"

namespace deadheat::trace {

// Largest value of each enum: what a reader accepts.
constexpr unsigned last_value(SiteKind) { return unsigned(SiteKind::heap); }
constexpr unsigned last_value(AccessKind) { return unsigned(AccessKind::free); }
constexpr unsigned last_value(Space) { return unsigned(Space::constant); }
constexpr unsigned last_value(Ordering) { return unsigned(Ordering::nc); }
constexpr unsigned last_value(Scope) { return unsigned(Scope::sys); }
constexpr unsigned last_value(Proxy) { return unsigned(Proxy::alias); }
constexpr unsigned last_value(Module::Kind) { return unsigned(Module::Kind::cubin); }
constexpr unsigned last_value(Allocate::Kind) { return unsigned(Allocate::Kind::symbol); }
constexpr unsigned last_value(StreamCreate::Kind) { return unsigned(StreamCreate::Kind::per_thread); }
constexpr unsigned last_value(HostWait::Kind) { return unsigned(HostWait::Kind::operation); }
constexpr unsigned last_value(Copy::Direction) { return unsigned(Copy::Direction::d2d); }
constexpr unsigned last_value(Mbarrier::What) { return unsigned(Mbarrier::What::async_arrive); }
constexpr unsigned last_value(MemoryError::Kind) { return unsigned(MemoryError::Kind::api_error); }

// ---- Parts of records
template <class A> void fields(A& a, Dim3& r) { a(r.x, r.y, r.z); }
template <class A> void fields(A& a, SourceFrame& r) {
  a.interned(r.function);
  a.interned(r.file);
  a(r.line, r.column);
}
template <class A> void fields(A& a, Site& r) {
  a(r.id, r.kind, r.access, r.space, r.ordering, r.scope, r.proxy);
  a(r.shared_cluster, r.in_loop, r.aligned, r.arrive_only, r.wait_only, r.element_bytes, r.elements);
  a.interned(r.type);
  a.interned(r.opcode);
  a.interned(r.function);
  a(r.instruction, r.ptx_line, r.source);
}
template <class A> void fields(A& a, Bytes& r) { a(r.size, r.inlined, r.blob); }
template <class A> void fields(A& a, MemoryRange& r) { a(r.address, r.pitch, r.width, r.height, r.depth, r.slice); }
template <class A> void fields(A&, Marker&) {}
template <class A> void fields(A& a, Launch& r) {
  a(r.module, r.kernel, r.grid, r.block, r.cluster, r.dynamic_shared, r.static_shared);
  a(r.cooperative, r.programmatic, r.instrumented, r.arguments, r.footprint);
}
template <class A> void fields(A& a, Copy& r) {
  a(r.direction, r.destination, r.source, r.pageable_destination, r.pageable_source, r.symbol_module, r.api, r.data);
}
template <class A> void fields(A& a, Set& r) { a(r.destination, r.value, r.element_bytes, r.api); }
template <class A> void fields(A& a, HostCallback& r) { a(r.api); }
template <class A> void fields(A& a, PoolOperation& r) { a(r.free, r.allocation); }

// ---- Framed records
template <class A> void fields(A& a, Process& r) {
  a(r.pid, r.host, r.command, r.device_kind, r.seed, r.start_nanoseconds);
}
template <class A> void fields(A& a, Device& r) {
  a(r.id, r.name, r.compute_major, r.compute_minor, r.multiprocessors, r.memory_bytes);
}
template <class A> void fields(A& a, Module& r) { a(r.id, r.image, r.kind, r.origin, r.sites); }
template <class A> void fields(A& a, Symbol& r) { a(r.module, r.name, r.allocation); }
template <class A> void fields(A& a, Allocate& r) {
  a(r.allocation, r.kind, r.address, r.bytes, r.host_address, r.operation, r.host_thread, r.name);
}
template <class A> void fields(A& a, Free& r) { a(r.allocation, r.operation, r.host_thread); }
template <class A> void fields(A& a, StreamCreate& r) { a(r.stream, r.kind, r.priority, r.device, r.host_thread); }
template <class A> void fields(A& a, HostWaitBegin& r) { a(r.kind, r.id, r.host_thread); }
template <class A> void fields(A& a, StreamMaker& r) { a(r.stream, r.library); }
template <class A> void fields(A& a, StreamDestroy& r) { a(r.stream, r.host_thread); }
template <class A> void fields(A& a, EventRecord& r) { a(r.event, r.stream, r.operation, r.host_thread); }
template <class A> void fields(A& a, StreamWait& r) {
  a(r.stream, r.event, r.record_operation, r.operation, r.host_thread);
}
template <class A> void fields(A& a, HostWait& r) { a(r.kind, r.id, r.record_operation, r.query, r.host_thread); }
template <class A> void fields(A& a, Operation& r) {
  a(r.id, r.stream, r.host_thread, r.graph_launch, r.graph_node, r.node_dependencies, r.launch, r.call_site, r.what);
}
template <class A> void fields(A& a, GraphLaunch& r) { a(r.id, r.graph, r.stream, r.host_thread); }
template <class A> void fields(A& a, GraphEnd& r) { a(r.id); }
template <class A> void fields(A& a, OperationBegin& r) { a(r.operation); }
template <class A> void fields(A& a, OperationEnd& r) { a(r.operation); }
template <class A> void fields(A& a, HostRead& r) { a(r.operation, r.address, r.data); }
template <class A> void fields(A& a, HostWrite& r) { a(r.address, r.data); }
template <class A> void fields(A& a, Span& r) { a(r.address, r.bytes); }
template <class A> void fields(A& a, Window& r) { a(r.id, r.opens, r.trouble, r.touched); }
template <class A> void fields(A& a, Snapshot& r) { a(r.window, r.address, r.data); }
template <class A> void fields(A& a, Effects::Change& r) { a(r.address, r.data); }
template <class A> void fields(A& a, Effects& r) { a(r.operation, r.changes); }
template <class A> void fields(A& a, MemoryError& r) {
  a(r.kind, r.launch, r.block, r.thread, r.module, r.site, r.address, r.bytes, r.access, r.nearest_allocation, r.text);
}
template <class A> void fields(A& a, SyncError& r) { a(r.launch, r.block, r.thread, r.module, r.site, r.text); }
template <class A> void fields(A& a, HeapBlock& r) { a(r.launch, r.block, r.thread, r.address, r.bytes); }
template <class A> void fields(A& a, HeapFree& r) {
  a(r.launch, r.block, r.thread, r.module, r.site, r.address, r.bytes);
}
template <class A> void fields(A& a, Incident& r) { a(r.kind, r.count, r.text); }
template <class A> void fields(A& a, TensorMap& r) { a(r.bytes, r.described); }
template <class A> void fields(A& a, ProgramEnd& r) { a(r.status, r.clean); }

// ---- Compact records: launch, block, warp and module come from the context
template <class A, class R> void place(A& a, R& r) {
  a.site(r.site);
  a.mask(r.mask);
}
template <class A> void fields(A& a, Fence& r) {
  place(a, r);
  a(r.ordering, r.scope, r.proxy);
}
template <class A> void fields(A& a, BarrierArrive& r) {
  place(a, r);
  a(r.barrier, r.phase, r.sync);
}
template <class A> void fields(A& a, BarrierComplete& r) { a(r.barrier, r.phase); }
template <class A> void fields(A& a, BlockBarrier& r) {
  a.site(r.site);
  a(r.barrier, r.phase);
}
template <class A> void fields(A& a, WarpBarrier& r) { place(a, r); }
template <class A> void fields(A& a, WarpValue& r) { place(a, r); }
template <class A> void fields(A& a, AsyncCopy& r) {
  place(a, r);
  a(r.bytes);
  a.column(r.destination, r.mask);
  a.column(r.source, r.mask);
  a.column(r.source_bytes, r.mask);
  a.column(r.digest, r.mask);
}
template <class A>
void fields(A& a, BulkCopy& r) {
  place(a, r);
  a(r.further);
  a.column(r.destination, r.mask);
  a.column(r.source, r.mask);
  a.column(r.mbarrier, r.mask);
  a.column(r.bytes, r.mask);
  a.column(r.digest, r.mask);
}
template <class A>
void fields(A& a, AsyncCommit& r) {
  place(a, r);
}
template <class A> void fields(A& a, AsyncWait& r) {
  place(a, r);
  a(r.pending, r.all, r.read_only);
}
template <class A> void fields(A& a, Mbarrier& r) {
  place(a, r);
  a(r.what, r.block, r.ordering, r.scope, r.succeeded);
  a.column(r.address, r.mask);
  a.column(r.count, r.mask);
  a.column(r.phase, r.mask);
}
template <class A> void fields(A& a, ClusterBarrier& r) {
  place(a, r);
  a(r.phase, r.wait, r.relaxed);
}
template <class A> void fields(A& a, ThreadExit& r) { a.mask(r.mask); }

} // namespace deadheat::trace
