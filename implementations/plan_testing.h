#ifndef TUTTI_IMPLEMENTATIONS_PLAN_TESTING_H_
#define TUTTI_IMPLEMENTATIONS_PLAN_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedule/proof/verifier.h"
#include "tutti/schedule.h"

namespace tutti {

// Looks at plans, for tests of what they promise besides right results.

// The registered algorithm of this name. Aborts if there is none.
const Algorithm& AlgorithmNamed(absl::string_view name);

// The schedules of all ranks. Aborts if the algorithm refuses the request.
std::vector<Schedule> PlansOf(absl::string_view name,
                              const VerifyCase& request);

// The steps of one kind, lane by lane.
std::vector<Step> StepsOf(const Schedule& schedule, StepKind kind);

// The most transfers that follow one another, where transfers that nothing
// orders run at once: how long the collective takes if every transfer takes 1
// and nothing else takes any time. Aborts if the plans do not fit together.
int TransfersInARow(absl::string_view name, const VerifyCase& request);

// What `rank` has in data[chunk] at the end, "f((0.3+1.3)+2.3)": f is the final
// op and r.c is input[c] of rank r.
std::string OutputOf(absl::string_view name, const VerifyCase& request,
                     int rank, int chunk);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PLAN_TESTING_H_
