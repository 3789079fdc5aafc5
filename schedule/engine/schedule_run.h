#ifndef TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUN_H_
#define TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUN_H_

#include <cstddef>
#include <memory>

#include "schedule/compiled_schedule.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {

// The engine: runs one member's schedule, once for each call of Run().
//
// A step starts when those it waits for are complete; nothing ever waits on a
// thread. Steps run on the thread that completes what they waited for, one
// after another however long the chain is; reductions and copies of more than
// kInlineBytes go to the work queue. `done` runs exactly once, when no step is
// under way any more, with the first error if there was one. An error, or the
// end of the execution, keeps further steps from starting.
//
// Where the device does its work in an order of its own (Device::OpenSteps()),
// a step is complete once it is put there, and what members of this process
// send each other is lent with a fence: the whole schedule is put on the
// devices' streams, none of which waits for the host between two steps. What
// goes to another process is copied, to the host or, where the transport reads
// the device (least_device_bytes()), to a landing, and sent when it is there;
// what comes from one goes through the host, or a landing, too. Barriers move
// no bytes of the devices and run on the host.
//
// Thread-safe: any number of executions may be under way. What up to two of
// them used, with up to ScratchPool::kFewBytes of scratch each, is kept for
// those that follow, which then allocate nothing, as far as the bytes of the
// group allow it (SpareBytes).
class ScheduleRunner {
 public:
  ScheduleRunner(std::shared_ptr<const CompiledSchedule> schedule,
                 const CollectiveParams& params);
  ~ScheduleRunner();
  ScheduleRunner(const ScheduleRunner&) = delete;
  ScheduleRunner& operator=(const ScheduleRunner&) = delete;

  // `context` stays valid until `done`, as does this.
  void Run(const CollectiveContext& context, StatusCallback done) const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// About what a hand-over to another thread costs in bytes reduced meanwhile: 20
// us at 10 GB/s (2 cores, Zen 4, 2026-11).
inline constexpr size_t kInlineBytes = size_t{256} << 10;

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUN_H_
