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

// Makes credentials for mutual TLS, with the same certificate on both sides, or
// without TLS if `tls` is not enabled. The server accepts only TLS 1.3. Errors:
// INVALID_ARGUMENT if files are missing or their contents do not match; errors
// of the system, such as NOT_FOUND, naming the unreadable file.
absl::StatusOr<TransportCredentials> MakeCredentials(const TlsOptions& tls);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_TLS_CREDENTIALS_H_
