#include "tracer/cupti/quiet_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tracer/cupti/libraries.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

namespace {

constexpr auto patience = std::chrono::seconds(10);
constexpr std::uint64_t page = 4096, half = std::uint64_t(8) << 20;  // of the staging memory
constexpr std::uint64_t small = std::uint64_t(64) << 10;             // is compared on the host
constexpr std::uint64_t gap = 64;  // runs of changed bytes that lie closer are one

// Compares two pieces of memory page by page, a block a page; 256 threads look at 16 bytes each.
constexpr const char* kernel_text = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry deadheat_changed_pages(.param .u64 now, .param .u64 before, .param .u64 found)
{
  .reg .pred %p<4>;
  .reg .b32 %r<20>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [now];
  ld.param.u64 %rd2, [before];
  ld.param.u64 %rd3, [found];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd4, %r1, 4096;
  mul.wide.u32 %rd5, %r2, 16;
  add.u64 %rd4, %rd4, %rd5;
  add.u64 %rd1, %rd1, %rd4;
  add.u64 %rd2, %rd2, %rd4;
  ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd1];
  ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%rd2];
  xor.b32 %r3, %r3, %r7;
  xor.b32 %r4, %r4, %r8;
  xor.b32 %r5, %r5, %r9;
  xor.b32 %r6, %r6, %r10;
  or.b32 %r3, %r3, %r4;
  or.b32 %r5, %r5, %r6;
  or.b32 %r3, %r3, %r5;
  setp.ne.u32 %p1, %r3, 0;
  barrier.red.or.pred %p2, 0, %p1;
  setp.eq.and.u32 %p3, %r2, 0, %p2;
  @!%p3 bra done;
  atom.global.add.u32 %r11, [%rd3], 1;
  mul.wide.u32 %rd6, %r11, 4;
  add.u64 %rd6, %rd6, %rd3;
  st.global.u32 [%rd6+4], %r1;
done:
  ret;
}
)";

bool good(CUresult result) { return result == CUDA_SUCCESS; }

// Device memory of our own: at most half of what is free, since the program may want more yet.
CUdeviceptr allocate(std::uint64_t bytes) {
  std::size_t free = 0, total = 0;
  if (driver().cuMemGetInfo_v2 && good(driver().cuMemGetInfo_v2(&free, &total)) && bytes > free / 2) return 0;
  CUdeviceptr at = 0;
  return good(driver().cuMemAlloc_v2(&at, bytes)) ? at : 0;
}

