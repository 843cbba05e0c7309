// Which texture and surface objects there are, by their handles, and what their texels are.
//
// A handle may be given again as soon as its object is destroyed, long before the accesses of a launch are read: a
// launch has the objects as they were when it was submitted (`now`). What a program made before it was watched, or in a
// way that is not followed, stays unknown, and so do accesses by it.
//
// Thread-safety: none; what now() gives never changes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "tracer/ptx/texture.h"

namespace deadheat::device_log {

class TextureObjects {
 public:
  using ByHandle = std::unordered_map<std::uint64_t, ptx::TextureDescriptor>;
  struct Live {
    ByHandle textures, surfaces;
    const ptx::TextureDescriptor* find(std::uint64_t handle, bool surface) const {
      const ByHandle& all = surface ? surfaces : textures;
      const auto found = all.find(handle);
      return found == all.end() ? nullptr : &found->second;
    }
  };

  // Handles are those of a context. No descriptor: what the object is is not known.
  void made(const void* context, std::uint64_t handle, bool surface,
            const std::optional<ptx::TextureDescriptor>& descriptor);
  void destroyed(const void* context, std::uint64_t handle, bool surface) {
    made(context, handle, surface, std::nullopt);
  }
  void context_gone(const void* context) { contexts_.erase(context); }
  std::shared_ptr<const Live> now(const void* context); // null: it has none

 private:
  struct Context {
    Live live;
    std::shared_ptr<const Live> shown; // as it is; null: it has changed since
  };
  std::map<const void*, Context> contexts_;
};

} // namespace deadheat::device_log
