#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_ENGINE_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_ENGINE_H_

#include <mpi.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "remote/mpi/messages/mpi_mailbox.h"
#include "remote/mpi/messages/mpi_neighbours.h"
#include "remote/mpi/messages/mpi_requests.h"
#include "remote/mpi/messages/mpi_ring.h"
#include "remote/mpi/messages/mpi_world.h"
#include "remote/peer_memory.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"

namespace tutti {

// Work that is polled on MPI's thread.
class MpiPoller {
 public:
  enum class State {
    kIdle,       // Has nothing to do until another process sends.
    kExpecting,  // Same, and a caller here waits for that.
    kWaiting,    // Waits for MPI to continue an operation.
    kMoving,     // Same; MPI may move many bytes during its calls only.
    kRunning,    // Same; MPI runs a collective, and all members are in it.
    kBusy,       // Has just done something: there may be more.
  };

  virtual ~MpiPoller() = default;

  // Polls once. If `is_last`, the thread may sleep afterwards: the poll must
  // find all that has come. Otherwise a poller that waits for nothing may skip
  // polls.
  virtual State Poll(bool is_last) = 0;

  // Takes back operations that wait for other processes: MPI ends.
  virtual void Stop() {}

  // Returns whether MPI keeps tensors of failed collectives until the process
  // `rank` goes on.
  virtual bool IsHeldBy(int /*rank*/) const { return false; }
};

// MPI in this process, and the thread that calls it. Internals of MpiRuntime,
// with the functions that the transport and the collectives use on that thread.
//
// Thread-safe, except that Start() and Shutdown() are for one thread.
class MpiEngine {
 public:
  using Options = MpiRuntime::Options;

  explicit MpiEngine(Options options);
  ~MpiEngine();  // Shuts down.
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  // Same as in MpiRuntime.
  absl::Status Start();
  void Shutdown() ABSL_LOCKS_EXCLUDED(mu_);

  // Notes that a rank is lost: from now on every wait for it has a limit. The
  // first reason stays.
  void CallLost(int rank, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

  // Notes that a rank has ended in good order after all.
  void CallFound(int rank) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the lost ranks, "rank 2 (why), rank 3 (why)", or empty.
  std::string WhoIsLost() const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns what is known of the job. Errors: FAILED_PRECONDITION if MPI is not
  // initialised.
  absl::StatusOr<const MpiWorld*> world() const ABSL_LOCKS_EXCLUDED(mu_);

  // Same as in MpiRuntime.
  bool is_cuda_aware() const {
    const auto known = world();
    return known.ok() && (*known)->is_cuda_aware;
  }

  // Runs `work` on MPI's thread, soon, in the order of the calls. If the thread
  // has ended, runs it inside this call.
  void Post(Work work) { mailbox_->Post(std::move(work)); }

  // Posts work too, and outlives the runtime.
  const std::shared_ptr<MpiMailbox>& mailbox() const { return mailbox_; }

  // Polls `poller` from now on until the end; MPI may use it until then. Call
  // on MPI's thread, but not inside Poll().
  void Add(std::shared_ptr<MpiPoller> poller);

  // Runs `on_end` when `request` has ended; `on_end` may begin more. On MPI's
  // thread alone. One look tests all requests: MPI makes progress, and may
  // yield, at each look that finds nothing. When `on_end` runs, other requests
  // may thus have ended, and MPI does not know them any longer. Requests that
  // have not ended when MPI's thread does belong to MPI until its end.
  void Await(MPI_Request request, MpiRequests::OnEnd on_end) {
    under_way_.Add(request, std::move(on_end));
  }

  // Rings the doorbell of `rank`. Call after a send; on MPI's thread alone.
  void Ring(int rank);

  // Returns true if `rank` is known to be on this host; on MPI's thread alone.
  bool shares_memory_with(int rank) const {
    return neighbours_.doorbell_of(rank) != nullptr;
  }

  // Returns the readable memory of a rank on this host. Null if unreadable or
  // unwanted, or if MPI itself moves bytes from GPU to GPU. On MPI's thread
  // alone.
  const PeerMemory* memory_of(int rank) const {
    return neighbours_.memory_of(rank);
  }

  // Private copies of the communicator of all processes: for messages from any
  // process, and for bytes agreed upon.
  MPI_Comm messages() const { return world_.messages; }
  MPI_Comm payloads() const { return world_.payloads; }

  // Returns the setting for large all-reduces. Null, on all processes, if the
  // host program of some process brought up its MPI: it may call MPI at the
  // same time. On MPI's thread alone.
  MpiRing* ring() const { return ring_.get(); }

  // Return unused tags. Tags of messages are equal on all processes if all take
  // them in the same order. Tags of payloads to this process are for MPI's
  // thread alone.
  int NewMessageTag() { return ++last_message_tag_; }
  int NewPayloadTag() { return ++last_payload_tag_; }
  int max_tag() const { return world_.max_tag; }

 private:
  enum class Phase { kNew, kRunning, kOver };
  using Lost = std::map<int, absl::Status>;  // Reasons, by rank.

  // Duration of a wait, measured by repeated looks. Leaves out the time in
  // which this process stood still itself.
  class Wait {
   public:
    absl::Duration Look(absl::Time now);
    void Reset() { *this = Wait(); }

   private:
    absl::Duration waited_;
    absl::Time last_look_ = absl::InfiniteFuture();
  };

  void Run(absl::Status* started, Work on_start) ABSL_LOCKS_EXCLUDED(mu_);

  // Functions for MPI's thread.
  absl::Status BringUp();
  absl::Status MeetLocal();
  void TakeDown();
  bool CanEnd(absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  void LookWhoHolds(absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  void EndJob();
  bool RunPosted();
  MpiPoller::State PollAll(bool is_last);
  absl::Duration SpinLimit(MpiPoller::State state) const;
  bool Sleep() ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  const std::shared_ptr<MpiMailbox> mailbox_ = std::make_shared<MpiMailbox>();
  std::thread thread_;

  // Set by Start(), then constant.
  MpiWorld world_;
  MpiNeighbours neighbours_;
  std::unique_ptr<MpiRing> ring_;

  std::atomic<int> last_message_tag_{0};

  // Owned by MPI's thread.
  int last_payload_tag_ = 0;
  std::vector<std::shared_ptr<MpiPoller>> pollers_;
  MpiRequests under_way_;
  absl::Duration pause_;

  Wait wait_for_holders_;
  bool has_named_holders_ = false;

  // Owned by MPI's thread; used after Shutdown().
  bool is_ending_ = false;
  MPI_Request all_end_ = MPI_REQUEST_NULL;
  Wait wait_for_end_;
  bool all_have_come_ = false;

  std::atomic<bool> some_are_lost_{false};

  mutable Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kNew;
  bool must_end_ ABSL_GUARDED_BY(mu_) = false;
  Lost lost_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_ENGINE_H_
