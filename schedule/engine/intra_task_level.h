#ifndef TUTTI_SCHEDULE_ENGINE_INTRA_TASK_LEVEL_H_
#define TUTTI_SCHEDULE_ENGINE_INTRA_TASK_LEVEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "schedule/chunk_map.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {

// The level within a task of one execution of a hierarchical all-reduce. Its
// members reduce their inputs, and later receive the result of all tasks.
//
// HierarchicalRun calls it on the threads on which stages end. At most one
// Reduce() and one BeginMeet() run at a time, each in chunk order. Any number
// of Spread() run at a time. All three kinds may overlap.
class IntraTaskLevel {
 public:
  struct Chunk {
    int64_t index = 0;
    Range elements;
  };

  virtual ~IntraTaskLevel() = default;

  // Reduces the members' inputs. `done` may run inside the call.
  virtual void Reduce(Chunk chunk, StatusCallback done) = 0;

  // Returns true if the launch of the first chunk between tasks also launches
  // the first member. If false, this level launches it.
  virtual bool launches_between_tasks() const = 0;

  // Prepares the meeting of a reduced chunk with the chunks of the other tasks.
  // Sets fields of `context`: the device, and the whole buffers that hold the
  // chunk's input and its output.
  virtual absl::Status BeginMeet(Chunk chunk, CollectiveContext& context) = 0;

  // Applies the final op to the chunk's output, and gives the result to all
  // members. `done` may run inside the call.
  virtual void Spread(Chunk chunk, StatusCallback done) = 0;

  // Ends the execution. Called once, last: nothing is in progress and nothing
  // will begin. Members may be gone when this returns.
  virtual void End() = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_INTRA_TASK_LEVEL_H_
