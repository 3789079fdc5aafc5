#ifndef TUTTI_FRAMEWORK_EXECUTION_H_
#define TUTTI_FRAMEWORK_EXECUTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "framework/buf_key.h"
#include "framework/cancellation.h"
#include "framework/collective_request.h"
#include "framework/device.h"

namespace tutti {

struct CollGroupParams;
struct TableInstance;

// What the members of this process share in one execution of an instance. Once
// all have left and nobody else holds it, the table may give it another number
// and use it again, unless it failed.
//
// Members mostly come one after the other on several threads, so what each of
// them writes lies in a cache line apart from what each of them reads.
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

  // The group in which it runs. REQUIRES: ExecutionTable::BeginCancel() gave
  // its key.
  const CollGroupParams& group() const { return *group_; }

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
  friend class ExecutionTable;
  // Guarded by the table's mutex.
  TableInstance* instance_ = nullptr;  // Valid while anybody is in it.
  std::optional<ExecKey> key_;
  std::shared_ptr<const CollGroupParams> group_;  // Set with it, once.
  std::shared_ptr<const void> owner_;  // Of the table, while anybody is in it.
  bool resolved_ =
      false;  // For some member it was the first one to be settled.

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

  // Guarded by the table's mutex, and written by each member. Who has left may
  // be gone.
  ABSL_CACHELINE_ALIGNED absl::InlinedVector<const Device*, 16> joined_;
  size_t num_left_ = 0;
  size_t num_cancelling_ = 0;
  bool over_ = false;  // Forgotten by the table.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTION_H_
