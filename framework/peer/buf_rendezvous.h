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
#include "framework/base/mutex.h"
#include "framework/peer/endings.h"
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
  // End().
  void Provide(const BufKey& key, const Offer& offer);

  // Errors, to the receiver: as Provide, with ALREADY_EXISTS if somebody
  // already asks under `key`. A request for the announcement of a message
  // (IsAnnouncement) gets no bytes, as soon as the message is offered.
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

  // A side of a transfer that waits for the other.
  using Waiting = std::variant<Offer, RecvRequest>;

  // Result of End(), for Report().
  struct [[nodiscard]] Ended {
    bool is_first = false;  // Had not ended before.
    absl::Status reason;
    std::vector<Waiting> sides;
  };

  // Ends all transfers in the scope that wait, and those that come later, as
  // Endings::Add() says: with the first reason. An execution of a step that has
  // ended still ends once, with the reason of the step. Calls nobody: pass the
  // result to Report(), once.
  Ended End(const EndScope& scope, absl::Status reason);

  // Forget ends, as Endings does.
  void ForgetExecution(const ExecKey& exec) { ends_.Forget(exec); }
  void ForgetReasonOf(int64_t step) { ends_.ForgetStep(step); }

  // Runs the callbacks of the ended sides. Returns `is_first`.
  static bool Report(const Ended& ended);

  // Do both at once, for an execution and for everything.
  bool CancelExecution(const ExecKey& exec, absl::Status reason) {
    return Report(End(EndScope::Of(exec), std::move(reason)));
  }
  void StartAbort(absl::Status reason) {
    Report(End(EndScope(), std::move(reason)));
  }

  // Reason that ends the transfers of `exec`; OK if none does.
  absl::Status StatusOf(const ExecKey& exec) const {
    return ends_.StatusOf(exec);
  }

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

  void ConsumeAnnouncement(const BufKey& key, const RecvRequest& recv);
  void Announce(BufKey key);

  std::vector<Waiting> Sweep(const EndScope& scope);

  const size_t max_offered_bytes_;
  std::atomic<size_t> num_offered_bytes_{0};
  std::atomic<bool> has_announcements_{false};  // Some were requested.
  std::array<Shard, kNumShards> shards_;

  // Added to before the tables are swept, and read under a shard's lock before
  // a side begins to wait. So no side waits that a sweep should have removed.
  Endings ends_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PEER_BUF_RENDEZVOUS_H_
