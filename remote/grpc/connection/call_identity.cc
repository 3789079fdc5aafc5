#include "remote/grpc/connection/call_identity.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "grpc/grpc_security_constants.h"

namespace tutti {
namespace {

// Names in the metadata. A value may have any bytes if its name ends in "-bin".
constexpr char kVersionName[] = "tutti-protocol";
constexpr char kJobName[] = "tutti-job-bin";
constexpr char kMacName[] = "tutti-mac-bin";
constexpr char kCallerName[] = "tutti-caller";
constexpr char kCallerIncarnationName[] = "tutti-caller-incarnation";
constexpr char kCalleeName[] = "tutti-callee";
constexpr char kCalleeIncarnationName[] = "tutti-callee-incarnation";
constexpr char kIncarnationName[] = "tutti-incarnation";
constexpr char kAnsweredName[] = "tutti-answered";

// Number of bytes of foreign texts to repeat in errors.
constexpr size_t kMaxQuoted = 64;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", text.substr(0, kMaxQuoted),
                      text.size() > kMaxQuoted ? "..." : "", "\"");
}

// Returns empty unless the name is there exactly once.
absl::string_view Find(const Metadata& metadata, const char* name) {
  const auto [begin, end] = metadata.equal_range(name);
  if (begin == end || std::next(begin) != end) return {};
  return {begin->second.data(), begin->second.size()};
}

template <typename T>
absl::StatusOr<T> FindNumber(const Metadata& metadata, const char* name) {
  T value = 0;
  const absl::string_view text = Find(metadata, name);
  if (absl::SimpleAtoi(text, &value)) return value;
  return absl::InvalidArgumentError(absl::StrCat(
      "the metadata ", name, " of a call is no number: ", Quoted(text)));
}

// Returns the MAC of a call with TLS. It is good for calls of this caller to
// this callee alone, both of which their certificates name: who learns it
// cannot use it.
std::string MacOfCall(const std::string& token, int caller, int callee) {
  return MacOf(token, absl::StrCat("tutti call ", caller, " ", callee));
}

absl::Status CheckJob(const CallCheck& check, const Metadata& metadata) {
  const absl::string_view version = Find(metadata, kVersionName);
  if (version != absl::StrCat(kProtocolVersion)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the caller speaks version ", Quoted(version), " of the protocol, ",
        check.cluster->Label(check.cluster->this_task), " speaks version \"",
        kProtocolVersion, "\""));
  }
  const absl::string_view job = Find(metadata, kJobName);
  if (job == check.job->job_id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the caller is of job ", Quoted(job), ", ",
                   check.cluster->Label(check.cluster->this_task),
                   " is of job ", Quoted(check.job->job_id)));
}

absl::Status CheckToken(const CallCheck& check, const Metadata& metadata) {
  if (!check.job->token) return absl::OkStatus();
  const auto caller = FindNumber<int>(metadata, kCallerName);
  if (caller.ok() && SameSecret(Find(metadata, kMacName),
                                MacOfCall(*check.job->token, *caller,
                                          check.cluster->this_task))) {
    return absl::OkStatus();
  }
  return absl::UnauthenticatedError("the call does not have this job's token");
}

absl::Status CheckCertificate(const CallCheck& check, int caller) {
  if (!check.certified_names) return absl::OkStatus();
  const std::vector<std::string>& names = *check.certified_names;
  const std::string wanted = CertifiedName(caller);
  if (std::find(names.begin(), names.end(), wanted) != names.end()) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "the caller says that it is ", wanted, ", but its certificate is for ",
      names.empty() ? "nobody" : Quoted(names[0])));
}

