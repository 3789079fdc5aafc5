#ifndef TUTTI_FRAMEWORK_PEER_BUF_RENDEZVOUS_H_
#define TUTTI_FRAMEWORK_PEER_BUF_RENDEZVOUS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/ended_steps.h"
#include "framework/base/mutex.h"
#include "tutti/peer_access.h"

namespace tutti {

// Pairs each buffer that a sender offers with the receiver that requests it.
//
// Thread-safe. Does not own the bytes: they stay valid until OnReleased().
// Every side is told exactly once, with no lock held: a receiver on the thread
// of the side that came second, or of the one that cancels; a sender where the
// receiver ends the loan. What waits when the rendezvous is destroyed ends with
// CANCELLED.
class BufRendezvous {
 public:
  static constexpr size_t kNoBound = std::numeric_limits<size_t>::max();

  // Bounds the bytes of all waiting offers by `max_offered_bytes`. A single
  // waiting offer may be larger.
  explicit BufRendezvous(size_t max_offered_bytes = kNoBound)
      : max_offered_bytes_(max_offered_bytes) {}
  ~BufRendezvous();
  BufRendezvous(const BufRendezvous&) = delete;
  BufRendezvous& operator=(const BufRendezvous&) = delete;

  // Errors, to the sender: ALREADY_EXISTS if an offer waits under `key`;
  // INVALID_ARGUMENT if the receiver wants another size or dtype, and
  // FAILED_PRECONDITION if it expects another incarnation of the sender (the
  // receiver gets these, too); RESOURCE_EXHAUSTED past the bound; the reason of
  // EndExecution, EndGroup, EndStep or StartAbort.
  void Provide(const BufKey& key, const Offer& offer);

  // Errors, to the receiver: as Provide, with ALREADY_EXISTS if somebody
  // already asks under `key`.
  void Consume(const BufKey& key, const RecvRequest& recv);

  // Ends `receiver`'s request under `key` with `reason`. False if it does not
  // wait.
  bool CancelRecv(const BufKey& key, const Receiver* receiver,
                  absl::Status reason);

  // Ends the waiting requests that `concerns` chooses, each with the reason
  // that `reason_of` gives for its key. Calls `concerns` under a lock.
  void CancelRecvs(
      absl::FunctionRef<bool(const BufKey&, const Receiver*)> concerns,
      absl::FunctionRef<absl::Status(const BufKey&)> reason_of);

  struct GroupInStep {
    int64_t step = 0;
    int64_t group = 0;
    uint64_t generation = 0;

    static GroupInStep Of(const ExecKey& exec) {
      return {exec.step, exec.group, exec.generation};
    }
    friend bool operator==(const GroupInStep&, const GroupInStep&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const GroupInStep& key) {
      return H::combine(std::move(h), key.step, key.group, key.generation);
    }
  };

  // A side of a transfer that waits for the other.
  using Waiting = std::variant<Offer, RecvRequest>;

  // Result of an End function, for Report().
  struct [[nodiscard]] Ended {
    bool is_first = false;  // Had not ended before; see EndExecution().
    absl::Status reason;
    std::vector<Waiting> sides;
  };

