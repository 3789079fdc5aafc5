#ifndef TUTTI_FRAMEWORK_EXECUTOR_BUFFER_CHECK_H_
#define TUTTI_FRAMEWORK_EXECUTOR_BUFFER_CHECK_H_

#include "absl/status/status.h"
#include "tutti/device.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// Makes a member's tensors fit its params: allocates an unset output, and drops
// tensors that the member has no part for. `output` is null where the
// implementation makes it. Errors: INVALID_ARGUMENT for a missing tensor, or a
// wrong dtype or shape. INVALID_ARGUMENT also for an input and an output that
// overlap, unless they overlap in place:
//  - all_reduce, broadcast, reduce, permute, all_to_all (with equal counts in
//    both directions): the same memory;
//  - all_gather, gather: the input is this rank's block of the output;
//  - reduce_scatter, scatter: the output is this rank's block of the input.
absl::Status PrepareBuffers(const CollectiveParams& params, Device& device,
                            Tensor* input, Tensor* output);

// Checks that a list of segments fits the member's params. Errors:
// INVALID_ARGUMENT for a collective other than all_reduce, for another dtype or
// another number of elements.
absl::Status CheckSegments(const CollectiveParams& params,
                           const SegmentList& segments);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_BUFFER_CHECK_H_
