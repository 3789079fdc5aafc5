#ifndef TUTTI_SCHEDULE_PROOF_SYMBOLIC_H_
#define TUTTI_SCHEDULE_PROOF_SYMBOLIC_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedule/group_plan.h"
#include "schedule/proof/expression.h"

namespace tutti {

// Result of a symbolic run of the schedules of a group.
struct SymbolicRun {
  ExpressionGraph expressions;

  // Final value of each chunk of kData: outputs[rank][chunk]. kUndefined if the
  // rank has no such chunk or no step wrote to it.
  std::vector<std::vector<ExpressionId>> outputs;

  // All steps, each after every step that it waits for.
  std::vector<int> completion_order;
};

// Runs all ranks in one thread, on expressions instead of bytes. Values are
// meaningful only if CheckRaces() finds no race. Takes time and memory in
// proportion to the number of steps, and to ranks times chunks.
//
// Errors: INVALID_ARGUMENT naming rank, lane.step and step, if a step reads
// memory never written, or if steps wait for each other in a circle.
absl::StatusOr<SymbolicRun> RunSymbolically(const GroupPlan& plan);

// Returns only the completion order of the same run. Takes time and memory in
// proportion to the number of steps, for any number of ranks and chunks.
// Errors: as RunSymbolically().
absl::StatusOr<std::vector<int>> CompletionOrder(const GroupPlan& plan);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_SYMBOLIC_H_