  // Ends all transfers of an execution that wait, and those that come later,
  // until it is forgotten. The first reason stays; OK is taken as CANCELLED.
  // Calls nobody: whoever calls this passes what it returns to Report(), once.
  // In a step that has ended each execution still ends once, with the reason of
  // the step, until ForgetReasonOf().
  Ended EndExecution(const ExecKey& exec, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(cancelled_mu_);
  void ForgetExecution(const ExecKey& exec) ABSL_LOCKS_EXCLUDED(cancelled_mu_);

  // The same for all executions of a step, for ever.
  Ended EndStep(int64_t step, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(cancelled_mu_);

  // The same for all executions of a group's generation in a step: forgotten
  // when the step ends.
  Ended EndGroup(const GroupInStep& group, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(cancelled_mu_);

  // Remembers of the step only that it has ended (EndedSteps): transfers that
  // come later end with StepHasEndedError(). REQUIRES: EndStep() was called.
  void ForgetReasonOf(int64_t step) ABSL_LOCKS_EXCLUDED(cancelled_mu_);

  // Runs the callbacks of the ended sides. Returns `is_first`.
  static bool Report(const Ended& ended);

  // Both at once.
  bool CancelExecution(const ExecKey& exec, absl::Status reason) {
    return Report(EndExecution(exec, std::move(reason)));
  }

  // Ends everything for ever, in the way of EndStep(); runs the callbacks.
  void StartAbort(absl::Status reason);

  // Reason that ends the transfers of `exec`; OK if none does.
  absl::Status StatusOf(const ExecKey& exec) const
      ABSL_LOCKS_EXCLUDED(cancelled_mu_);

  // Describes what the transfers of `exec` that have begun wait for, for
  // errors: "data of rank 0 for rank 2 (tag 7)", "rank 2 to ask rank 0 for data
  // (tag 7)", or both. Empty if none waits.
  std::string DescribeWaiting(const ExecKey& exec) const;

  // Ranks, in order, with a waiting offer in `exec` that they have not
  // requested.
  std::vector<int> RanksThatHaveNotRequested(const ExecKey& exec) const;

  // Number of waiting offers and requests; for tests and reports.
  size_t num_waiting() const;

  // Bytes of waiting offers; 0 if not bounded.
  size_t num_offered_bytes() const {
    return num_offered_bytes_.load(std::memory_order_relaxed);
  }

 private:
  using Table = absl::flat_hash_map<BufKey, Waiting>;

  // Keys are spread over several locks, so members rarely contend.
  struct alignas(64) Shard {
    mutable Mutex mu;
    Table table ABSL_GUARDED_BY(mu);
  };
  static constexpr size_t kNumShards = 16;

  Shard& ShardOf(const BufKey& key) {
    const auto pair = static_cast<size_t>(key.to) * 31 +
                      static_cast<size_t>(key.exec.instance);
    return shards_[pair % kNumShards];
  }

  // Takes the other side out of the table if it waits there, else leaves `mine`
  // to wait. Errors: ALREADY_EXISTS; what ended the execution.
  template <typename Other, typename Mine>
  absl::StatusOr<std::optional<Other>> MeetOrWait(const BufKey& key,
                                                  const Mine& mine);

  // Counts an offer that begins, or ends, to wait.
  absl::Status CountIn(const BufKey& key, const Offer& offer);
  void CountOut(const Offer& offer);

  // A request uses no memory here; its source limits the number of requests.
  absl::Status CountIn(const BufKey&, const RecvRequest&) {
    return absl::OkStatus();
  }
  void CountOut(const RecvRequest&) {}

  // Takes out all that waits under a key that `concerns` names.
  std::vector<Waiting> Sweep(absl::FunctionRef<bool(const BufKey&)> concerns);

  void ForgetExecutionsOf(int64_t step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cancelled_mu_);

  bool HasStepEnded(int64_t step) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cancelled_mu_) {
    return cancelled_steps_.contains(step) || ended_steps_.Contains(step);
  }

  const size_t max_offered_bytes_;
  std::atomic<size_t> num_offered_bytes_{0};
  std::array<Shard, kNumShards> shards_;

  // Set before the tables are swept, and read under a shard's lock before a
  // side begins to wait. So no side waits that a sweep should have removed.
  std::atomic<int> num_cancelled_{0};
  mutable Mutex cancelled_mu_;
  absl::Status aborted_ ABSL_GUARDED_BY(cancelled_mu_);
  absl::flat_hash_map<int64_t, absl::Status> cancelled_steps_
      ABSL_GUARDED_BY(cancelled_mu_);
  EndedSteps ended_steps_ ABSL_GUARDED_BY(cancelled_mu_);
  absl::flat_hash_map<GroupInStep, absl::Status> cancelled_groups_
      ABSL_GUARDED_BY(cancelled_mu_);
  absl::flat_hash_map<ExecKey, absl::Status> cancelled_
      ABSL_GUARDED_BY(cancelled_mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PEER_BUF_RENDEZVOUS_H_
