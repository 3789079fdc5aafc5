#ifndef TUTTI_SCHEDULE_PROOF_STANDARD_CASES_H_
#define TUTTI_SCHEDULE_PROOF_STANDARD_CASES_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "schedule/proof/verifier.h"
#include "tutti/schedule.h"

namespace tutti {

// How far the standard cases go. Up to `thorough_ranks` they have every group
// size and every root; beyond it only sizes 2^k - 1, 2^k, 2^k + 1 and
// `max_ranks`, and roots 0, 1, n/2 and n - 1, so that twice the ranks do not
// mean eight times the work.
struct CaseLimits {
  int min_ranks = 1;
  int max_ranks = 64;
  int thorough_ranks = 64;
};

// Calls `visit` with every case an algorithm has to pass, by increasing group
// size, until it returns false: each of the algorithm's collectives, on one
// task, on one task per rank, to 16 ranks on all layouts of equal tasks, and on
// others (8x8, 3+1+2, ranks dealt out to tasks in turn, ...); each root;
// identity, rotations, reversal and a shuffle; one ring, several, and as many
// as the algorithm itself chooses for a large tensor; without and with a list
// of ranks; out of place, in place, and in place on the even ranks alone, and
// on the odd ones.
void ForEachStandardCase(const Algorithm& algorithm, const CaseLimits& limits,
                         absl::FunctionRef<bool(const VerifyCase&)> visit);

struct VerifyReport {
  int64_t cases = 0;
  int64_t failed = 0;
  int num_sizes = 0;           // Different group sizes.
  int largest_group = 0;       // In ranks.
  absl::Status first_failure;  // With the case in the message.
};

// Verifies the standard cases. `progress` sees the report after every case, and
// ends the run by returning false.
VerifyReport VerifyStandardCases(
    const Algorithm& algorithm, const CaseLimits& limits,
    absl::FunctionRef<bool(const VerifyReport&)> progress);

// To the end, without watching.
VerifyReport VerifyStandardCases(const Algorithm& algorithm,
                                 const CaseLimits& limits);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_STANDARD_CASES_H_
