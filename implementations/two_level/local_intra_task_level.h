#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_INTRA_TASK_LEVEL_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_INTRA_TASK_LEVEL_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/executor/local_meeting.h"
#include "schedule/engine/intra_task_level.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {

// The level within a task with two passes over the members' memory: one before
// and one after the level between tasks.
class LocalIntraTaskLevel final : public IntraTaskLevel {
 public:
  // REQUIRES: all members of the task have joined `meeting`. End() adjourns it.
  LocalIntraTaskLevel(absl::Span<const Attendee> members, LocalMeeting& meeting)
      : members_(members), meeting_(meeting) {}

  void Reduce(Chunk chunk, StatusCallback done) override;
  bool launches_between_tasks() const override { return true; }
  absl::Status BeginMeet(Chunk chunk, CollectiveContext& context) override;
  void Spread(Chunk chunk, StatusCallback done) override;
  void End() override;

 private:
  const CollectiveContext& first() const { return *members_[0].context; }
  bool is_alone() const { return members_.size() == 1; }

  const absl::Span<const Attendee> members_;  // Valid until Adjourn().
  LocalMeeting& meeting_;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_INTRA_TASK_LEVEL_H_
