#include "tracer/cupti/function_run.h"

#include <sys/resource.h>

#include <utility>

#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

namespace {

// One that runs for so long may have waited for the host without giving up the processor.
constexpr std::chrono::milliseconds long_run(500);

long voluntary_switches() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

} // namespace

FunctionRun::FunctionRun(Session& session, const void* code, CUcontext context)
    : session_(session), code_(code), context_(context) {
  if (HostWrites* writes = session.host_writes()) writes->function_comes(code);
}

void FunctionRun::submitted(std::uint32_t operation, std::uint32_t stream, std::uint32_t graph) {
  HostWrites* const writes = session_.host_writes();
  std::lock_guard hold(lock_);
  operation_ = operation;
  stream_ = stream;
  if (writes) {
    entries_ = writes->entries();
    if (!over_) function_ = writes->function_submitted(stream, graph, code_);
  }
  known_ = true;
  if (begun_) {
    tell_begun();
    if (writes) writes->untold(-1);
  }
  if (over_) tell_over();
}

void FunctionRun::will_not_run() {
  std::lock_guard hold(lock_);
  if (HostWrites* writes = session_.host_writes()) {
    writes->function_over(function_);
    writes->looks().comes_no_more(code_);
  }
  if (std::exchange(over_, true) || !known_) return;
  tell_over();
}

void FunctionRun::tell_begun() {
  HostWrites* const writes = session_.host_writes();
  if (writes)
    session_.journal().push(Journal::FunctionBegun{operation_});
  else
    session_.journal().push(trace::HostWait{trace::HostWait::Kind::operation, operation_, 0, false, 0});
  if (writes) writes->told(stream_, entries_);
}

void FunctionRun::tell_over() {
  how_.operation = operation_;
  if (session_.host_writes()) session_.journal().push(std::move(how_));
}

// The driver calls: nothing is to be thrown through it.
void FunctionRun::begins() noexcept {
  try {
    const Own own;
    HostWrites* const writes = session_.host_writes();
    if (writes) {
      writes->function_begins();
      {
        std::lock_guard hold(lock_);
        if (known_) writes->told(stream_, entries_); // what it comes behind is complete
      }
      look_.emplace(writes->looks(), code_, context_, function_);
    }
    std::lock_guard hold(lock_);
    begun_ = true;
    if (known_)
      tell_begun();
    else if (writes)
      writes->untold(1);
  } catch (...) {
    session_.call_not_recorded();
  }
  switches_ = voluntary_switches();
  since_ = std::chrono::steady_clock::now();
}

void FunctionRun::ends() noexcept {
  const bool waited = voluntary_switches() != switches_ || std::chrono::steady_clock::now() - since_ > long_run;
  try {
    const Own own;
    HostWrites* const writes = session_.host_writes();
    std::vector<trace::Effects::Change> wrote;
    if (look_) wrote = look_->over(waited);
    {
      std::lock_guard hold(lock_);
      how_.told = waited;
      how_.wrote = std::move(wrote);
      over_ = true;
      if (known_) tell_over();
    }
    if (writes) writes->function_over(function_);
    look_.reset(); // who is held goes on
  } catch (...) {
    session_.call_not_recorded();
  }
}

} // namespace deadheat::cupti
