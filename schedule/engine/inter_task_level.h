#ifndef TUTTI_SCHEDULE_ENGINE_INTER_TASK_LEVEL_H_
#define TUTTI_SCHEDULE_ENGINE_INTER_TASK_LEVEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "schedule/chunk_map.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {

// The level between tasks of a hierarchical all-reduce, for all executions of
// an instance. The first members of the tasks (first_members.h) all-reduce
// their tasks' results chunk by chunk, without the final op. Thread-safe once
// prepared.
class InterTaskLevel {
 public:
  virtual ~InterTaskLevel() = default;

  // Checks one member's context. Called for each member, before all other
  // calls.
  virtual absl::Status Check(const CollectiveContext& context) const = 0;

  // Plans the chunks. Called once, for the first member of the task. Plans for
  // chunks whose inputs and outputs share memory as `input` and the member's
  // output do. Other chunks are planned when they first run.
  virtual absl::Status Prepare(const CollectiveContext& first,
                               const Tensor& input) = 0;

  // Chunks of the buffers, in order. Fixed by Prepare().
  virtual int64_t num_chunks() const = 0;
  virtual Range ChunkAt(int64_t index) const = 0;

  // All-reduces chunk `index`. The caller sets the chunk's input and output in
  // `context` and the fields of the whole execution; Run() sets the other
  // fields. `context` lives until `done` runs, as for
  // CollectiveImplementationInterface::Run(). It is passed to Launched().
  // REQUIRES: the chunk before has ended.
  virtual void Run(int64_t index, CollectiveContext& context,
                   StatusCallback done) const = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_INTER_TASK_LEVEL_H_
