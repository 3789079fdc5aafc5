#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_MAILBOX_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_MAILBOX_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "remote/mpi/messages/doorbell.h"
#include "tutti/environment.h"

namespace tutti {

// Work for MPI's thread. Whoever may post some when the runtime has gone, as an
// alarm that runs meanwhile does, keeps the mailbox: it lives as long as that.
//
// Thread-safe.
class MpiMailbox {
 public:
  MpiMailbox() = default;
  MpiMailbox(const MpiMailbox&) = delete;
  MpiMailbox& operator=(const MpiMailbox&) = delete;

  // Has MPI's thread run `work`, soon, in the order of the calls. Once the
  // mailbox is closed it runs inside this call, perhaps beside other late work,
  // and MPI may be over: then it must find nothing to do.
  void Post(Work work) ABSL_LOCKS_EXCLUDED(mu_);

  // Has the thread look for what it has to do.
  void Ring() ABSL_LOCKS_EXCLUDED(mu_);

  // For MPI's thread. Posts and Ring() ring `doorbell`, which lives until the
  // mailbox is closed.
  void RingAt(Doorbell* doorbell) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<Work> TakeAll() ABSL_LOCKS_EXCLUDED(mu_);
  bool empty() const ABSL_LOCKS_EXCLUDED(mu_);

  // What is in it is destroyed, not run.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  // False, and nothing done, if there is something in it.
  bool CloseIfEmpty() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  Doorbell* doorbell_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Work> posted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_MAILBOX_H_
