#ifndef TUTTI_NAMED_TENSORS_DECISION_RUN_H_
#define TUTTI_NAMED_TENSORS_DECISION_RUN_H_

#include <memory>
#include <vector>

#include "named_tensors/pending_tensor.h"
#include "proto/control.pb.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

namespace tutti {

// Whose collectives they are that have been decided.
struct DecisionGroup {
  std::shared_ptr<CollectiveExecutor> executor;
  std::shared_ptr<Device> device;  // The rank's.
  GroupKey group_key = 0;
  int rank = 0;
  int num_ranks = 1;
  std::shared_ptr<Cancellation> cancellation;  // Of everything that runs.
};

// Runs, as one collective of the executor, what has been decided about
// `tensors`: the requests of `decision`, which CheckDecision() has found good.
// Several are its segments; what runs longer than it is gets room on the work
// queue. `done` runs as ExecuteAsync's or there, before those of the tensors,
// which are left to the caller.
void RunDecision(const DecisionGroup& group, const proto::Decision& decision,
                 std::vector<PendingTensorPtr> tensors, StatusCallback done);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_DECISION_RUN_H_
