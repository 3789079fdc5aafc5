#ifndef TUTTI_TESTS_CLUSTER_NAMED_TENSOR_CASES_H_
#define TUTTI_TESTS_CLUSTER_NAMED_TENSOR_CASES_H_

#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/cluster/named_call.h"
#include "tutti/named_tensors.h"

namespace tutti {

// What named tensors promise wherever the ranks are: all in this process, or
// one of them, in step with other processes that do the same. What does not
// hold is a failure of the test.

// The ranks that this process has, of `num_ranks`.
struct RanksHere {
  int num_ranks = 0;
  std::map<int, Coordinator*> coordinators;
};

// Returns when the calls have been answered; false if they cannot be.
using Settle = absl::FunctionRef<bool(const std::vector<NamedCallPtr>& calls)>;

// --- One thread --------------------------------------------------------------

// Names of all bytes and of the most that there may be, asked for by each rank
// in an order of its own, are told apart; others are refused.
void ExpectNamesAreAnyBytes(const RanksHere& ranks, Settle settle);

// Each rank in turn asks for something else than the others, in each way that
// there is: all hear what differs, and then use the name together.
void ExpectAllHearWhatDiffers(const RanksHere& ranks, Settle settle);

// The last rank asks twice for what the others ask for later. REQUIRES: there
// are others.
void ExpectASecondRequestIsRefused(const RanksHere& ranks, Settle settle);

// --- Threads -----------------------------------------------------------------

// Several threads of each rank ask for reductions and gathers under 1,000
// names, each thread in an order of its own; and again.
void ExpectAllThreadsMeet(const RanksHere& ranks);

// The same while the rank `by` shuts down. By rank: 1 for each name that ran,
// which should be the same on all ranks, and 0 for the others.
std::map<int, std::vector<float>> ExpectAShutdownLeavesNoThreadWaiting(
    const RanksHere& ranks, int by);

// What a callback asks for goes on: thirteen stages, each by the one before, of
// several chains.
void ExpectChainsEnd(const RanksHere& ranks);

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_NAMED_TENSOR_CASES_H_
