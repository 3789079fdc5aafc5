#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

class DefaultEnvironment::Pool : public WorkQueue {
 public:
  explicit Pool(int num_workers) : num_workers_(num_workers) {}
  ~Pool() override {
    if (pool_) pool_->join();
  }

  void Schedule(Work work) override {
    std::call_once(
        started_, [this] { pool_.emplace(static_cast<size_t>(num_workers_)); });
    asio::post(*pool_,
               [work = std::move(work)]() mutable { std::move(work)(); });
  }

  int num_workers() const override { return num_workers_; }

 private:
  const int num_workers_;
  std::once_flag started_;
  std::optional<asio::thread_pool> pool_;
};

namespace {

using std::chrono::steady_clock;

// Time of this process's clocks at which the steady clock was 0. Later changes
// of the system's time have no effect on it.
absl::Time Epoch() {
  static const absl::Time epoch =
      absl::Now() - absl::FromChrono(steady_clock::now().time_since_epoch());
  return epoch;
}

}  // namespace

// Alarms are entries of one io_context, run by one thread. A timer lives as
// long as its entry in `alarms_`.
class DefaultEnvironment::SteadyClock : public Clock {
 public:
  // Drops the alarms that have not begun to ring. Later CallAt() and Cancel()
  // are allowed; their alarms are dropped at once.
  void Stop() {
    context_.stop();
    std::optional<std::thread> thread;
    {
      MutexLock lock(&mu_);
      is_stopped_ = true;
      thread.swap(thread_);
    }
    if (thread) thread->join();
    Alarms dropped;  // Destroyed without the lock; may call back here.
    {
      MutexLock lock(&mu_);
      dropped.swap(alarms_);
    }
  }

  absl::Time Now() override {
    return Epoch() + absl::FromChrono(steady_clock::now().time_since_epoch());
  }

  AlarmId CallAt(absl::Time when, Work alarm) override {
    MutexLock lock(&mu_);
    const AlarmId id = ++last_id_;
    if (is_stopped_) return id;
    StartThread();
    Alarm& entry =
        alarms_.emplace(id, std::make_unique<Alarm>(context_, std::move(alarm)))
            .first->second.operator*();
    entry.timer.expires_at(
        steady_clock::time_point(absl::ToChronoNanoseconds(when - Epoch())));
    entry.timer.async_wait([this, id](const asio::error_code& error) {
      if (!error) Ring(id);
    });
    return id;
  }

  bool Cancel(AlarmId id) override {
    const std::unique_ptr<Alarm> cancelled = Take(id);
    return cancelled != nullptr;
  }

 private:
  struct Alarm {
    Alarm(asio::io_context& context, Work work)
        : timer(context), work(std::move(work)) {}
    asio::steady_timer timer;
    Work work;
  };
  using Alarms = absl::flat_hash_map<AlarmId, std::unique_ptr<Alarm>>;

  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (thread_) return;
    thread_.emplace([this] { context_.run(); });
  }

  std::unique_ptr<Alarm> Take(AlarmId id) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto found = alarms_.find(id);
    if (found == alarms_.end()) return nullptr;
    std::unique_ptr<Alarm> alarm = std::move(found->second);
    alarms_.erase(found);
    return alarm;
  }

  void Ring(AlarmId id) {
    const std::unique_ptr<Alarm> due = Take(id);
    if (due != nullptr) std::move(due->work)();
  }

  asio::io_context context_{/*concurrency_hint=*/1};
  const asio::executor_work_guard<asio::io_context::executor_type>
      keep_running_{context_.get_executor()};
  Mutex mu_;
  std::optional<std::thread> thread_ ABSL_GUARDED_BY(mu_);
  bool is_stopped_ ABSL_GUARDED_BY(mu_) = false;
  AlarmId last_id_ ABSL_GUARDED_BY(mu_) = 0;
  Alarms alarms_ ABSL_GUARDED_BY(mu_);
};

class DefaultEnvironment::SystemRandom : public Random {
 public:
  uint64_t Next() override {
    MutexLock lock(&mu_);
    return generator_();
  }

 private:
  Mutex mu_;
  absl::BitGen generator_ ABSL_GUARDED_BY(mu_);
};

namespace {

int WorkersOrProcessors(int num_workers) {
  if (num_workers > 0) return num_workers;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

DefaultEnvironment::DefaultEnvironment(int num_workers)
    : random_(std::make_unique<SystemRandom>()),
      clock_(std::make_unique<SteadyClock>()),
      pool_(std::make_unique<Pool>(WorkersOrProcessors(num_workers))),
      environment_{pool_.get(), clock_.get(), random_.get()} {}

DefaultEnvironment::~DefaultEnvironment() {
  // Stopped first, because alarms may schedule work and work may set alarms.
  clock_->Stop();
}

}  // namespace tutti
