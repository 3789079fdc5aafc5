#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_LOAN_WATCH_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_LOAN_WATCH_H_

#include <memory>
#include <string>

#include "remote/grpc/transfers/loan.h"
#include "remote/grpc/transfers/send_context.h"
#include "tutti/environment.h"

namespace tutti {

// Releases the caller's hold of `loan`, and watches that gRPC does the same.
// Runs `cancel_stream` if gRPC still holds bytes after the grace
// (GrpcTransportOptions::cancel_grace). Breaks the connection from `peer` if
// gRPC still holds them after another grace: it keeps bytes that it has begun
// to write.
//
// Thread-safe. `cancel_stream` runs on the clock's thread with no lock held.
// `context` outlives the loan: its InFlight counts it.
void WatchSend(std::shared_ptr<Loan> loan, SendContext* context,
               std::string peer, Work cancel_stream);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_LOAN_WATCH_H_
