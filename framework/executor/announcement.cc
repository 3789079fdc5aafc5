#include "framework/executor/announcement.h"

#include <memory>
#include <utility>

#include "tutti/params.h"

namespace tutti {

void Announcement::Request(std::shared_ptr<Announcement> announcement,
                           PeerAccessInterface& peers,
                           const CollGroupMember& sender) {
  const BufKey key = announcement->key;
  const RecvRequest recv = {.dtype = DType::kUint8,
                            .incarnation = sender.device.incarnation,
                            .receiver = announcement.get()};
  announcement->self_ = std::move(announcement);
  peers.RecvFromPeer(sender, key, recv);
}

void Announcement::Await(Work work) {
  {
    MutexLock lock(&mu_);
    if (!is_answered()) {
      work_ = std::move(work);
      return;
    }
  }
  std::move(work)();
}

void Announcement::OnDelivery(int32_t /*id*/, absl::Status status,
                              Delivery delivery) {
  if (status.ok()) delivery.Release(absl::OkStatus());
  const std::shared_ptr<Announcement> self = std::move(self_);
  answer_ = std::move(status);
  Work work;
  {
    MutexLock lock(&mu_);
    is_answered_.store(true);
    work = std::move(work_);
  }
  if (work != nullptr) std::move(work)();
  // Freed with what it holds, which keeps answered announcements.
  OnAnswer on_answer = std::move(on_answer_);
  std::move(on_answer)(self);
}

}  // namespace tutti
