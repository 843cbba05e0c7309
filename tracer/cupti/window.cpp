#include "tracer/cupti/window.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>

#include "deadheat/address.h"
#include "deadheat/lanes.h"
#include "tracer/cupti/drain.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/relaxed.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

namespace {

constexpr std::uint32_t window_id = 1;
constexpr std::uint64_t largest_snapshot = std::uint64_t(1) << 20;
// An opaque kernel can reach more than its arguments name: where all memory is little, all of it is looked at.
constexpr std::uint64_t little = std::uint64_t(2) << 30;
constexpr auto patience = std::chrono::seconds(60);  // for the accesses of the window's launches

thread_local bool watching = false;  // this thread's opaque launch is under way: it has the device for itself

}  // namespace

// ---- pages

void TouchedPages::add(std::uint64_t address, std::uint64_t bytes) {
  if (!bytes || address + bytes < address) return;
  std::lock_guard hold(lock_);
  for (std::uint64_t at = address / window_page; at <= (address + bytes - 1) / window_page; ++at) page(at);
}

void TouchedPages::add(const trace::AccessView& access) {
  if (access.space != Space::global) return;
  std::lock_guard hold(lock_);
  each_lane(access.mask, [&](unsigned lane) { page(access.address[lane] / window_page); });
}

void TouchedPages::add(const trace::Record& record) {
  auto global = [&](std::uint64_t address, std::uint64_t bytes) {
    if (address && address < device_bit) add(address, bytes);
  };
  if (const auto* copy = std::get_if<trace::AsyncCopy>(&record)) {
    each_lane(copy->mask, [&](unsigned lane) { global(copy->source[lane], copy->bytes); });
  } else if (const auto* bulk = std::get_if<trace::BulkCopy>(&record)) {
    each_lane(bulk->mask, [&](unsigned lane) {
      global(bulk->source[lane], bulk->bytes[lane]);
      global(bulk->destination[lane], bulk->bytes[lane]);
    });
  }
}

std::set<std::uint64_t> TouchedPages::take() {
  std::lock_guard hold(lock_);
  last_ = ~std::uint64_t(0);
  const std::unordered_set<std::uint64_t> pages = std::exchange(pages_, {});
  return {pages.begin(), pages.end()};
}

// ---- the window

struct Window::Shared {
  std::shared_ptr<TouchedPages> touched = std::make_shared<TouchedPages>();  // by kernels that are recorded
  TouchedPages copied;  // by copies, sets and opaque kernels
  std::mutex lock;
  std::string trouble;
  std::mutex kept_lock;
  std::condition_variable put_down;  // what the writer had taken of it is gone
  std::deque<Kept> kept;             // memory as the window found it
  bool in_hand = false;              // the writer has one
  std::vector<Memory> not_kept;
  std::atomic<std::uint64_t> budget{0};  // bytes that may still be kept
  std::atomic<bool> written{false};

  bool spend(std::uint64_t bytes) {
    std::uint64_t left = budget;
    while (bytes <= left && !budget.compare_exchange_weak(left, left - bytes)) {
    }
    return bytes <= left;
  }
  void spoil(const std::string& why) {
    std::lock_guard hold(lock);
    if (trouble.empty()) trouble = why;
  }
  bool is_spoiled() {
    std::lock_guard hold(lock);
    return !trouble.empty();
  }
};

HostMemory::Room Window::room() {
  return [shared = std::atomic_load(&shared_)](std::uint64_t bytes) {
    if (shared->spend(bytes)) return true;
    shared->spoil("page-locked memory that it reaches is more than the window's budget");
    return false;
  };
}

// The window's end, in the journal behind the launches whose accesses it waits for.
class Window::Closing final : public Awaited {
 public:
  Closing(Session& session, std::shared_ptr<Shared> shared, QuietDevice& device, std::vector<Memory> live,
          std::set<std::uint64_t> reached)
      : session_(session),
        shared_(std::move(shared)),
        device_(device),
        live_(std::move(live)),
        reached_(std::move(reached)) {}

