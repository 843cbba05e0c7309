// User objects (Runtime API, "Graph Management"): counted references to something of the program's, which graphs may
// hold. The last reference gone, the program's destructor is called; like a host callback it may not call CUDA.
#include "replay/embedded/graph.h"

struct CUuserObject_st {
  void* value = nullptr;
  cudaHostFn_t destroy = nullptr;
  unsigned references = 0; // the program's and all graphs'
};

namespace deadheat::embedded {

namespace {

std::set<cudaUserObject_t>& objects() {
  static auto* all = new std::set<cudaUserObject_t>;
  return *all;
}

void release(cudaUserObject_t object, unsigned count) {
  object->references -= std::min(count, object->references);
  if (object->references) return;
  objects().erase(object);
  const auto code = reinterpret_cast<const void*>(object->destroy);
  as_callback(runtime(), code, [destroy = object->destroy, value = object->value] { destroy(value); }).run();
  delete object;
}

} // namespace

HeldObjects::HeldObjects(const HeldObjects& other) : counts(other.counts) {
  for (const auto& [object, count] : counts) object->references += count;
}

HeldObjects::~HeldObjects() {
  for (const auto& [object, count] : counts) release(object, count);
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

DEADHEAT_API(cudaUserObjectCreate, nothing,
             (cudaUserObject_t * result, void* value, cudaHostFn_t destroy, unsigned references, unsigned flags),
             (result, value, destroy, references, flags)) {
  if (!result || !destroy || references == 0 || references > 0x7FFFFFFF) return cudaErrorInvalidValue;
  if (flags != cudaUserObjectNoDestructorSync) return cudaErrorInvalidValue; // the flag is required
  *result = new CUuserObject_st{value, destroy, references};
  objects().insert(*result);
  return cudaSuccess;
}

DEADHEAT_API(cudaUserObjectRetain, nothing, (cudaUserObject_t object, unsigned count), (object, count)) {
  if (!objects().count(object) || count == 0) return cudaErrorInvalidValue;
  object->references += count;
  return cudaSuccess;
}

DEADHEAT_API(cudaUserObjectRelease, nothing, (cudaUserObject_t object, unsigned count), (object, count)) {
  if (!objects().count(object) || count == 0) return cudaErrorInvalidValue;
  release(object, count);
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphRetainUserObject, device,
             (cudaGraph_t handle, cudaUserObject_t object, unsigned count, unsigned flags),
             (handle, object, count, flags)) {
  Graph* graph = graph_of(call, handle);
  if (!graph || !objects().count(object) || count == 0 || (flags & ~unsigned(cudaGraphUserObjectMove))) {
    return cudaErrorInvalidValue;
  }
  graph->objects.counts[object] += count;
  if (!(flags & cudaGraphUserObjectMove)) object->references += count;
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphReleaseUserObject, device, (cudaGraph_t handle, cudaUserObject_t object, unsigned count),
             (handle, object, count)) {
  Graph* graph = graph_of(call, handle);
  if (!graph || count == 0) return cudaErrorInvalidValue;
  auto held = graph->objects.counts.find(object);
  if (held == graph->objects.counts.end() || held->second < count) return cudaErrorInvalidValue;
  held->second -= count;
  if (held->second == 0) graph->objects.counts.erase(held);
  release(object, count);
  return cudaSuccess;
}
