#include "remote/mpi/messages/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <limits>

namespace tutti {
namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
              sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

}  // namespace

void Doorbell::Ring() {
  if (state_.exchange(kRung) != kAsleep) return;
  syscall(SYS_futex, &state_, FUTEX_WAKE, std::numeric_limits<int>::max(),
          nullptr, nullptr, 0);
}

// May wake early for other reasons too.
bool Doorbell::SleepUnlessRung(absl::Duration limit) {
  const timespec timeout = absl::ToTimespec(limit);
  syscall(SYS_futex, &state_, FUTEX_WAIT, kAsleep, &timeout, nullptr, 0);
  return state_.exchange(kAwake) == kRung;
}

}  // namespace tutti
