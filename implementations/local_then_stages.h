#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_THEN_STAGES_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_THEN_STAGES_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/collective_context.h"
#include "framework/local_meeting.h"
#include "framework/status_callback.h"
#include "schedule/chunk_map.h"
#include "schedule/chunk_pipeline.h"

namespace tutti {

// How the first members of tasks reduce what those have summed, in all
// executions of an instance.
class BetweenTasks {
 public:
  virtual ~BetweenTasks() = default;

  // For each member, before anything else.
  virtual absl::Status Check(const CollectiveContext& context) const = 0;

  // Once, for the first member of the task.
  virtual absl::Status Prepare(const CollectiveContext& first) = 0;

  // Fixed by Prepare().
  virtual int64_t num_chunks() const = 0;
  virtual Range ChunkAt(int64_t index) const = 0;

  // As ReductionBetweenTasks::Run(). Calls Launched() with the context of the
  // first chunk.
  virtual void Run(int64_t index, CollectiveContext& context,
                   StatusCallback done) const = 0;
};

// One execution of a LocalThen in one task, from the arrival of its last member
// to the end. Kept by its own callbacks. Thread-safe once started.
class LocalThenStages : public std::enable_shared_from_this<LocalThenStages> {
 public:
  // All members of the task have joined `meeting`; `between` outlives them.
  LocalThenStages(absl::Span<const Attendee> members, LocalMeeting& meeting,
                  const BetweenTasks& between);
  LocalThenStages(const LocalThenStages&) = delete;
  LocalThenStages& operator=(const LocalThenStages&) = delete;

  // Starts what can start, or ends, and adjourns the meeting.
  void GoOn();

 private:
  const CollectiveContext& first() const { return *members_[0].context; }
  bool is_alone() const { return members_.size() == 1; }

  // The three stages of a chunk. Each ends with the function behind it.
  void Reduce(int64_t index);
  void OnReduced(absl::Status status);
  void Meet(int64_t index);
  void OnMet(int64_t index, absl::Status status);
  void Spread(int64_t index);
  void OnSpread(absl::Status status);

  void Fail(absl::Status status);
  void End();

  const absl::Span<const Attendee> members_;  // Valid until Adjourn().
  LocalMeeting& meeting_;
  const BetweenTasks& between_;
  ChunkPipeline pipeline_;

  // What the second stage has of a chunk; of the one that meets others.
  std::unique_ptr<CollectiveContext> context_;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_THEN_STAGES_H_
