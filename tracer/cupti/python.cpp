#include "tracer/cupti/python.h"

#include <dlfcn.h>

#include <cstring>
#include <type_traits>

namespace deadheat::cupti {

namespace {

// X(type, name): of the stable ABI, or in every version from 3.10 on (docs.python.org, "Python/C API").
#define PYTHON_FUNCTIONS(X)                                \
  X(void* (*)(), PyGILState_GetThisThreadState)            \
  X(void* (*)(), PyErr_Occurred)                           \
  X(void (*)(), PyErr_Clear)                               \
  X(int (*)(), PyGC_Disable)                               \
  X(int (*)(), PyGC_Enable)                                \
  X(void* (*)(), PyEval_GetFrame)                          \
  X(void* (*)(void*), PyFrame_GetBack)                     \
  X(void* (*)(void*), PyFrame_GetCode)                     \
  X(int (*)(void*), PyFrame_GetLineNumber)                 \
  X(void* (*)(void*, const char*), PyObject_GetAttrString) \
  X(const char* (*)(void*), PyUnicode_AsUTF8)              \
  X(void (*)(void*), Py_IncRef)                            \
  X(void (*)(void*), Py_DecRef)                            \
  X(int (*)(), Py_IsInitialized)

struct Python {
#define X(type, name) std::type_identity_t<type> name = nullptr;
  PYTHON_FUNCTIONS(X)
#undef X
  void* (*current)() = nullptr;  // the thread state that holds the lock, or null; may be asked without it
  bool whole = false;
};

const Python& python() {
  static const Python& table = *[] {
    auto* made = new Python;
    made->whole = true;
#define X(type, name)                                                              \
  made->name = reinterpret_cast<decltype(made->name)>(dlsym(RTLD_DEFAULT, #name)); \
  made->whole = made->whole && made->name;
    PYTHON_FUNCTIONS(X)
#undef X
    for (const char* name : {"PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet"}) {  // 3.13; before
      if (!made->current) made->current = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, name));
    }
    made->whole = made->whole && made->current;
    return made;
  }();
  return table;
}

bool installed(const char* file) {
  return std::strstr(file, "/site-packages/") || std::strstr(file, "/dist-packages/") || file[0] == '<';
}

std::string name_of(const Python& py, void* frame) {
  std::string name;
  void* code = py.PyFrame_GetCode(frame);
  void* file = code ? py.PyObject_GetAttrString(code, "co_filename") : nullptr;
  if (const char* text = file ? py.PyUnicode_AsUTF8(file) : nullptr) {
    name = text;
  } else {
    py.PyErr_Clear();
  }
  if (file) py.Py_DecRef(file);
  if (code) py.Py_DecRef(code);
  return name;
}

}  // namespace

std::string python_line() {
  const Python& py = python();
  if (!py.whole || !py.Py_IsInitialized()) return {};
  void* const mine = py.PyGILState_GetThisThreadState();
  if (!mine || py.current() != mine || py.PyErr_Occurred()) return {};
  const bool collects = py.PyGC_Disable();
  std::string line;
  void* frame = py.PyEval_GetFrame();
  if (frame) py.Py_IncRef(frame);
  for (int depth = 0; frame && depth < 64; ++depth) {
    const std::string file = name_of(py, frame);
    if (!file.empty() && (line.empty() || !installed(file.c_str()))) {
      line = file + ":" + std::to_string(py.PyFrame_GetLineNumber(frame));
      if (!installed(file.c_str())) break;
    }
    void* const back = py.PyFrame_GetBack(frame);
    py.Py_DecRef(frame);
    frame = back;
  }
  if (frame) py.Py_DecRef(frame);
  if (collects) py.PyGC_Enable();
  return line;
}

}  // namespace deadheat::cupti
