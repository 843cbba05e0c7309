// Where LLVM is a part of a library of ours (cmake/dependencies.cmake), nothing in that library is destroyed when the
// process ends: kernels that nobody waited for are compiled then, behind all exit handlers, and other threads may be
// compiling. LLVM keeps tables in functions, which would be gone: they are made late, so they are destroyed first.
namespace {

using Destroy = void (*)(void*);

}  // namespace

// Takes the place of the C++ ABI's (Itanium C++ ABI, 3.3.6.3), by the linker's --wrap.
extern "C" int __wrap___cxa_atexit(Destroy, void*, void*);
extern "C" int __wrap___cxa_atexit(Destroy, void*, void*) { return 0; }
