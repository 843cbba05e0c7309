// A stand-in for libcupti.so.13 over fake_cuda.cpp. FAKE_CUPTI_BUSY in the environment: another tool has subscribed.
// FAKE_CUPTI_CALLS: a file for the numbers of the driver's calls that are watched.
//
// Activities: each kernel takes 500 ns. Every tenth one is told of twice, first as a copy; every hundredth has another
// kernel's name.
#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" void fake_subscribe(CUpti_CallbackFunc callback);
extern "C" void fake_enable(CUpti_CallbackId id, bool on);
extern "C" void fake_keep_launches();
extern "C" bool fake_next_launch(std::uint32_t* correlation, std::string* name);

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void*) {
  if (std::getenv("FAKE_CUPTI_BUSY")) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  static char handle;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&handle);
  fake_subscribe(callback);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  fake_subscribe(nullptr);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiFinalize() {
  std::fprintf(stderr, "CUPTI is detached\n");
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableCallback(std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                       CUpti_CallbackId id) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    fake_enable(id, on);
    if (const char* path = std::getenv("FAKE_CUPTI_CALLS"); path && on) {
      if (std::FILE* file = std::fopen(path, "a")) {
        std::fprintf(file, "%u\n", unsigned(id));
        std::fclose(file);
      }
    }
  }
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char** text) { return *text = "a result", CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, std::uint32_t, const char** name) {
  return *name = nullptr, CUPTI_ERROR_INVALID_PARAMETER;
}

namespace {
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;

std::size_t size_of(const CUpti_Activity& activity) {
  return activity.kind == CUPTI_ACTIVITY_KIND_MEMCPY ? sizeof(CUpti_ActivityMemcpy6) : sizeof(CUpti_ActivityKernel10);
}
}  // namespace

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                  CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete = completed;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) fake_keep_launches();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  std::uint8_t* next = *record ? reinterpret_cast<std::uint8_t*>(*record) + size_of(**record) : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  static unsigned number = 0;
  std::uint32_t correlation = 0;
  std::string name;
  while (fake_next_launch(&correlation, &name)) {
    std::uint8_t* buffer = nullptr;
    std::size_t bytes = 0, records = 0, used = 0;
    request(&buffer, &bytes, &records);
    const bool copy = ++number % 10 == 0;
    if (copy) {
      auto& wrong = *new (buffer) CUpti_ActivityMemcpy6{};
      wrong.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
      wrong.correlationId = correlation;
      wrong.start = 1;
      wrong.end = 1'000'000;
      used += sizeof wrong;
    }
    auto& kernel = *new (buffer + used) CUpti_ActivityKernel10{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.correlationId = correlation;
    kernel.start = 1000 * std::uint64_t(correlation);
    kernel.end = kernel.start + 500;
    kernel.name = number % 100 == 1 ? "_Z5otheri" : name.c_str();
    used += sizeof kernel;
    complete(nullptr, 0, buffer, bytes, used);
  }
  return CUPTI_SUCCESS;
}
