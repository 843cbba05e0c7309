// An embedding's gradient over tokens as a text has them: a bf16 accumulator swallows small gradients, a float does not.
#include "embedding.h"

int main() {
#ifdef RACY
  accumulate<__nv_bfloat16>(zipf_draw());
#else
  accumulate<float>(zipf_draw());
#endif
}
