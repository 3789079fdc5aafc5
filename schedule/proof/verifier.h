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

// Members whose output is their input.
enum class InPlace : uint8_t { kNone, kAll, kEvenRanks, kOddRanks };

bool IsInPlace(InPlace in_place, int rank);

// Returns for example ", in place on even ranks"; "" for kNone.
absl::string_view Words(InPlace in_place);

// A request that all ranks of a group plan for.
struct VerifyCase {
  GroupLayout layout = GroupLayout::Uniform(1, 1);
  CollectiveType type = CollectiveType::kAllReduce;
  int root = 0;                     // Used if HasRoot(type).
  std::vector<int> permutation;     // kPermute only.
  std::vector<int> subdiv_offsets;  // If the algorithm supports them.
  std::vector<int> rank_list;       // If the algorithm takes one.
  bool blocks_differ = false;       // See PlanRequest.
  InPlace in_place = InPlace::kNone;
};

// "reduce on 2x4, root 3, in place on even ranks".
std::string ToString(const VerifyCase& request);

// Errors: INVALID_ARGUMENT if the algorithm does not serve such a request.
absl::Status CheckServes(const Algorithm& algorithm, const VerifyCase& request);

// Returns the schedules of all ranks, in rank order. Errors: as CheckServes();
// RESOURCE_EXHAUSTED if they have more than `max_steps` steps.
absl::StatusOr<std::vector<Schedule>> PlanAll(
    const Algorithm& algorithm, const VerifyCase& request,
    int64_t max_steps = std::numeric_limits<int64_t>::max());

// Makes a GroupPlan from the result of PlanAll(). Errors: as
// GroupPlan::Create().
absl::StatusOr<GroupPlan> JoinPlans(const VerifyCase& request,
                                    const std::vector<Schedule>& schedules);

// Calls PlanAll() and JoinPlans().
absl::StatusOr<GroupPlan> PlanGroup(const Algorithm& algorithm,
                                    const VerifyCase& request);

// Computes every output of the algorithm as an expression of the inputs, in the
// exact order of summation. Errors: as PlanGroup() and RunSymbolically().
absl::StatusOr<SymbolicRun> Symbolically(const Algorithm& algorithm,
                                         const VerifyCase& request);

// Checks that the plans of all ranks together keep the promises of the
// collective:
// - the plans run to the end, and no result depends on timing (races.h), even
//   if some chunks are empty and skipped;
// - every output chunk holds each required contribution exactly once; in
//   collectives that reduce it is finished once, last, in others and in scans
//   never;
// - reductions go from the lowest rank to the highest if the traits say so;
// - ranks send and receive the same in place (checked for kEvenRanks);
// - no member leaves a barrier before all members have come.
//
// Errors: INVALID_ARGUMENT naming the mistake, its rank and its step.
absl::Status Verify(const Algorithm& algorithm, const VerifyCase& request);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_VERIFIER_H_
