#ifndef TUTTI_NAMED_TENSORS_TENSOR_PREPARATION_H_
#define TUTTI_NAMED_TENSORS_TENSOR_PREPARATION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "named_tensors/pending_tensors.h"
#include "proto/control.pb.h"
#include "tutti/device.h"

namespace tutti {

// Completes a rank's request, which has name, type and root, from its tensors.
// Allocates an output that is unset if its size is known: a later failure would
// make the other ranks wait.
//
// Errors: INVALID_ARGUMENT for what is wrong whatever the other ranks request;
// errors of the device.
absl::Status PrepareTensor(PendingTensor& pending, Device& device,
                           const RankPlace& place);

// Part of the rank of `task`, which has joined, in what the other ranks
// request: it brings the neutral element or no rows, and drops the result.
// RunDecision() makes the input. Errors: INVALID_ARGUMENT for a request that
// needs the rank, which rank zero refuses.
absl::StatusOr<PendingTensorPtr> MakeStandIn(
    const proto::TensorRequest& message, int task);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_TENSOR_PREPARATION_H_
