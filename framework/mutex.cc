#include "framework/mutex.h"

#include "hwy/cache_control.h"

namespace tutti {
namespace {

// A pause takes 15 to 50 ns, by processor.
constexpr int kNumTries = 40;

}  // namespace

void Mutex::LockContended() {
  for (int i = 0; i < kNumTries; ++i) {
    hwy::Pause();
    if (mutex_.try_lock()) return;
  }
  mutex_.lock();
}

}  // namespace tutti
