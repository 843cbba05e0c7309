// Corners of copies and sets, and of what the host waits for or writes meanwhile (runtime API, "API synchronization
// behavior").
#include <atomic>
#include <thread>

#include "operations.h"

CASE(races_async_copy_to_pageable_memory) { // it "might be synchronous"
  write(room.data, room.a);
  CHECK(cudaMemcpyAsync(room.pageable.data(), room.data, bytes, cudaMemcpyDeviceToHost, room.a));
  write(room.data, room.b, 8);
}
CASE(races_async_copy_to_pinned_memory) {
  int* host = pinned(room.pageable);
  CHECK(cudaMemcpyAsync(host, room.data, bytes, cudaMemcpyDeviceToHost, room.a));
  write(room.data, room.b);
}
CASE(races_async_copy_from_pageable_memory) { // staged: the host goes on before the device has it
  CHECK(cudaMemcpyAsync(room.data, room.pageable.data(), bytes, cudaMemcpyHostToDevice, room.a));
  read(room.data, room.out, room.b);
}
CASE(ordered_copy_to_the_host) {
  CHECK(cudaMemcpy(room.pageable.data(), room.data, bytes, cudaMemcpyDeviceToHost));
  write(room.data, room.b);
}
CASE(ordered_copy_from_pinned_memory) {
  int* host = pinned(room.pageable);
  CHECK(cudaMemcpy(room.data, host, bytes, cudaMemcpyHostToDevice));
  read(room.data, room.out, room.b);
}
CASE(races_copy_on_the_device) { // "no host-side synchronization is performed"
  int* other = zeros<int>(count);
  CHECK(cudaMemcpy(room.data, other, bytes, cudaMemcpyDeviceToDevice));
  read(room.data, room.out, room.b);
}
CASE(races_set) { // asynchronous with respect to the host
  CHECK(cudaMemset(room.data, 1, bytes));
  read(room.data, room.out, room.b);
}
CASE(ordered_set_before_a_blocking_stream) {
  cudaStream_t blocking = make_stream();
  CHECK(cudaMemset(room.data, 1, bytes));
  read(room.data, room.out, blocking);
}
CASE(ordered_set_of_pinned_memory) { // "except when the target is pinned host memory"
  int* host = pinned(room.pageable);
  CHECK(cudaMemset(host, 1, bytes));
  read(host, room.out, room.b);
}
CASE(races_set_of_rows) {
  CHECK(cudaMemset2DAsync(room.data, 16, 7, 4, 16, room.a));
  read(room.data, room.out, room.b);
}
CASE(ordered_set_of_other_columns) { // exact bytes: these are between the rows
  CHECK(cudaMemset2DAsync(room.data, 8, 7, 4, 32, room.a));
  CHECK(cudaMemset2DAsync(room.data + 1, 8, 7, 4, 32, room.b));
}
// The host's own writes into memory out of which a copy is under way. A kernel in front of it names the case.
void fill(int* host, int with) {
  for (int i = 0; i < count; ++i) host[i] = with;
}
CASE(ordered_refill_of_another_part) {
  int* host = pinned(std::vector<int>(2 * count, 1));
  CHECK(cudaMemcpyAsync(room.data, host, bytes, cudaMemcpyHostToDevice, room.a));
  fill(host + count, 2);
  read(room.data, room.out, room.a);
}
CASE(ordered_refill_behind_an_event) {
  int* host = pinned(room.pageable);
  CHECK(cudaMemcpyAsync(room.data, host, bytes, cudaMemcpyHostToDevice, room.a));
  CHECK(cudaEventRecord(room.event, room.a));
  while (cudaEventQuery(room.event) != cudaSuccess) std::this_thread::yield();
  fill(host, 2);
  CHECK(cudaMemcpyAsync(room.out, host, bytes, cudaMemcpyHostToDevice, room.a));
  read(room.data, room.out, room.a);
}
CASE(ordered_filled_by_a_host_function) {
  static int* host;
  host = pinned(room.pageable);
  CHECK(cudaLaunchHostFunc(room.a, [](void*) { fill(host, 2); }, nullptr));
  CHECK(cudaMemcpyAsync(room.data, host, bytes, cudaMemcpyHostToDevice, room.a));
  read(room.data, room.out, room.a);
}
CASE(ordered_filled_by_a_kernel) {
  int* host = pinned(room.pageable);
  write(host, room.a);
  CHECK(cudaMemcpyAsync(room.data, host, bytes, cudaMemcpyHostToDevice, room.a));
  CHECK(cudaMemcpyAsync(room.out, host, bytes, cudaMemcpyHostToDevice, room.a));
  read(room.data, room.out, room.a);
}
__global__ void await_host(const volatile int* flag) {
  while (*flag != 1) {
  }
}
CASE(ordered_filled_while_a_kernel_waits) { // it holds the copy back until the host has written
  int* host = pinned(room.pageable);
  int* flag = pinned(std::vector<int>(1, 0));
  await_host<<<1, 1, 0, room.a>>>(flag);
  CHECK(cudaMemcpyAsync(room.data, host, bytes, cudaMemcpyHostToDevice, room.a));
  fill(host, 2);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  *static_cast<volatile int*>(flag) = 1;
  read(room.data, room.out, room.a);
}
// What another host thread launches while a call waits is in no order with what the call waits for, or makes. A host
// function holds the call up.
struct HeldUp {
  std::atomic<bool> begun{false}, over{false};
  // `call` waits for `stream`; `beside` happens meanwhile.
  template <class Call, class Beside>
  HeldUp(cudaStream_t stream, Call&& call, Beside&& beside) {
    std::thread other([&] {
      const auto hold = [](void* of) {
        auto* held = static_cast<HeldUp*>(of);
        held->begun = true;
        while (!held->over) std::this_thread::yield();
      };
      CHECK(cudaLaunchHostFunc(stream, hold, this));
      call();
    });
    while (!begun) std::this_thread::yield();
    beside();
    over = true;
    other.join();
  }
};
CASE(races_launch_while_a_copy_waits) {
  HeldUp(cudaStreamLegacy,
         [&] { CHECK(cudaMemcpy(room.pageable.data(), room.data, bytes, cudaMemcpyDeviceToHost)); },
         [&] {
           write(room.data, room.b);
           CHECK(cudaStreamSynchronize(room.b));
         });
}
CASE(races_launch_while_a_copy_of_rows_waits) {
  int* host = pinned(room.pageable);
  HeldUp(cudaStreamLegacy, [&] { CHECK(cudaMemcpy2D(room.data, 16, host, 16, 8, 4, cudaMemcpyHostToDevice)); },
         [&] {
           write(room.data, room.b);
           CHECK(cudaStreamSynchronize(room.b));
         });
}
CASE(races_launch_while_a_wait_is_under_way) { // of the stream: for what there was when it began
  HeldUp(room.a, [&] { CHECK(cudaStreamSynchronize(room.a)); }, [&] { write(room.data, room.a); });
  read(room.data, room.out, room.b);
}
CASE(ordered_launch_before_a_copy_that_waits) {
  std::thread([&] {
    write(room.data, room.b);
    CHECK(cudaStreamSynchronize(room.b));
  }).join();
  CHECK(cudaMemcpy(room.pageable.data(), room.data, bytes, cudaMemcpyDeviceToHost));
}
CASE(races_behind_a_copy_of_little_pageable_memory) { // up to 64 KB it is asynchronous with respect to the host
  write(room.data, cudaStreamLegacy);
  CHECK(cudaMemcpy(room.out, room.pageable.data(), bytes, cudaMemcpyHostToDevice));
  write(room.data, room.b);
}
CASE(ordered_behind_a_copy_of_much_pageable_memory) { // "a stream sync is performed before the copy is initiated"
  const std::vector<int> much(1 << 15, 1);
  int* to = zeros<int>(much.size());
  write(room.data, cudaStreamLegacy);
  CHECK(cudaMemcpy(to, much.data(), much.size() * sizeof(int), cudaMemcpyHostToDevice));
  write(room.data, room.b);
}

