#ifndef TUTTI_GPU_TESTING_FAKE_NCCL_NETWORK_H_
#define TUTTI_GPU_TESTING_FAKE_NCCL_NETWORK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/nccl/runtime/nccl_runtime.h"

namespace tutti {

// Network of a double of NCCL. Ranks of all processes of a test meet here, and
// the test injects faults here. FakeNcclRuntime puts the bytes on streams.
//
// Thread-safe. Calls only wakers, with the lock held, and the function of
// SlowAborts(). The runtimes share ownership.
class FakeNcclNetwork {
 public:
  // Calls of a rank's launch on a stream. The stream passes the gate when all
  // calls have met and have their outputs, or when the rank is aborted.
  struct Unit {
    uintptr_t comm = 0;
    std::vector<NcclCall> calls;
    std::vector<uint64_t> numbers;  // Per call; equal numbers meet.
    std::function<void()> wake;
    std::shared_ptr<std::atomic<bool>> gate =
        std::make_shared<std::atomic<bool>>(false);

    // Guarded by the network's mutex until the gate is open.
    std::vector<Bytes> outputs;
    size_t num_missing = 0;
    bool is_aborted = false;
  };
  using UnitPtr = std::shared_ptr<Unit>;

  // ---- Faults ----

  // Lets the next call of this kind return `status`.
  void FailNextInit(absl::Status status) {
    Set(&FakeNcclNetwork::next_init_, std::move(status));
  }
  void FailNextLaunch(absl::Status status) {
    Set(&FakeNcclNetwork::next_launch_, std::move(status));
  }
  void FailNextId(absl::Status status) {
    Set(&FakeNcclNetwork::next_id_, std::move(status));
  }

  // Gives all present ends of communicators this asynchronous error. Their work
  // on streams hangs.
  void FailAll(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  // Lets later inits or finalizations never get ready, or launches that reach
  // their turn on a stream never end, until Abort().
  void HangInits(bool hang) { Set(&FakeNcclNetwork::hang_inits_, hang); }
  void HangFinalizes(bool hang) {
    Set(&FakeNcclNetwork::hang_finalizes_, hang);
  }
  void HangLaunches(bool hang) { Set(&FakeNcclNetwork::hang_launches_, hang); }

  // Makes later Abort() calls run `wait`, when the streams go on, with no lock
  // held. Null: Abort() does not wait.
  void SlowAborts(std::function<void()> wait) {
    Set(&FakeNcclNetwork::abort_wait_, std::move(wait));
  }

  // Makes an end ready after its first launch only when all ranks have
  // launched. NCCL does so if it connects to peers at their first use.
  void ConnectAtFirstLaunch(bool connect) {
    Set(&FakeNcclNetwork::connects_at_first_launch_, connect);
  }

  // Makes a communicator not ready `num_looks` times after each call.
  void SetLooks(int num_looks) { Set(&FakeNcclNetwork::num_looks_, num_looks); }

  // ---- What was called ----

  struct Counts {
    int ids = 0, inits = 0, launches = 0, aborts = 0, destroys = 0;
    int living = 0;  // Ends neither aborted nor destroyed.
    int most = 0;    // Most launches of an end under way at a time.
  };
  Counts counts() const ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<std::string> Mistakes() const ABSL_LOCKS_EXCLUDED(mu_);

  // ---- For FakeNcclRuntime ----

  absl::StatusOr<std::string> NewId() ABSL_LOCKS_EXCLUDED(mu_);

  // `host` distinguishes the GPUs of processes.
  absl::StatusOr<std::vector<NcclComm>> Init(const std::string& id, int size,
                                             absl::Span<const NcclRank> ranks,
                                             const void* host)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<bool> IsReady(NcclComm comm) ABSL_LOCKS_EXCLUDED(mu_);

  // Size of the end's communicator; 0 for an unknown end.
  int SizeOf(NcclComm comm) ABSL_LOCKS_EXCLUDED(mu_);

  // Numbers the part's calls.
  absl::StatusOr<UnitPtr> Begin(const NcclPart& part,
                                std::function<void()> wake)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status BeginGroup() ABSL_LOCKS_EXCLUDED(mu_);

  // Called when the stream reaches the unit, with the bytes of its inputs.
  void Arrive(const UnitPtr& unit, const std::vector<Bytes>& inputs)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the outputs to write. Null if the unit was aborted.
  const std::vector<Bytes>* OutputsOf(const Unit& unit)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Finalize(absl::Span<const NcclComm> comms)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Destroy(absl::Span<const NcclComm> comms)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Abort(absl::Span<const NcclComm> comms) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  template <typename Fault>
  void Set(Fault FakeNcclNetwork::* fault, Fault value)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    this->*fault = std::move(value);
  }

  struct Communicator {
    int size = 0;
    std::set<int> joined, launched;  // Ranks.
    std::set<std::pair<const void*, int>> gpus;
  };
  struct Comm {  // An end.
    std::string id;
    int rank = 0;
    int gpu = 0;
    uint64_t init = 0;  // Number of the call that made it.
    bool is_finalized = false;
    bool hangs = false;
    int num_looks = 0;
    absl::Status error;
    std::map<int, uint64_t> num_sent, num_received;  // Keyed by peer.
    uint64_t num_collectives = 0;
    std::vector<std::weak_ptr<Unit>> units;
  };
  // A call that waits for the other ranks.
  struct Waiting {
    UnitPtr unit;
    size_t call = 0;
    Bytes input;
  };
  // Key of a collective: its number. Key of send and receive: sender, receiver,
  // number.
  using Place = std::tuple<std::string, int, int, uint64_t>;
  using Meeting = std::map<int, Waiting>;  // Keyed by rank.

  absl::StatusOr<Comm*> Find(NcclComm comm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::vector<Comm*>> FindAll(absl::Span<const NcclComm> comms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // True if the end waits for the first launch of others.
  bool IsConnecting(const Comm& comm) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // True if `ends` are all ends of one Init() call.
  bool AreAllOfOneInit(const std::vector<Comm*>& ends) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(absl::Span<const NcclComm> comms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AbortLocked(absl::Span<const NcclComm> comms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Meet(const Place& place, int rank, size_t size, Waiting waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void Deliver(Waiting& to, Bytes output);
  static void Open(Unit& unit);
  absl::Status Mistake(std::string mistake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  absl::Status next_init_ ABSL_GUARDED_BY(mu_);
  absl::Status next_launch_ ABSL_GUARDED_BY(mu_);
  absl::Status next_id_ ABSL_GUARDED_BY(mu_);
  bool hang_inits_ ABSL_GUARDED_BY(mu_) = false;
  bool hang_finalizes_ ABSL_GUARDED_BY(mu_) = false;
  bool hang_launches_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> abort_wait_ ABSL_GUARDED_BY(mu_);
  bool connects_at_first_launch_ ABSL_GUARDED_BY(mu_) = false;
  int num_looks_ ABSL_GUARDED_BY(mu_) = 0;
  Counts counts_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> mistakes_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Communicator> communicators_ ABSL_GUARDED_BY(mu_);
  std::map<uintptr_t, Comm> comms_ ABSL_GUARDED_BY(mu_);
  uint64_t last_init_ ABSL_GUARDED_BY(mu_) = 0;
  uintptr_t last_comm_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<Place, Meeting> meetings_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_NCCL_NETWORK_H_
