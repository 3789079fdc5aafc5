#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_MAILBOX_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_MAILBOX_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "remote/mpi/messages/doorbell.h"
#include "tutti/environment.h"

namespace tutti {

// Work for MPI's thread. It outlives the runtime: a caller that may post later,
// such as an alarm, keeps the mailbox.
//
// Thread-safe.
class MpiMailbox {
 public:
  MpiMailbox() = default;
  MpiMailbox(const MpiMailbox&) = delete;
  MpiMailbox& operator=(const MpiMailbox&) = delete;

  // Runs `work` on MPI's thread, soon, in the order of the calls. After
  // Close(), runs it inside this call, perhaps at the same time as other late
  // work. MPI may then be over: such work must find nothing to do.
  void Post(Work work) ABSL_LOCKS_EXCLUDED(mu_);

  // Makes the thread look for work.
  void Ring() ABSL_LOCKS_EXCLUDED(mu_);

  // Functions for MPI's thread. Post() and Ring() ring `doorbell`, which must
  // live until the mailbox is closed.
  void RingAt(Doorbell* doorbell) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<Work> TakeAll() ABSL_LOCKS_EXCLUDED(mu_);
  bool empty() const ABSL_LOCKS_EXCLUDED(mu_);

  // Closes the mailbox, and destroys its work without running it.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  // Returns false, and does nothing, if the mailbox has work.
  bool CloseIfEmpty() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  Doorbell* doorbell_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Work> posted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_MAILBOX_H_
