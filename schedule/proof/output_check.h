#ifndef TUTTI_SCHEDULE_PROOF_OUTPUT_CHECK_H_
#define TUTTI_SCHEDULE_PROOF_OUTPUT_CHECK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schedule/group_memory.h"
#include "schedule/proof/symbolic.h"

namespace tutti {

// Checks that every output holds what the collective promises. If contributions
// are reduced: each wanted contribution exactly once, finished once, last.
// Otherwise: the right contribution, never finished. Scans want the
// contributions of the first ranks, never finished. `permutation` is used for
// kPermute.
// With `in_rank_order`, reductions go from the lowest rank to the highest.
//
// Errors: INVALID_ARGUMENT naming rank and chunk, the wanted value and the
// found value.
absl::Status CheckOutputs(const GroupMemory& memory,
                          absl::Span<const int> permutation, bool in_rank_order,
                          const SymbolicRun& run);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_OUTPUT_CHECK_H_
