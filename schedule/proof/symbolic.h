#ifndef TUTTI_SCHEDULE_PROOF_SYMBOLIC_H_
#define TUTTI_SCHEDULE_PROOF_SYMBOLIC_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedule/group_plan.h"
#include "schedule/proof/expression.h"

namespace tutti {

// What comes of running the schedules of a group.
struct SymbolicRun {
  ExpressionGraph expressions;

  // The value each chunk of kData ends with: outputs[rank][chunk]. kUndefined
  // where the rank has no such chunk or nothing was written to it.
  std::vector<std::vector<ExpressionId>> outputs;

  // All steps, each after whatever it has to wait for.
  std::vector<int> completion_order;
};

// Runs all ranks on expressions in place of bytes, in one thread. Values mean
// something only where CheckRaces() finds no race. Takes time and memory in
// proportion to the number of steps, and to ranks times chunks.
//
// Errors: INVALID_ARGUMENT naming rank, lane.step and step, if a step reads
// what was never written, or if steps wait for each other in a circle.
absl::StatusOr<SymbolicRun> RunSymbolically(const GroupPlan& plan);

// The same run's completion order alone: whatever the ranks and chunks, takes
// time and memory in proportion to the number of steps. Errors: the same.
absl::StatusOr<std::vector<int>> CompletionOrder(const GroupPlan& plan);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_SYMBOLIC_H_
