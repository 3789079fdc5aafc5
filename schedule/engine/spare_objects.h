#ifndef TUTTI_SCHEDULE_ENGINE_SPARE_OBJECTS_H_
#define TUTTI_SCHEDULE_ENGINE_SPARE_OBJECTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"

namespace tutti {

// Counts the bytes of all spare objects of a group in this process, and bounds
// them. A resource of the group. Thread-safe.
class SpareBytes {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // Counts `num_bytes` more. Returns false, and counts nothing, if the sum
  // would exceed kMostBytes.
  bool Take(size_t num_bytes) {
    size_t taken = num_taken_.load(std::memory_order_relaxed);
    while (num_bytes <= kMostBytes - taken) {
      if (num_taken_.compare_exchange_weak(taken, taken + num_bytes,
                                           std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  void GiveBack(size_t num_bytes) {
    num_taken_.fetch_sub(num_bytes, std::memory_order_relaxed);
  }

 private:
  std::atomic<size_t> num_taken_{0};
};

// Keeps a few unused objects for reuse. Thread-safe.
template <typename T>
class SpareObjects {
 public:
  // Number of executions of an instance that are usually in progress at a time.
  static constexpr size_t kMostKept = 2;

  // An object takes `bytes_each` bytes. `bytes` counts them while this lives.
  SpareObjects(std::shared_ptr<SpareBytes> bytes, size_t bytes_each)
      : bytes_(std::move(bytes)), bytes_each_(bytes_each) {}
  ~SpareObjects() { bytes_->GiveBack(num_places_ * bytes_each_); }
  SpareObjects(const SpareObjects&) = delete;
  SpareObjects& operator=(const SpareObjects&) = delete;

  // Returns the object kept last, or null if none is kept.
  std::unique_ptr<T> Take() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return num_kept_ == 0 ? nullptr : std::move(kept_[--num_kept_]);
  }

  // Keeps the object. If there is no room, destroys it with no lock held.
  void Keep(std::unique_ptr<T> object) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (num_kept_ < num_places_ || AddPlace()) {
      kept_[num_kept_++] = std::move(object);
    }
  }

 private:
  bool AddPlace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (num_places_ == kMostKept || !bytes_->Take(bytes_each_)) return false;
    ++num_places_;
    return true;
  }

  const std::shared_ptr<SpareBytes> bytes_;
  const size_t bytes_each_;

  Mutex mu_;
  size_t num_places_ ABSL_GUARDED_BY(mu_) = 0;  // Places counted in bytes_.
  size_t num_kept_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<std::unique_ptr<T>, kMostKept> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SPARE_OBJECTS_H_
