#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "implementations/two_level/local_then_outline.h"
#include "implementations/two_level/local_then_plan.h"
#include "schedule/engine/between_tasks.h"
#include "schedule/engine/schedule_between_tasks.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// An all-reduce of several members in each process, in the three stages of a
// HierarchicalRun:
//
//   process 0     process 1
//   a b c         d e f        one pass over memory in each process:
//   - s -         - t -          s = (a + b) + c
//   S - -  <--->  S - -        the first members of the processes: S = s + t
//   S S S         S S S        one pass: final op, and to all members
//
// Chunk by chunk, where the level between is a schedule: while it has one, the
// first stage reduces the next and the third spreads the one before. Members
// other than the first ones are launched when they have come. Tasks that share
// a process are as if they were processes.
class LocalThen : public CollectiveImplementationInterface {
 public:
  explicit LocalThen(std::unique_ptr<BetweenTasks> between)
      : between_(std::move(between)) {}

  // Errors: INVALID_ARGUMENT if the members of the task are in several
  // processes; those of the level between.
  absl::Status InitializeCollectiveContext(CollectiveContext* context) override;
  void Run(const CollectiveContext& context, StatusCallback done) override;

 private:
  const std::unique_ptr<BetweenTasks> between_;
  std::once_flag once_;
  absl::Status status_;  // Of the first member's preparation.
};

// How many bytes the first members of the processes reduce at a time. Over gRPC
// among 2 to 4 processes on 2 processors, chunks of 4 MiB took up to 1.5 times
// as long, for there are more messages; larger ones were no faster (23 November
// 2026).
inline constexpr int64_t kLocalThenChunkBytes = int64_t{16} << 20;

// Predicted seconds where that one, of the global registry, runs between
// processes in chunks of so many bytes. Infinite, and so no reason to choose
// it, among several members of one task, and if that one is not linked, cannot
// run there (FindBetweenTasks()) or has no price.
double LocalThenSeconds(absl::string_view between, int64_t chunk_bytes,
                        const CostQuery& query);

// `functions` are those of what stands for it, its price, and what it says of
// its parts.
std::shared_ptr<const CollectiveFactory> MakeLocalThenFactory(
    std::string between, int64_t chunk_bytes, Algorithm functions);

// Hierarchical<"LocalReduce", ...>() (hierarchical.h) with chunks of any size,
// and a registered schedule between the processes:
//   REGISTER_COLLECTIVE(ThenStar, LocalThenFactory<"StarReduce">());
// The program links that one too, as hierarchical.h says. What stands for it
// (stand_in.h) has messages within tasks (local_then_plan.h).
template <ImplementationName between,
          int64_t chunk_bytes = kLocalThenChunkBytes>
std::shared_ptr<const CollectiveFactory> LocalThenFactory() {
  return MakeLocalThenFactory(
      std::string(between.view()), chunk_bytes,
      {.traits = {.check_parts =
                      [] { return FindBetweenTasks(between.view()).status(); },
                  .cost_seconds =
                      [](const CostQuery& query) {
                        return LocalThenSeconds(between.view(), chunk_bytes,
                                                query);
                      }},
       .plan =
           [](const PlanRequest& request) {
             return PlanLocalThen(between.view(), request);
           },
       .subdivide =
           [](const SubdivisionRequest& request) {
             return SubdivideLocalThen(between.view(), chunk_bytes, request);
           },
       .outline =
           [](const PlanRequest& request) {
             return LocalThenOutline(between.view(), request);
           }});
}

// With the library of that name (CollectiveDelegate::name()), in one chunk, and
// so without a stand-in; `summary` is one line for people. Calls end with
// FAILED_PRECONDITION where another library, or none, connects the processes.
std::shared_ptr<const CollectiveFactory> LocalThenDelegateFactory(
    std::string delegate, std::string summary);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_H_
