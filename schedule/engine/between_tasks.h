#ifndef TUTTI_SCHEDULE_ENGINE_BETWEEN_TASKS_H_
#define TUTTI_SCHEDULE_ENGINE_BETWEEN_TASKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "schedule/chunk_map.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {

// The level between tasks of a hierarchical all-reduce, in all executions of an
// instance: how the first members of the tasks (first_members.h) all-reduce
// what those have reduced, chunk by chunk, without the final op. Thread-safe
// once prepared.
class BetweenTasks {
 public:
  virtual ~BetweenTasks() = default;

  // For each member, before anything else.
  virtual absl::Status Check(const CollectiveContext& context) const = 0;

  // Once, for the first member of the task: plans what chunks run whose inputs
  // and outputs share memory as `input` and the member's output do. Others are
  // planned when they first run.
  virtual absl::Status Prepare(const CollectiveContext& first,
                               const Tensor& input) = 0;

  // Fixed by Prepare(): the chunks into which the buffers are cut, in order.
  virtual int64_t num_chunks() const = 0;
  virtual Range ChunkAt(int64_t index) const = 0;

  // All-reduces chunk `index`. `context` has the chunk's input and output and
  // what else it has in the whole's execution; the rest is set here. It lives
  // until `done` runs, as for CollectiveImplementationInterface::Run(), and is
  // given to Launched(). REQUIRES: the chunk before has ended.
  virtual void Run(int64_t index, CollectiveContext& context,
                   StatusCallback done) const = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_BETWEEN_TASKS_H_
