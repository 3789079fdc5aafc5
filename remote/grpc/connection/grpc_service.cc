#include "remote/grpc/connection/grpc_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "remote/grpc/wire/control_messages.h"
#include "remote/grpc/wire/status_codec.h"

namespace tutti {
namespace {

// Owns itself until OnDone().
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  void OnDone() override { std::unique_ptr<Refusal>(this).reset(); }
};

}  // namespace

grpc::ServerGenericBidiReactor* Refuse(const absl::Status& status,
                                       grpc::CallbackServerContext* context) {
  MarkAnswered(*context);
  auto refusal = std::make_unique<Refusal>();
  refusal->Finish(ToGrpc(status));
  return refusal.release();
}

GrpcService::GrpcService(const GrpcTransportOptions* options,
                         ServedMethod* control, ServedMethod* transfers,
                         Vouch vouch)
    : options_(options),
      job_(IdentityOf(*options)),
      control_(control),
      transfers_(transfers),
      vouch_(std::move(vouch)) {}

grpc::ServerGenericBidiReactor* GrpcService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  const auto caller = Check(context);
  // Hide the incarnation from callers without permission.
  if (caller.ok() || absl::IsFailedPrecondition(caller.status())) {
    AddIncarnation(options_->incarnation, *context);
  }
  if (!caller.ok()) {
    return Refuse(
        absl::Status(
            caller.status().code(),
            absl::StrCat(options_->cluster.Label(options_->cluster.this_task),
                         " refuses the call: ", caller.status().message())),
        context);
  }
  vouch_(context->peer(), *caller);
  ServedMethod* const method = MethodOf(context->method());
  if (method != nullptr) return method->Serve(*caller, context);
  return Refuse(absl::UnimplementedError("there is no such method"), context);
}

absl::StatusOr<ControlCaller> GrpcService::Check(
    grpc::GenericCallbackServerContext* context) const {
  CallCheck check{.cluster = &options_->cluster,
                  .job = &job_,
                  .incarnation = options_->incarnation};
  if (options_->tls.enabled()) {
    check.certified_names = NamesInCertificate(*context);
  }
  return CheckIdentity(check, context->client_metadata());
}

ServedMethod* GrpcService::MethodOf(const std::string& name) const {
  if (name == kControlMethod) return control_;
  if (name == kTransferMethod) return transfers_;
  return nullptr;
}

}  // namespace tutti
