#include "tracer/cupti/journal.h"

#include <utility>

namespace deadheat::cupti {

void Journal::push(trace::Record record) {
  std::lock_guard hold(lock_);
  queue_.emplace_back(std::move(record));
}

void Journal::push(std::shared_ptr<Awaited> launch) {
  std::lock_guard hold(lock_);
  queue_.emplace_back(std::move(launch));
}

bool Journal::empty() const {
  std::lock_guard hold(lock_);
  return queue_.empty();
}

void Journal::pump(trace::TraceWriter& writer, bool last_chance) {
  std::lock_guard one(pumping_);
  std::deque<Item> batch;
  for (;;) {
    {
      std::lock_guard hold(lock_);
      batch.swap(queue_);
    }
    if (batch.empty()) return;
    while (!batch.empty()) {
      if (auto* record = std::get_if<trace::Record>(&batch.front())) {
        writer.write(*record);
      } else if (!std::get<std::shared_ptr<Awaited>>(batch.front())->write(writer, last_chance)) {
        std::lock_guard hold(lock_);  // the rest waits, before what has come since
        queue_.insert(queue_.begin(), std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
        return;
      }
      batch.pop_front();
    }
  }
}

}  // namespace deadheat::cupti
