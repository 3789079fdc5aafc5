#ifndef TUTTI_REMOTE_GRPC_CONNECTION_TLS_CREDENTIALS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_TLS_CREDENTIALS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "grpc/grpc_security.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "tutti/grpc_transport.h"

namespace tutti {

struct TransportCredentials {
  std::shared_ptr<grpc::ChannelCredentials> client;
  std::shared_ptr<grpc::ServerCredentials> server;
};

// Makes a server refuse TLS below a version.
using MinTlsVersionSetter = void (*)(grpc_server_credentials* credentials,
                                     grpc_tls_version version);

// Returns null if the library of gRPC has no such function.
MinTlsVersionSetter FindMinTlsVersionSetter();

// Makes credentials for mutual TLS, with the same certificate on both sides, or
// without TLS if `tls` is not enabled. The server accepts only TLS 1.3. The
// client offers 1.2, too, which no such server accepts. Errors:
// INVALID_ARGUMENT if files are missing or their contents do not match;
// FAILED_PRECONDITION if TLS is enabled and `set_min_version` is null; errors
// of the system, such as NOT_FOUND, naming the unreadable file.
absl::StatusOr<TransportCredentials> MakeCredentials(
    const TlsOptions& tls,
    MinTlsVersionSetter set_min_version = FindMinTlsVersionSetter());

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_TLS_CREDENTIALS_H_
