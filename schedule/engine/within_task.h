#ifndef TUTTI_SCHEDULE_ENGINE_WITHIN_TASK_H_
#define TUTTI_SCHEDULE_ENGINE_WITHIN_TASK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "schedule/chunk_map.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {

// The level within a task of one execution of a hierarchical all-reduce: how
// the members reduce what they have, and get what the tasks have made of it.
//
// HierarchicalRun calls it from the threads on which stages end: Reduce() and
// BeginMeet() for one chunk at a time each, in order, Spread() for any number,
// all of them side by side.
class WithinTask {
 public:
  struct Chunk {
    int64_t index = 0;
    Range elements;
  };

  virtual ~WithinTask() = default;

  // Reduces the members' inputs. `done` may run inside.
  virtual void Reduce(Chunk chunk, StatusCallback done) = 0;

  // Whether the first member is launched by what the first chunk launches
  // between tasks; else this level sees to it.
  virtual bool launches_between_tasks() const = 0;

  // The chunk is reduced, and the first member is about to reduce it with those
  // of the other tasks. Sets what `context` has for that: the device, and the
  // whole buffers in which the chunk lies, as input, and will lie, as output.
  virtual absl::Status BeginMeet(Chunk chunk, CollectiveContext& context) = 0;

  // Applies the final op to that output, and gives all members what it makes.
  // `done` may run inside.
  virtual void Spread(Chunk chunk, StatusCallback done) = 0;

  // Once, last: nothing is under way any more, and nothing will be. Members may
  // be gone when this returns.
  virtual void End() = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_WITHIN_TASK_H_
