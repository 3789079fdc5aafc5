#ifndef TUTTI_SCHEDULE_PROOF_STANDARD_CASES_H_
#define TUTTI_SCHEDULE_PROOF_STANDARD_CASES_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "schedule/proof/verifier.h"
#include "tutti/schedule.h"

namespace tutti {

// Limits of the standard cases. Up to `thorough_ranks`, the cases have every
// group size and every root. Above it, the sizes are only 2^k - 1, 2^k, 2^k + 1
// and `max_ranks`, and the roots 0, 1, n/2 and n - 1. Otherwise twice the ranks
// would mean eight times the work.
struct CaseLimits {
  int min_ranks = 1;
  int max_ranks = 64;
  int thorough_ranks = 64;
};

// Calls `visit` with every case that an algorithm has to pass, by increasing
// group size, until `visit` returns false. The cases are all combinations of:
//
// - each of the algorithm's collectives;
// - one task; one task per rank; up to 16 ranks, all layouts of equal tasks;
//   other layouts (8x8, 3+1+2, ranks dealt out to tasks in turn, ...);
// - each root;
// - as permutations the identity, rotations, a reversal and a shuffle;
// - one ring, several rings, and the number that the algorithm itself chooses
//   for a large tensor;
// - without and with a list of ranks;
// - out of place, in place, in place only on even ranks, and only on odd ranks.
void ForEachStandardCase(const Algorithm& algorithm, const CaseLimits& limits,
                         absl::FunctionRef<bool(const VerifyCase&)> visit);

struct VerifyReport {
  int64_t cases = 0;
  int64_t failed = 0;
  int num_sizes = 0;           // Number of different group sizes.
  int largest_group = 0;       // In ranks.
  absl::Status first_failure;  // Its message names the case.
};

// Verifies the standard cases. Calls `progress` with the report after every
// case; ends early if `progress` returns false.
VerifyReport VerifyStandardCases(
    const Algorithm& algorithm, const CaseLimits& limits,
    absl::FunctionRef<bool(const VerifyReport&)> progress);

// Verifies the standard cases without progress reports.
VerifyReport VerifyStandardCases(const Algorithm& algorithm,
                                 const CaseLimits& limits);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_STANDARD_CASES_H_
