// An embedding's gradient accumulated in bf16 is right as long as rows are hit alike. Tokens as a text has them add
// hundreds of times to some rows, and these swallow what is small beside the sum.
#include "embedding.h"

int main() {
#ifdef RACY
  accumulate<__nv_bfloat16>(zipf_draw());
#else
  accumulate<__nv_bfloat16>(uniform_draw());
#endif
}
