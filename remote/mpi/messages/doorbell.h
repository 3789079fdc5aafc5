#ifndef TUTTI_REMOTE_MPI_MESSAGES_DOORBELL_H_
#define TUTTI_REMOTE_MPI_MESSAGES_DOORBELL_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace tutti {

// Wakes one thread, of this process or of another one, from others: a word of
// memory that both see, in which the thread says that it sleeps (futex(2)).
// Ringing costs a system call only if it does.
//
// The sleeper: PrepareToSleep(); looks once more whether there is something to
// do; then SleepUnlessRung(), or StayAwake(). What was made known before a ring
// is seen by that look, or the ring by the sleeper. All zeros is a good state.
class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // On any thread of any process.
  void Ring();

  // On the one thread.
  void PrepareToSleep() {
    state_.store(kAsleep);
    // What is looked at next may be no atomic of ours, as MPI's.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void StayAwake() { state_.store(kAwake); }

  // Whether it was rung.
  bool SleepUnlessRung(absl::Duration limit);

 private:
  static constexpr uint32_t kAwake = 0;
  static constexpr uint32_t kAsleep = 1;
  static constexpr uint32_t kRung = 2;

  std::atomic<uint32_t> state_{kAwake};
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_DOORBELL_H_