// Where a batch's copy may read its source (cudaMemcpySrcAccessOrder).
void batch(void* to, const void* from, cudaMemcpySrcAccessOrder order, cudaStream_t stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = order;
  std::size_t size = bytes, first = 0;
  CHECK(cudaMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, stream));
}
CASE(ordered_batch_that_reads_in_stream_order) {
  write(room.data, room.a);
  batch(room.out, room.data, cudaMemcpySrcAccessOrderStream, room.a);
}
CASE(races_batch_that_reads_during_the_call) {
  write(room.data, room.a);
  batch(room.out, room.data, cudaMemcpySrcAccessOrderDuringApiCall, room.a);
}
CASE(races_batch_that_reads_at_any_time) {
  write(room.data, room.a);
  batch(room.out, room.data, cudaMemcpySrcAccessOrderAny, room.a);
}
CASE(races_batch_that_reads_page_locked_memory_during_the_call) {
  int* host = pinned(room.pageable);
  write(host, room.a);
  batch(room.out, host, cudaMemcpySrcAccessOrderDuringApiCall, room.a);
}
CASE(races_volumes_that_read_at_any_time) {
  cudaMemcpy3DBatchOp op{};
  op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
  op.src.op.ptr.ptr = room.data;
  op.dst.op.ptr.ptr = room.out;
  op.extent = {bytes, 1, 1};
  op.srcAccessOrder = cudaMemcpySrcAccessOrderAny;
  write(room.data, room.a);
  CHECK(cudaMemcpy3DBatchAsync(1, &op, 0, room.a));
}
CASE(ordered_batch_that_reads_what_the_host_waited_for) {
  write(room.data, room.a);
  CHECK(cudaStreamSynchronize(room.a));
  batch(room.out, room.data, cudaMemcpySrcAccessOrderAny, room.a);
}
CASE(ordered_source_behind_a_call_that_read_it) {
  batch(room.out, room.data, cudaMemcpySrcAccessOrderDuringApiCall, room.a);
  write(room.data, room.b);
}
CASE(races_source_behind_a_call_that_may_read_it_later) {
  batch(room.out, room.data, cudaMemcpySrcAccessOrderAny, room.a);
  write(room.data, room.b);
}
CASE(ordered_source_behind_the_batch_in_its_stream) {
  batch(room.out, room.data, cudaMemcpySrcAccessOrderAny, room.a);
  write(room.data, room.a);
  write(room.out, room.a);
}
CASE(races_destination_of_a_batch) { // which is always written in the stream's order
  batch(room.out, room.data, cudaMemcpySrcAccessOrderDuringApiCall, room.a);
  write(room.out, room.b);
}
CASE(ordered_destination_of_a_batch) {
  write(room.out, room.a);
  batch(room.out, room.data, cudaMemcpySrcAccessOrderAny, room.a);
}
CASE(races_copy_of_registered_memory) {
  std::vector<int> host(1024, 1);
  CHECK(cudaHostRegister(host.data(), 4096, cudaHostRegisterMapped));
  write(host.data(), room.a);
  CHECK(cudaMemcpyAsync(room.data, host.data(), bytes, cudaMemcpyHostToDevice, room.b));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaHostUnregister(host.data()));
}

int main() { return run_cases(); }
