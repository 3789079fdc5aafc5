#ifndef TUTTI_TESTS_CLUSTER_NAMED_TENSOR_CASES_H_
#define TUTTI_TESTS_CLUSTER_NAMED_TENSOR_CASES_H_

#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/cluster/named_call.h"
#include "tutti/named_tensors.h"

namespace tutti {

// Promises of named tensors, for all ranks in this process, or for one rank in
// step with other processes that run the same. A broken promise is a failure of
// the test.

// Ranks of this process, of `num_ranks` in all.
struct RanksHere {
  int num_ranks = 0;
  std::map<int, Coordinator*> coordinators;
};

// Returns when the calls have been answered; false if they cannot be.
using Settle = absl::FunctionRef<bool(const std::vector<NamedCallPtr>& calls)>;

// --- One thread --------------------------------------------------------------

// Names of arbitrary bytes and of maximum length are told apart, although each
// rank requests them in another order; longer names are refused.
void ExpectNamesAreAnyBytes(const RanksHere& ranks, Settle settle);

// Each rank in turn differs from the others, in every possible way. All ranks
// get an error that describes the difference, and can then use the name
// together.
void ExpectAllHearWhatDiffers(const RanksHere& ranks, Settle settle);

// The last rank requests twice what the other ranks request later. REQUIRES:
// more than one rank.
void ExpectASecondRequestIsRefused(const RanksHere& ranks, Settle settle);

// --- Threads -----------------------------------------------------------------

// Several threads of each rank request reductions and gathers under 1,000
// names, each thread in another order; then all repeat this.
void ExpectAllThreadsMeet(const RanksHere& ranks);

// Does the same while the rank `by` shuts down. Returns by rank: 1 for each
// name that ran, 0 for each other name. These should be equal on all ranks.
std::map<int, std::vector<float>> ExpectAShutdownLeavesNoThreadWaiting(
    const RanksHere& ranks, int by);

// Requests made in callbacks proceed: several chains of thirteen stages, each
// stage requested by the previous one.
void ExpectChainsEnd(const RanksHere& ranks);

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_NAMED_TENSOR_CASES_H_
