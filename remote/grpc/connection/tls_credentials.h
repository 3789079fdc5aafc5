#ifndef TUTTI_REMOTE_GRPC_CONNECTION_TLS_CREDENTIALS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_TLS_CREDENTIALS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "tutti/grpc_transport.h"

namespace tutti {

struct TransportCredentials {
  std::shared_ptr<grpc::ChannelCredentials> client;
  std::shared_ptr<grpc::ServerCredentials> server;
};

// Mutual TLS, both sides with the same certificate; none at all if `tls` is not
// enabled. The server accepts TLS 1.3 alone. Errors: INVALID_ARGUMENT if not
// all files are given or their contents do not fit each other; the system's,
// such as NOT_FOUND, naming the one that cannot be read.
absl::StatusOr<TransportCredentials> MakeCredentials(const TlsOptions& tls);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_TLS_CREDENTIALS_H_
