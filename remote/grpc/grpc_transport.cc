#include "tutti/grpc_transport.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/environment_check.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "grpc/grpc.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "remote/grpc/connection/channel_arguments.h"
#include "remote/grpc/connection/connection_gate.h"
#include "remote/grpc/connection/grpc_service.h"
#include "remote/grpc/connection/in_flight.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/peers.h"
#include "remote/grpc/connection/room_to_start.h"
#include "remote/grpc/connection/tls_credentials.h"
#include "remote/grpc/control_client.h"
#include "remote/grpc/control_server.h"
#include "remote/grpc/transfers/transfer_receiver.h"
#include "remote/grpc/transfers/transfer_sender.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "remote/transport.h"
#include "remote/transport_registry.h"

namespace tutti {
namespace {

class GrpcTransport final : public Transport, private TransferChannel {
 public:
  GrpcTransport(GrpcTransportOptions options, ListenAddresses addresses,
                TransportCredentials credentials)
      : options_(std::move(options)),
        addresses_(std::move(addresses)),
        server_credentials_(std::move(credentials.server)),
        peers_(&options_, std::move(credentials.client)),
        control_client_(&options_, &peers_),
        receiver_(&options_, &peers_) {}
  ~GrpcTransport() override { Shutdown(); }

  ControlChannel& control() override { return control_client_; }
  TransferChannel& transfers() override { return *this; }

  absl::Status Start(ControlService* control,
                     TransferService* transfers) override;
  void Drop(const ControlCaller& process, const absl::Status& reason) override;
  void Shutdown() override;

 private:
  // Server side, from Start() on.
  struct Serving {
    Serving(const GrpcTransportOptions* options, Peers* peers,
            ControlService* control, TransferService* transfers,
            std::unique_ptr<ConnectionGate> listens)
        : gate(std::move(listens)),
          control_server(options, control),
          sender(options, transfers,
                 [this](const std::string& peer) { gate->Break(peer); }),
          service(options, &control_server, &sender,
                  [this, peers](const std::string& peer,
                                const ControlCaller& caller) {
                    gate->Vouch(peer);
                    peers->OnCall(caller);
                  }) {}

    const std::unique_ptr<ConnectionGate> gate;
    ControlServer control_server;
    TransferSender sender;
    GrpcService service;
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
    std::unique_ptr<grpc::Server> server;
  };

  ConnectionGate::Options GateOptions() const;

  void Request(int task, const BufKey& key, const RecvRequest& recv) override {
    receiver_.Request(task, key, recv);
  }
  void Cancel(const Choice& choice, const absl::Status& reason) override;
  std::vector<BufKey> UnderWay(const Choice& choice) override {
    return receiver_.UnderWay(choice);
  }

  // Errors: UNAVAILABLE.
  absl::Status StartServer(Serving& serving);

  // Calls `use` with the sending side, unless it has not started or is shut
  // down.
  void UseSender(absl::FunctionRef<void(TransferSender&)> use)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Closes what has been idle, and looks again later.
  void CloseIdle() ABSL_LOCKS_EXCLUDED(mu_);
  void CloseIdleLater() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const GrpcTransportOptions options_;
  const ListenAddresses addresses_;
  const std::shared_ptr<grpc::ServerCredentials> server_credentials_;
  Peers peers_;
  ControlClient control_client_;
  TransferReceiver receiver_;
  InFlight sender_users_;
  InFlight looks_;
  std::once_flag shutdown_;

