#ifndef TUTTI_FRAMEWORK_EXECUTOR_TABLE_INSTANCE_H_
#define TUTTI_FRAMEWORK_EXECUTOR_TABLE_INSTANCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "framework/base/number_map.h"
#include "framework/base/number_set.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

struct TableInstance;

// Execution, with the state that the table keeps for it under the table's
// mutex.
//
// Members mostly come one after the other on several threads. The fields that
// each member writes therefore lie in another cache line than the fields that
// it reads.
class TableExecution final : public Execution {
 public:
  using Execution::Execution;

 private:
  friend class ExecutionTable;
  friend class TableEntries;

  // Returns true if the execution failed and all its members have left.
  bool IsAbandoned() const {
    return cancellation.cancelled() && num_left_ == joined_.size();
  }

  // Returns the key of the transfers to forget, or none while they are needed.
  std::optional<ExecKey> KeyToForget() const {
    if (!over_ || num_cancelling_ > 0) return std::nullopt;
    return key_;
  }

  TableInstance* instance_ = nullptr;  // Valid while a member is in it.
  std::optional<ExecKey> key_;
  std::shared_ptr<const CollGroupParams> group_;  // Set with key_, once.
  std::shared_ptr<const void> owner_;  // Table's owner; see HoldOwner.
  bool resolved_ = false;              // First to be settled for some member.

  // Fields below: written by each member. A device that has left may be gone.
  ABSL_CACHELINE_ALIGNED absl::InlinedVector<const Device*, 16> joined_;
  size_t num_left_ = 0;
  size_t num_cancelling_ = 0;
  bool over_ = false;  // The table has forgotten the execution.
};

// State of an instance in the table, guarded by the table's mutex. Fields that
// each call reads and writes are next to each other.
struct ABSL_CACHELINE_ALIGNED TableInstance {
  uint64_t last_used = 0;  // Counted in joins.
  TableExecution* latest =
      nullptr;  // Execution under way that a member joined last, or null.
  NumberMap<std::shared_ptr<TableExecution>> executions;

  // Number of members in this process. All devices of the process after a wrong
  // group size or rank.
  size_t num_expected = 0;
  size_t num_held = 0;  // Members held by Hold().
  bool spans_tasks = false;
  std::vector<const Device*> members;
  std::vector<std::shared_ptr<TableExecution>> spare;  // Kept to use again.
  NumberSet ended;  // Executions that have left `executions`.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_TABLE_INSTANCE_H_
