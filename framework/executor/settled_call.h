#ifndef TUTTI_FRAMEWORK_EXECUTOR_SETTLED_CALL_H_
#define TUTTI_FRAMEWORK_EXECUTOR_SETTLED_CALL_H_

#include "absl/status/status.h"
#include "framework/executor/table_call.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

namespace tutti {

// Call of CollectiveExecutor::ExecuteAsync() that waits for nothing but the
// other members. Its instance was settled by the same request, and it has no
// limit, dependency, number or segments. Takes the steps of a MemberOp after
// the instance is settled, without the state that a MemberOp needs to wait.
// Allocates nothing if an earlier call's memory is free.
class SettledCall {
 public:
  // Runs the call and takes `args` and `done`, if the call is of this kind and
  // the step not aborted. Otherwise returns false and does nothing.
  static bool Start(CollectiveExecutor& executor, CollectiveArgs* args,
                    StatusCallback* done);

 private:
  static absl::Status Prepare(TableCall& call, CollectiveArgs* args,
                              absl::Status joined);

  // Ends the call. Afterwards the object may belong to another member.
  static void Finish(TableCall& call, absl::Status status);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_SETTLED_CALL_H_
