#ifndef TUTTI_NAMED_TENSORS_REQUEST_CHECK_H_
#define TUTTI_NAMED_TENSORS_REQUEST_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "named_tensors/tensor_request.h"

namespace tutti {

// Checks that the requests of all ranks for one name form one collective. Pure.
//
// Errors: FAILED_PRECONDITION with the difference, the values found, and the
// ranks with each value: "mismatched data types: one rank had type float32, but
// another rank had type int32: ranks [0, 2] / [1]; a further one had type int8:
// ranks [3]". Compares data types first, then operations, then shapes.
absl::Status CheckRequestsAgree(absl::Span<const TensorRequest> by_rank);

// Returns "[0, 2]"; lists only the first of many ranks.
std::string RanksText(absl::Span<const int> ranks);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_REQUEST_CHECK_H_
