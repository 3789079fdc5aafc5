#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_LOAN_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_LOAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "grpcpp/support/slice.h"
#include "remote/grpc/connection/in_flight.h"
#include "remote/peer_memory.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

// Delivery that is being sent. It is released to its sender when its last
// holder is gone: the stream, or gRPC with a slice.
//
// A process that reads the bytes in place cannot hold a Loan. A leased Loan
// therefore has a word in memory, cleared before the release.
//
// Thread-safe. The sender's callback runs on the work queue: gRPC drops slices
// wherever it likes.
class Loan {
 public:
  // `queue` and `in_flight` outlive the object. `in_flight` counts it until the
  // sender's callback has run.
  Loan(const Delivery& delivery, WorkQueue* queue, InFlight* in_flight);
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  absl::Span<const std::byte> bytes() const { return delivery_.bytes; }

  // Sets the status of the release: the first reason, else OK.
  void Fail(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Leases the bytes from now on, and returns their place. Call once.
  MemoryPlace Lease(Random& random);

  // Returns a slice of the bytes in place, which keeps the Loan.
  static grpc::Slice Alias(const std::shared_ptr<Loan>& loan, size_t offset,
                           size_t num_bytes);

 private:
  const Delivery delivery_;
  WorkQueue* const queue_;
  InFlight* const in_flight_;
  std::unique_ptr<MemoryLease> lease_;

  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_LOAN_H_
