#ifndef TUTTI_RESOLVERS_MEMBERSHIP_STEP_SEQUENCE_DISTRIBUTED_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_STEP_SEQUENCE_DISTRIBUTED_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/leadership.h"
#include "resolvers/local/step_sequence_local.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

// Step sequence of one task of a cluster. The leader draws the id from which
// the steps of a graph go on.
//
// All tasks that request an id get the same one, until a task that already has
// it sends another request. The leader then draws a new id, for this task and
// for all later requests. Tasks that differ thus agree again after each has
// refreshed. A late task joins the round of the others. A request that is
// repeated because its answer was lost begins no round.
class StepSequenceDistributed
    : public StepSequenceInterface,
      public std::enable_shared_from_this<StepSequenceDistributed> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<ControlChannel> channel;
    std::shared_ptr<const Leadership> leadership;
    uint64_t incarnation = 0;  // Incarnation of this process.

    // Time limit for the leader's answer, which includes reaching it.
    absl::Duration limit = DefaultTime("step id");

    size_t max_graphs = size_t{1} << 16;  // Limit for the leader.
  };

  explicit StepSequenceDistributed(Options options)
      : options_(std::move(options)) {}

  int64_t NextStepId(int64_t graph_key) override {
    return next_.Get(graph_key);
  }

  // Errors: the errors of the leader and of the call to it; DEADLINE_EXCEEDED.
  void RefreshStepIdSequenceAsync(int64_t graph_key,
                                  StatusCallback done) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void RetireStepId(int64_t graph_key, int64_t step_id) override {
    next_.Retire(graph_key, step_id);
  }
  void ForgetGraph(int64_t graph_key) override ABSL_LOCKS_EXCLUDED(mu_);

  // Draws the id, as the leader. Errors: RESOURCE_EXHAUSTED for a graph too
  // many; FAILED_PRECONDITION if this task does not lead.
  absl::StatusOr<proto::ControlReply> Draw(const ControlCaller& caller,
                                           const proto::StepSequence& message)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Request that got the present id, by process and number.
  struct Given {
    uint64_t incarnation = 0;
    uint64_t number = 0;
    friend bool operator==(Given, Given) = default;
  };
  struct Round {
    int64_t first_id = 0;
    absl::flat_hash_map<int, Given> given;  // Keyed by task.
  };

  void OnReply(int64_t graph_key, uint64_t number, const ControlAnswer& reply,
               StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  NextSteps next_;
  Mutex mu_;

  // Requests without an answer, by graph. A repeated request keeps its number.
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<int64_t, uint64_t> requested_ ABSL_GUARDED_BY(mu_);

  // Leader's state.
  absl::flat_hash_map<int64_t, Round> rounds_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_STEP_SEQUENCE_DISTRIBUTED_H_
