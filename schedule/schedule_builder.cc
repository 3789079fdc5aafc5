#include "tutti/schedule.h"

namespace tutti {

StepRef ScheduleBuilder::LaneBuilder::Append(const Step& step) {
  Lane& lane = schedule_->lanes[lane_];
  lane.push_back(step);
  return {lane_, static_cast<int>(lane.size()) - 1};
}

StepRef ScheduleBuilder::LaneBuilder::Send(int peer, int tag, Slot from,
                                           StepRef after) {
  return Append({.kind = StepKind::kSend,
                 .left = from,
                 .peer = peer,
                 .tag = tag,
                 .after = after});
}

StepRef ScheduleBuilder::LaneBuilder::Recv(int peer, int tag, Slot into,
                                           StepRef after) {
  return Append({.kind = StepKind::kRecv,
                 .into = into,
                 .peer = peer,
                 .tag = tag,
                 .after = after});
}

StepRef ScheduleBuilder::LaneBuilder::Reduce(Slot into, Slot left, Slot right,
                                             StepRef after) {
  return Append({.kind = StepKind::kReduce,
                 .into = into,
                 .left = left,
                 .right = right,
                 .after = after});
}

StepRef ScheduleBuilder::LaneBuilder::Copy(Slot into, Slot from,
                                           StepRef after) {
  return Append(
      {.kind = StepKind::kCopy, .into = into, .left = from, .after = after});
}

StepRef ScheduleBuilder::LaneBuilder::ReduceAndFinish(Slot into, Slot left,
                                                      Slot right,
                                                      StepRef after) {
  return Append({.kind = StepKind::kReduce,
                 .finish = true,
                 .into = into,
                 .left = left,
                 .right = right,
                 .after = after});
}

StepRef ScheduleBuilder::LaneBuilder::CopyAndFinish(Slot into, Slot from,
                                                    StepRef after) {
  return Append({.kind = StepKind::kCopy,
                 .finish = true,
                 .into = into,
                 .left = from,
                 .after = after});
}

StepRef ScheduleBuilder::LaneBuilder::ReduceMany(
    Slot into, absl::Span<const Slot> operands, StepRef after) {
  if (operands.size() == 1) return Copy(into, operands[0], after);
  return Append({.kind = StepKind::kReduce,
                 .into = into,
                 .left = operands[0],
                 .right = operands[1],
                 .more = {operands.begin() + 2, operands.end()},
                 .after = after});
}

StepRef ScheduleBuilder::LaneBuilder::ReduceManyAndFinish(
    Slot into, absl::Span<const Slot> operands, StepRef after) {
  const StepRef reduced = ReduceMany(into, operands, after);
  schedule_->lanes[reduced.lane][reduced.step].finish = true;
  return reduced;
}

StepRef ScheduleBuilder::LaneBuilder::Wait(StepRef after) {
  return Append({.kind = StepKind::kWait, .after = after});
}

ScheduleBuilder::LaneBuilder ScheduleBuilder::AddLane() {
  schedule_.lanes.emplace_back();
  return LaneBuilder(&schedule_, static_cast<int>(schedule_.lanes.size()) - 1);
}

}  // namespace tutti
