#ifndef TUTTI_SCHEDULE_PROOF_VERIFIER_H_
#define TUTTI_SCHEDULE_PROOF_VERIFIER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedule/group_plan.h"
#include "schedule/proof/symbolic.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Which members' outputs are their inputs.
enum class InPlace : uint8_t { kNone, kAll, kEvenRanks, kOddRanks };

bool IsInPlace(InPlace in_place, int rank);

// ", in place on even ranks"; nothing for kNone.
absl::string_view Words(InPlace in_place);

// One request that all ranks of a group plan for.
struct VerifyCase {
  GroupLayout layout = GroupLayout::Uniform(1, 1);
  CollectiveType type = CollectiveType::kAllReduce;
  int root = 0;                     // Where HasRoot(type).
  std::vector<int> permutation;     // kPermute only.
  std::vector<int> subdiv_offsets;  // Where the algorithm supports them.
  std::vector<int> rank_list;       // Where the algorithm takes one.
  bool blocks_differ = false;       // As in PlanRequest.
  InPlace in_place = InPlace::kNone;
};

// "reduce on 2x4, root 3, in place on even ranks".
std::string ToString(const VerifyCase& request);

// Errors: INVALID_ARGUMENT if the algorithm does not serve such a request.
absl::Status CheckServes(const Algorithm& algorithm, const VerifyCase& request);

// The schedules of all ranks, in rank order. Errors: as CheckServes();
// RESOURCE_EXHAUSTED if they have more than `max_steps` steps.
absl::StatusOr<std::vector<Schedule>> PlanAll(
    const Algorithm& algorithm, const VerifyCase& request,
    int64_t max_steps = std::numeric_limits<int64_t>::max());

// Puts what PlanAll() made side by side. Errors: as GroupPlan::Create().
absl::StatusOr<GroupPlan> JoinPlans(const Algorithm& algorithm,
                                    const VerifyCase& request,
                                    const std::vector<Schedule>& schedules);

// Both.
absl::StatusOr<GroupPlan> PlanGroup(const Algorithm& algorithm,
                                    const VerifyCase& request);

// What the algorithm computes: every output as an expression of the inputs, in
// the exact order of summation. Errors: also those of RunSymbolically().
absl::StatusOr<SymbolicRun> Symbolically(const Algorithm& algorithm,
                                         const VerifyCase& request);

// OK if the plans of all ranks together do what the collective promises:
//  - they run to the end, and nothing depends on timing (races.h), even where
//    some chunks are empty and so skipped;
//  - every output chunk holds each contribution it must exactly once, and is
//    finished once, last, in collectives that reduce, and never in others;
//  - reductions go from the lowest rank to the highest if the traits say so;
//  - what is sent and received is the same in place (checked for
//    kEvenRanks);
//  - no member leaves a barrier before all have come.
// Errors: INVALID_ARGUMENT saying what is wrong, on which rank and step.
absl::Status Verify(const Algorithm& algorithm, const VerifyCase& request);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_VERIFIER_H_
