#ifndef TUTTI_NAMED_TENSORS_REQUEST_CHECK_H_
#define TUTTI_NAMED_TENSORS_REQUEST_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "named_tensors/tensor_request.h"

namespace tutti {

// Whether what all ranks ask for under one name is one collective. Pure.
//
// Errors: FAILED_PRECONDITION saying what differs, the values that there are,
// and which ranks have each: "mismatched data types: one rank had type float32,
// but another rank had type int32: ranks [0, 2] / [1]; a further one had type
// int8: ranks [3]". Data types are compared first, then operations, then
// shapes.
absl::Status CheckRequestsAgree(absl::Span<const TensorRequest> by_rank);

// "[0, 2]"; of many only the first.
std::string RanksText(absl::Span<const int> ranks);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_REQUEST_CHECK_H_
