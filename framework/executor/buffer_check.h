#ifndef TUTTI_FRAMEWORK_EXECUTOR_BUFFER_CHECK_H_
#define TUTTI_FRAMEWORK_EXECUTOR_BUFFER_CHECK_H_

#include "absl/status/status.h"
#include "tutti/device.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// Makes a member's tensors fit its params: allocates an unset output, and
// drops tensors that the member does not have a part for. `output` is null
// where the implementation makes it. Errors: INVALID_ARGUMENT for a missing
// tensor, a wrong dtype or shape, and where input and output overlap in another
// way than in place:
//  - all_reduce, broadcast, reduce, permute, all_to_all (with equal counts in
//    both directions): the same memory;
//  - all_gather, gather: the input is this rank's block of the output;
//  - reduce_scatter, scatter: the output is this rank's block of the input.
absl::Status PrepareBuffers(const CollectiveParams& params, Device& device,
                            Tensor* input, Tensor* output);

// Whether a list of segments fits the member's params. Errors: INVALID_ARGUMENT
// for another collective than all_reduce, another dtype or number of elements.
absl::Status CheckSegments(const CollectiveParams& params,
                           const SegmentList& segments);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_BUFFER_CHECK_H_
