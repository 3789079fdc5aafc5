#ifndef TUTTI_GPU_NCCL_NCCL_GROUP_H_
#define TUTTI_GPU_NCCL_NCCL_GROUP_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

// Communicator of a generation of a group: the ends of its members in this
// process. Belongs to the group's resources (GroupResources).
//
// Made by the first launch; freed with the group. Launches go to NCCL one after
// the other, in the order of Add(): a launch begins when NCCL has done its
// predecessor. NCCL's progress is checked many times at once, then by the
// environment's clock, never on a waiting thread. While anything is under way,
// errors are checked every kLookEvery.
//
// Launches of communicators that share a GPU of the process also follow each
// other (NcclTurns). In a group over several processes, and if communicators
// block, a launch waits while Options::most_running are under way.
//
// The first error ends the communicator, and so does the end of the group. A
// work of the environment's queue then aborts the ends, and streams go on.
// Waiting and later launches get the error at once, however long the abort
// takes. The next generation has a new communicator.
//
// If communicators block (NcclRuntime::WhyBlocking()), works of the queue make
// them, and launches may block the calling thread.
//
// Thread-safe. Callbacks run with no lock held, inside Add(), on the clock's
// thread or as work of the queue.
class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
 public:
  static constexpr absl::Duration kLookEvery = DefaultTime("GPU look");

  // Number of checks at once whether NCCL is ready, before the clock is used:
  // NCCL usually needs less time than an alarm. A launch on NCCL's thread takes
  // some 10 us. A check reads an atomic of each communicator, some 10 ns. A
  // guess, not measured.
  static constexpr int kLooksAtOnce = 1000;

  // Delays between later checks: the first, doubled each time, up to the last.
  // Guesses, not measured.
  static constexpr absl::Duration kFirstLook = DefaultTime("NCCL look");
  static constexpr absl::Duration kLastLook = DefaultTime("NCCL looks");

  // Bound on launches under way. A launch puts some 10 operations on a stream,
  // and CUDA blocks a thread that adds an operation while about 1000 wait: an
  // abort would wait, too. Launches within a process wait for no peer, and need
  // no bound. If communicators block, nothing can end a launch that CUDA or
  // NCCL's queues keep waiting.
  static constexpr int kMostRunning = 32;

  struct Options {
    std::shared_ptr<NcclRuntime> nccl;
    std::string id;  // See NcclRuntime::NewUniqueId().
    int size = 0;
    std::vector<NcclRank> ranks;  // Ranks in this process.
    Environment environment;
    std::shared_ptr<Cancellation> cancellation;  // The group's.

    // Bound on launches under way, if launches wait for the end of others.
    int most_running = kMostRunning;
  };

  // Launch of an execution.
  struct Launch {
    ExecKey key;

    // Returns the calls for each stream. Called when the launch has its turn,
    // unless the communicator has failed before. `comms` are the ends of
    // Options::ranks. An error ends the communicator: other processes may have
    // launched.
    absl::AnyInvocable<absl::StatusOr<std::vector<NcclPart>>(
                           const NcclTicket& ticket,
                           absl::Span<const NcclComm> comms) &&>
        begin;

    // Called once. OK: all calls are on the streams. Work that `launched` then
    // puts on the streams precedes every other launch on a GPU of
    // Options::ranks, including launches of other communicators. Otherwise it
    // receives the communicator's error. If `begin` was called, the error comes
    // after the abort, because NCCL then puts nothing on a stream. In any case
    // Ended() must follow `begin`.
    StatusCallback launched;
  };

  NcclGroup() = default;
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // Adds a launch. Only the first launch calls `options`.
  void Add(absl::FunctionRef<Options()> options, Launch launch)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Called when a launch that had begun has left the streams. A work of the
  // queue may begin the next launch.
  void Ended() ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the communicator. The first reason stays.
  void Break(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // OK until the communicator has failed. After a failure, work that has passed
  // the streams may have moved nothing.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool blocks() const { return !options_.nccl->WhyBlocking().empty(); }
  bool Enter(Launch& launch) ABSL_LOCKS_EXCLUDED(mu_);

  // Steps of the busy thread. Each leads to the next, or to Fail(). Begin()
  // runs in the communicator's turn (NcclTurns).
  void Init();
  void Next() ABSL_LOCKS_EXCLUDED(mu_);
  bool MayBegin() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Begin(const NcclTicket& ticket);
  void AwaitReady(StatusCallback ready);
  void Look(int num_requests);
  void LeaveTurn(NcclTurns& turns);
  void FailBeforeBegin(Launch launch) ABSL_LOCKS_EXCLUDED(mu_);
  void Fail(StatusCallback begun) ABSL_LOCKS_EXCLUDED(mu_);

  // Checks at most `num_requests` times, until all ends are ready or one has
  // failed.
  absl::StatusOr<bool> AreReadySoon(int num_requests);
  void NextInTurn();
  void NextByQueue();
  void LookForErrors() ABSL_LOCKS_EXCLUDED(mu_);
  void LookLater() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  bool is_busy_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::deque<Launch> waiting_ ABSL_GUARDED_BY(mu_);
  NcclOrder order_ ABSL_GUARDED_BY(mu_);
  int num_running_ ABSL_GUARDED_BY(mu_) = 0;
  NcclTurns* awaited_turn_ ABSL_GUARDED_BY(mu_) = nullptr;  // Null: none.
  Clock* clock_ ABSL_GUARDED_BY(mu_) = nullptr;  // Set with the options.
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;

  // Owned by the thread that has set is_busy_, until it resets it.
  Options options_;
  Cancellation::WatchId watch_ = 0;
  std::vector<NcclComm> comms_;
  Launch launch_;  // The launch whose turn comes.
  StatusCallback ready_;
  absl::Duration look_after_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_GROUP_H_
