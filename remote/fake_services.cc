#include "remote/fake_services.h"

#include <cstring>
#include <optional>

namespace tutti {

void TableService::Provide(const BufKey& key, const Offer& offer) {
  std::shared_ptr<ServedRequest> request;
  {
    MutexLock lock(&mu_);
    const auto it = requests_.find(key);
    if (it == requests_.end()) {
      offers_.emplace(key, offer);
      return;
    }
    request = std::move(it->second);
    requests_.erase(it);
  }
  Meet(offer, *request);
}

void TableService::Serve(std::shared_ptr<ServedRequest> request) {
  std::optional<Offer> offer;
  {
    MutexLock lock(&mu_);
    const auto it = offers_.find(request->key);
    if (it == offers_.end()) {
      requests_.emplace(request->key, std::move(request));
      changed_.SignalAll();
      return;
    }
    offer = it->second;
    offers_.erase(it);
  }
  Meet(*offer, *request);
}

void TableService::Withdraw(const std::shared_ptr<ServedRequest>& request,
                            absl::Status reason) {
  {
    MutexLock lock(&mu_);
    const auto it = requests_.find(request->key);
    if (it == requests_.end() || it->second != request) return;
    requests_.erase(it);
    ++num_withdrawn_;
    changed_.SignalAll();
  }
  request->OnDelivery(0, std::move(reason), {});
}

void TableService::WaitForRequests(size_t num_requests) {
  MutexLock lock(&mu_);
  while (requests_.size() != num_requests) changed_.Wait(&mu_);
}

size_t TableService::num_withdrawn() {
  MutexLock lock(&mu_);
  return num_withdrawn_;
}

void TableService::Meet(const Offer& offer, ServedRequest& request) {
  request.OnDelivery(
      0, absl::OkStatus(),
      {.bytes = offer.bytes, .sender = offer.sender, .id = offer.id});
}

void CancelRequest(TransferChannel& transfers, const BufKey& key,
                   const absl::Status& reason) {
  transfers.Cancel([key](const BufKey& other) { return other == key; }, reason);
}

void WaitingSender::OnReleased(int32_t /*id*/, absl::Status status) {
  MutexLock lock(&mu_);
  is_released_ = true;
  status_ = std::move(status);
  changed_.SignalAll();
}

absl::Status WaitingSender::Wait() {
  MutexLock lock(&mu_);
  while (!is_released_) changed_.Wait(&mu_);
  return status_;
}

absl::Status WaitingReceiver::OnPart(int32_t /*id*/, size_t offset,
                                     absl::Span<const std::byte> part) {
  {
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
  }
  return after_part_ == nullptr ? absl::OkStatus()
                                : after_part_(offset + part.size());
}

void WaitingReceiver::OnDelivery(int32_t /*id*/, absl::Status status,
                                 Delivery /*delivery*/) {
  MutexLock lock(&mu_);
  is_reported_ = true;
  status_ = std::move(status);
  changed_.SignalAll();
}

absl::Status WaitingReceiver::Wait() {
  MutexLock lock(&mu_);
  while (!is_reported_) changed_.Wait(&mu_);
  return status_;
}

void WaitingReceiver::WaitForPart() {
  MutexLock lock(&mu_);
  while (num_bytes_ == 0 && !is_reported_) changed_.Wait(&mu_);
}

ControlAnswer CallAndWait(ControlChannel& channel, int task,
                          proto::ControlRequest request,
                          ControlCallOptions options) {
  return PendingCall(channel, task, std::move(request), std::move(options))
      .Wait();
}

}  // namespace tutti
