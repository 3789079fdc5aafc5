#ifndef TUTTI_FRAMEWORK_EXECUTION_H_
#define TUTTI_FRAMEWORK_EXECUTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "framework/cancellation.h"
#include "framework/collective_request.h"

namespace tutti {

// State that the members of this process share in one execution of an instance.
// Once all have left and nobody else holds it, it may get another number and be
// used again, unless it failed.
class Execution {
 public:
  Execution(InstanceId id, uint64_t number) : id(id), number(number) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  const InstanceId id;
  uint64_t number;  // Stays the same while anybody is in it.

  // The execution's fate: set once it fails.
  Cancellation cancellation;

  // Members that have launched it.
  std::atomic<size_t> num_launched{0};

  // What the members share for this execution alone, as implementations like:
  // one object, made from `cancellation` on first use, of the same type in each
  // call. It lives as long as this does; one that is used again finds it as the
  // last execution left it.
  template <typename T>
  T& Shared() {
    void* shared = made_shared_.load(std::memory_order_acquire);
    return *static_cast<T*>(shared != nullptr ? shared : MakeShared<T>());
  }

 private:
  template <typename T>
  void* MakeShared() {
    std::call_once(shared_once_, [this] {
      shared_ = std::make_shared<T>(cancellation);
      made_shared_.store(shared_.get(), std::memory_order_release);
    });
    return shared_.get();
  }

  std::once_flag shared_once_;
  std::shared_ptr<void> shared_;             // Written once, under the flag.
  std::atomic<void*> made_shared_{nullptr};  // What it owns, once it is made.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTION_H_
