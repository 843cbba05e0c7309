// Corners of what orders operations of streams (CUDA programming guide, asynchronous concurrent execution; runtime API,
// "Stream synchronization behavior"): queries, events, default streams, graphs and stream-ordered memory.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "operations.h"

// ---- queries

CASE(ordered_stream_query) {
  write(room.data, room.a);
  while (cudaStreamQuery(room.a) != cudaSuccess) {
  }
  read(room.data, room.out, room.b);
}
CASE(races_query_of_another_stream) {
  write(room.data, room.a);
  while (cudaStreamQuery(room.b) != cudaSuccess) {
  }
  read(room.data, room.out, room.b);
}
CASE(ordered_event_synchronize_by_another_host_thread) {
  write(room.data, room.a);
  CHECK(cudaEventRecord(room.event, room.a));
  std::thread([&] { CHECK(cudaEventSynchronize(room.event)); }).join();
  read(room.data, room.out, room.b);
}
CASE(ordered_host_function_and_wait) {
  static std::atomic<int> done;
  write(room.data, room.a);
  CHECK(cudaLaunchHostFunc(room.a, [](void* to) { static_cast<std::atomic<int>*>(to)->store(1); }, &done));
  CHECK(cudaStreamSynchronize(room.a));
  read(room.data, room.out, room.b);
}

CASE(ordered_flag_of_a_host_function) { // what comes before it in its stream is complete when it runs
  static std::atomic<int> done;
  write(room.data, room.a);
  CHECK(cudaLaunchHostFunc(room.a, [](void* to) { static_cast<std::atomic<int>*>(to)->store(1); }, &done));
  while (!done) std::this_thread::yield();
  read(room.data, room.out, room.b);
}
CASE(races_flag_of_a_host_function_elsewhere) {
  static std::atomic<int> done;
  write(room.data, room.a);
  CHECK(cudaLaunchHostFunc(room.b, [](void* to) { static_cast<std::atomic<int>*>(to)->store(1); }, &done));
  while (!done) std::this_thread::yield();
  read(room.data, room.out, room.b);
}
CASE(ordered_flag_of_a_host_function_between_queries) { // which say of another stream that it is idle
  static std::atomic<int> done;
  write(room.data, room.a);
  CHECK(cudaLaunchHostFunc(room.a, [](void* to) { static_cast<std::atomic<int>*>(to)->store(1); }, &done));
  while (!done) CHECK(cudaStreamQuery(room.b));
  read(room.data, room.out, room.b);
}
CASE(ordered_condition_of_a_callback) {
  static std::mutex guard;
  static std::condition_variable changed;
  static bool done = false;
  write(room.data, room.a);
  auto tell = [](cudaStream_t, cudaError_t, void*) {
    const std::lock_guard<std::mutex> hold(guard);
    done = true;
    changed.notify_one();
  };
  CHECK(cudaStreamAddCallback(room.a, tell, nullptr, 0));
  std::unique_lock<std::mutex> hold(guard);
  changed.wait(hold, [] { return done; });
  read(room.data, room.out, room.b);
}
CASE(ordered_behind_a_host_function_that_is_told) { // it ends when the host has waited for the other stream
  static std::mutex guard;
  static std::condition_variable changed;
  static bool told = false;
  auto wait = [](void*) {
    std::unique_lock<std::mutex> hold(guard);
    changed.wait(hold, [] { return told; });
  };
  CHECK(cudaLaunchHostFunc(room.b, wait, nullptr));
  read(room.data, room.out, room.b);
  write(room.data, room.a);
  CHECK(cudaStreamSynchronize(room.a));
  const std::lock_guard<std::mutex> hold(guard);
  told = true;
  changed.notify_one();
}
CASE(races_behind_a_host_function_that_is_told_nothing) {
  CHECK(cudaLaunchHostFunc(room.b, [](void*) {}, nullptr));
  read(room.data, room.out, room.b);
  write(room.data, room.a);
  CHECK(cudaStreamSynchronize(room.a));
}
CASE(ordered_flag_in_mapped_memory) { // the launch that sets it comes after the one that writes
  int* flag;
  CHECK(cudaHostAlloc(&flag, bytes, cudaHostAllocMapped));
  *flag = 0;
  write(room.data, room.a);
  write(flag, room.a, 5);
  while (*static_cast<volatile int*>(flag) != 5) std::this_thread::yield();
  read(room.data, room.out, room.b);
}

// ---- events

