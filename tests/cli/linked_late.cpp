// Loads libraries (library.cu), one after the other, calls them, and closes them again: linked_late LIBRARY…
#include <dlfcn.h>

#include <cstdio>

int main(int count, char** names) {
  int status = 0;
  for (int i = 1; i < count; ++i) {
    void* library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 2;
    status |= reinterpret_cast<int (*)()>(dlsym(library, "reversed_numbers"))();
    dlclose(library);
  }
  return status;
}
