#ifndef TUTTI_SCHEDULE_ENGINE_HIERARCHICAL_RUN_H_
#define TUTTI_SCHEDULE_ENGINE_HIERARCHICAL_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "schedule/engine/between_tasks.h"
#include "schedule/engine/chunk_pipeline.h"
#include "schedule/engine/within_task.h"
#include "tutti/implementation.h"

namespace tutti {

// One execution of a hierarchical all-reduce in one task, whose levels need not
// be schedules. From the arrival of its last member on, chunk by chunk:
//
//   task 0        task 1
//   a b c         d e f        WithinTask: s = a + b + c, t = d + e + f
//     s    <--->    t          BetweenTasks: S = s + t
//   S S S         S S S        WithinTask: final op, and to all members
//
// While one chunk is between tasks, the next is reduced and those before are
// spread. The first error of a stage ends the execution; once that is over, of
// whatever cause, no stage begins, and when those under way have ended, so does
// the run, by WithinTask::End().
//
// Thread-safe once started. Kept by the callbacks of its stages.
class HierarchicalRun : public std::enable_shared_from_this<HierarchicalRun> {
 public:
  // The level between, which is prepared, and the context of the task's first
  // member are valid until WithinTask::End() is called.
  HierarchicalRun(std::shared_ptr<WithinTask> within,
                  const BetweenTasks& between, const CollectiveContext& first);
  HierarchicalRun(const HierarchicalRun&) = delete;
  HierarchicalRun& operator=(const HierarchicalRun&) = delete;

  // Once. May end the run inside.
  void Start() { GoOn(); }

  // Calls `look` unless the run has ended, which it does not meanwhile. An
  // error is as one of a stage.
  void Meanwhile(absl::FunctionRef<absl::Status()> look);

 private:
  // Starts what can start, or ends.
  void GoOn();

  // The three stages of a chunk. Each ends with the function after it.
  void Reduce(WithinTask::Chunk chunk);
  void OnReduced(absl::Status status);
  void Meet(WithinTask::Chunk chunk);
  void OnMet(absl::Status status);
  void Spread(WithinTask::Chunk chunk);
  void OnSpread(absl::Status status);

  WithinTask::Chunk ChunkAt(int64_t index) const {
    return {.index = index, .elements = between_.ChunkAt(index)};
  }
  void FailUnlessOk(absl::Status status);

  const std::shared_ptr<WithinTask> within_;
  const BetweenTasks& between_;
  const CollectiveContext& first_;
  ChunkPipeline pipeline_;

  // The chunk that meets others, and what the level between has of it.
  struct Meeting {
    explicit Meeting(const WithinTask::Chunk& chunk) : chunk(chunk) {}
    WithinTask::Chunk chunk;
    CollectiveContext context;
  };
  std::optional<Meeting> meeting_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_HIERARCHICAL_RUN_H_
