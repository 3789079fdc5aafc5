#ifndef TUTTI_TESTS_DOUBLES_STOPPABLE_ENVIRONMENT_H_
#define TUTTI_TESTS_DOUBLES_STOPPABLE_ENVIRONMENT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "tutti/environment.h"

namespace tutti {

// Threads that can end before the users of the environment are destroyed: the
// network of a job may be destroyed only when its queue has no work left. Work
// scheduled later is dropped.
class StoppableEnvironment : public WorkQueue, public Clock, public Random {
 public:
  void Stop() {
    threads_.reset();
    is_stopped_ = true;
  }
  Environment get() { return {this, this, this}; }

  void Schedule(Work work) override {
    if (!is_stopped_) real_.queue->Schedule(std::move(work));
  }
  int num_workers() const override { return real_.queue->num_workers(); }
  absl::Time Now() override {
    return is_stopped_ ? absl::UnixEpoch() : real_.clock->Now();
  }
  AlarmId CallAt(absl::Time when, Work alarm) override {
    return is_stopped_ ? 0 : real_.clock->CallAt(when, std::move(alarm));
  }
  bool Cancel(AlarmId id) override {
    return is_stopped_ || real_.clock->Cancel(id);
  }
  uint64_t Next() override { return is_stopped_ ? 1 : real_.random->Next(); }

 private:
  std::unique_ptr<DefaultEnvironment> threads_ =
      std::make_unique<DefaultEnvironment>(/*num_workers=*/2);
  const Environment real_ = threads_->get();
  bool is_stopped_ = false;  // Set once all threads have ended.
};

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_STOPPABLE_ENVIRONMENT_H_
