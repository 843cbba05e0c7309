// The Python line that launched a kernel, where the launching thread runs Python: "train.py:117".
//
// Nothing of Python is linked: its functions are looked up once, in the process. They are called only by a thread that
// holds the interpreter's lock (its own thread state is the current one), outside of an exception, with the collector
// switched off: nothing of the program's can run in between, and nothing of its state changes.
//
// Thread-safety: any thread.
#pragma once

#include <string>

namespace deadheat::cupti {

// The innermost line that belongs to no installed package, else the innermost; empty where there is none.
std::string python_line();

}  // namespace deadheat::cupti
