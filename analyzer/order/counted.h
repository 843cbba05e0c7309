// Objects that are shared by reference within one thread, thousands of them made and destroyed for each piece of a log.
//
// std::shared_ptr counts with locked instructions as soon as the process has a second thread, whoever the objects
// belong to; here each has a plain count. Memory of what was destroyed is kept for what is made next: an allocator for
// all sizes and threads takes ten times as many instructions for each.
//
// Thread-safety: none; objects may go from one thread to another with all that refers to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <boost/smart_ptr/intrusive_ptr.hpp>

namespace deadheat::order {

// A thread's spare memory for objects of one type.
template <typename T>
class Spare {
 public:
  static void* take() {
    if (!first) return ::operator new(sizeof(T));
    --count;
    return std::exchange(first, first->next);
  }
  static void give(void* memory) {
    if (count == most) return ::operator delete(memory);
    thread_local Cleaner cleaner;
    first = new (memory) Link{first};
    ++count;
  }

 private:
  struct Link {
    Link* next = nullptr;
  };
  struct Cleaner { // when the thread ends
    ~Cleaner() {
      while (first) ::operator delete(std::exchange(first, first->next));
      count = most;
    }
  };
  static constexpr std::uint32_t most = 4096;
  static inline thread_local constinit Link* first = nullptr;
  static inline thread_local constinit std::uint32_t count = 0;
};

// Base of what is counted. A copy is an object of its own, to which nobody refers yet.
template <typename T>
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) {}
  Counted& operator=(const Counted&) { return *this; }

  static void* operator new(std::size_t) { return Spare<T>::take(); }
  static void operator delete(void* memory) { Spare<T>::give(memory); }

  friend void intrusive_ptr_add_ref(const Counted* object) { ++object->references_; }
  friend void intrusive_ptr_release(const Counted* object) {
    if (!--object->references_) delete static_cast<const T*>(object);
  }

 private:
  mutable std::uint32_t references_ = 0;
};

template <typename T, typename... Arguments>
boost::intrusive_ptr<T> make_counted(Arguments&&... arguments) {
  return boost::intrusive_ptr<T>(new T(std::forward<Arguments>(arguments)...));
}

} // namespace deadheat::order
