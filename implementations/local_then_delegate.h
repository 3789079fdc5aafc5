#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_THEN_DELEGATE_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_THEN_DELEGATE_H_

#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "framework/collective_context.h"
#include "framework/collective_delegate.h"
#include "framework/collective_implementation.h"
#include "framework/params.h"
#include "framework/status_callback.h"

namespace tutti {

// An all-reduce of several members in each process, in three steps:
//
//   process 0     process 1
//   a b c         d e f        one pass over memory in each process:
//   - s -         - t -          s = (a + b) + c
//   S - -  <--->  S - -        what connects the processes: S = s + t
//   S S S         S S S        one pass: final op, and to all members
//
// Only the first members of the processes are known to the delegate. An
// execution is launched at a first member when the delegate has launched it, at
// others when they have come.
class LocalThenDelegate : public CollectiveImplementationInterface {
 public:
  // The name of the delegate.
  explicit LocalThenDelegate(std::string delegate)
      : delegate_(std::move(delegate)) {}

  // Errors: FAILED_PRECONDITION if another delegate, or none, connects the
  // processes; those of CollectiveDelegate::Prepare().
  absl::Status InitializeCollectiveContext(CollectiveContext* context) override;
  void Run(const CollectiveContext& context, StatusCallback done) override;

 private:
  // What the delegate is told of the collective; the same for all executions.
  struct Between {
    CollectiveParams params;
    const void* delegate_state = nullptr;
  };
  class Stages;

  absl::Status PrepareBetween(const CollectiveContext& context,
                              CollectiveDelegate& delegate);

  const std::string delegate_;
  std::once_flag once_;
  absl::Status status_;  // Of the first member's preparation.
  Between between_;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_THEN_DELEGATE_H_
