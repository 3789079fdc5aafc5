#include "remote/grpc/grpc_transport.h"

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/mutex.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "remote/grpc/channel_arguments.h"
#include "remote/grpc/control_client.h"
#include "remote/grpc/control_server.h"
#include "remote/grpc/grpc_service.h"
#include "remote/grpc/peers.h"
#include "remote/grpc/transfer_receiver.h"
#include "remote/grpc/transfer_sender.h"

namespace tutti {
namespace {

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(GrpcTransportOptions options)
      : options_(std::move(options)),
        peers_(&options_, grpc::InsecureChannelCredentials()),
        control_client_(&options_, &peers_),
        receiver_(&options_, &peers_) {}
  ~GrpcTransport() override { Shutdown(); }

  ControlChannel& control() override { return control_client_; }
  TransferChannel& transfers() override { return receiver_; }

  absl::Status Start(ControlService* control,
                     TransferService* transfers) override;
  void Shutdown() override;

 private:
  // What answers calls, from Start() on.
  struct Serving {
    Serving(const GrpcTransportOptions* options, ControlService* control,
            TransferService* transfers)
        : control_server(control, options->bounds.max_control_reply_bytes),
          sender(options, transfers),
          service(options, &control_server, &sender) {}

    ControlServer control_server;
    TransferSender sender;
    GrpcService service;
    std::unique_ptr<grpc::Server> server;
  };

  const GrpcTransportOptions options_;
  Peers peers_;
  ControlClient control_client_;
  TransferReceiver receiver_;
  std::once_flag shutdown_;

  Mutex mu_;
  std::unique_ptr<Serving> serving_ ABSL_GUARDED_BY(mu_);
};

absl::Status GrpcTransport::Start(ControlService* control,
                                  TransferService* transfers) {
  MutexLock lock(&mu_);
  if (serving_ != nullptr) {
    return absl::FailedPreconditionError("the transport has been started");
  }
  auto serving = std::make_unique<Serving>(&options_, control, transfers);
  grpc::ServerBuilder builder;
  for (const auto& [name, value] :
       ServerSettings(options_.bounds.max_control_request_bytes,
                      options_.bounds.max_concurrent_calls)) {
    builder.AddChannelArgument(name, value);
  }
  builder.RegisterCallbackGenericService(&serving->service);
  const std::string& address =
      options_.cluster.addresses[options_.cluster.this_task];
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  serving->server = builder.BuildAndStart();
  if (serving->server == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", address));
  }
  serving_ = std::move(serving);
  return absl::OkStatus();
}

void GrpcTransport::Shutdown() {
  std::call_once(shutdown_, [this] {
    control_client_.Shutdown();
    receiver_.Shutdown();
    std::unique_ptr<Serving> serving;
    {
      MutexLock lock(&mu_);
      serving = std::move(serving_);
    }
    if (serving != nullptr) {
      // In the past: calls are cancelled at once.
      serving->server->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));
      serving->control_server.Wait();
      serving->sender.Wait();
    }
    peers_.Close();
  });
}

absl::Status Check(const GrpcTransportOptions& options) {
  const absl::Status status = Validate(options.cluster);
  if (!status.ok()) return status;
  const Environment& environment = options.environment;
  if (environment.queue == nullptr || environment.clock == nullptr ||
      environment.random == nullptr) {
    return absl::InvalidArgumentError(
        "the environment lacks a work queue, a clock or a random source");
  }
  if (options.incarnation == 0) {
    return absl::InvalidArgumentError("0 is no incarnation of a task");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> CreateGrpcTransport(
    GrpcTransportOptions options) {
  const absl::Status status = Check(options);
  if (!status.ok()) return status;
  return std::make_unique<GrpcTransport>(std::move(options));
}

}  // namespace tutti
