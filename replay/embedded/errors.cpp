// Error codes as names and texts, and the error state of the calling thread (Runtime API, "Error Handling").
#include "replay/embedded/entry.h"

namespace {

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};
constexpr ErrorText error_texts[] = {
#define X(code, text) {code, #code, text},
#include "replay/embedded/error_codes.def"
#undef X
};

const ErrorText* find(cudaError_t code) {
  for (const ErrorText& entry : error_texts) {
    if (entry.code == code) return &entry;
  }
  return nullptr;
}

} // namespace

extern "C" {

DEADHEAT_VISIBLE const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  const ErrorText* entry = find(error);
  return entry ? entry->name : "unrecognized error code";
}

DEADHEAT_VISIBLE const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  const ErrorText* entry = find(error);
  return entry ? entry->text : "unrecognized error code";
}

DEADHEAT_VISIBLE cudaError_t CUDARTAPI cudaPeekAtLastError() { return deadheat::embedded::last_error(/*reset=*/false); }

DEADHEAT_VISIBLE cudaError_t CUDARTAPI cudaGetLastError() { return deadheat::embedded::last_error(/*reset=*/true); }

} // extern "C"