CASE(races_event_never_recorded) { // neither call waits, and both succeed
  write(room.data, room.a);
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  CHECK(cudaEventSynchronize(room.event));
  read(room.data, room.out, room.b);
}
CASE(ordered_record_again) { // the latest record counts
  CHECK(cudaEventRecord(room.event, room.a));
  write(room.data, room.a);
  CHECK(cudaEventRecord(room.event, room.a));
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  read(room.data, room.out, room.b);
}
CASE(races_record_again_elsewhere) {
  cudaStream_t other = make_stream(cudaStreamNonBlocking);
  write(room.data, room.a);
  CHECK(cudaEventRecord(room.event, room.a));
  CHECK(cudaEventRecord(room.event, other));
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  read(room.data, room.out, room.b);
}
CASE(ordered_record_again_after_the_wait) { // the wait is for the record at that time
  cudaStream_t other = make_stream(cudaStreamNonBlocking);
  write(room.data, room.a);
  CHECK(cudaEventRecord(room.event, room.a));
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  CHECK(cudaEventRecord(room.event, other));
  read(room.data, room.out, room.b);
}
CASE(ordered_wait_by_the_default_stream) {
  write(room.data, room.a);
  CHECK(cudaEventRecord(room.event, room.a));
  CHECK(cudaStreamWaitEvent(cudaStreamLegacy, room.event));
  read(room.data, room.out, cudaStreamLegacy);
}

// An event that a launch records when its blocks have begun tells nothing of what they write.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), cudaStream_t stream, cudaLaunchAttribute attribute, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = count;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}
CASE(races_event_of_begun_blocks) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeLaunchCompletionEvent;
  attribute.val.launchCompletionEvent.event = room.event;
  launch(set, room.a, attribute, room.data, 7);
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  read(room.data, room.out, room.b);
}
CASE(ordered_before_blocks_that_have_begun) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeLaunchCompletionEvent;
  attribute.val.launchCompletionEvent.event = room.event;
  write(room.data, room.a);
  launch(set, room.a, attribute, zeros<int>(count), 7);
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  read(room.data, room.out, room.b);
}

// ---- default streams

CASE(ordered_by_work_in_the_default_stream) {
  cudaStream_t one = make_stream(), other = make_stream();
  write(room.data, one);
  write(room.out, cudaStreamLegacy);
  read(room.data, room.out, other);
}
CASE(ordered_by_a_wait_in_the_default_stream) { // an action there, too, waits for all blocking streams
  cudaStream_t one = make_stream(), other = make_stream();
  CHECK(cudaEventRecord(room.event, room.a));
  write(room.data, one);
  CHECK(cudaStreamWaitEvent(cudaStreamLegacy, room.event));
  read(room.data, room.out, other);
}
CASE(races_wait_in_a_stream_that_is_not_the_default) {
  cudaStream_t one = make_stream(), other = make_stream();
  CHECK(cudaEventRecord(room.event, room.a));
  write(room.data, one);
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  read(room.data, room.out, other);
}
CASE(ordered_by_an_event_of_the_default_stream) {
  cudaStream_t one = make_stream();
  write(room.data, one);
  CHECK(cudaEventRecord(room.event, cudaStreamLegacy));
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  read(room.data, room.out, room.b);
}
CASE(races_blocking_streams) {
  cudaStream_t one = make_stream(), other = make_stream();
  write(room.data, one);
  read(room.data, room.out, other);
}
CASE(ordered_event_waited_for_in_two_streams) { // and destroyed once the waits are made
  cudaStream_t other = make_stream(cudaStreamNonBlocking);
  int* more = zeros<int>(count);
  cudaEvent_t event = make_event();
  write(room.data, room.a);
  CHECK(cudaEventRecord(event, room.a));
  CHECK(cudaStreamWaitEvent(room.b, event));
  CHECK(cudaStreamWaitEvent(other, event));
  CHECK(cudaEventDestroy(event));
  read(room.data, room.out, room.b);
  read(room.data, more, other);
}
CASE(ordered_elapsed_time) { // which is told of events that are complete only
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin, room.a));
  write(room.data, room.a);
  CHECK(cudaEventRecord(end, room.a));
  float milliseconds = 0;
  while (cudaEventElapsedTime(&milliseconds, begin, end) != cudaSuccess) std::this_thread::yield();
  read(room.data, room.out, room.b);
}
CASE(ordered_legacy_before_per_thread) {
  write(room.data, cudaStreamLegacy);
  read(room.data, room.out, cudaStreamPerThread);
}
CASE(ordered_per_thread_before_legacy) {
  write(room.data, cudaStreamPerThread);
  read(room.data, room.out, cudaStreamLegacy);
}
CASE(races_per_thread_streams_of_two_threads) {
  write(room.data, cudaStreamPerThread);
  std::thread([&] { read(room.data, room.out, cudaStreamPerThread); }).join();
}
CASE(ordered_before_destroying_the_stream) {
  cudaStream_t other = make_stream(cudaStreamNonBlocking);
  write(room.data, other);
  CHECK(cudaStreamSynchronize(other));
  CHECK(cudaStreamDestroy(other));
  read(room.data, room.out, room.b);
}
CASE(races_though_the_stream_is_destroyed) { // returns at once; the work goes on
  cudaStream_t other = make_stream(cudaStreamNonBlocking);
  write(room.data, other);
  CHECK(cudaStreamDestroy(other));
  read(room.data, room.out, room.b);
}

