#ifndef TUTTI_SCHEDULE_SCHEDULE_BUILDER_H_
#define TUTTI_SCHEDULE_SCHEDULE_BUILDER_H_

#include <utility>

#include "absl/types/span.h"
#include "schedule/schedule.h"

namespace tutti {

// Writes a Schedule lane by lane; each call appends one step and returns the
// reference by which later steps can wait for it.
//
//   ScheduleBuilder builder(/*num_chunks=*/1);
//   auto lane = builder.AddLane();
//   const StepRef arrived = lane.Recv(peer, tag, Data(0));
//   builder.AddLane().Send(next, tag, Data(0), arrived);
//   return builder.Build();
class ScheduleBuilder {
 public:
  // A handle on one lane; valid as long as the builder is.
  class LaneBuilder {
   public:
    StepRef Send(int peer, int tag, Slot from, StepRef after = {});
    StepRef Recv(int peer, int tag, Slot into, StepRef after = {});
    StepRef Reduce(Slot into, Slot left, Slot right, StepRef after = {});
    StepRef Copy(Slot into, Slot from, StepRef after = {});

    // As Reduce and Copy, and applies the final op to `into`.
    StepRef ReduceAndFinish(Slot into, Slot left, Slot right,
                            StepRef after = {});
    StepRef CopyAndFinish(Slot into, Slot from, StepRef after = {});

    // The same of any number of operands, at least one: Copy if it is one.
    StepRef ReduceMany(Slot into, absl::Span<const Slot> operands,
                       StepRef after = {});
    StepRef ReduceManyAndFinish(Slot into, absl::Span<const Slot> operands,
                                StepRef after = {});

    // Later steps of the lane wait for that step, too.
    StepRef Wait(StepRef after);

   private:
    friend class ScheduleBuilder;
    LaneBuilder(Schedule* schedule, int lane)
        : schedule_(schedule), lane_(lane) {}
    StepRef Append(const Step& step);

    Schedule* schedule_;
    int lane_;
  };

  explicit ScheduleBuilder(int num_chunks) {
    schedule_.num_chunks = num_chunks;
  }
  ScheduleBuilder(const ScheduleBuilder&) = delete;
  ScheduleBuilder& operator=(const ScheduleBuilder&) = delete;

  LaneBuilder AddLane();

  // The finished schedule. Call once, last.
  Schedule Build() { return std::move(schedule_); }

 private:
  Schedule schedule_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SCHEDULE_BUILDER_H_
