#include "remote/mpi/messages/mpi_mailbox.h"

#include <utility>

namespace tutti {

void MpiMailbox::Post(Work work) {
  {
    MutexLock lock(&mu_);
    if (!is_closed_) {
      posted_.push_back(std::move(work));
      if (doorbell_ != nullptr) doorbell_->Ring();
      return;
    }
  }
  std::move(work)();
}

void MpiMailbox::Ring() {
  MutexLock lock(&mu_);
  if (doorbell_ != nullptr) doorbell_->Ring();
}

void MpiMailbox::RingAt(Doorbell* doorbell) {
  MutexLock lock(&mu_);
  doorbell_ = doorbell;
}

std::vector<Work> MpiMailbox::TakeAll() {
  MutexLock lock(&mu_);
  return std::exchange(posted_, {});
}

bool MpiMailbox::empty() const {
  MutexLock lock(&mu_);
  return posted_.empty();
}

void MpiMailbox::Close() {
  std::vector<Work> dropped;  // Freed without the lock.
  MutexLock lock(&mu_);
  is_closed_ = true;
  doorbell_ = nullptr;  // The doorbell may go now.
  dropped.swap(posted_);
}

bool MpiMailbox::CloseIfEmpty() {
  MutexLock lock(&mu_);
  if (!posted_.empty()) return false;
  is_closed_ = true;
  doorbell_ = nullptr;
  return true;
}

}  // namespace tutti
