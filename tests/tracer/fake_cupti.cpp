// A stand-in for libcupti.so.13 over fake_cuda.cpp. FAKE_CUPTI_BUSY in the environment: another tool has subscribed.
#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>

#include <cstdint>
#include <cstdlib>

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" void fake_subscribe(CUpti_CallbackFunc callback);
extern "C" void fake_enable(CUpti_CallbackId id);

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void*) {
  if (std::getenv("FAKE_CUPTI_BUSY")) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  *subscriber = nullptr;
  fake_subscribe(callback);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableCallback(std::uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                       CUpti_CallbackId id) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) fake_enable(id);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableDomain(std::uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char** text) { return *text = "a result", CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, std::uint32_t, const char** name) {
  return *name = nullptr, CUPTI_ERROR_INVALID_PARAMETER;
}
