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
#include "tutti/cluster_runtime.h"

namespace tutti {

// Two tasks talk to each other only if they have the same.
inline constexpr int kProtocolVersion = 2;

// What every call says in its metadata, apart from who calls whom.
struct JobIdentity {
  std::string job_id;
  std::string token;
};

// Who calls whom.
struct CallParties {
  int caller = 0;
  uint64_t caller_incarnation = 0;
  int callee = 0;
  uint64_t callee_incarnation = 0;  // 0: not known.
};

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

void AddIdentity(const JobIdentity& job, const CallParties& parties,
                 grpc::ClientContext& context);

// What a task checks of a call before it reads a message of it.
struct CallCheck {
  const ClusterSpec* cluster;
  const JobIdentity* job;
  uint64_t incarnation = 0;  // Of this task.

  // Names in the caller's certificate, if there must be one.
  std::optional<std::vector<std::string>> certified_names;
};

// The caller, if it may call. Errors: UNAUTHENTICATED for another token;
// FAILED_PRECONDITION for another protocol version or job, for a call to
// another task or to another incarnation of this one; INVALID_ARGUMENT for a
// task that the cluster does not have, for incarnation 0, or for what cannot be
// read; PERMISSION_DENIED for a certificate that does not name the caller.
absl::StatusOr<ControlCaller> CheckIdentity(const CallCheck& check,
                                            const Metadata& metadata);

// The name of a task in its certificate: "task-3".
std::string CertifiedName(int task);

// The names in the certificate of whoever made the call.
std::vector<std::string> NamesInCertificate(
    const grpc::ServerContextBase& context);

// In the first metadata of an answer: which incarnation answers.
void AddIncarnation(uint64_t incarnation, grpc::ServerContextBase& context);
std::optional<uint64_t> FindIncarnation(const Metadata& metadata);

// In the metadata of a call: on which host the caller lives, and with what it
// challenges whoever wants it to read its memory.
struct MemoryAsk {
  std::string host;
  std::string challenge;
};
void AddMemoryAsk(const MemoryAsk& ask, grpc::ClientContext& context);
std::optional<MemoryAsk> FindMemoryAsk(const Metadata& metadata);

// In the last metadata of an answer: that its status is the service's or the
// transport's, not gRPC's own.
void MarkAnswered(grpc::ServerContextBase& context);
bool IsAnswered(const Metadata& metadata);

// The text of FAILED_PRECONDITION for another incarnation than before.
absl::Status Restarted(absl::string_view peer, uint64_t before, uint64_t now);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_CALL_IDENTITY_H_
