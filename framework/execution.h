#ifndef TUTTI_FRAMEWORK_EXECUTION_H_
#define TUTTI_FRAMEWORK_EXECUTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "framework/buf_key.h"
#include "framework/cancellation.h"
#include "framework/collective_request.h"
#include "framework/device.h"

namespace tutti {

// What the members of this process share in one execution of an instance.
class Execution {
 public:
  Execution(InstanceId id, uint64_t number) : id(id), number(number) {}

  const InstanceId id;
  const uint64_t number;

  // The execution's fate: set once it fails.
  Cancellation cancellation;

  // Members that have launched it.
  std::atomic<size_t> num_launched{0};

 private:
  friend class ExecutionTable;
  // Guarded by the table's mutex.
  absl::InlinedVector<const Device*, 8>
      joined_;  // Those that left may be gone.
  size_t num_left_ = 0;
  size_t num_cancelling_ = 0;
  bool over_ = false;  // Forgotten by the table.
  std::optional<ExecKey> key_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTION_H_
