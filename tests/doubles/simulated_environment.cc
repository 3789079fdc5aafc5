#include "tests/doubles/simulated_environment.h"

#include <algorithm>
#include <utility>

namespace tutti {

void SimulatedEnvironment::Queue::Schedule(Work work) {
  MutexLock lock(&mu_);
  waiting_.push_back(std::move(work));
}

Work SimulatedEnvironment::Queue::Take() {
  MutexLock lock(&mu_);
  if (waiting_.empty()) return nullptr;
  std::swap(waiting_[generator_() % waiting_.size()], waiting_.back());
  Work work = std::move(waiting_.back());
  waiting_.pop_back();
  return work;
}

absl::Time SimulatedEnvironment::ManualClock::Now() {
  MutexLock lock(&mu_);
  return now_;
}

Clock::AlarmId SimulatedEnvironment::ManualClock::CallAt(absl::Time when,
                                                         Work alarm) {
  MutexLock lock(&mu_);
  const AlarmId id = ++last_id_;
  alarms_.emplace(std::make_pair(when, id), std::move(alarm));
  times_.emplace(id, when);
  return id;
}

bool SimulatedEnvironment::ManualClock::Cancel(AlarmId id) {
  Work cancelled;  // Destroyed outside the lock.
  MutexLock lock(&mu_);
  const auto time = times_.find(id);
  if (time == times_.end()) return false;
  const auto found = alarms_.find({time->second, id});
  cancelled = std::move(found->second);
  alarms_.erase(found);
  times_.erase(time);
  return true;
}

Work SimulatedEnvironment::ManualClock::TakeDue(absl::Time end) {
  MutexLock lock(&mu_);
  if (alarms_.empty() || alarms_.begin()->first.first > end) {
    now_ = std::max(now_, end);
    return nullptr;
  }
  now_ = std::max(now_, alarms_.begin()->first.first);
  Work alarm = std::move(alarms_.begin()->second);
  times_.erase(alarms_.begin()->first.second);
  alarms_.erase(alarms_.begin());
  return alarm;
}

size_t SimulatedEnvironment::ManualClock::num_alarms() {
  MutexLock lock(&mu_);
  return alarms_.size();
}

uint64_t SimulatedEnvironment::SeededRandom::Next() {
  MutexLock lock(&mu_);
  return generator_();
}

SimulatedEnvironment::SimulatedEnvironment(uint64_t seed)
    : queue_(seed), random_(seed), environment_{&queue_, &clock_, &random_} {}

void SimulatedEnvironment::RunAll() {
  while (Work work = queue_.Take()) std::move(work)();
}

bool SimulatedEnvironment::RunSome(int max_works) {
  for (int i = 0; i < max_works; ++i) {
    Work work = queue_.Take();
    if (work == nullptr) return false;
    std::move(work)();
  }
  return true;
}

void SimulatedEnvironment::Advance(absl::Duration duration) {
  const absl::Time end = clock_.Now() + duration;
  while (Work alarm = clock_.TakeDue(end)) {
    std::move(alarm)();
    RunAll();
  }
}

size_t SimulatedEnvironment::num_alarms() { return clock_.num_alarms(); }

}  // namespace tutti
