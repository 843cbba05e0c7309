// Makes no CUDA call.
#include <cstdio>

int main() { std::printf("no CUDA here\n"); }
