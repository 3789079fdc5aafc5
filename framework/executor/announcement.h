#ifndef TUTTI_FRAMEWORK_EXECUTOR_ANNOUNCEMENT_H_
#define TUTTI_FRAMEWORK_EXECUTOR_ANNOUNCEMENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/peer/message_key.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

// Announcement of one message to a member of this process (AnyReceives), from
// its request to its answer. Thread-safe; calls out with no lock held.
class Announcement final : public Receiver {
 public:
  using OnAnswer =
      absl::AnyInvocable<void(const std::shared_ptr<Announcement>&) &&>;

  // `key`: of the transfer. The execution table sets its number.
  Announcement(const BufKey& key, OnAnswer on_answer)
      : key(key), on_answer_(std::move(on_answer)) {}

  // Requests the announcement, once. The transfer keeps it.
  static void Request(std::shared_ptr<Announcement> announcement,
                      PeerAccessInterface& peers,
                      const CollGroupMember& sender);

  // Runs `work` after the answer, or now. Call once.
  void Await(Work work) ABSL_LOCKS_EXCLUDED(mu_);

  bool is_answered() const { return is_answered_.load(); }

  // OK if the message is posted, else the error that ended it. REQUIRES: it is
  // answered.
  const absl::Status& answer() const { return answer_; }

  BufKey key;

 private:
  void OnDelivery(int32_t id, absl::Status status, Delivery delivery) override
      ABSL_LOCKS_EXCLUDED(mu_);

  OnAnswer on_answer_;
  std::shared_ptr<Announcement> self_;  // During the transfer.
  absl::Status answer_;                 // Set before `is_answered_`.
  std::atomic<bool> is_answered_{false};
  Mutex mu_;
  Work work_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_ANNOUNCEMENT_H_