  bool write(trace::TraceWriter& writer, bool) override {
    Own own;
    std::set<std::uint64_t> pages = shared_->touched->take();
    bool with_host = false;  // kernels reach by themselves what the host may write
    {
      std::lock_guard hold(shared_->kept_lock);
      for (const Kept& kept : shared_->kept) {
        const bool unseen = kept.of.managed || (kept.of.on_host && !reached_.count(kept.of.address));
        with_host |= unseen && !within(pages, kept.of, largest_snapshot).empty();
      }
    }
    pages.merge(shared_->copied.take());
    if (with_host) {
      const std::string line =
          "kernels of the window reach managed memory, or page-locked memory that no argument of theirs points into: "
          "what the host writes there while it is open is not in it";
      say_once(line);
      session_.incident("window", line);
    }
    std::uint64_t symbols = 0;
    for (Kept kept; take(kept); put_down(kept)) {
      // What code reads of its variables is not all in the log (constants): small ones are kept whole.
      const bool whole = kept.of.variable && (symbols += kept.of.bytes) <= largest_snapshot;
      for (const trace::Span& span : whole ? std::vector<trace::Span>{{kept.of.address, kept.of.bytes}}
                                           : within(pages, kept.of, largest_snapshot)) {
        std::vector<std::uint8_t> bytes(span.bytes);
        if (!device_.read(kept, span.address - kept.of.address, span.bytes, bytes.data())) {
          shared_->spoil("memory of the device could not be read");
          break;
        }
        writer.write(trace::Snapshot{window_id, span.address, writer.bytes(bytes)});
      }
    }
    for (const Memory& memory : shared_->not_kept) {
      if (!within(pages, memory, largest_snapshot).empty()) {
        shared_->spoil("memory that it touched could not be kept: no room, or the window's budget");
      }
    }
    trace::Window record;
    record.id = window_id;
    record.opens = false;
    for (const Memory& memory : live_) {
      for (const trace::Span& span : within(pages, memory, ~std::uint64_t(0))) record.touched.push_back(span);
    }
    {
      std::lock_guard hold(shared_->lock);
      record.trouble = shared_->trouble;
    }
    if (!record.trouble.empty()) say("the window for replay cannot be used: " + record.trouble);
    writer.write(record);
    shared_->written = true;
    return true;
  }

 private:
  // One after another, without the lock while it is written; false: there is none left.
  bool take(Kept& kept) {
    std::lock_guard hold(shared_->kept_lock);
    if (shared_->kept.empty()) return false;
    kept = std::move(shared_->kept.front());
    shared_->kept.pop_front();
    return shared_->in_hand = true;
  }
  void put_down(Kept& kept) {
    device_.drop(kept);
    {
      std::lock_guard hold(shared_->kept_lock);
      shared_->in_hand = false;
    }
    shared_->put_down.notify_all();
  }
  // Stretches of touched pages in the memory, of at most so many bytes each.
  static std::vector<trace::Span> within(const std::set<std::uint64_t>& pages, const Memory& memory,
                                         std::uint64_t most) {
    std::vector<trace::Span> spans;
    const std::uint64_t limit = memory.address + memory.bytes;
    for (auto at = pages.lower_bound(memory.address / window_page); at != pages.end(); ++at) {
      const std::uint64_t begin = std::max(*at * window_page, memory.address);
      if (begin >= limit) break;
      const std::uint64_t end = std::min((*at + 1) * window_page, limit);
      if (!spans.empty() && spans.back().address + spans.back().bytes == begin &&
          spans.back().bytes + (end - begin) <= most) {
        spans.back().bytes += end - begin;
      } else {
        spans.push_back({begin, end - begin});
      }
    }
    return spans;
  }

  Session& session_;
  std::shared_ptr<Shared> shared_;
  QuietDevice& device_;
  std::vector<Memory> live_;
  std::set<std::uint64_t> reached_;
};

// A write of nothing: what the host writes is recorded from here on.
void Window::opened() {
  session_.journal().push(trace::Window{window_id, true, {}, {}});
  session_.journal().push(trace::HostWrite{});
}

void Window::start() {
  if (session_.options().capture_range != "none") return;
  used_ = whole_run_ = true;
  shared_ = std::make_shared<Shared>();
  shared_->budget = session_.options().window_budget << 20;
  opened();
  open_ = true;
}

void Window::finish() {
  if (!open()) return;
  open_ = false;
  if (!whole_run_) spoil("the process ended inside of it");
  trace::Window record{window_id, false, {}, {}};
  {
    std::lock_guard hold(shared_->lock);
    record.trouble = shared_->trouble;
  }
  if (!record.trouble.empty()) say("the window for replay cannot be used: " + record.trouble);
  session_.journal().push(record);
}

