#ifndef TUTTI_REMOTE_GRPC_CONNECTION_CALL_IDENTITY_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_CALL_IDENTITY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/control/control_channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/string_ref.h"
#include "remote/grpc/connection/proof.h"
#include "tutti/cluster_runtime.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// Metadata of every call, apart from caller and callee.
struct JobIdentity {
  std::string job_id;

  // Secret that the caller proves to have, by a MAC in the metadata. For calls
  // with TLS, whose connections have no other proof of it (proof.h).
  std::optional<std::string> token;
};

JobIdentity IdentityOf(const GrpcTransportOptions& options);

// Caller and callee of a call.
struct CallParties {
  int caller = 0;
  uint64_t caller_incarnation = 0;
  int callee = 0;
  uint64_t callee_incarnation = 0;  // 0: not known.
};

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

void AddIdentity(const JobIdentity& job, const CallParties& parties,
                 grpc::ClientContext& context);

// Inputs to the check of a call, before its first message is read.
struct CallCheck {
  const ClusterSpec* cluster;
  const JobIdentity* job;
  uint64_t incarnation = 0;  // Incarnation of this task.

  // Names in the caller's certificate, if there must be one.
  std::optional<std::vector<std::string>> certified_names;
};

// Returns the caller, if it may call. Errors:
// - UNAUTHENTICATED for another token, if there is one;
// - FAILED_PRECONDITION for another protocol version or job, or for a call to
//   another task or to another incarnation of this one;
// - INVALID_ARGUMENT for a task that the cluster does not have, for incarnation
//   0, or for unreadable metadata;
// - PERMISSION_DENIED for a certificate that does not name the caller.
absl::StatusOr<ControlCaller> CheckIdentity(const CallCheck& check,
                                            const Metadata& metadata);

// Returns the name of a task in its certificate: "task-3".
std::string CertifiedName(int task);

// Returns the names in the caller's certificate.
std::vector<std::string> NamesInCertificate(
    const grpc::ServerContextBase& context);

// Write and read the answering incarnation, in the initial metadata of an
// answer.
void AddIncarnation(uint64_t incarnation, grpc::ServerContextBase& context);
std::optional<uint64_t> FindIncarnation(const Metadata& metadata);

// Mark and recognise a status that comes from the service or the transport, not
// from gRPC itself. The mark is in the trailing metadata of an answer.
void MarkAnswered(grpc::ServerContextBase& context);
bool IsAnswered(const Metadata& metadata);

// Returns the FAILED_PRECONDITION for another incarnation than before.
absl::Status Restarted(absl::string_view peer, uint64_t before, uint64_t now);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_CALL_IDENTITY_H_
