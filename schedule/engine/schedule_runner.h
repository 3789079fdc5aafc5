#ifndef TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUNNER_H_
#define TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUNNER_H_

#include <memory>

#include "schedule/compiled_schedule.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {

// The engine: runs one member's schedule once per call of Run().
//
// A step starts when the steps it waits for are complete; no thread ever blocks
// for it. A step runs on the thread that completes its last wait. Long chains
// of steps do not deepen the stack. Reductions and copies of more than
// kInlineBytes go to the work queue. `done` runs exactly once, when no step is
// in progress, with the first error if there was one. An error or the end of
// the execution keeps further steps from starting.
//
// A device may order its work on a stream (Device::OpenSteps()). A step is then
// complete once it is on the stream. Bytes between members of this process are
// posted with a fence. The whole schedule is on the devices' streams, and no
// stream waits for the host between two steps.
//
// Bytes to another process are copied first, and sent when the copy is
// complete. The copy is on the host or, if the transport reads the device
// (least_device_bytes()), in a landing. Bytes from another process come through
// the host or a landing, too. Barriers move no bytes of the devices and run on
// the host.
//
// Thread-safe: any number of executions may be in progress. The state of up to
// two finished executions is kept for later ones, with up to
// ScratchPool::kFewBytes of scratch each. Later executions then allocate
// nothing. The group's bytes bound what is kept (SpareBytes).
class ScheduleRunner {
 public:
  ScheduleRunner(std::shared_ptr<const CompiledSchedule> schedule,
                 const CollectiveParams& params);
  ~ScheduleRunner();
  ScheduleRunner(const ScheduleRunner&) = delete;
  ScheduleRunner& operator=(const ScheduleRunner&) = delete;

  // Runs the schedule once. `context` and this runner stay valid until `done`
  // runs.
  void Run(const CollectiveContext& context, StatusCallback done) const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUNNER_H_