void Window::begin() {
  Own own;
  std::lock_guard alone(alone_);
  if (used_) return;
  used_ = true;
  ++someone_;
  auto shared = std::make_shared<Shared>();
  shared->budget = session_.options().window_budget << 20;
  CUcontext context = nullptr;
  driver().cuCtxGetCurrent(&context);
  if (!context) context = seen_;
  if (device_.use(context)) {  // else nothing has been done yet
    if (device_.rest())
      save_memory(*shared);
    else
      shared->spoil("the device did not come to rest when it opened");
  }
  session_.recorder().caught_up();
  opened();
  std::atomic_store(&shared_, std::move(shared));
  open_ = true;
  --someone_;
}

void Window::save_memory(Shared& shared) {
  for (const Memory& memory : live_memory()) {
    Kept kept;
    if (memory.never_read || !shared.spend(memory.bytes) || !device_.keep(memory, kept)) {
      device_.drop(kept);
      shared.not_kept.push_back(memory);
      continue;
    }
    shared.kept.push_back(std::move(kept));
  }
}

void Window::end() {
  Own own;
  std::shared_ptr<Shared> shared;
  {
    std::lock_guard alone(alone_);
    if (!open() || whole_run_) return;
    ++someone_;
    device_.use(seen_);
    if (!device_.rest()) spoil("the device did not come to rest when it closed");
    session_.recorder().caught_up();
    shared = shared_;
    open_ = false;
    std::set<std::uint64_t> reached;
    {
      std::lock_guard hold(host_lock_);
      reached = std::exchange(reached_, {});
      host_.clear();
    }
    session_.journal().push(Journal::Item(std::shared_ptr<Awaited>(
        std::make_shared<Closing>(session_, shared, device_, live_memory(), std::move(reached)))));
    --someone_;
  }
  // What is kept lies on the device: it is fetched while there is one.
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!shared->written && std::chrono::steady_clock::now() < until) {
    session_.recorder().caught_up();
    session_.journal().pump(session_.writer());
    if (!shared->written) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::uint64_t Window::spare_memory(CUcontext context) {
  Own own;
  std::lock_guard alone(alone_);
  if (!device_.is_of(context)) return 0;
  std::uint64_t bytes = device_.spare();
  if (const std::shared_ptr<Shared> shared = std::atomic_load(&shared_)) {
    std::lock_guard hold(shared->kept_lock);
    for (const Kept& kept : shared->kept) bytes += kept.device ? kept.of.bytes : 0;
  }
  return bytes;
}

bool Window::give_back_memory(CUcontext context) {
  const std::uint32_t given_back = given_back_;
  std::lock_guard one_thread(giving_back_);
  if (given_back != given_back_) return true;  // another thread did, meanwhile
  Own own;
  const Relaxed relaxed;
  session_.recorder().let_kernels_end(context, Unfinished::while_running);
  const std::shared_ptr<Shared> shared = std::atomic_load(&shared_);
  std::vector<CUdeviceptr> free;
  {
    std::lock_guard alone(alone_);
    if (!device_.is_of(context)) return false;
    free = device_.give_back();
    if (shared) {
      std::lock_guard hold(shared->kept_lock);
      for (Kept& kept : shared->kept) {
        if (const CUdeviceptr memory = device_.move_to_host(kept)) free.push_back(memory);
      }
    }
  }
  if (free.empty()) {  // all that is left is what is being written
    if (!shared) return false;
    std::unique_lock hold(shared->kept_lock);
    return shared->in_hand && shared->put_down.wait_for(hold, patience, [&] { return !shared->in_hand; });
  }
  // With none of the window's locks: it waits for kernels, which may wait for what other threads launch.
  const InContext in(context);
  for (const CUdeviceptr memory : free) driver().cuMemFree_v2(memory);
  ++given_back_;
  say_once("the job needs the memory that its window was kept in: it has it back");
  return true;
}

void Window::pass(CUcontext context) {
  if (context && !seen_.load(std::memory_order_relaxed)) seen_ = context;
  if (!someone_.load(std::memory_order_acquire)) return;
  std::lock_guard wait(alone_);  // at once, where it is this thread
}

std::shared_ptr<TouchedPages> Window::touched() const {
  if (!open() || whole_run_) return nullptr;  // there is nothing to save
  return std::atomic_load(&shared_)->touched;
}

void Window::touch(const trace::MemoryRange& range) {
  if (!open() || !range.bytes()) return;
  if (!range.address || is_array_memory(range.address)) return spoil("an array was copied, which is not kept");
  if (whole_run_) return;
  std::atomic_load(&shared_)->copied.add(range.address, range.extent());
}

void Window::spoil(const std::string& why) {
  if (std::shared_ptr<Shared> shared = std::atomic_load(&shared_)) shared->spoil(why);
}

bool Window::is_spoiled() const {
  const std::shared_ptr<Shared> shared = std::atomic_load(&shared_);
  return shared && shared->is_spoiled();
}

trace::Bytes Window::bytes_of(const trace::MemoryRange& source, bool pinned, CUstream stream) {
  if (!open()) return {};
  if (!source.address) {
    spoil("a copy from an array");
    return {};
  }
  {
    std::lock_guard hold(session_.lock);
    const trace::Allocate* memory = session_.allocation_at(source.address);
    if (memory && others_.count(memory->address)) {
      spoil("a copy from memory of another device");
      return {};
    }
  }
  if (pinned && !device_.rest(stream)) spoil("a copy from page-locked memory did not end");
  std::shared_ptr<Shared> shared = std::atomic_load(&shared_);
  if (!shared->spend(source.bytes())) {
    spoil("its copies bring more than the window's budget");
    return {};
  }
  std::vector<std::uint8_t> bytes;
  bytes.reserve(source.bytes());
  for (std::uint64_t n = 0; n < source.rows(); ++n) {
    const auto* row = reinterpret_cast<const std::uint8_t*>(source.row(n));
    bytes.insert(bytes.end(), row, row + source.width);
  }
  return session_.writer().bytes(bytes);
}

// ---- opaque launches

std::vector<Memory> Window::live_memory() {
  std::lock_guard hold(session_.lock);
  std::vector<Memory> memory;
  for (const auto& [address, allocation] : session_.allocations()) {
    using Kind = trace::Allocate::Kind;
    memory.push_back({address, allocation.bytes, allocation.kind == Kind::pinned, others_.count(address) > 0,
                      allocation.kind == Kind::managed, allocation.kind == Kind::symbol});
  }
  return memory;
}

void Window::before_opaque(CUcontext context, const std::vector<std::uint8_t>& arguments,
                           const std::vector<CUstream>& more) {
  if (!open()) return;
  alone_.lock();
  watching = true;
  ++someone_;
  looking_ = false;
  const auto rests = [&](CUstream stream) { return device_.rest(stream); };
  if (!device_.use(context) || !device_.rest() || !std::all_of(more.begin(), more.end(), rests))
    return spoil("the device did not come to rest before an opaque kernel");
  std::vector<Memory> memory = live_memory(), reached;
  std::uint64_t total = 0;
  for (const Memory& m : memory) total += m.on_host ? 0 : m.bytes;
  for (const Memory& m : memory) {
    bool named = total <= little && !m.on_host;
    for (std::size_t at = 0; !named && at + 8 <= arguments.size(); at += 8) {
      std::uint64_t word;
      std::memcpy(&word, arguments.data() + at, 8);
      named = word - m.address < m.bytes;
    }
    if (named) reached.push_back(m);
  }
  looking_ = device_.remember(reached);
  if (!looking_) spoil("there was no room for a copy of what an opaque kernel can reach");
}

bool Window::after_opaque(CUstream stream, bool launched, std::vector<trace::Effects::Change>& effects) {
  if (!watching) return false;
  struct Done {  // the device is everybody's again, whatever happens here
    Window& window;
    ~Done() {
      watching = false;
      --window.someone_;
      window.alone_.unlock();
    }
  } done{*this};
  bool known = false;
  if (launched && !looking_) spoil("what an opaque kernel can reach could not be copied");
  if (launched && looking_) {
    std::shared_ptr<Shared> shared = shared_;
    if (!device_.rest(stream)) {
      spoil("an opaque kernel did not end");
    } else {
      known = device_.changes([&](std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes) {
        if (!shared->spend(bytes)) return false;
        shared->copied.add(address, bytes);
        std::lock_guard hold(host_lock_);
        host_.device_wrote(address, bytes);
        effects.push_back({address, session_.writer().bytes({data, bytes})});
        return true;
      });
      if (!known) spoil("what an opaque kernel changed could not be told, or is more than the window's budget");
    }
  }
  return known;
}

}  // namespace deadheat::cupti
