#include "tracer/cupti/journal.h"

#include <utility>

namespace deadheat::cupti {

void Journal::push(Item item) {
  std::lock_guard hold(lock_);
  queue_.push_back(std::move(item));
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
      bool written = true;
      std::visit(
          [&](auto& item) {
            if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::shared_ptr<Awaited>>) {
              written = item->write(writer, last_chance);
            } else {
              writer.write(item);
            }
          },
          batch.front());
      if (!written) {
        std::lock_guard hold(lock_);  // the rest waits, before what has come since
        queue_.insert(queue_.begin(), std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
        return;
      }
      batch.pop_front();
    }
  }
}

}  // namespace deadheat::cupti