// Waits until the stream has nothing to do, or `until`.
bool wait(CUstream stream, std::chrono::steady_clock::time_point until) {
  for (unsigned look = 0;; ++look) {
    const CUresult result = driver().cuStreamQuery(stream);
    // Of a handle that is gone nothing has to be waited for; a failed device never rests.
    if (result != CUDA_ERROR_NOT_READY) return good(result) || result < CUDA_ERROR_ILLEGAL_ADDRESS;
    if (std::chrono::steady_clock::now() > until) return false;
    if (look > 100) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

// Makes the context current for as long as it lives.
class QuietDevice::Current {
 public:
  explicit Current(CUcontext context) {
    driver().cuCtxGetCurrent(&before_);
    changed_ = before_ != context;
    if (changed_) set_ = good(driver().cuCtxSetCurrent(context));
  }
  ~Current() {
    if (changed_) driver().cuCtxSetCurrent(before_);
  }
  bool set() const { return set_; }

 private:
  CUcontext before_ = nullptr;
  bool changed_ = false, set_ = true;
};

bool QuietDevice::use(CUcontext context) {
  if (!context_) context_ = context;
  return context_ != nullptr;
}

bool QuietDevice::prepare() {
  if (tried_) return stream_ != nullptr;
  tried_ = true;
  const Driver& d = driver();
  void* staging = nullptr;
  CUmodule module = nullptr;
  d.cuCtxGetDevice(&ordinal_);
  if (!d.cuStreamQuery || !d.cuMemcpyDtoDAsync_v2 ||
      !good(d.cuMemHostAlloc(&staging, 2 * half, CU_MEMHOSTALLOC_PORTABLE)) ||
      !good(d.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0))) {
    stream_ = nullptr;
    return false;
  }
  staging_ = static_cast<std::uint8_t*>(staging);
  // Without it everything is compared on the host.
  if (d.cuModuleLoadData && d.cuLaunchKernel && d.cuMemsetD32Async && good(d.cuModuleLoadData(&module, kernel_text))) {
    if (!good(d.cuModuleGetFunction(&changed_pages_, module, "deadheat_changed_pages"))) changed_pages_ = nullptr;
  }
  return true;
}

bool QuietDevice::rest() {
  if (!context_) return true;  // nothing has run
  if (session_.captures().load() > 0) return false;  // asking would end the capture
  Current current(context_);
  if (!current.set() || !prepare()) return false;
  const auto until = std::chrono::steady_clock::now() + patience;
  for (CUstream stream : session_.known_streams()) {
    if (!wait(stream, until)) return false;
  }
  return wait(CU_STREAM_PER_THREAD, until) && wait(CU_STREAM_LEGACY, until);
}

bool QuietDevice::rest(CUstream stream) { return wait(stream, std::chrono::steady_clock::now() + patience); }

bool QuietDevice::keep(const Memory& memory, Kept& kept) {
  kept.of = memory;
  if (memory.on_host) {
    kept.host.assign(reinterpret_cast<const std::uint8_t*>(memory.address),
                     reinterpret_cast<const std::uint8_t*>(memory.address) + memory.bytes);
    return true;
  }
  Current current(context_);
  if (!current.set() || !prepare()) return false;
  if ((kept.device = allocate(memory.bytes))) {
    return good(driver().cuMemcpyDtoDAsync_v2(kept.device, memory.address, memory.bytes, stream_)) &&
           good(driver().cuStreamSynchronize(stream_));
  }
  kept.host.resize(memory.bytes);
  return good(driver().cuMemcpyDtoHAsync_v2(kept.host.data(), memory.address, memory.bytes, stream_)) &&
         good(driver().cuStreamSynchronize(stream_));
}

bool QuietDevice::read(const Kept& kept, std::uint64_t offset, std::uint64_t bytes, std::uint8_t* to) {
  if (!kept.device) {
    std::memcpy(to, kept.host.data() + offset, bytes);
    return true;
  }
  Current current(context_);
  return current.set() && good(driver().cuMemcpyDtoHAsync_v2(to, kept.device + offset, bytes, stream_)) &&
         good(driver().cuStreamSynchronize(stream_));
}

void QuietDevice::drop(Kept& kept) {
  Current current(context_);
  if (kept.device && current.set()) driver().cuMemFree_v2(kept.device);
  kept = {};
}

bool QuietDevice::is_of(CUcontext context) const {
  if (!stream_ || !context) return false;  // nothing lies there
  CUdevice device = 0;
  const Current current(context);
  return current.set() && good(driver().cuCtxGetDevice(&device)) && device == ordinal_;
}

std::uint64_t QuietDevice::spare() const { return before_.empty() ? scratch_bytes_ + found_bytes_ : 0; }

std::vector<CUdeviceptr> QuietDevice::give_back() {
  std::vector<CUdeviceptr> free;
  if (!before_.empty()) return free;
  for (CUdeviceptr* memory : {&scratch_, &found_}) {
    if (*memory) free.push_back(std::exchange(*memory, 0));
  }
  scratch_bytes_ = found_bytes_ = 0;
  return free;
}

CUdeviceptr QuietDevice::move_to_host(Kept& kept) {
  if (!kept.device) return 0;
  std::vector<std::uint8_t> bytes(kept.of.bytes);
  if (!read(kept, 0, bytes.size(), bytes.data())) return 0;
  kept.host = std::move(bytes);
  return std::exchange(kept.device, 0);
}

// ---- what changes

bool QuietDevice::room(std::uint64_t bytes) {
  if (bytes <= scratch_bytes_) return true;
  if (scratch_) driver().cuMemFree_v2(scratch_);
  scratch_ = allocate(bytes);
  scratch_bytes_ = scratch_ ? bytes : 0;
  return scratch_ != 0;
}

bool QuietDevice::same_device(std::uint64_t address) const {
  int ordinal = -1;
  return good(driver().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)) &&
         ordinal == int(ordinal_);
}

bool QuietDevice::remember(const std::vector<Memory>& memory) {
  Current current(context_);
  if (!current.set() || !prepare()) return false;
  before_.clear();
  std::uint64_t total = 0;
  for (const Memory& m : memory) {
    Before before;
    before.memory = m;
    if (m.on_host) {
      const auto* at = reinterpret_cast<const std::uint8_t*>(m.address);
      before.host.assign(at, at + m.bytes);
    } else {
      before.at = total + m.address % 16;  // so that both are aligned alike
      total += (m.bytes + 47) / 16 * 16;
    }
    before_.push_back(std::move(before));
  }
  if (!room(std::max<std::uint64_t>(total, 1))) return false;
  for (const Before& b : before_) {
    if (b.memory.on_host) continue;
    if (!good(driver().cuMemcpyDtoDAsync_v2(scratch_ + b.at, b.memory.address, b.memory.bytes, stream_))) return false;
  }
  return good(driver().cuStreamSynchronize(stream_));
}

