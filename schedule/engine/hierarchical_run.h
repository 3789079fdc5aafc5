#ifndef TUTTI_SCHEDULE_ENGINE_HIERARCHICAL_RUN_H_
#define TUTTI_SCHEDULE_ENGINE_HIERARCHICAL_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "schedule/engine/chunk_pipeline.h"
#include "schedule/engine/inter_task_level.h"
#include "schedule/engine/intra_task_level.h"
#include "tutti/implementation.h"

namespace tutti {

// An execution of a hierarchical all-reduce in one task. Its levels need not be
// schedules. Starts when the task's last member has arrived and works chunk by
// chunk:
//
//   task 0        task 1
//   a b c         d e f        IntraTaskLevel: s = a + b + c, t = d + e + f
//     s    <--->    t          InterTaskLevel: S = s + t
//   S S S         S S S        IntraTaskLevel: final op, and to all members
//
// While one chunk is between tasks, the next is reduced and earlier ones are
// spread. The first error of a stage ends the execution. Once the execution has
// ended, for any reason, no stage begins. When the stages in progress have
// ended, the run calls IntraTaskLevel::End().
//
// Thread-safe once started. The callbacks of its stages keep it alive.
class HierarchicalRun : public std::enable_shared_from_this<HierarchicalRun> {
 public:
  // `between`, which is prepared, and `first`, the context of the task's first
  // member, are valid until IntraTaskLevel::End() is called.
  HierarchicalRun(std::shared_ptr<IntraTaskLevel> within,
                  const InterTaskLevel& between,
                  const CollectiveContext& first);
  HierarchicalRun(const HierarchicalRun&) = delete;
  HierarchicalRun& operator=(const HierarchicalRun&) = delete;

  // Starts the run. Call once. The run may end inside this call.
  void Start() { GoOn(); }

  // Calls `look`, unless the run has ended; the run does not end during the
  // call. An error of `look` counts as an error of a stage.
  void Meanwhile(absl::FunctionRef<absl::Status()> look);

 private:
  // Starts the stages that can start, or ends the run.
  void GoOn();

  // Stages of a chunk. Each stage ends with the function after it.
  void Reduce(IntraTaskLevel::Chunk chunk);
  void OnReduced(absl::Status status);
  void Meet(IntraTaskLevel::Chunk chunk);
  void OnMet(absl::Status status);
  void Spread(IntraTaskLevel::Chunk chunk);
  void OnSpread(absl::Status status);

  IntraTaskLevel::Chunk ChunkAt(int64_t index) const {
    return {.index = index, .elements = between_.ChunkAt(index)};
  }
  void FailUnlessOk(absl::Status status);

  const std::shared_ptr<IntraTaskLevel> within_;
  const InterTaskLevel& between_;
  const CollectiveContext& first_;
  ChunkPipeline pipeline_;

  // The chunk that meets other tasks' chunks, and its context between tasks.
  struct Meeting {
    explicit Meeting(const IntraTaskLevel::Chunk& chunk) : chunk(chunk) {}
    IntraTaskLevel::Chunk chunk;
    CollectiveContext context;
  };
  std::optional<Meeting> meeting_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_HIERARCHICAL_RUN_H_
