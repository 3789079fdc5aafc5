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

// One member of an execution that has arrived. A cache line of its own, as they
// come on several threads.
struct ABSL_CACHELINE_ALIGNED Attendee {
  const CollectiveContext* context = nullptr;  // Valid until `done` runs.
  StatusCallback done;

  // For the meeting: whether it has shown itself.
  enum class State : uint8_t { kAway, kHere };
  std::atomic<State> state{State::kAway};
};

// Where those members of one execution meet that are in this process, or some
// of them: the last one to arrive gets all of them and does the work; nobody
// waits on a thread. Belongs to the execution (Execution::Shared()), and serves
// the next one that uses it. Thread-safe; takes no lock but the first time.
class LocalMeeting {
 public:
  // `cancellation` is the execution's.
  explicit LocalMeeting(Cancellation& cancellation);
  LocalMeeting(const LocalMeeting&) = delete;
  LocalMeeting& operator=(const LocalMeeting&) = delete;

  // These members in rank order, valid until Adjourn(), if the caller is the
  // last one, else nothing. If the execution fails before all are here, the
  // `done` of those that are runs with its error, on the thread that fails it;
  // that of those that come later, inside this call. If the members give
  // different rows (AllGather::rows) all end with INVALID_ARGUMENT on the
  // thread of the last one, inside its call, which returns nothing. Once for
  // each member.
  absl::Span<const Attendee> Join(const CollectiveContext& context,
                                  StatusCallback&& done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The same where only `size` of them meet, always as many, of which this one
  // gets `place`.
  absl::Span<const Attendee> JoinAt(size_t place, size_t size,
                                    const CollectiveContext& context,
                                    StatusCallback&& done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the calls of all, who are here, with `status`: in turn, so that a
  // member may go on to its next call and be that one's last.
  void Adjourn(absl::Status status);

 private:
  using Attendees = std::vector<Attendee>;  // By place.

  Attendees& AttendeesFor(size_t size) ABSL_LOCKS_EXCLUDED(mu_);
  void Fail(const absl::Status& reason);

  // In the count of those who are here: the execution has failed.
  static constexpr uint64_t kFailed = uint64_t{1} << 63;

  Cancellation& cancellation_;
  std::atomic<uint64_t> num_here_{0};
  std::atomic<Attendees*> attendees_{nullptr};  // Once they are made.
  Mutex mu_;
  std::unique_ptr<Attendees> made_attendees_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_LOCAL_MEETING_H_
