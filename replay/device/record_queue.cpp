#include "replay/device/record_queue.h"

#include <signal.h>
#include <unistd.h>

#include <bit>
#include <system_error>

#include "replay/device/other_threads.h"

namespace deadheat::device {

static_assert(sizeof(engine::LogEntry) == sizeof(trace::LogEntry));
static_assert(offsetof(engine::LogEntry, site) == offsetof(trace::LogEntry, site));
static_assert(offsetof(engine::LogEntry, digest) == offsetof(trace::LogEntry, digest));

RecordQueue::RecordQueue(trace::TraceWriter& writer)
    : writer_(writer), home_(getpid()), filling_(std::make_unique<Batch>()) {}

RecordQueue::~RecordQueue() {
  drain();
  if (!worker_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void RecordQueue::Leave::operator()(RecordQueue* queue) const {
  if (queue->home_ == getpid()) delete queue;
}

void RecordQueue::record(const trace::Record& record) {
  filling_->steps.push_back({});
  filling_->records.push_back(record);
  if (filling_->steps.size() >= batch_steps) hand_over();
}

void RecordQueue::weak_accesses(const trace::Warp& warp, std::uint32_t module, const LaneLogs& logs) {
  Batch& batch = *filling_;
  std::uint32_t lanes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (logs.begin[lane] == logs.end[lane]) continue;
    lanes |= 1u << lane;
    batch.counts.push_back(std::uint32_t(logs.end[lane] - logs.begin[lane]));
    batch.entries.insert(batch.entries.end(), logs.begin[lane], logs.end[lane]);
  }
  if (!lanes) return;
  batch.steps.push_back({warp, module, lanes});
  if (batch.entries.size() >= batch_entries || batch.steps.size() >= batch_steps) hand_over();
}

void RecordQueue::write(Batch& batch) {
  const trace::Record* record = batch.records.data();
  const std::uint32_t* count = batch.counts.data();
  const auto* entry = reinterpret_cast<const trace::LogEntry*>(batch.entries.data());
  for (const Step& step : batch.steps) {
    if (!step.lanes) {
      writer_.write(*record++);
      continue;
    }
    trace::LaneLog lanes[32];
    for (std::uint32_t left = step.lanes; left; left &= left - 1) {
      trace::LaneLog& lane = lanes[std::countr_zero(left)];
      lane.begin = entry;
      lane.end = entry += *count++;
    }
    writer_.write_warp(step.warp, step.module, lanes);
  }
  batch.steps.clear();
  batch.records.clear();
  batch.counts.clear();
  batch.entries.clear();
  // A long log went through: its room is not kept.
  if (batch.entries.capacity() > 8 * batch_entries) std::vector<engine::LogEntry>().swap(batch.entries);
}

bool RecordQueue::begin() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    worker_ = std::thread([this] { work(); });
    name_own_thread(worker_, "log");
  } catch (const std::system_error&) {
    alone_ = true;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !alone_;
}

void RecordQueue::hand_over() {
  if (alone_ || (!worker_.joinable() && !begin())) return write(*filling_);
  std::unique_lock<std::mutex> lock(mutex_);
  full_.push_back(std::move(filling_));
  changed_.notify_all();
  changed_.wait(lock, [&] { return !empty_.empty() || made_ < max_batches; });
  if (!empty_.empty()) {
    filling_ = std::move(empty_.back());
    empty_.pop_back();
  } else {
    ++made_;
    filling_ = std::make_unique<Batch>();
  }
}

void RecordQueue::drain() {
  if (getpid() != home_) return;
  if (!worker_.joinable()) return write(*filling_);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return full_.empty() && !writing_; });
  lock.unlock();
  write(*filling_); // the thread has nothing to do
}

void RecordQueue::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !full_.empty() || ends_; });
    if (full_.empty()) return;
    std::unique_ptr<Batch> batch = std::move(full_.front());
    full_.pop_front();
    writing_ = true;
    lock.unlock();
    write(*batch);
    lock.lock();
    writing_ = false;
    empty_.push_back(std::move(batch));
    changed_.notify_all();
  }
}

} // namespace deadheat::device
