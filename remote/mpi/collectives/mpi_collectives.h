#ifndef TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COLLECTIVES_H_
#define TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COLLECTIVES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/collective/collective_delegate.h"
#include "remote/mpi/collectives/mpi_agreement.h"
#include "remote/mpi/collectives/mpi_communicators.h"
#include "remote/mpi/collectives/mpi_operation.h"
#include "remote/mpi/messages/mpi_choice.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_exchange.h"
#include "remote/mpi/messages/mpi_note.h"
#include "remote/mpi/messages/mpi_notes.h"
#include "remote/mpi/messages/mpi_part.h"
#include "remote/mpi/messages/mpi_requests.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// Collectives that MPI runs, among the processes of its job: those that
// MpiOperation knows, of any number of steps, groups and instances at a time.
// All-reduces and reduces of a few KiB take fewer messages than MPI needs, as
// they go with those by which members agree to begin (mpi_agreement.h), or, of
// two, each sends its input to the other (mpi_exchange.h).
//
// An execution that ends early, on any member, ends soon if MPI has not begun
// it; mpi_agreement.h says when that is. MPI cannot be stopped afterwards: then
// `done` runs when MPI has let go of the tensors, which needs all members'
// processes to go on; for those that are lost the runtime waits `lost_limit`.
//
// `done` runs on MPI's thread; on the environment's queue after a final op on a
// large tensor; within Run() where that fails. There is one of these at a time
// in a process; the n-th one of each process talks to the n-th ones of the
// others.
class MpiCollectives final
    : public CollectiveDelegate,
      public MpiPoller,
      public std::enable_shared_from_this<MpiCollectives> {
 public:
  struct Options {
    MpiEngine* runtime = nullptr;  // Outlives all that Close() ends.
    ClusterSpec cluster;           // Task i is rank i of MPI's.
    Environment environment;
  };

  explicit MpiCollectives(const Options& options);

  absl::string_view name() const override { return kMpiDelegate; }

  // Errors: as MpiOperation::Check(); NOT_FOUND for a member whose task is not
  // in the cluster.
  absl::Status Prepare(CollectiveContext* context) override;

  // Errors: what ended the execution; CANCELLED after Close();
  // RESOURCE_EXHAUSTED, before anything begins, without the memory that MPI
  // needs besides the tensors; UNAVAILABLE, or that of Drop(), if another
  // member's process is gone; those of merge op and final op.
  void Run(const CollectiveContext& context, StatusCallback done) override;

  // The members whose tasks are not ready, where this one leads; else the
  // leader. Of a small reduction of two, the other. Once it has begun, nobody.
  std::string DescribeWaiting(const CollGroupParams& group,
                              const ExecKey& exec) override;

  // The rest is for MPI's thread. Begins to listen; once, before all else.
  void Open();
  State Poll(bool is_last) override;
  void Stop() override { notes_.Close(); }
  bool IsHeldBy(int rank) const override;

  // The process is lost. Nothing is done once Close() has ended; then also on
  // any other thread.
  void Drop(int task, const absl::Status& reason);

  // Ends what MPI has not begun; `closed` runs when nothing is under way.
  void Close(Work closed);

 private:
  class Group;
  class Execution;

  // One after the other; changed on MPI's thread alone.
  enum class Phase {
    kOpen,     // Takes executions, until Close().
    kClosing,  // Refuses them, until EndClosing() finds none left.
    kClosed,   // Only frees what others have needed for longer.
  };

  // False, and nothing is done, in kClosed.
  bool Post(Work work) ABSL_LOCKS_EXCLUDED(mu_);

  // Of notes. Only once `notes_` is there.
  std::function<void(int task, const MpiNote& note)> Sender();
  std::string NamesOf(const CollGroupParams& group,
                      const std::vector<int>& tasks) const;
  void OnNote(int task, const MpiNote& note);
  void OnGone(int task, const absl::Status& why);
  void Withdraw(const ExecKey& key, const absl::Status& why);
  bool EndMerged();
  Phase phase() const { return phase_.load(std::memory_order_acquire); }
  void SetPhase(Phase phase) ABSL_LOCKS_EXCLUDED(mu_);
  bool EndClosing();
  State PollClosed();
  absl::Status Gone(int task) const;

  const Options options_;
  MpiNotes notes_;
  MpiAgreement agreement_;
  MpiExchange exchange_;
  MpiCommunicators communicators_;
  MpiMerges merges_;
  MpiRequests under_way_;  // In MPI.

  // What has begun without MPI, and is over.
  std::vector<std::shared_ptr<Execution>> merged_;

  size_t num_executions_ = 0;  // Whose `done` has not run.
  absl::flat_hash_set<const Execution*> failed_in_mpi_;
  uint32_t num_idle_polls_ = 0;

  // Of kClosing: until when members may take to let go of what MPI has not
  // begun, and what runs at its end.
  absl::Time refuse_all_at_;
  Work closed_;

  // Held where kClosed must not come meanwhile, and where it is set. MPI's
  // thread looks again and again, without it.
  Mutex mu_;
  std::atomic<Phase> phase_ = Phase::kOpen;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COLLECTIVES_H_
