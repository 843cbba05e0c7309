#include "analyzer/report/place.h"

#include <filesystem>

namespace deadheat::report {

bool is_system_header(const std::string& file) {
  std::string path = std::filesystem::path(file).lexically_normal().string();
  for (const char* root : {"/usr/include/", "/usr/local/include/", "/usr/lib/gcc/", "/usr/lib/llvm"}) {
    if (path.starts_with(root)) return true;
  }
  std::size_t include = path.find("/include/");
  if (include == std::string::npos) return false;
  if (path.starts_with("/usr/local/cuda") || path.starts_with("/opt/cuda")) return true;
  // A toolkit elsewhere: …/targets/x86_64-linux/include/, and the wheels of site-packages/nvidia/*/include/.
  return path.rfind("/targets/", include) != std::string::npos ||
         path.rfind("/site-packages/nvidia/", include) != std::string::npos;
}

const SourceFrame* own_frame(const std::vector<SourceFrame>& source) {
  const SourceFrame* innermost = nullptr;
  for (const SourceFrame& frame : source) {
    if (frame.file.empty()) continue;
    if (!is_system_header(frame.file)) return &frame;
    if (!innermost) innermost = &frame;
  }
  return innermost;
}

} // namespace deadheat::report