  Mutex mu_;
  bool is_shut_down_ ABSL_GUARDED_BY(mu_) = false;
  Clock::AlarmId look_ ABSL_GUARDED_BY(mu_) = 0;  // CloseIdle() after Start().
  std::unique_ptr<Serving> serving_ ABSL_GUARDED_BY(mu_);
};

absl::Status GrpcTransport::Start(ControlService* control,
                                  TransferService* transfers) {
  MutexLock lock(&mu_);
  if (is_shut_down_) {
    return absl::FailedPreconditionError("the transport has been shut down");
  }
  if (serving_ != nullptr) {
    return absl::FailedPreconditionError("the transport has been started");
  }
  ASSIGN_OR_RETURN(auto gate, ConnectionGate::Listen(GateOptions()));
  auto serving = std::make_unique<Serving>(&options_, &peers_, control,
                                           transfers, std::move(gate));
  RETURN_IF_ERROR(StartServer(*serving));
  serving->gate->Start(
      [acceptor = serving->acceptor.get()](int listener_fd, int fd) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
            connection;
        connection.listener_fd = listener_fd;
        connection.fd = fd;
        acceptor->HandleNewConnection(&connection);
      });
  serving_ = std::move(serving);
  CloseIdleLater();
  return absl::OkStatus();
}

void GrpcTransport::CloseIdleLater() {
  if (!looks_.Begin()) return;
  Clock& clock = *options_.environment.clock;
  look_ =
      clock.CallAt(clock.Now() + DefaultTime("idle"), [this] { CloseIdle(); });
}

void GrpcTransport::CloseIdle() {
  receiver_.CloseIdle();
  peers_.CloseIdle();
  {
    MutexLock lock(&mu_);
    if (!is_shut_down_) CloseIdleLater();
  }
  looks_.End();
}

ConnectionGate::Options GrpcTransport::GateOptions() const {
  ConnectionGate::Options gate{
      .endpoints = addresses_.endpoints,
      .listeners = options_.listeners,
      .max_unknown = options_.bounds.max_unknown_connections,
      .clock = options_.environment.clock,
      .random = options_.environment.random};
  if (options_.tls.enabled()) {
    gate.unknown_limit = DefaultTime("unknown peer");
    return gate;
  }
  gate.party = {.cluster = &options_.cluster, .token = &options_.token};
  if (options_.same_host_socket) {
    gate.same_host_address =
        options_.cluster.addresses[options_.cluster.this_task];
  }
  return gate;
}

absl::Status GrpcTransport::StartServer(Serving& serving) {
  grpc::ServerBuilder builder;
  for (const auto& [name, value] :
       ServerSettings(options_.bounds.max_control_request_bytes)) {
    builder.AddChannelArgument(name, value);
  }
  builder.RegisterCallbackGenericService(&serving.service);
  serving.acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      server_credentials_);
  serving.server = builder.BuildAndStart();
  if (serving.server != nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "cannot listen at ", absl::StrJoin(addresses_.endpoints, ", "),
      ": gRPC cannot start a server"));
}

void GrpcTransport::Drop(const ControlCaller& process,
                         const absl::Status& reason) {
  receiver_.Drop(process, reason);
  UseSender([&](TransferSender& sender) { sender.Drop(process, reason); });
}

void GrpcTransport::Cancel(const Choice& choice, const absl::Status& reason) {
  receiver_.Cancel(choice, reason);
  UseSender([&](TransferSender& sender) { sender.Cancel(choice, reason); });
}

void GrpcTransport::UseSender(absl::FunctionRef<void(TransferSender&)> use) {
  if (!sender_users_.Begin()) return;
  Serving* serving = nullptr;
  {
    MutexLock lock(&mu_);
    serving = serving_.get();
  }
  if (serving != nullptr) use(serving->sender);
  sender_users_.End();
}

void GrpcTransport::Shutdown() {
  std::call_once(shutdown_, [this] {
    control_client_.Shutdown();
    receiver_.Shutdown();
    std::unique_ptr<Serving> serving;
    Clock::AlarmId look = 0;
    {
      MutexLock lock(&mu_);
      is_shut_down_ = true;
      serving = std::move(serving_);
      look = look_;
    }
    if (options_.environment.clock->Cancel(look)) looks_.End();
    sender_users_.Close();
    if (serving != nullptr) {
      // Closes first: a peer that does not read would keep a connection, and
      // gRPC here.
      serving->gate->Close();
      // Deadline in the past: cancels calls at once.
      serving->server->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));
      serving->control_server.Wait();
      serving->sender.Wait();
    }
    sender_users_.Wait();
    looks_.Wait();
    peers_.Close();
  });
}

// Large enough for statuses.
constexpr size_t kMinMessageBytes = size_t{1} << 10;

// Large enough for the records of a message.
constexpr size_t kMinRequestBytes = size_t{32} << 10;
static_assert(kMinRequestBytes >= kMaxRecordsBytes);

