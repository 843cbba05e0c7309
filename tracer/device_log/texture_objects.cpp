#include "tracer/device_log/texture_objects.h"

namespace deadheat::device_log {

void TextureObjects::made(const void* context, std::uint64_t handle, bool surface,
                          const std::optional<ptx::TextureDescriptor>& descriptor) {
  Context& of = contexts_[context];
  ByHandle& all = surface ? of.live.surfaces : of.live.textures;
  if (descriptor)
    all[handle] = *descriptor;
  else if (!all.erase(handle))
    return;
  of.shown = nullptr;
}

std::shared_ptr<const TextureObjects::Live> TextureObjects::now(const void* context) {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return nullptr;
  Context& of = found->second;
  if (!of.shown) of.shown = std::make_shared<const Live>(of.live);
  return of.shown;
}

} // namespace deadheat::device_log
