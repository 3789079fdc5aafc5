#ifndef TUTTI_GPU_NCCL_NCCL_AGREEMENT_H_
#define TUTTI_GPU_NCCL_NCCL_AGREEMENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "gpu/nccl/nccl_order.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// What the processes of a group tell each other of one launch, beside NCCL, so
// that what would hang there becomes an error everywhere:
//
//   process of rank r        -- launch -->    process of rank 0
//   (its lowest rank)        -- ended -->
//                            <-- all ended --
//
// "launch" is the NcclLaunchId. It goes under the key of the ticket, so that
// the n-th launch of one process meets the n-th of another, even if these are
// different instances; the process of rank 0 compares, also what rows the ranks
// give (AllGather::rows), and fails both executions if they differ. The others
// go under the execution's own key: from the arrival of the members to the end
// everyone waits for somebody there, and so hears of it when the execution
// fails anywhere. Nothing is delayed by it but `over`.
//
// Thread-safe. Its owner keeps it until `over` runs, and so long the context is
// valid. `over` runs with no lock held, inside EndHere() or where a transfer
// ends.
class NcclAgreement : public Lender,
                      public Borrower,
                      public std::enable_shared_from_this<NcclAgreement> {
 public:
  // `context` is that of the lowest rank of this process. Not all members of
  // the group are here.
  explicit NcclAgreement(const CollectiveContext& context);

  // Before the launch waits for its turn.
  void Start() ABSL_LOCKS_EXCLUDED(mu_);

  // The launch has its turn.
  void Begin(const NcclTicket& ticket) ABSL_LOCKS_EXCLUDED(mu_);

  // The execution has failed: nobody waits any more for a launch that may never
  // come.
  void Cancel(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // The launch has ended in this process, or failed before it began. `over`
  // runs when nothing is transferred any more; the execution has failed if that
  // did. Once, after Start().
  void EndHere(absl::AnyInvocable<void() &&> over) ABSL_LOCKS_EXCLUDED(mu_);

  void OnReleased(int32_t id, absl::Status status) override;
  absl::Status OnPart(int32_t id, size_t offset,
                      absl::Span<const std::byte> part) override;
  void OnDelivery(int32_t id, absl::Status status, Delivery delivery) override;

 private:
  enum class Kind { kLaunch, kEnded, kAllEnded };
  using Message = std::array<std::byte, sizeof(NcclLaunchId)>;

  bool is_first() const { return context_.rank() == 0; }
  Kind told_at_end() const {
    return is_first() ? Kind::kAllEnded : Kind::kEnded;
  }
  BufKey KeyOf(Kind kind, int from, int to) const;
  void Post(Kind kind, size_t other);
  void Ask(Kind kind, size_t other);

  // One transfer is over.
  void OnTransfer(int32_t id, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  NcclLaunchId LaunchOf(size_t other) const ABSL_LOCKS_EXCLUDED(mu_);

  // Errors end the execution of `rank` too.
  absl::Status CheckLaunch(const NcclLaunchId& theirs, int rank);
  absl::Status WhyNotSame(const NcclLaunchId& theirs, int rank) const;

  // Tells the others of the end, or ends, if it is time for that.
  void GoOn() ABSL_LOCKS_EXCLUDED(mu_);

  const CollectiveContext& context_;
  const std::shared_ptr<CollectiveExecutor> executor_;  // For Cancel(), which
  const std::shared_ptr<const CollGroupParams> group_;  // may come late.
  const std::vector<int> others_;  // Ranks: rank 0, or those that tell it.
  NcclTicket ticket_;              // Fixed by Begin().
  Message mine_ = {};              // Fixed by Begin().

  mutable Mutex mu_;
  std::vector<Message> theirs_ ABSL_GUARDED_BY(mu_);
  bool has_failed_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_here_ ABSL_GUARDED_BY(mu_) = false;
  bool has_told_end_ ABSL_GUARDED_BY(mu_) = false;
  size_t num_transfers_ ABSL_GUARDED_BY(mu_) = 0;  // Under way.
  size_t num_launches_ ABSL_GUARDED_BY(mu_) = 0;   // Those of launches.
  size_t num_ended_ ABSL_GUARDED_BY(mu_) = 0;      // Others that have ended.
  absl::AnyInvocable<void() &&> over_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_AGREEMENT_H_
