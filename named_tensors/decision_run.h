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

// The rank, device and executor that run decided collectives.
struct DecisionGroup {
  std::shared_ptr<CollectiveExecutor> executor;
  std::shared_ptr<Device> device;  // Device of the rank.
  GroupKey group_key = 0;
  int rank = 0;
  int num_ranks = 1;
  std::shared_ptr<Cancellation> cancellation;  // Cancels everything that runs.
};

// Runs `decision` as one collective of the executor. `tensors` are the requests
// of `decision`, which CheckDecision() has accepted. Several tensors become the
// segments of the collective. A decision longer than its tensors gets buffers
// on the work queue. `done` runs as ExecuteAsync's or on the work queue. The
// caller runs the callbacks of the tensors after it.
void RunDecision(const DecisionGroup& group, const proto::Decision& decision,
                 std::vector<PendingTensorPtr> tensors, StatusCallback done);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_DECISION_RUN_H_