// ---- graphs

cudaGraphExec_t instance(cudaGraph_t graph) {
  cudaGraphExec_t made;
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  return made;
}
template <class Work>
cudaGraph_t captured(cudaStream_t stream, Work&& work) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  work();
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}
CASE(ordered_launches_of_one_graph) { // behind its earlier launches, in whatever stream
  cudaGraphExec_t graph = instance(captured(room.a, [&] { write(room.data, room.a); }));
  CHECK(cudaGraphLaunch(graph, room.a));
  CHECK(cudaGraphLaunch(graph, room.b));
}
CASE(races_instances_of_one_graph) {
  cudaGraph_t graph = captured(room.a, [&] { write(room.data, room.a); });
  CHECK(cudaGraphLaunch(instance(graph), room.a));
  CHECK(cudaGraphLaunch(instance(graph), room.b));
}

// The launch of a graph returns at once, whatever copies are in it.
CASE(races_copy_to_pageable_memory_in_a_graph) {
  CHECK(cudaGraphLaunch(instance(captured(room.a, [&] {
    CHECK(cudaMemcpyAsync(room.pageable.data(), room.data, bytes, cudaMemcpyDeviceToHost, room.a));
  })), room.a));
  write(room.data, room.b);
  CHECK(cudaDeviceSynchronize());
}
CASE(races_copy_node_to_the_host) {
  cudaGraph_t graph;
  cudaGraphNode_t node;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, pinned(room.pageable), room.data, bytes,
                                 cudaMemcpyDeviceToHost));
  CHECK(cudaGraphLaunch(instance(graph), room.a));
  write(room.data, room.b);
}
CASE(races_copy_node_from_the_host) {
  cudaGraph_t graph;
  cudaGraphNode_t node;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, room.data, pinned(room.pageable), bytes,
                                 cudaMemcpyHostToDevice));
  CHECK(cudaGraphLaunch(instance(graph), room.a));
  read(room.data, room.out, room.b);
}
CASE(ordered_graph_waits_for_an_event) { // for the record there is when the graph is launched
  cudaGraphExec_t graph = instance(captured(room.a, [&] {
    CHECK(cudaStreamWaitEvent(room.a, room.event, cudaEventWaitExternal));
    read(room.data, room.out, room.a);
  }));
  write(room.data, room.b);
  CHECK(cudaEventRecord(room.event, room.b));
  CHECK(cudaGraphLaunch(graph, room.a));
}
CASE(races_graph_waits_for_an_event_too_early) {
  cudaGraphExec_t graph = instance(captured(room.a, [&] {
    CHECK(cudaStreamWaitEvent(room.a, room.event, cudaEventWaitExternal));
    read(room.data, room.out, room.a);
  }));
  CHECK(cudaGraphLaunch(graph, room.a));
  write(room.data, room.b);
  CHECK(cudaEventRecord(room.event, room.b));
}
CASE(races_other_stream_of_a_graph_launched_twice) { // the launch in the second stream is behind the first, not before it
  cudaGraphExec_t graph = instance(captured(room.a, [&] { write(room.data, room.a); }));
  CHECK(cudaGraphLaunch(graph, room.a));
  CHECK(cudaGraphLaunch(graph, room.b));
  read(room.data, room.out, room.a);
}
CASE(ordered_fork_and_join_of_a_capture) {
  cudaGraphExec_t graph = instance(captured(room.a, [&] {
    CHECK(cudaEventRecord(room.event, room.a));
    CHECK(cudaStreamWaitEvent(room.b, room.event));
    write(room.data, room.b);
    CHECK(cudaEventRecord(room.event, room.b));
    CHECK(cudaStreamWaitEvent(room.a, room.event));
    read(room.data, room.out, room.a);
  }));
  CHECK(cudaGraphLaunch(graph, room.a));
}
CASE(races_branches_of_a_capture) {
  cudaGraphExec_t graph = instance(captured(room.a, [&] {
    CHECK(cudaEventRecord(room.event, room.a));
    CHECK(cudaStreamWaitEvent(room.b, room.event));
    write(room.data, room.b);
    CHECK(cudaEventRecord(room.event, room.b));
    read(room.data, room.out, room.a);
    CHECK(cudaStreamWaitEvent(room.a, room.event));
  }));
  CHECK(cudaGraphLaunch(graph, room.a));
}
CASE(ordered_graph_in_the_default_stream) {
  cudaStream_t blocking = make_stream();
  cudaGraphExec_t graph = instance(captured(room.a, [&] { read(room.data, room.out, room.a); }));
  write(room.data, blocking);
  CHECK(cudaGraphLaunch(graph, cudaStreamLegacy));
  write(room.data, blocking);
}
CASE(races_graph_in_the_default_stream) {
  cudaGraphExec_t graph = instance(captured(room.a, [&] { read(room.data, room.out, room.a); }));
  write(room.data, room.b);
  CHECK(cudaGraphLaunch(graph, cudaStreamLegacy));
}
CASE(ordered_event_recorded_by_a_graph) {
  cudaGraphExec_t graph = instance(captured(room.a, [&] {
    write(room.data, room.a);
    CHECK(cudaEventRecordWithFlags(room.event, room.a, cudaEventRecordExternal));
  }));
  CHECK(cudaGraphLaunch(graph, room.a));
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  read(room.data, room.out, room.b);
}
CASE(races_event_recorded_by_a_graph_too_early) {
  cudaGraphExec_t graph = instance(captured(room.a, [&] {
    CHECK(cudaEventRecordWithFlags(room.event, room.a, cudaEventRecordExternal));
    write(room.data, room.a);
  }));
  CHECK(cudaGraphLaunch(graph, room.a));
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  read(room.data, room.out, room.b);
}
CASE(ordered_graph_updated_while_it_runs) { // its launches stay behind each other
  cudaGraphExec_t graph = instance(captured(room.a, [&] { write(room.data, room.a); }));
  cudaGraph_t other = captured(room.a, [&] { write(room.data, room.a, 9); });
  CHECK(cudaGraphLaunch(graph, room.a));
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(graph, other, &info));
  CHECK(cudaGraphLaunch(graph, room.b));
}

