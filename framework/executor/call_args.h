#ifndef TUTTI_FRAMEWORK_EXECUTOR_CALL_ARGS_H_
#define TUTTI_FRAMEWORK_EXECUTOR_CALL_ARGS_H_

// Checks and preparation of the arguments of one member's call.

#include "absl/status/status.h"
#include "framework/executor/settled_facts.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// Checks a joined member's arguments, as far as possible without the group.
absl::Status CheckTogether(const CollectiveArgs& args, bool is_preparation);

// Refuses memory that the implementation cannot reach. An implementation for
// any device, not made of steps, reads and writes host memory.
absl::Status CheckMemory(const ImplementationTraits& traits,
                         const CollectiveParams& params, const Device& device);

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

// Returns whether the segments are packed into one tensor before the run.
inline bool IsPacked(const CollectiveContext& context,
                     const SettledFacts& settled) {
  return context.segments != nullptr && !settled.takes_segments;
}

// Checks the caller's input, output or segments, and allocates an unset output.
// Puts them all into `context`, which already has its params and device. Takes
// input and segments out of `args`. Errors: INVALID_ARGUMENT naming the member;
// the errors of Device::Allocate().
absl::Status PrepareMemberBuffers(const SettledFacts& settled,
                                  CollectiveArgs* args,
                                  CollectiveContext* context);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_CALL_ARGS_H_
