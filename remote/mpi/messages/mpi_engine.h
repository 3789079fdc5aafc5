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
#include "remote/mpi/messages/doorbell.h"
#include "remote/mpi/messages/mpi_host_memory.h"
#include "remote/mpi/messages/mpi_mailbox.h"
#include "remote/mpi/messages/mpi_memories.h"
#include "remote/mpi/messages/mpi_requests.h"
#include "remote/mpi/messages/mpi_ring.h"
#include "remote/peer_memory.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"

namespace tutti {

// What is looked after on MPI's thread.
class MpiPoller {
 public:
  enum class State {
    kIdle,       // Has nothing to do until another process sends something.
    kExpecting,  // So, and somebody here waits for that.
    kWaiting,    // For MPI to go on with what was begun.
    kMoving,     // So, and MPI may move many bytes only while it is called.
    kRunning,    // So, and MPI runs a collective, in which all members are.
    kBusy,       // Has just done something: there may be more.
  };

  virtual ~MpiPoller() = default;

  // `is_last`: the thread may sleep after it, so that what has come must be
  // found; else who has nothing to wait for may look now and then.
  virtual State Poll(bool is_last) = 0;

  // MPI ends: takes back what waits for other processes.
  virtual void Stop() {}

  // Whether MPI keeps tensors of collectives that have failed here until the
  // process `rank` goes on.
  virtual bool IsHeldBy(int /*rank*/) const { return false; }
};

// MPI in this process, and the thread that calls it: the inside of a
// MpiRuntime, with what the transport and the collectives do on that thread.
//
// Thread-safe, except that Start() and Shutdown() are for one thread.
class MpiEngine {
 public:
  using Options = MpiRuntime::Options;

  explicit MpiEngine(Options options);
  ~MpiEngine();  // Shuts down.
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  // As in MpiRuntime.
  absl::Status Start();
  void Shutdown() ABSL_LOCKS_EXCLUDED(mu_);

  // Where it is, nothing waits for it without a limit any more. The first
  // reason stays.
  void CallLost(int rank, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

  // It has ended in good order after all.
  void CallFound(int rank) ABSL_LOCKS_EXCLUDED(mu_);

  // "rank 2 (why), rank 3 (why)", or empty.
  std::string WhoIsLost() const ABSL_LOCKS_EXCLUDED(mu_);

  // As in MpiRuntime.
  absl::StatusOr<int> size() const;
  absl::StatusOr<int> rank() const;
  absl::StatusOr<int> local_rank() const;
  absl::StatusOr<int> local_size() const;
  absl::StatusOr<int> local_processors() const;
  absl::StatusOr<std::vector<std::string>> hosts() const;
  bool is_cuda_aware() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::string> Describe() const;

  // Runs `work` on MPI's thread, soon, in the order of the calls; if the thread
  // has ended, inside this call.
  void Post(Work work) { mailbox_->Post(std::move(work)); }

  // The same, for who may do so when the runtime has gone.
  const std::shared_ptr<MpiMailbox>& mailbox() const { return mailbox_; }

  // Polls `poller` from now on until the end: MPI may come back to it as long
  // as that. On MPI's thread, but not inside Poll().
  void Add(std::shared_ptr<MpiPoller> poller);

  // Runs `on_end` when `request` has ended, which may begin more; on MPI's
  // thread alone. Looks for all of these at once: MPI makes progress, and
  // perhaps gives way to others, at each look that finds nothing. So when
  // `on_end` runs others may have ended, too, and not be MPI's any more. What
  // has not ended when MPI's thread does is MPI's until it ends.
  void Await(MPI_Request request, MpiRequests::OnEnd on_end) {
    under_way_.Add(request, std::move(on_end));
  }

  // After something was sent to `rank`; on MPI's thread alone.
  void Ring(int rank);

  // Whether it is on this host, as far as can be told; on MPI's thread alone.
  bool shares_memory_with(int rank) const {
    return doorbells_[rank] != nullptr;
  }

  // Of this host, which may be read; null: it cannot, or does not want it, or
  // MPI itself moves bytes from GPU to GPU. On MPI's thread alone.
  const PeerMemory* memory_of(int rank) const { return memories_.Of(rank); }

  // Copies of the communicator of all processes that nobody else uses: for
  // messages from anybody, and for bytes that were agreed upon.
  MPI_Comm messages() const { return messages_; }
  MPI_Comm payloads() const { return payloads_; }

  // For large all-reduces; null, on all, where some process's MPI is that of
  // its host program, which may call it at the same time. On MPI's thread
  // alone.
  MpiRing* ring() const { return ring_.get(); }

  // Tags that have not been used before: of messages, the same on all processes
  // if they take them in the same order; of payloads to this process, on MPI's
  // thread alone.
  int NewMessageTag() { return ++last_message_tag_; }
  int NewPayloadTag() { return ++last_payload_tag_; }
  int max_tag() const { return max_tag_; }

 private:
  enum class Phase { kNew, kRunning, kOver };
  using Lost = std::map<int, absl::Status>;  // By rank; why.

  // How long it has taken so far, as seen by who looks again and again; less
  // the times in which this process stood still itself.
  class Wait {
   public:
    absl::Duration Look(absl::Time now);
    void Reset() { *this = Wait(); }

   private:
    absl::Duration waited_;
    absl::Time last_look_ = absl::InfiniteFuture();
  };

  absl::Status CheckRunning() const ABSL_LOCKS_EXCLUDED(mu_);
  void Run(absl::Status* started, Work on_start) ABSL_LOCKS_EXCLUDED(mu_);

  // On MPI's thread.
  absl::Status BringUp();
  absl::Status MeetLocal();
  absl::Status ShareDoorbells(MPI_Comm local, const std::vector<int>& ranks);
  absl::Status LearnHosts();
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

  // Set by Start(), then the same.
  bool is_ours_ = false;  // Brought up here.
  int size_ = 0;
  int rank_ = 0;
  int local_rank_ = 0;
  int local_size_ = 0;
  int local_processors_ = 0;
  int thread_level_ = 0;
  int max_tag_ = 0;
  bool is_cuda_aware_ = false;
  std::string library_;
  std::vector<std::string> hosts_;
  MPI_Comm messages_ = MPI_COMM_NULL;
  MPI_Comm payloads_ = MPI_COMM_NULL;
  MpiHostMemory host_memory_;
  Doorbell unshared_doorbell_;        // This one's, where others cannot ring.
  std::vector<Doorbell*> doorbells_;  // By rank; null: of another host, mostly.
  bool all_ring_ = false;             // Whoever may send something here.
  MpiMemories memories_;
  std::unique_ptr<MpiRing> ring_;

  std::atomic<int> last_message_tag_{0};

  // Of MPI's thread.
  int last_payload_tag_ = 0;
  std::vector<std::shared_ptr<MpiPoller>> pollers_;
  MpiRequests under_way_;
  absl::Duration pause_;

  Wait wait_for_holders_;
  bool has_named_holders_ = false;

  // The same, once Shutdown() was called.
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
