#ifndef TUTTI_IMPLEMENTATIONS_PLAN_TESTING_H_
#define TUTTI_IMPLEMENTATIONS_PLAN_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedule/proof/verifier.h"
#include "tutti/schedule.h"

namespace tutti {

// Inspects plans, for tests of promises other than right results.

// Returns the registered algorithm of this name. Aborts if there is none.
const Algorithm& AlgorithmNamed(absl::string_view name);

// Returns the schedules of all ranks. Aborts if the algorithm refuses the
// request.
std::vector<Schedule> PlansOf(absl::string_view name,
                              const VerifyCase& request);

// Returns the steps of one kind, lane by lane.
std::vector<Step> StepsOf(const Schedule& schedule, StepKind kind);

// Returns the number of chunks of the steps of one kind.
int ChunksOf(const Schedule& schedule, StepKind kind);

// Returns the largest number of transfers that follow one another: the time of
// the collective if every transfer takes 1, all other steps take 0, and
// unordered transfers overlap. Aborts if the plans do not fit together.
int TransfersInARow(absl::string_view name, const VerifyCase& request);

// Returns the final value of data[chunk] on `rank`, for example
// "f((0.3+1.3)+2.3)": f is the final op and r.c is input[c] of rank r.
std::string OutputOf(absl::string_view name, const VerifyCase& request,
                     int rank, int chunk);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PLAN_TESTING_H_
