// The driver and CUPTI, found at run time: nothing of theirs is linked.
//
// Thread-safety: load_* are called once, before anything else; the tables are constant afterwards.
#pragma once

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>

#include <string>

namespace deadheat::cupti {

// X(name): functions of libcuda.so.1 as their exported symbols are called.
// One name a line, in no other shape.
// clang-format off
#define DEADHEAT_DRIVER_FUNCTIONS(X) \
  X(cuCtxGetDevice) \
  X(cuCtxGetDevice_v2) \
  X(cuCtxGetCurrent) \
  X(cuCtxSetCurrent) \
  X(cuDeviceGet) \
  X(cuDeviceGetCount) \
  X(cuDeviceGetName) \
  X(cuDeviceGetAttribute) \
  X(cuDeviceTotalMem_v2) \
  X(cuPointerGetAttribute) \
  X(cuMemGetAddressRange_v2) \
  X(cuArray3DGetDescriptor_v2) \
  X(cuDevicePrimaryCtxGetState) \
  X(cuDevicePrimaryCtxRetain) \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuMemAlloc_v2) \
  X(cuMemAllocPitch_v2) \
  X(cuMemAllocAsync) \
  X(cuMemAllocFromPoolAsync) \
  X(cuMemCreate) \
  X(cuArrayCreate_v2) \
  X(cuArray3DCreate_v2) \
  X(cuMipmappedArrayCreate) \
  X(cuMemGetInfo_v2) \
  X(cuMemFree_v2) \
  X(cuMemHostAlloc) \
  X(cuMemFreeHost) \
  X(cuMemcpyDtoHAsync_v2) \
  X(cuMemcpyHtoDAsync_v2) \
  X(cuMemcpyDtoDAsync_v2) \
  X(cuMemsetD32Async) \
  X(cuStreamQuery) \
  X(cuModuleLoadData) \
  X(cuModuleLoadDataEx) \
  X(cuModuleLoadFatBinary) \
  X(cuModuleLoad) \
  X(cuModuleUnload) \
  X(cuLaunchKernel) \
  X(cuLaunchKernelEx) \
  X(cuLaunchCooperativeKernel) \
  X(cuStreamCreateWithPriority) \
  X(cuStreamDestroy_v2) \
  X(cuStreamSynchronize) \
  X(cuThreadExchangeStreamCaptureMode) \
  X(cuStreamIsCapturing) \
  X(cuStreamGetCaptureInfo_v2) \
  X(cuStreamGetCaptureInfo_v3) \
  X(cuStreamGetDevice) \
  X(cuStreamGetCtx) \
  X(cuStreamGetFlags) \
  X(cuStreamGetPriority) \
  X(cuLibraryLoadData) \
  X(cuLibraryLoadFromFile) \
  X(cuLibraryUnload) \
  X(cuLibraryGetKernel) \
  X(cuLibraryGetModule) \
  X(cuLibraryGetGlobal) \
  X(cuKernelGetLibrary) \
  X(cuKernelGetFunction) \
  X(cuModuleGetFunction) \
  X(cuModuleGetGlobal_v2) \
  X(cuModuleGetFunctionCount) \
  X(cuModuleEnumerateFunctions) \
  X(cuLibraryGetKernelCount) \
  X(cuLibraryEnumerateKernels) \
  X(cuFuncGetModule) \
  X(cuFuncLoad) \
  X(cuFuncGetName) \
  X(cuKernelGetName) \
  X(cuFuncGetAttribute) \
  X(cuFuncSetAttribute) \
  X(cuFuncGetParamInfo) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuOccupancyMaxActiveClusters) \
  X(cuKernelGetParamInfo) \
  X(cuKernelGetAttribute) \
  X(cuKernelSetAttribute) \
  X(cuLinkCreate_v2) \
  X(cuLinkAddData_v2) \
  X(cuLinkComplete) \
  X(cuLinkDestroy) \
  X(cuGraphGetNodes) \
  X(cuGraphGetEdges) \
  X(cuGraphGetEdges_v2) \
  X(cuGraphNodeGetType) \
  X(cuGraphKernelNodeGetParams_v2) \
  X(cuGraphAddKernelNode_v2) \
  X(cuGraphAddNode_v2) \
  X(cuGraphKernelNodeSetParams_v2) \
  X(cuGraphNodeSetParams) \
  X(cuGraphExecKernelNodeSetParams_v2) \
  X(cuGraphExecNodeSetParams) \
  X(cuGraphInstantiateWithFlags) \
  X(cuGraphInstantiateWithParams) \
  X(cuGraphKernelNodeGetAttribute) \
  X(cuGraphMemcpyNodeGetParams) \
  X(cuGraphMemsetNodeGetParams) \
  X(cuGraphChildGraphNodeGetGraph) \
  X(cuGraphHostNodeGetParams) \
  X(cuGraphHostNodeSetParams) \
  X(cuGraphEventRecordNodeGetEvent) \
  X(cuGraphEventWaitNodeGetEvent) \
  X(cuGraphMemAllocNodeGetParams) \
  X(cuGraphMemFreeNodeGetParams) \
  X(cuGraphCreate) \
  X(cuGraphDestroy) \
  X(cuGraphAddEmptyNode) \
  X(cuGraphAddHostNode) \
  X(cuGraphAddEventRecordNode) \
  X(cuGraphAddEventWaitNode) \
  X(cuGraphAddMemcpyNode) \
  X(cuGraphAddMemsetNode) \
  X(cuGraphKernelNodeCopyAttributes) \
  X(cuGraphLaunch) \
  X(cuGraphExecDestroy) \
  X(cuEventCreate) \
  X(cuEventRecord) \
  X(cuEventQuery) \
  X(cuEventDestroy_v2) \
  X(cuStreamWaitEvent)
// clang-format on

struct Driver {
#define X(name) decltype(&::name) name = nullptr;
  DEADHEAT_DRIVER_FUNCTIONS(X)
#undef X
};

// One name a line, in no other shape.
// clang-format off
#define DEADHEAT_CUPTI_FUNCTIONS(X) \
  X(cuptiSubscribe) \
  X(cuptiUnsubscribe) \
  X(cuptiFinalize) \
  X(cuptiEnableCallback) \
  X(cuptiGetResultString) \
  X(cuptiGetCallbackName) \
  X(cuptiActivityRegisterCallbacks) \
  X(cuptiActivityEnable) \
  X(cuptiActivityGetNextRecord) \
  X(cuptiActivityFlushAll)
// clang-format on

struct Cupti {
#define X(name) decltype(&::name) name = nullptr;
  DEADHEAT_CUPTI_FUNCTIONS(X)
#undef X
};

const Driver& driver();  // functions that the driver lacks are null
const Cupti& cupti();

// False when the library or a function that is always needed is missing; `why` then says so.
bool load_driver(std::string& why);
bool load_cupti(const std::string& path, std::string& why);  // path: of libcupti; empty: where it is usually found

}  // namespace deadheat::cupti
