// What the comparison of lowerings shares: the thread as compiled code sees it, the generator and the compiler.
//
// Thread-safety: none; one host thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#pragma GCC diagnostic pop

namespace lowering {

enum class Way {
  none,       // plain function, no suspension points: what the arithmetic alone costs
  coroutine,  // (a)  LLVM's coroutine intrinsics, switched resume
  fiber,      // (b)  plain function on a stack of its own, Boost.Context
  saved,      // (c)  state machine; registers are values, saved to the frame where the thread stops
  framed,     // (c2) state machine; registers live in the frame
};

struct Exec {
  std::int64_t quantum = 0;
};

struct Thread {
  Exec* exec = nullptr;
  std::uint32_t seed = 0;
  std::int32_t iterations = 0;
  std::int32_t done = 0;
  std::uint32_t result = 0;
  char* memory = nullptr;         // frames (a, c, c2), or the stack (b)
  std::size_t used = 0;           // of memory, by (a)
  void* handle = nullptr;         // (a) the outermost coroutine; (b) where the thread goes on
  void* scheduler = nullptr;      // (b) where the scheduler goes on
};

inline constexpr unsigned integer_registers = 8, float_registers = 8;
// (c) and (c2): resume index, depth, then registers of 4 bytes.
inline constexpr unsigned frame_index = 0, frame_depth = 4, frame_registers = 8;
inline constexpr unsigned frame_bytes = 80;  // 16 registers and the loop counter, rounded up to 16

// What compiled code calls.
struct Services {
  void* (*allocate)(Thread*, std::uint64_t bytes);
  void (*release)(Thread*, void* memory);
  void (*switch_out)(Thread*);
};

// Functions made:
//   none, fiber      void kernel(Thread*)            void nest(Thread*, i32 depth)
//   coroutine        ptr kernel(Thread*)             ptr nest(Thread*, i32 depth)     (the handle; suspended at once)
//   saved, framed    i32 kernel(Thread*, frame)      i32 nest(Thread*, frame)         (0: returned, 1: stopped)
// `nest` calls itself `depth` times; the innermost has a loop around one suspension point.
struct Unit {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};
Unit generate(Way way, unsigned points, const Services& services);

enum class Effort { quick, brief, o1, o2 }; // quick and brief: the engine's two lists of passes (replay/engine/jit.cpp)
struct Code {
  void* kernel = nullptr;
  void* nest = nullptr;
  std::size_t object_bytes = 0;
};
// Optimises and generates code; link: makes it callable. Errors end the program.
Code compile(Unit unit, Way way, Effort effort, bool link);

} // namespace lowering
