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

// A delivery that is being sent. Ends, with its lender told, when the last of
// those who hold it is gone: the stream, and gRPC with each slice.
//
// A process that reads the bytes where they lie cannot hold a loan: a loan that
// is leased has a word in memory that is cleared before the lender is told.
//
// Thread-safe. The lender is told on the work queue: gRPC drops slices wherever
// it likes.
class Loan {
 public:
  // Both outlive the loan, and `in_flight` counts it until the lender has been
  // told.
  Loan(const Delivery& delivery, WorkQueue* queue, InFlight* in_flight);
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  absl::Span<const std::byte> bytes() const { return delivery_.bytes; }

  // What the lender will be told: the first reason, else OK.
  void Fail(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Once: where the bytes are, under a lease that they have from now on.
  MemoryPlace Lease(Random& random);

  // Bytes of the loan, where they lie, that keep it.
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
