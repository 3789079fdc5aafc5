#ifndef TUTTI_REMOTE_GRPC_GRPC_TRANSPORT_H_
#define TUTTI_REMOTE_GRPC_GRPC_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "remote/grpc/grpc_options.h"

namespace tutti {

class Transport;

// A transport over gRPC. Control calls are unary; the bytes of transfers go as
// slices that alias the lender's memory and are given to the borrower where
// gRPC received them.
//
// gRPC brings threads of its own. Borrowers, `done` and the services are called
// on them: they must not block, nor shut the transport down.
//
// When a task answers with another incarnation than before, the calls and
// requests that were meant for the earlier one end with FAILED_PRECONDITION;
// those made afterwards reach the new one.
//
// Errors: INVALID_ARGUMENT for options that make no sense or are not safe: to
// listen where other machines can connect needs TLS, or `insecure`; NOT_FOUND
// for a file that cannot be read.
absl::StatusOr<std::shared_ptr<Transport>> CreateGrpcTransport(
    GrpcTransportOptions options);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_GRPC_TRANSPORT_H_