namespace {

// Reports what differs between `before` and `now`, words of 4 bytes at a time.
bool report(std::uint64_t address, const std::uint8_t* before, const std::uint8_t* now, std::uint64_t bytes,
            const QuietDevice::Changed& changed) {
  std::uint64_t begin = bytes, end = 0;  // of the run that is being collected
  auto flush = [&] {
    const bool fine = begin >= end || changed(address + begin, now + begin, end - begin);
    begin = bytes;
    end = 0;
    return fine;
  };
  for (std::uint64_t block = 0; block < bytes; block += page) {
    const std::uint64_t stop = std::min(block + page, bytes);
    if (std::memcmp(before + block, now + block, stop - block) == 0) continue;
    for (std::uint64_t at = block; at < stop; at += 4) {
      const std::uint64_t size = std::min<std::uint64_t>(4, stop - at);
      if (std::memcmp(before + at, now + at, size) == 0) continue;
      if (begin < end && at - end >= gap && !flush()) return false;
      begin = std::min(begin, at);
      end = at + size;
    }
  }
  return flush();
}

}  // namespace

bool QuietDevice::compare(std::uint64_t live, std::uint64_t before, std::uint64_t bytes, const Changed& changed) {
  for (std::uint64_t at = 0; at < bytes;) {
    const std::uint64_t size = std::min(half, bytes - at);
    if (!good(driver().cuMemcpyDtoHAsync_v2(staging_, before + at, size, stream_)) ||
        !good(driver().cuMemcpyDtoHAsync_v2(staging_ + half, live + at, size, stream_)) ||
        !good(driver().cuStreamSynchronize(stream_)) || !report(live + at, staging_, staging_ + half, size, changed)) {
      return false;
    }
    at += size;
  }
  return true;
}

// Whole pages, from an address that is a multiple of 16.
bool QuietDevice::compare_pages(std::uint64_t live, std::uint64_t before, std::uint64_t pages, const Changed& changed) {
  const Driver& d = driver();
  const std::uint64_t needed = 4 * (pages + 1);
  if (needed > found_bytes_) {
    if (found_) d.cuMemFree_v2(found_);
    found_ = allocate(needed);
    found_bytes_ = found_ ? needed : 0;
    if (!found_) return false;
  }
  void* parameters[] = {&live, &before, &found_};
  std::uint32_t count = 0;
  if (!good(d.cuMemsetD32Async(found_, 0, 1, stream_)) ||
      !good(d.cuLaunchKernel(changed_pages_, unsigned(pages), 1, 1, unsigned(page / 16), 1, 1, 0, stream_, parameters,
                             nullptr)) ||
      !good(d.cuMemcpyDtoHAsync_v2(&count, found_, sizeof count, stream_)) || !good(d.cuStreamSynchronize(stream_)) ||
      count > pages) {
    return false;
  }
  std::vector<std::uint32_t> numbers(count);
  if (count && (!good(d.cuMemcpyDtoHAsync_v2(numbers.data(), found_ + 4, 4 * std::uint64_t(count), stream_)) ||
                !good(d.cuStreamSynchronize(stream_)))) {
    return false;
  }
  std::sort(numbers.begin(), numbers.end());
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    const std::uint64_t at = numbers[i] * page;
    if (!compare(live + at, before + at, (end - i) * page, changed)) return false;
    i = end;
  }
  return true;
}

bool QuietDevice::changes(const Changed& changed) {
  Current current(context_);
  bool fine = current.set();
  for (const Before& b : before_) {
    if (!fine) break;
    const Memory& m = b.memory;
    const std::uint64_t was = scratch_ + b.at;
    if (m.on_host) {
      fine = report(m.address, b.host.data(), reinterpret_cast<const std::uint8_t*>(m.address), m.bytes, changed);
    } else if (m.bytes < small || !changed_pages_ || !same_device(m.address)) {
      fine = compare(m.address, was, m.bytes, changed);
    } else {
      const std::uint64_t head = (16 - m.address % 16) % 16, pages = (m.bytes - head) / page;
      const std::uint64_t tail = head + pages * page;
      fine = compare(m.address, was, head, changed) && compare_pages(m.address + head, was + head, pages, changed) &&
             compare(m.address + tail, was + tail, m.bytes - tail, changed);
    }
  }
  before_.clear();
  return fine;
}

}  // namespace deadheat::cupti
