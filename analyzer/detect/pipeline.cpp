#include "analyzer/detect/pipeline.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace deadheat::detect {

namespace {

// Batches that are ready before the slowest worker needs them: enough that workers seldom wait for each other.
constexpr std::size_t most_ahead = 16;

class Run {
 public:
  Run(const Source& source, const Routing& routing, const std::vector<Consume>& workers, const ChunksDone& done)
      : source_(source), routing_(routing), workers_(workers), done_(done), total_(source.chunks()) {}

  void work(std::size_t worker) {
    std::unique_lock lock(mutex_);
    for (std::size_t next = 0; next < total_;) {
      extend();
      if (next < first_ + slots_.size() && slots_[next - first_].ready) {
        std::shared_ptr<const Batch> batch = slots_[next - first_].batch;
        lock.unlock();
        workers_[worker](*batch);
        batch.reset();
        lock.lock();
        release(next++);
        continue;
      }
      if (!build(lock)) changed_.wait(lock);
    }
  }

 private:
  struct Slot {
    std::shared_ptr<Batch> batch;
    std::size_t left = 0; // workers that have not looked at it
    bool taken = false, ready = false;
  };

  void extend() {
    while (slots_.size() < most_ahead && first_ + slots_.size() < total_) slots_.push_back({nullptr, workers_.size()});
  }
  // A batch to fill, if possible with the memory of one that is done.
  std::shared_ptr<Batch> spare() {
    if (spare_.empty()) return std::make_shared<Batch>();
    std::shared_ptr<Batch> batch = std::move(spare_.back());
    spare_.pop_back();
    spare_bytes_ -= batch->bytes();
    return batch;
  }
  // Decodes the first chunk that nobody has begun; false when there is none, or no room.
  bool build(std::unique_lock<std::mutex>& lock) {
    std::size_t chunk = first_;
    while (chunk < first_ + slots_.size() && slots_[chunk - first_].taken) ++chunk;
    if (chunk == first_ + slots_.size() || (chunk != first_ && bytes_ > routing_.most_bytes_ahead)) return false;
    slots_[chunk - first_].taken = true;
    std::shared_ptr<Batch> batch = spare();
    lock.unlock();
    Batcher batcher(routing_, *batch);
    source_.play(chunk, batcher);
    lock.lock();
    bytes_ += batch->bytes();
    Slot& slot = slots_[chunk - first_]; // nobody can have passed it
    slot.batch = std::move(batch);
    slot.ready = true;
    changed_.notify_all();
    return true;
  }
  void release(std::size_t chunk) {
    if (--slots_[chunk - first_].left) return;
    const std::uint64_t bytes = slots_[chunk - first_].batch->bytes();
    bytes_ -= bytes;
    if (spare_bytes_ + bytes <= routing_.most_bytes_ahead / 2) {
      spare_bytes_ += bytes;
      spare_.push_back(std::move(slots_[chunk - first_].batch));
      spare_.back()->clear();
    }
    slots_[chunk - first_].batch.reset();
    while (!slots_.empty() && slots_.front().ready && !slots_.front().left) {
      slots_.pop_front();
      ++first_;
    }
    if (done_) done_(first_);
    changed_.notify_all();
  }

  const Source& source_;
  const Routing& routing_;
  const std::vector<Consume>& workers_;
  const ChunksDone& done_;
  const std::size_t total_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> slots_; // of chunks first_ and on
  std::size_t first_ = 0;
  std::uint64_t bytes_ = 0; // of batches that are ready
  std::vector<std::shared_ptr<Batch>> spare_; // empty
  std::uint64_t spare_bytes_ = 0;
};

void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  work(0);
}

} // namespace

void run(const Source& source, const Routing& routing, const std::vector<Consume>& workers, const ChunksDone& done) {
  Run run(source, routing, workers, done);
  on_threads(workers.size(), [&](std::size_t worker) { run.work(worker); });
}

void for_each_chunk(const Source& source, unsigned threads, const std::function<void(std::size_t)>& each) {
  std::atomic<std::size_t> next{0};
  on_threads(threads, [&](std::size_t) {
    for (std::size_t chunk; (chunk = next.fetch_add(1)) < source.chunks();) each(chunk);
  });
}

} // namespace deadheat::detect
