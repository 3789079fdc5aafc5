#ifndef TUTTI_FRAMEWORK_EXECUTOR_LOCAL_MEETING_H_
#define TUTTI_FRAMEWORK_EXECUTOR_LOCAL_MEETING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {

// Member of an execution that has arrived. Each Attendee has a cache line for
// itself, as members come on several threads.
struct ABSL_CACHELINE_ALIGNED Attendee {
  const CollectiveContext* context = nullptr;  // Valid until `done` runs.
  StatusCallback done;

  // State in the meeting: whether the member has shown itself.
  enum class State : uint8_t { kAway, kHere };
  std::atomic<State> state{State::kAway};
};

// Meeting of those members of one execution that are in this process, or of
// some of them. The last member to arrive gets all members and does the work;
// nobody waits on a thread. Belongs to the execution (Execution::Shared()), and
// serves the next execution that uses the object. Thread-safe; takes a lock
// only the first time.
class LocalMeeting {
 public:
  // Meets until `cancellation` is set. `cancellation` belongs to the execution.
  explicit LocalMeeting(Cancellation& cancellation);
  LocalMeeting(const LocalMeeting&) = delete;
  LocalMeeting& operator=(const LocalMeeting&) = delete;

  // Adds a member; call once for each member. The last caller gets all members
  // in rank order, valid until Adjourn(); every other caller gets nothing. If
  // the execution fails before all are here, every `done` runs with that error:
  // `done` of a present member on the thread that fails it, `done` of a later
  // member inside its call. If the members give different rows
  // (CollInstanceParams::rows_are_given), all end with INVALID_ARGUMENT. Their
  // `done` then runs inside the call of the last one, which returns nothing.
  absl::Span<const Attendee> Join(const CollectiveContext& context,
                                  StatusCallback&& done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Joins like Join(), where only `size` of the members meet. `size` is the
  // same in every call. The caller gets `place`.
  absl::Span<const Attendee> JoinAt(size_t place, size_t size,
                                    const CollectiveContext& context,
                                    StatusCallback&& done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the calls of all members, who must be here, with `status`. Runs their
  // `done` in turn: a member may go on to its next call and be the last there.
  void Adjourn(absl::Status status);

 private:
  using Attendees = std::vector<Attendee>;  // Indexed by place.

  Attendees& AttendeesFor(size_t size) ABSL_LOCKS_EXCLUDED(mu_);
  void Fail(const absl::Status& reason);

  // Bit of num_here_: the execution has failed.
  static constexpr uint64_t kFailed = uint64_t{1} << 63;

  Cancellation& cancellation_;
  std::atomic<uint64_t> num_here_{0};
  std::atomic<Attendees*> attendees_{nullptr};  // Set once they are made.
  Mutex mu_;
  std::unique_ptr<Attendees> made_attendees_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_LOCAL_MEETING_H_
