#ifndef TUTTI_RESOLVERS_LEADER_LEADER_SERVICE_H_
#define TUTTI_RESOLVERS_LEADER_LEADER_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/leader/resolver_options.h"
#include "resolvers/local/param_resolver_local.h"
#include "tutti/environment.h"

namespace tutti {

// Leader's side of the calls that members of other tasks make: checks each
// request, and replies with the settled params.
//
// Thread-safe. Errors: INVALID_ARGUMENT for an invalid message.
class LeaderService : public std::enable_shared_from_this<LeaderService> {
 public:
  // `options`: suspects the leader that a caller takes this task for. Calls of
  // executions in `given_up` end at once.
  LeaderService(DistributedResolverOptions options,
                std::shared_ptr<ParamResolverLocal> led,
                std::shared_ptr<GivenUpExecutions> given_up)
      : options_(std::move(options)),
        led_(std::move(led)),
        given_up_(std::move(given_up)) {}

  // Answers when the instance is settled. A withdrawn call leaves nothing
  // behind. More errors: RESOURCE_EXHAUSTED.
  void CompleteParams(const ControlCaller& caller,
                      const proto::CompleteParams& message,
                      std::shared_ptr<Cancellation> withdrawn, ControlDone done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the waiting calls of the step, which has ended on all tasks, with
  // StepHasEndedError(). Call after GivenUpExecutions::EndStep(), which ends
  // later calls.
  void EndStep(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  proto::ControlReply DescribeWaiting(const proto::DescribeWaiting& message);

  // Returns the number of waiting calls of other tasks.
  size_t num_waiting() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiting {
    int task = 0;
    size_t num_bytes = 0;         // Of the message.
    std::optional<int64_t> step;  // None: wants the group alone.
    std::shared_ptr<Cancellation> end;
  };

  struct CallsOfTask {
    int count = 0;
    size_t num_bytes = 0;
  };

  // Returns a number for Remove().
  absl::StatusOr<uint64_t> Add(Waiting call) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(uint64_t number) ABSL_LOCKS_EXCLUDED(mu_);
  proto::ControlReply NotLeaderReply();

  const DistributedResolverOptions options_;
  const std::shared_ptr<ParamResolverLocal> led_;
  const std::shared_ptr<GivenUpExecutions> given_up_;
  Mutex mu_;
  absl::flat_hash_map<int, CallsOfTask> calls_of_task_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, Waiting> calls_ ABSL_GUARDED_BY(mu_);
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_LEADER_SERVICE_H_
