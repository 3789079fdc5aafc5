#include "implementations/two_level/local_then_plan.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "implementations/direct_reduce_scatter.h"
#include "implementations/two_level/hierarchy.h"
#include "implementations/two_level/local_then_between.h"
#include "schedule/first_members.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// The root reduces all inputs in one step.
Schedule PlanReduce(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  if (request.rank == request.root) {
    AddReduction(request, /*chunk=*/0, /*tag=*/0, builder);
  } else {
    builder.AddLane().Send(request.root, /*tag=*/0, Input(0));
  }
  return builder.Build();
}

// The root finishes its sum and sends it to all.
Schedule PlanSpread(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  if (request.rank != request.root) {
    builder.AddLane().Recv(request.root, /*tag=*/0, Data(0));
    return builder.Build();
  }
  const StepRef result = builder.AddLane().CopyAndFinish(Data(0), Input(0));
  for (int to = 0; to < request.layout.size(); ++to) {
    if (to == request.root) continue;
    builder.AddLane().Send(to, /*tag=*/0, Data(0), result);
  }
  return builder.Build();
}

// Returns the number of chunks of the schedule on the first rank of the
// request's task. `tasks` is the list of ranks for the schedule.
int NumChunks(const Algorithm& between, const PlanRequest& request,
              absl::Span<const int> tasks) {
  return NumChunksOfPart(between.plan,
                         {.layout = FirstsOf(request.layout.num_tasks()),
                          .rank = request.layout.task_of(request.rank),
                          .subdiv_offsets = request.subdiv_offsets,
                          .rank_list = tasks});
}

HierarchicalPlanner::Part AmongFirstRanks(const Algorithm& between,
                                          int num_chunks,
                                          const PlanRequest& request,
                                          absl::Span<const int> tasks) {
  std::vector<int> chunks(static_cast<size_t>(num_chunks));
  std::iota(chunks.begin(), chunks.end(), 0);
  return {.plan = between.plan,
          .type = CollectiveType::kAllReduce,
          .num_tags = 0,  // First ranks meet in no later part.
          .chunks = std::move(chunks),
          .ends_at_once = true,
          .subdiv_offsets = request.subdiv_offsets,
          .rank_list = tasks};
}

}  // namespace

Schedule PlanLocalThen(absl::string_view between, const PlanRequest& request) {
  const Algorithm& algorithm = AlgorithmBetween(between);
  const std::vector<int> tasks = TasksOf(request.layout, request.rank_list);
  const int num_chunks = NumChunks(algorithm, request, tasks);
  std::string problem = ProblemOfChunks(num_chunks);
  if (!problem.empty()) return {.problem = std::move(problem)};
  HierarchicalPlanner planner(request, num_chunks);
  const bool is_alone = planner.hierarchy().num_devices() == 1;
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    if (is_alone) {
      planner.AddNothing(/*num_tags=*/1);
      continue;
    }
    planner.AddInTask({.plan = PlanReduce,
                       .type = CollectiveType::kReduce,
                       .num_tags = 1,
                       .chunks = {chunk}});
  }
  if (planner.hierarchy().num_tasks() > 1) {
    planner.AddAcrossTasks(
        /*device=*/0, AmongFirstRanks(algorithm, num_chunks, request, tasks));
  }
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    planner.AddInTask({.plan = PlanSpread,
                       .type = CollectiveType::kBroadcast,
                       .num_tags = 1,
                       .chunks = {chunk},
                       .finishes = true});
  }
  return planner.Build();
}

std::vector<int> SubdivideLocalThen(absl::string_view between,
                                    int64_t chunk_bytes,
                                    const SubdivisionRequest& request) {
  return AlgorithmBetween(between).subdivide(
      {.layout = FirstsOf(request.layout.num_tasks()),
       .bytes = std::min(request.bytes, chunk_bytes),
       .max_subdivs_per_device = request.max_subdivs_per_device});
}

}  // namespace tutti
