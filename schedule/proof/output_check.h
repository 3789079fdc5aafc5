#ifndef TUTTI_SCHEDULE_PROOF_OUTPUT_CHECK_H_
#define TUTTI_SCHEDULE_PROOF_OUTPUT_CHECK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schedule/group_memory.h"
#include "schedule/proof/symbolic.h"

namespace tutti {

// OK if every output holds what the collective promises: each contribution
// exactly once and finished once, last, where contributions are reduced; the
// right contribution, never finished, elsewhere. `permutation` matters for
// kPermute. With `in_rank_order` reductions must go from the lowest rank to the
// highest.
//
// Errors: INVALID_ARGUMENT naming rank and chunk, what was wanted and what was
// found.
absl::Status CheckOutputs(const GroupMemory& memory,
                          absl::Span<const int> permutation, bool in_rank_order,
                          const SymbolicRun& run);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_OUTPUT_CHECK_H_