CASE(ordered_flag_of_a_host_function_of_a_graph) { // what comes before it in its graph is complete when it runs
  static std::atomic<int> done;
  cudaGraphExec_t graph = instance(captured(room.a, [&] {
    write(room.data, room.a);
    CHECK(cudaLaunchHostFunc(room.a, [](void* to) { static_cast<std::atomic<int>*>(to)->store(1); }, &done));
  }));
  CHECK(cudaGraphLaunch(graph, room.a));
  while (!done) std::this_thread::yield();
  read(room.data, room.out, room.b);
}
CASE(races_flag_of_a_host_function_of_another_graph) {
  static std::atomic<int> done;
  cudaGraphExec_t graph = instance(captured(room.b, [&] {
    CHECK(cudaLaunchHostFunc(room.b, [](void* to) { static_cast<std::atomic<int>*>(to)->store(1); }, &done));
  }));
  write(room.data, room.a);
  CHECK(cudaGraphLaunch(graph, room.b));
  while (!done) std::this_thread::yield();
  read(room.data, room.out, room.b);
}

// ---- stream-ordered memory

CASE(ordered_memory_handed_on) { // the pool waits where another stream gets what was freed
  int *first, *second;
  CHECK(cudaMallocAsync(&first, bytes, room.a));
  write(first, room.a);
  CHECK(cudaFreeAsync(first, room.a));
  CHECK(cudaMallocAsync(&second, bytes, room.b));
  write(second, room.b);
  CHECK(cudaFreeAsync(second, room.b));
}
CASE(races_across_a_free_at_once) { // which waits for nobody, where the memory is a pool's
  int* memory;
  CHECK(cudaMallocAsync(&memory, bytes, room.a));
  CHECK(cudaStreamSynchronize(room.a));
  write(room.data, room.a);
  CHECK(cudaFree(memory));
  write(room.data, room.b);
}
CASE(races_freed_at_once_while_it_is_written) {
  int* memory;
  CHECK(cudaMallocAsync(&memory, bytes, room.a));
  write(memory, room.a);
  CHECK(cudaFree(memory));
}
CASE(ordered_freed_at_once_behind_a_wait) {
  int* memory;
  CHECK(cudaMallocAsync(&memory, bytes, room.a));
  write(memory, room.a);
  CHECK(cudaStreamSynchronize(room.a));
  CHECK(cudaFree(memory));
  CHECK(cudaMallocAsync(&memory, bytes, room.b));
  write(memory, room.b);
  CHECK(cudaStreamSynchronize(room.b));
  CHECK(cudaFree(memory));
}
CASE(races_freed_while_another_stream_writes) {
  int* memory;
  CHECK(cudaMallocAsync(&memory, bytes, room.a));
  CHECK(cudaEventRecord(room.event, room.a));
  CHECK(cudaStreamWaitEvent(room.b, room.event));
  write(memory, room.b);
  CHECK(cudaFreeAsync(memory, room.a));
}

int main() { return run_cases(); }
