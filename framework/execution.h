#ifndef TUTTI_FRAMEWORK_EXECUTION_H_
#define TUTTI_FRAMEWORK_EXECUTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "framework/buf_key.h"
#include "framework/cancellation.h"
#include "framework/collective_request.h"
#include "framework/device.h"
#include "framework/mutex.h"

namespace tutti {

struct CollGroupParams;

// What the members of this process share in one execution of an instance.
class Execution {
 public:
  Execution(InstanceId id, uint64_t number) : id(id), number(number) {}

  const InstanceId id;
  const uint64_t number;

  // The execution's fate: set once it fails.
  Cancellation cancellation;

  // The group in which it runs. REQUIRES: ExecutionTable::BeginCancel() gave
  // its key.
  const CollGroupParams& group() const { return *group_; }

  // Members that have launched it.
  std::atomic<size_t> num_launched{0};

  // What the members share for this execution alone, as implementations like:
  // one object, default-constructed on first use, of the same type in each
  // call.
  template <typename T>
  std::shared_ptr<T> Shared() ABSL_LOCKS_EXCLUDED(shared_mu_) {
    MutexLock lock(&shared_mu_);
    if (shared_ == nullptr) shared_ = std::make_shared<T>();
    return std::static_pointer_cast<T>(shared_);
  }

 private:
  friend class ExecutionTable;
  // Guarded by the table's mutex.
  absl::InlinedVector<const Device*, 8>
      joined_;  // Those that left may be gone.
  size_t num_left_ = 0;
  size_t num_cancelling_ = 0;
  bool over_ = false;  // Forgotten by the table.
  std::optional<ExecKey> key_;
  std::shared_ptr<const CollGroupParams> group_;  // Set with it, once.

  Mutex shared_mu_;
  std::shared_ptr<void> shared_ ABSL_GUARDED_BY(shared_mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTION_H_