absl::Status CheckCallee(const CallCheck& check, const Metadata& metadata) {
  const ClusterSpec& cluster = *check.cluster;
  ASSIGN_OR_RETURN(const auto callee, FindNumber<int>(metadata, kCalleeName));
  if (callee != cluster.this_task) {
    return absl::FailedPreconditionError(
        absl::StrCat("the caller wanted task ", callee, ", this is ",
                     cluster.Label(cluster.this_task)));
  }
  ASSIGN_OR_RETURN(const auto expected,
                   FindNumber<uint64_t>(metadata, kCalleeIncarnationName));
  if (expected == 0 || expected == check.incarnation) {
    return absl::OkStatus();
  }
  return Restarted(cluster.Label(cluster.this_task), expected,
                   check.incarnation);
}

}  // namespace

JobIdentity IdentityOf(const GrpcTransportOptions& options) {
  JobIdentity job{.job_id = options.job_id};
  if (options.tls.enabled()) job.token = options.token;
  return job;
}

void AddIdentity(const JobIdentity& job, const CallParties& parties,
                 grpc::ClientContext& context) {
  context.AddMetadata(kVersionName, absl::StrCat(kProtocolVersion));
  context.AddMetadata(kJobName, job.job_id);
  if (job.token) {
    context.AddMetadata(kMacName,
                        MacOfCall(*job.token, parties.caller, parties.callee));
  }
  context.AddMetadata(kCallerName, absl::StrCat(parties.caller));
  context.AddMetadata(kCallerIncarnationName,
                      absl::StrCat(parties.caller_incarnation));
  context.AddMetadata(kCalleeName, absl::StrCat(parties.callee));
  context.AddMetadata(kCalleeIncarnationName,
                      absl::StrCat(parties.callee_incarnation));
}

absl::StatusOr<ControlCaller> CheckIdentity(const CallCheck& check,
                                            const Metadata& metadata) {
  RETURN_IF_ERROR(CheckToken(check, metadata));
  RETURN_IF_ERROR(CheckJob(check, metadata));

  ASSIGN_OR_RETURN(const auto caller, FindNumber<int>(metadata, kCallerName));
  if (caller < 0 || caller >= check.cluster->num_tasks()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the caller says that it is task ", caller, " of a cluster of ",
        check.cluster->num_tasks(), " tasks"));
  }
  RETURN_IF_ERROR(CheckCertificate(check, caller));

  ASSIGN_OR_RETURN(const auto incarnation,
                   FindNumber<uint64_t>(metadata, kCallerIncarnationName));
  if (incarnation == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the caller says that it is incarnation 0 of task ", caller));
  }
  RETURN_IF_ERROR(CheckCallee(check, metadata));
  return ControlCaller{.task = caller, .incarnation = incarnation};
}

std::string CertifiedName(int task) { return absl::StrCat("task-", task); }

std::vector<std::string> NamesInCertificate(
    const grpc::ServerContextBase& context) {
  std::vector<std::string> names;
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return names;
  for (const char* property :
       {GRPC_X509_CN_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME}) {
    for (const grpc::string_ref& name : auth->FindPropertyValues(property)) {
      names.emplace_back(name.data(), name.size());
    }
  }
  return names;
}

void AddIncarnation(uint64_t incarnation, grpc::ServerContextBase& context) {
  context.AddInitialMetadata(kIncarnationName, absl::StrCat(incarnation));
}

std::optional<uint64_t> FindIncarnation(const Metadata& metadata) {
  const auto incarnation = FindNumber<uint64_t>(metadata, kIncarnationName);
  if (!incarnation.ok() || *incarnation == 0) return std::nullopt;
  return *incarnation;
}

void MarkAnswered(grpc::ServerContextBase& context) {
  context.AddTrailingMetadata(kAnsweredName, "1");
}

bool IsAnswered(const Metadata& metadata) {
  return metadata.find(kAnsweredName) != metadata.end();
}

absl::Status Restarted(absl::string_view peer, uint64_t before, uint64_t now) {
  return absl::FailedPreconditionError(absl::StrCat(
      peer, " restarted: incarnation ", before, " before, ", now, " now"));
}

}  // namespace tutti
