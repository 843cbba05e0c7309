#include "analyzer/detect/pipeline.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace deadheat::detect {

namespace {

class Run {
 public:
  Run(const Source& source, const Routing& routing, const std::vector<Consume>& workers, const ChunksDone& done)
      : source_(source),
        routing_(routing),
        workers_(workers),
        done_(done),
        total_(source.chunks()),
        most_begun_(8 * workers.size()),
        at_(workers.size()),
        spare_(workers.size()) {}

  void work(std::size_t worker) {
    std::unique_lock lock(mutex_);
    while (at_[worker].chunk < total_) {
      if (!look(worker, lock) && !decode(worker, lock)) changed_.wait(lock);
    }
  }

 private:
  struct Piece {
    std::shared_ptr<Batch> batch;
    std::size_t filler = 0; // worker
    std::size_t left = 0; // workers that have not looked at it
  };
  struct Chunk {
    std::deque<Piece> pieces;
    std::size_t gone = 0;   // pieces before those
    std::size_t passed = 0; // workers
    bool whole = false;     // no more pieces come
  };
  struct Place {
    std::size_t chunk = 0, piece = 0;
  };
  Chunk& chunk(std::size_t number) { return chunks_[number - first_]; }

  // Lets the worker see the next piece, or pass a chunk's end; false when there is neither.
  bool look(std::size_t worker, std::unique_lock<std::mutex>& lock) {
    Place& at = at_[worker];
    if (at.chunk >= first_ + chunks_.size()) return false;
    Chunk& of = chunk(at.chunk);
    if (at.piece == of.gone + of.pieces.size()) {
      if (!of.whole) return false;
      at = {at.chunk + 1, 0};
      ++of.passed;
      end_chunks();
      return true;
    }
    const Piece& piece = of.pieces[at.piece - of.gone]; // in a deque it stays where it is
    const Batch& batch = *piece.batch;
    lock.unlock();
    workers_[worker](batch);
    lock.lock();
    release(at);
    ++at.piece;
    return true;
  }
  void release(const Place& at) {
    Chunk& of = chunk(at.chunk);
    Piece& piece = of.pieces[at.piece - of.gone];
    if (--piece.left) return;
    // Whoever was last here was last at those before.
    const std::uint64_t bytes = piece.batch->bytes();
    bytes_ -= bytes;
    // However much is ready, some are kept: to get memory from the system each time costs more than to decode a batch.
    const std::uint64_t most_spare = routing_.most_bytes_ahead - std::min(bytes_, routing_.most_bytes_ahead * 3 / 4);
    if (spare_bytes_ + bytes <= most_spare) {
      spare_bytes_ += bytes;
      piece.batch->clear();
      spare_[piece.filler].push_back(std::move(piece.batch));
    }
    of.pieces.pop_front();
    ++of.gone;
    changed_.notify_all();
  }
  void end_chunks() {
    const std::size_t before = first_;
    while (!chunks_.empty() && chunks_.front().passed == workers_.size()) {
      chunks_.pop_front();
      ++first_;
    }
    if (first_ == before) return;
    if (done_) done_(first_);
    changed_.notify_all();
  }

  // A batch to fill, if possible with the memory of one that is done: one that the same worker filled, of which its own
  // part is still in its core's cache and in no other's.
  std::shared_ptr<Batch> spare(std::size_t worker) {
    auto* from = &spare_[worker];
    for (auto other = spare_.begin(); from->empty() && other != spare_.end(); ++other) from = &*other;
    if (from->empty()) return std::make_shared<Batch>();
    std::shared_ptr<Batch> batch = std::move(from->back());
    from->pop_back();
    spare_bytes_ -= batch->bytes();
    return batch;
  }
  // Decodes the first chunk that nobody has begun; false when there is none, or no room.
  bool decode(std::size_t worker, std::unique_lock<std::mutex>& lock) {
    const std::size_t number = first_ + chunks_.size();
    if (number == total_ || chunks_.size() == most_begun_ || no_room(number)) return false;
    chunks_.emplace_back();
    std::shared_ptr<Batch> batch = spare(worker);
    auto publish = [&](bool last) {
      lock.lock();
      batch->last = last;
      bytes_ += batch->bytes();
      chunk(number).pieces.push_back({std::move(batch), worker, workers_.size()}); // nobody can have passed it
      chunk(number).whole = last;
      changed_.notify_all();
    };
    lock.unlock();
    Batcher batcher(routing_, *batch, [&]() -> Batch& {
      publish(false);
      while (look(worker, lock) || (no_room(number) && (changed_.wait(lock), true))) {
      }
      batch = spare(worker);
      lock.unlock();
      return *batch;
    });
    source_.play(number, batcher);
    publish(true);
    return true;
  }
  // Is so much ready that a chunk's decoder is to wait? The first one has room of its own, whatever is ready of later
  // ones: all others wait for it.
  bool no_room(std::size_t number) const {
    if (number != first_ || chunks_.empty()) return bytes_ > routing_.most_bytes_ahead;
    const auto& pieces = chunks_.front().pieces;
    return pieces.size() > 1 && pieces.size() * routing_.piece_bytes > routing_.most_bytes_ahead / 4;
  }

  const Source& source_;
  const Routing& routing_;
  const std::vector<Consume>& workers_;
  const ChunksDone& done_;
  const std::size_t total_, most_begun_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Chunk> chunks_; // that were begun: first_ and on
  std::size_t first_ = 0;
  std::vector<Place> at_; // by worker: what it is to see next
  std::uint64_t bytes_ = 0; // of batches that are ready
  std::vector<std::vector<std::shared_ptr<Batch>>> spare_; // empty; by who filled them
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
