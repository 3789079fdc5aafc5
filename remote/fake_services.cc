#include "remote/fake_services.h"

#include <cstring>
#include <optional>

namespace tutti {

void TableService::Provide(const BufKey& key, const Offer& offer) {
  std::optional<Ask> ask;
  {
    MutexLock lock(&mu_);
    const auto it = asks_.find(key);
    if (it == asks_.end()) {
      offers_.emplace(key, offer);
      return;
    }
    ask = it->second;
    asks_.erase(it);
  }
  Meet(offer, *ask);
}

void TableService::Serve(const ControlCaller& /*caller*/, const BufKey& key,
                         const Ask& ask) {
  std::optional<Offer> offer;
  {
    MutexLock lock(&mu_);
    const auto it = offers_.find(key);
    if (it == offers_.end()) {
      asks_.emplace(key, ask);
      changed_.SignalAll();
      return;
    }
    offer = it->second;
    offers_.erase(it);
  }
  Meet(*offer, ask);
}

void TableService::Withdraw(const BufKey& key, const Borrower* borrower,
                            absl::Status reason) {
  std::optional<Ask> ask;
  {
    MutexLock lock(&mu_);
    const auto it = asks_.find(key);
    if (it == asks_.end() || it->second.borrower != borrower) return;
    ask = it->second;
    asks_.erase(it);
    ++num_withdrawn_;
    changed_.SignalAll();
  }
  ask->borrower->OnDelivery(ask->id, std::move(reason), {});
}

void TableService::WaitForAsks(size_t num_asks) {
  MutexLock lock(&mu_);
  while (asks_.size() != num_asks) changed_.Wait(&mu_);
}

size_t TableService::num_withdrawn() {
  MutexLock lock(&mu_);
  return num_withdrawn_;
}

void TableService::Meet(const Offer& offer, const Ask& ask) {
  ask.borrower->OnDelivery(
      ask.id, absl::OkStatus(),
      {.bytes = offer.bytes, .lender = offer.lender, .id = offer.id});
}

void WaitingLender::OnReleased(int32_t /*id*/, absl::Status status) {
  MutexLock lock(&mu_);
  is_released_ = true;
  status_ = std::move(status);
  changed_.SignalAll();
}

absl::Status WaitingLender::Wait() {
  MutexLock lock(&mu_);
  while (!is_released_) changed_.Wait(&mu_);
  return status_;
}

absl::Status WaitingBorrower::OnPart(int32_t /*id*/, size_t offset,
                                     absl::Span<const std::byte> part) {
  MutexLock lock(&mu_);
  if (offset != num_bytes_ || part.size() > bytes_.size() - offset) {
    return absl::InternalError("a part at the wrong place");
  }
  std::byte* const place = bytes_.data() + offset;
  if (part.data() == place) {
    ++num_in_place_;
  } else {
    std::memcpy(place, part.data(), part.size());
  }
  part_sizes_.push_back(part.size());
  num_bytes_ += part.size();
  changed_.SignalAll();
  return absl::OkStatus();
}

void WaitingBorrower::OnDelivery(int32_t /*id*/, absl::Status status,
                                 Delivery /*delivery*/) {
  MutexLock lock(&mu_);
  is_told_ = true;
  status_ = std::move(status);
  changed_.SignalAll();
}

absl::Status WaitingBorrower::Wait() {
  MutexLock lock(&mu_);
  while (!is_told_) changed_.Wait(&mu_);
  return status_;
}

void WaitingBorrower::WaitForPart() {
  MutexLock lock(&mu_);
  while (num_bytes_ == 0 && !is_told_) changed_.Wait(&mu_);
}

absl::Status RefusingBorrower::OnPart(int32_t /*id*/, size_t offset,
                                      absl::Span<const std::byte> /*part*/) {
  return offset < offset_ ? absl::OkStatus() : refusal_;
}

void RefusingBorrower::OnDelivery(int32_t /*id*/, absl::Status status,
                                  Delivery /*delivery*/) {
  status_ = std::move(status);
  told_.DecrementCount();
}

absl::Status RefusingBorrower::Wait() {
  told_.Wait();
  return status_;
}

ControlAnswer CallAndWait(ControlChannel& channel, int task,
                          proto::ControlRequest request,
                          ControlCallOptions options) {
  return PendingCall(channel, task, std::move(request), std::move(options))
      .Wait();
}

}  // namespace tutti
