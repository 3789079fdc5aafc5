#ifndef TUTTI_FRAMEWORK_LOCAL_MEETING_H_
#define TUTTI_FRAMEWORK_LOCAL_MEETING_H_

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/cancellation.h"
#include "framework/collective_context.h"
#include "framework/mutex.h"
#include "framework/status_callback.h"

namespace tutti {

// One member of an execution that has arrived.
struct Attendee {
  const CollectiveContext* context = nullptr;  // Valid until `done` runs.
  StatusCallback done;
};

// Where those members of one execution meet that are in this process, or some
// of them: the last one to arrive gets all of them and does the work; nobody
// waits on a thread. Belongs to the execution (Execution::Shared()), and serves
// the next one that uses it. Thread-safe.
class LocalMeeting {
 public:
  // `cancellation` is the execution's.
  explicit LocalMeeting(Cancellation& cancellation);
  LocalMeeting(const LocalMeeting&) = delete;
  LocalMeeting& operator=(const LocalMeeting&) = delete;

  // These members in rank order, valid until Adjourn(), if the caller is the
  // last one, else nothing. If the execution fails before all are here, the
  // `done` of those that are runs with its error, on the thread that fails it;
  // that of those that come later, inside this call. Once for each member.
  absl::Span<const Attendee> Join(const CollectiveContext& context,
                                  StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

  // The same where only `size` of them meet, of which this one gets `place`.
  absl::Span<const Attendee> JoinAt(size_t place, size_t size,
                                    const CollectiveContext& context,
                                    StatusCallback done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the calls of all, who are here, with `status`: in turn, so that a
  // member may go on to its next call and be that one's last.
  void Adjourn(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Span<Attendee> All() ABSL_LOCKS_EXCLUDED(mu_);
  void Fail(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  std::vector<Attendee> attendees_ ABSL_GUARDED_BY(mu_);  // By rank.
  size_t num_awaited_ ABSL_GUARDED_BY(mu_) = 0;  // 0: nobody is here, or all.
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_LOCAL_MEETING_H_
