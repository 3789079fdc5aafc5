#include "remote/grpc/control_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/wire/control_messages.h"
#include "remote/grpc/wire/status_codec.h"

namespace tutti {

// Reads one request, lets the service answer it, and writes the answer. Lives
// until both gRPC and the service are done with it.
class ControlServer::IncomingCall final
    : public grpc::ServerGenericBidiReactor,
      public std::enable_shared_from_this<IncomingCall> {
 public:
  IncomingCall(ControlServer* server, const ControlCaller& caller,
               grpc::CallbackServerContext* context)
      : server_(server), caller_(caller), context_(context) {}

  void Begin() {
    self_ = shared_from_this();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override;
  void OnCancel() override {
    withdrawn_->Cancel(absl::CancelledError("the caller does not wait"));
  }
  void OnDone() override;

 private:
  void Answer(ControlAnswer answer);
  void FinishWith(const absl::Status& status);

  ControlServer* const server_;
  const ControlCaller caller_;
  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<Cancellation> withdrawn_ =
      std::make_shared<Cancellation>();
  std::shared_ptr<IncomingCall> self_;  // Set until OnDone().
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

void ControlServer::IncomingCall::OnReadDone(bool ok) {
  if (!ok) {
    return FinishWith(absl::InvalidArgumentError("the call has no request"));
  }
  proto::ControlRequest request;
  const absl::Status parsed = Parse(request_, request);
  request_.Clear();
  if (!parsed.ok()) return FinishWith(parsed);
  // gRPC keeps the call until the service has answered: it is not finished.
  server_->service_->Handle(caller_, request, withdrawn_,
                            [self = shared_from_this()](ControlAnswer answer) {
                              self->Answer(std::move(answer));
                            });
}

void ControlServer::IncomingCall::Answer(ControlAnswer answer) {
  if (!answer.ok()) return FinishWith(answer.status());
  const size_t size = answer->ByteSizeLong();
  const size_t max = server_->options_->bounds.max_control_reply_bytes;
  if (size > max) {
    return FinishWith(absl::ResourceExhaustedError(
        absl::StrCat("the answer has ", size, " bytes, more than ", max)));
  }
  reply_ = Serialize(*answer);
  MarkAnswered(*context_);
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void ControlServer::IncomingCall::FinishWith(const absl::Status& status) {
  MarkAnswered(*context_);
  Finish(ToGrpc(status));
}

void ControlServer::IncomingCall::OnDone() {
  ControlServer* const server = server_;
  server->open_.End(caller_.task);
  std::exchange(self_, nullptr).reset();
  server->in_flight_.End();
}

grpc::ServerGenericBidiReactor* ControlServer::Serve(
    const ControlCaller& caller, grpc::CallbackServerContext* context) {
  const absl::Status begun = open_.Begin(caller.task);
  if (!begun.ok()) return Refuse(begun, context);
  in_flight_.BeginMore();
  const auto call = std::make_shared<IncomingCall>(this, caller, context);
  call->Begin();
  return call.get();
}

}  // namespace tutti
