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

// The communicator of one generation of a group: the ends of its members that
// are in this process. Belongs to the group's resources (GroupResources).
//
// Made by the first launch; freed with the group. What is launched goes to NCCL
// one after the other, in the order of Add(): a launch begins when NCCL is past
// the one before. NCCL is asked how far it is a number of times at once, then
// by the environment's clock, never on a waiting thread; and for errors every
// kLookEvery as long as anything is under way. Launches of communicators that
// share a GPU of the process go one after the other too (NcclTurns). In a group
// over several processes, and where communicators block, a launch waits as long
// as Options::most_running are under way.
//
// The first error ends it, as does the end of the group: its ends are aborted
// as work of the environment's queue, so that streams go on, and all that waits
// or comes later gets that error, however long the abort takes. The next
// generation has one of its own.
//
// Where communicators block (NcclRuntime::WhyBlocking()), they are made as work
// of the queue, and launches may block whoever is here then.
//
// Thread-safe. Callbacks run with no lock held, inside Add(), on the clock's
// thread or as work of the queue.
class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
 public:
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

  // How often NCCL is asked whether it is ready, at once, before the clock: it
  // mostly takes less time than an alarm. A launch that NCCL makes on a thread
  // of its own takes some 10 us, and to ask is to read an atomic of each
  // communicator, some 10 ns. A guess, not measured.
  static constexpr int kAsksAtOnce = 1000;

  // How soon after that: at first, doubled each time, and at last. A guess, not
  // measured.
  static constexpr absl::Duration kFirstLook = absl::Microseconds(20);
  static constexpr absl::Duration kLastLook = absl::Milliseconds(1);

  // Each puts some 10 operations on a stream, and CUDA blocks who puts one
  // there while about 1000 wait: an abort would wait for that. Within one
  // process launches wait for no peer; where they block nothing ends one that
  // CUDA, or NCCL with its own queues of work, keeps waiting.
  static constexpr int kMostRunning = 32;

  struct Options {
    std::shared_ptr<NcclRuntime> nccl;
    std::string id;  // As NcclRuntime::NewUniqueId().
    int size = 0;
    std::vector<NcclRank> ranks;  // Of this process.
    Environment environment;
    std::shared_ptr<Cancellation> cancellation;  // The group's.

    // Where a launch waits for the end of others: so many may be under way.
    int most_running = kMostRunning;
  };

  // What one execution launches.
  struct Launch {
    ExecKey key;

    // What to put on which streams, when its turn has come. `comms` are those
    // of Options::ranks. Not called if the communicator has failed before. An
    // error ends the communicator: other processes may have launched.
    absl::AnyInvocable<absl::StatusOr<std::vector<NcclPart>>(
                           const NcclTicket& ticket,
                           absl::Span<const NcclComm> comms) &&>
        begin;

    // Once: with OK when all is on the streams, else with the communicator's
    // error; if `begin` was called, when the communicator has been aborted, as
    // NCCL puts nothing on a stream from then on, and Ended() must follow. What
    // it puts on the streams when it gets OK comes before any other launch on a
    // GPU of Options::ranks, of other communicators too.
    StatusCallback launched;
  };

  NcclGroup() = default;
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // `options` is called by the first launch.
  void Add(absl::FunctionRef<Options()> options, Launch launch)
      ABSL_LOCKS_EXCLUDED(mu_);

  // A launch that had begun is not on the streams any more. The next one may
  // begin as work of the queue.
  void Ended() ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the communicator. The first reason stays.
  void Break(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // OK until it has failed. What is past the streams then may have moved
  // nothing.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool blocks() const { return !options_.nccl->WhyBlocking().empty(); }
  bool Enter(Launch& launch) ABSL_LOCKS_EXCLUDED(mu_);

  // Steps of who is busy. Each goes on to the next, or to Fail(). Begin() is
  // called when it is the communicator's turn (NcclTurns).
  void Init();
  void Next() ABSL_LOCKS_EXCLUDED(mu_);
  bool MayBegin() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Begin(const NcclTicket& ticket);
  void AwaitReady(StatusCallback ready);
  void Look(int num_asks);
  void LeaveTurn(NcclTurns& turns);
  void FailBeforeBegin(Launch launch) ABSL_LOCKS_EXCLUDED(mu_);
  void Fail(StatusCallback begun) ABSL_LOCKS_EXCLUDED(mu_);

  // Asks until they are, or one has failed, at most so often.
  absl::StatusOr<bool> AreReadySoon(int num_asks);
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

  // Belong to whoever has made is_busy_ true, until it is false again.
  Options options_;
  Cancellation::WatchId watch_ = 0;
  std::vector<NcclComm> comms_;
  Launch launch_;  // Whose turn comes.
  StatusCallback ready_;
  absl::Duration look_after_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_GROUP_H_
