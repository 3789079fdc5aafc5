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

// What all spare objects of a group take in this process, at the most. One of
// the group's resources. Thread-safe.
class SpareBytes {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // False, and nothing is taken, if all would be more than that.
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

// Keeps a few objects that nobody uses, to be used again. Thread-safe.
template <typename T>
class SpareObjects {
 public:
  // As many as executions of an instance are mostly under way at a time.
  static constexpr size_t kMostKept = 2;

  // An object takes `bytes_each`, which `bytes` counts as long as this lives.
  SpareObjects(std::shared_ptr<SpareBytes> bytes, size_t bytes_each)
      : bytes_(std::move(bytes)), bytes_each_(bytes_each) {}
  ~SpareObjects() { bytes_->GiveBack(num_places_ * bytes_each_); }
  SpareObjects(const SpareObjects&) = delete;
  SpareObjects& operator=(const SpareObjects&) = delete;

  // The one kept last; null: there is none.
  std::unique_ptr<T> Take() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return num_kept_ == 0 ? nullptr : std::move(kept_[--num_kept_]);
  }

  // Destroys it, with no lock held, where there is no room.
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
  size_t num_places_ ABSL_GUARDED_BY(mu_) = 0;  // That `bytes_` counts.
  size_t num_kept_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<std::unique_ptr<T>, kMostKept> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SPARE_OBJECTS_H_
