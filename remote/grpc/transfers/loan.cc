#include "remote/grpc/transfers/loan.h"

#include <utility>

namespace tutti {
namespace {

using Holder = std::shared_ptr<Loan>;

void DropHolder(void* holder) {
  std::unique_ptr<Holder>(static_cast<Holder*>(holder)).reset();
}

}  // namespace

Loan::Loan(const Delivery& delivery, WorkQueue* queue, InFlight* in_flight)
    : delivery_(delivery), queue_(queue), in_flight_(in_flight) {
  in_flight_->BeginMore();
}

Loan::~Loan() {
  queue_->Schedule([delivery = delivery_, status = std::move(status_),
                    in_flight = in_flight_,
                    lease = std::move(lease_)]() mutable {
    if (lease != nullptr) lease->Clear();
    delivery.Release(std::move(status));
    in_flight->End();
  });
}

void Loan::Fail(absl::Status reason) {
  MutexLock lock(&mu_);
  if (status_.ok()) status_ = std::move(reason);
}

MemoryPlace Loan::Lease(Random& random) {
  lease_ = std::make_unique<MemoryLease>(random);
  return lease_->PlaceOf(bytes());
}

grpc::Slice Loan::Alias(const std::shared_ptr<Loan>& loan, size_t offset,
                        size_t num_bytes) {
  auto holder = std::make_unique<Holder>(loan);
  // gRPC does not write to what it sends.
  auto* const begin = const_cast<std::byte*>(loan->bytes().data() + offset);
  return grpc::Slice(begin, num_bytes, &DropHolder, holder.release());
}

}  // namespace tutti
