#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_MEETING_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_MEETING_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
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

// Where the members of one execution meet that are all in this process: the
// last one to arrive gets all of them and does the work; nobody waits on a
// thread. Kept by the execution: Execution::Shared(). Thread-safe.
class LocalMeeting : public std::enable_shared_from_this<LocalMeeting> {
 public:
  LocalMeeting() = default;
  LocalMeeting(const LocalMeeting&) = delete;
  LocalMeeting& operator=(const LocalMeeting&) = delete;

  // All members in rank order if the caller is the last one, else nothing. If
  // the execution fails before all are here, the `done` of those that are runs
  // with its error, on the thread that fails it; that of those that come later,
  // inside this call. Once for each member.
  std::vector<Attendee> Join(const CollectiveContext& context,
                             StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Watch(Cancellation* cancellation) ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  std::vector<Attendee> attendees_ ABSL_GUARDED_BY(mu_);  // By rank.
  size_t num_here_ ABSL_GUARDED_BY(mu_) = 0;
  bool over_ ABSL_GUARDED_BY(mu_) = false;  // All came, or it failed.
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  Cancellation::WatchId watch_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_MEETING_H_
