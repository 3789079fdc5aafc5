#ifndef TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COLLECTIVES_H_
#define TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COLLECTIVES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
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

// Collectives that MPI runs among the processes of its job: those that
// MpiOperation supports, in any number of steps, groups and instances at a
// time. All-reduces and reduces of a few KiB take fewer messages than MPI
// needs: the messages by which members agree to begin carry the data
// (mpi_agreement.h). Two members send each other their inputs instead
// (mpi_exchange.h).
//
// An execution that fails on any member ends soon if MPI has not begun it;
// mpi_agreement.h says when MPI begins it. MPI cannot be stopped afterwards:
// `done` then runs when MPI has released the tensors. This requires that all
// members' processes go on; the runtime waits `lost_limit` for lost ones.
//
// `done` runs on MPI's thread, with two exceptions. After a final op on a large
// tensor it runs on the environment's queue. If Run() fails, it runs inside
// Run(). A process has one such object at a time; the n-th object of each
// process communicates with the n-th objects of the others.
class MpiCollectives final
    : public CollectiveDelegate,
      public MpiPoller,
      public std::enable_shared_from_this<MpiCollectives> {
 public:
  struct Options {
    MpiEngine* runtime = nullptr;  // Outlives the work that Close() ends.
    ClusterSpec cluster;           // Task i is MPI's rank i.
    Environment environment;
  };

  explicit MpiCollectives(const Options& options);

  absl::string_view name() const override { return kMpiDelegate; }

  // Errors: from MpiOperation::Check(); NOT_FOUND for a member whose task
  // is not in the cluster.
  absl::Status Prepare(CollectiveContext* context) override;

  // Errors: the reason that ended the execution; CANCELLED after Close();
  // RESOURCE_EXHAUSTED, before anything begins, without memory for MPI's
  // buffers; UNAVAILABLE, or the reason of Drop(), if another member's process
  // is gone; the errors of merge op and final op.
  void Run(const CollectiveContext& context, StatusCallback done) override;

  // Names the members that the execution waits for. On the leader: those whose
  // tasks are not ready. On other members: the leader. In a small reduction of
  // two: the other member. Once it has begun: none.
  std::string DescribeWaiting(const CollGroupParams& group,
                              const ExecKey& exec) override;

  // Functions below are for MPI's thread. Open() begins to listen; call it
  // once, first.
  void Open();
  State Poll(bool is_last) override;
  void Stop() override { notes_.Close(); }
  bool IsHeldBy(int rank) const override;

  // Handles the loss of a process. Does nothing once Close() has ended; then
  // any thread may call it.
  void Drop(int task, const absl::Status& reason);

  // Ends the executions that MPI has not begun. `closed` runs when none is
  // under way.
  void Close(Work closed);

 private:
  class Group;
  class Execution;

  // Phases in order; changed on MPI's thread alone.
  enum class Phase {
    kOpen,     // Takes executions, until Close().
    kClosing,  // Refuses executions, until EndClosing() finds none left.
    kClosed,   // Only frees communicators that others have needed for longer.
  };

  // Returns false, and does nothing, in kClosed.
  bool Post(Work work) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns a function that sends notes. Call once `notes_` exists.
  std::function<void(int task, const MpiNote& note)> NoteSender();
  std::string NamesOf(const CollGroupParams& group,
                      const std::vector<int>& tasks) const;
  void OnNote(int task, const MpiNote& note);
  void OnGone(int task, const absl::Status& why);
  void Withdraw(const ExecKey& key, const absl::Status& why);
  bool BeginInMpi();
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
  MpiRequests under_way_;  // Requests to MPI.

  // Executions that MPI is to begin, in order.
  struct Beginning {
    std::shared_ptr<Execution> execution;
    bool makes_communicator = false;
    bool any_in_place = false;
  };
  std::deque<Beginning> beginnings_;

  // Executions that began and ended without MPI.
  std::vector<std::shared_ptr<Execution>> merged_;

  size_t num_executions_ = 0;  // Executions whose `done` has not run.
  absl::flat_hash_set<const Execution*> failed_in_mpi_;
  uint32_t num_idle_polls_ = 0;

  // Set in kClosing: the deadline for members to release executions that MPI
  // has not begun, and the callback at the end.
  absl::Time refuse_all_at_;
  Work closed_;

  // Held to keep kClosed from being set meanwhile, and to set it. MPI's thread
  // reads the phase again and again without it.
  Mutex mu_;
  std::atomic<Phase> phase_ = Phase::kOpen;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COLLECTIVES_H_
