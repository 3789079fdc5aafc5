#ifndef TUTTI_REMOTE_MPI_MESSAGES_DOORBELL_H_
#define TUTTI_REMOTE_MPI_MESSAGES_DOORBELL_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace tutti {

// Wakes one thread, of this process or of another one, from other threads. A
// word of shared memory says whether the thread sleeps (futex(2)). A ring costs
// a system call only if it does.
//
// The sleeper calls PrepareToSleep(), looks once more for work, and then calls
// SleepUnlessRung() or StayAwake(). Work published before a ring is seen by
// that look, or the sleeper sees the ring. All zeros is a valid state.
class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // Rings; on any thread of any process.
  void Ring();

  // Functions of the one sleeping thread:
  void PrepareToSleep() {
    state_.store(kAsleep);
    // The next look may read memory that is no atomic of ours, such as MPI's.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void StayAwake() { state_.store(kAwake); }

  // Returns whether it was rung.
  bool SleepUnlessRung(absl::Duration limit);

 private:
  static constexpr uint32_t kAwake = 0;
  static constexpr uint32_t kAsleep = 1;
  static constexpr uint32_t kRung = 2;

  std::atomic<uint32_t> state_{kAwake};
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_DOORBELL_H_
