#ifndef TUTTI_FRAMEWORK_EXECUTOR_SETTLED_CALL_H_
#define TUTTI_FRAMEWORK_EXECUTOR_SETTLED_CALL_H_

#include "absl/status/status.h"
#include "framework/executor/execution_table.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

namespace tutti {

// A call of CollectiveExecutor::ExecuteAsync() that has nothing to wait for but
// the other members: its instance was settled by the same request, and it has
// no limit, dependency, number or segments. The walk of a MemberOp from
// where the instance is settled, without what that needs to wait: it belongs to
// nobody, and nothing is allocated for it where an earlier one's place is free.
class SettledCall {
 public:
  // Runs the call, and takes what is given, if it is such a one and the step is
  // not aborted. Else false, and nothing is done.
  static bool Start(CollectiveExecutor& executor, CollectiveArgs* args,
                    StatusCallback* done);

 private:
  static absl::Status Prepare(ExecutionTable::Call& call, CollectiveArgs* args,
                              absl::Status joined);

  // The call may be another member's afterwards.
  static void Finish(ExecutionTable::Call& call, absl::Status status);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_SETTLED_CALL_H_