// Largest size that gRPC can count.
constexpr size_t kMaxMessageBytes = size_t{1} << 29;

// Keeps gRPC initialised after its first use. When its last user goes, gRPC may
// wait 10 s for sockets that no thread polls.
void KeepGrpc() {
  [[maybe_unused]] static const bool kept = [] {
    grpc_init();
    return true;
  }();
}

absl::Status CheckMessageBound(size_t bytes, size_t least) {
  if (bytes >= least && bytes <= kMaxMessageBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a bound for messages is from ", least, " to ",
                   kMaxMessageBytes, " bytes, not ", bytes));
}

absl::Status CheckBounds(const GrpcBounds& bounds) {
  absl::Status status =
      CheckMessageBound(bounds.max_control_request_bytes, kMinRequestBytes);
  status.Update(
      CheckMessageBound(bounds.max_control_reply_bytes, kMinMessageBytes));
  status.Update(CheckMessageBound(bounds.max_frame_bytes, kMinMessageBytes));
  if (!status.ok()) return status;
  if (bounds.max_open_transfers > 0 && bounds.max_open_streams > 0 &&
      bounds.max_open_calls > 0 && bounds.max_unknown_connections > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "the bounds for transfers, streams, calls and connections must be "
      "positive");
}

// Checks the number of lanes against the bound on our streams at our peers,
// which is assumed to equal ours.
absl::Status CheckLanes(const GrpcTransportOptions& options) {
  const int max_lanes = options.bounds.max_open_streams / 2;
  if (options.transfer_lanes <= max_lanes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "of ", options.bounds.max_open_streams, " open streams each lane takes ",
      "two, one of them about to end: there may be ", max_lanes, " lanes, not ",
      options.transfer_lanes));
}

absl::Status Check(const GrpcTransportOptions& options) {
  RETURN_IF_ERROR(Validate(options.cluster));
  RETURN_IF_ERROR(Validate(options.environment));
  if (options.incarnation == 0) {
    return absl::InvalidArgumentError("0 is no incarnation of a task");
  }
  absl::Status status = CheckBounds(options.bounds);
  return status.ok() ? CheckLanes(options) : status;
}

absl::StatusOr<ListenAddresses> WhereToListen(
    const GrpcTransportOptions& options) {
  const ClusterSpec& cluster = options.cluster;
  const auto [host, port] = SplitAddress(cluster.addresses[cluster.this_task]);
  auto addresses =
      options.listeners.empty()
          ? ResolveListenAddresses(
                options.bind_address.empty() ? host : options.bind_address,
                port)
          : AddressesOf(options.listeners);
  if (!addresses.ok() || addresses->is_loopback || options.insecure ||
      options.tls.enabled()) {
    return addresses;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      cluster.Label(cluster.this_task), " would listen at ",
      absl::StrJoin(addresses->endpoints, ", "),
      ", where other machines can connect, without ",
      "TLS: give it a certificate, key and CA, or say that it may be "
      "insecure, ",
      "or let it listen at 127.0.0.1"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Transport>> CreateGrpcTransport(
    GrpcTransportOptions options) {
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(auto addresses, WhereToListen(options));
  RETURN_IF_ERROR(CheckRoomToStart());
  KeepGrpc();
  ASSIGN_OR_RETURN(auto credentials, MakeCredentials(options.tls));
  return std::make_shared<GrpcTransport>(
      std::move(options), std::move(addresses), std::move(credentials));
}

namespace {

absl::StatusOr<TaskNetwork> Connect(const NetworkSettings& settings) {
  return TaskNetwork{
      .cluster = settings.cluster,
      .make_transport = [settings](uint64_t incarnation) {
        return CreateGrpcTransport({.cluster = settings.cluster,
                                    .incarnation = incarnation,
                                    .environment = settings.environment,
                                    .job_id = settings.cluster.job,
                                    .token = settings.token,
                                    .bind_address = settings.bind_address,
                                    .listeners = settings.listeners,
                                    .insecure = settings.insecure,
                                    .tls = settings.tls});
      }};
}

REGISTER_TRANSPORT(gRPC, Connect);

}  // namespace

}  // namespace tutti
