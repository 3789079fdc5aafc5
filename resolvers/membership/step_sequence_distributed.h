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
#include "resolvers/local/next_steps.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

// The sequence of one task of a cluster: the task that leads draws the ids from
// which the steps of a graph go on.
//
// All tasks that ask get the same id until one asks that has it: then another
// id is drawn, for that one and for those that ask after it. So, whatever made
// tasks differ, once each of them has refreshed they agree again; a task that
// comes late goes on with the others' present round. A question that is
// repeated because its answer was lost does not begin a round.
class StepSequenceDistributed
    : public StepSequenceInterface,
      public std::enable_shared_from_this<StepSequenceDistributed> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<ControlChannel> channel;
    std::shared_ptr<const Leadership> leadership;
    uint64_t incarnation = 0;  // Of this process.

    // How long the leader may take to answer, or to be there.
    absl::Duration limit = absl::Seconds(60);

    size_t max_graphs = size_t{1} << 16;  // That this task leads.
  };

  explicit StepSequenceDistributed(Options options)
      : options_(std::move(options)) {}

  int64_t NextStepId(int64_t graph_key) override {
    return next_.Get(graph_key);
  }

  // Errors: those of the leader and of the way to it; DEADLINE_EXCEEDED.
  void RefreshStepIdSequenceAsync(int64_t graph_key,
                                  StatusCallback done) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void RetireStepId(int64_t graph_key, int64_t step_id) override {
    next_.Retire(graph_key, step_id);
  }
  void ForgetGraph(int64_t graph_key) override ABSL_LOCKS_EXCLUDED(mu_);

  // The leader's side. Errors: RESOURCE_EXHAUSTED for a graph too many;
  // FAILED_PRECONDITION if this task does not lead.
  absl::StatusOr<proto::ControlReply> Draw(const ControlCaller& caller,
                                           const proto::StepSequence& message)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Which question of which process got the present id.
  struct Given {
    uint64_t incarnation = 0;
    uint64_t number = 0;
    friend bool operator==(Given, Given) = default;
  };
  struct Round {
    int64_t first_id = 0;
    absl::flat_hash_map<int, Given> given;  // By task.
  };

  void OnReply(int64_t graph_key, uint64_t number, const ControlAnswer& reply,
               StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  NextSteps next_;
  Mutex mu_;

  // The questions that have not been answered yet, by graph: repeated under
  // the same number.
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<int64_t, uint64_t> asked_ ABSL_GUARDED_BY(mu_);

  // As the leader.
  absl::flat_hash_map<int64_t, Round> rounds_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_STEP_SEQUENCE_DISTRIBUTED_H_
