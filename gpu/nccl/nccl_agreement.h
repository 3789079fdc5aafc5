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

// Agreement of a group's processes on a launch, by messages beside NCCL.
// Differences that would hang in NCCL become errors in all processes:
//
//   process of rank r        -- launch -->    process of rank 0
//   (its lowest rank)        -- ended -->
//                            <-- all ended --
//
// "launch" is the NcclLaunchId, sent under the key of the ticket. The n-th
// launch of a process therefore meets the n-th of another, even if they are
// different instances. The process of rank 0 compares them, including the rows
// that the ranks give (GivesRows()). If they differ, it fails both
// executions.
//
// The other messages use the execution's key. From the arrival of the members
// to the end, every process has a receive under way there. A failure of the
// execution anywhere thus reaches all. The messages delay only `over`.
//
// Thread-safe. The owner keeps the object and the context valid until `over`
// runs. `over` runs with no lock held, inside EndHere() or at the end of a
// transfer.
class NcclAgreement : public Sender,
                      public Receiver,
                      public std::enable_shared_from_this<NcclAgreement> {
 public:
  // `context` is the context of this process's lowest rank. REQUIRES: some
  // members of the group are in other processes.
  explicit NcclAgreement(const CollectiveContext& context);

  // Posts the receives of the end. Call before the launch waits for its turn.
  void Start() ABSL_LOCKS_EXCLUDED(mu_);

  // Exchanges the launch ids. Call when the launch has its turn.
  void Begin(const NcclTicket& ticket) ABSL_LOCKS_EXCLUDED(mu_);

  // Called when the execution has failed: receives of launches end, because
  // these launches may never come.
  void Cancel(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Called once, after Start(), when the launch has ended in this process or
  // has failed before it began. `over` runs when no transfer is under way. A
  // failed transfer has failed the execution.
  void EndHere(absl::AnyInvocable<void() &&> over) ABSL_LOCKS_EXCLUDED(mu_);

  void OnReleased(int32_t id, absl::Status status) override;
  absl::Status OnPart(int32_t id, size_t offset,
                      absl::Span<const std::byte> part) override;
  void OnDelivery(int32_t id, absl::Status status, Delivery delivery) override;

 private:
  enum class Kind { kLaunch, kEnded, kAllEnded };
  using Message = std::array<std::byte, sizeof(NcclLaunchId)>;

  bool is_first() const { return context_.rank() == 0; }
  Kind reported_at_end() const {
    return is_first() ? Kind::kAllEnded : Kind::kEnded;
  }
  BufKey KeyOf(Kind kind, int from, int to) const;
  void Post(Kind kind, size_t other);
  void Receive(Kind kind, size_t other);

  // Called at the end of a transfer.
  void OnTransfer(int32_t id, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  NcclLaunchId LaunchOf(size_t other) const ABSL_LOCKS_EXCLUDED(mu_);

  // Compares a launch with ours. An error also ends the execution of `rank`.
  absl::Status CheckLaunch(const NcclLaunchId& theirs, int rank);
  absl::Status WhyNotSame(const NcclLaunchId& theirs, int rank) const;

  // Posts the end to the others, or calls `over_`, if it is due.
  void GoOn() ABSL_LOCKS_EXCLUDED(mu_);

  const CollectiveContext& context_;
  const std::shared_ptr<CollectiveExecutor> executor_;  // Kept for Cancel().
  const std::shared_ptr<const CollGroupParams> group_;  // Kept for Cancel().
  const std::vector<int> others_;  // Ranks: rank 0, or its counterparts.
  NcclTicket ticket_;              // Fixed by Begin().
  Message mine_ = {};              // Fixed by Begin().

  mutable Mutex mu_;
  std::vector<Message> theirs_ ABSL_GUARDED_BY(mu_);
  bool has_failed_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_here_ ABSL_GUARDED_BY(mu_) = false;
  bool has_reported_end_ ABSL_GUARDED_BY(mu_) = false;
  size_t num_transfers_ ABSL_GUARDED_BY(mu_) = 0;  // Transfers under way.
  size_t num_launches_ ABSL_GUARDED_BY(mu_) = 0;   // Launches under way.
  size_t num_ended_ ABSL_GUARDED_BY(mu_) = 0;      // Ended processes.
  absl::AnyInvocable<void() &&> over_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_AGREEMENT_H_
