#ifndef TUTTI_REMOTE_GRPC_CONNECTION_GRPC_SERVICE_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_GRPC_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/control/control_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "remote/grpc/connection/call_identity.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// Method of a server, which makes a reactor for each call. Thread-safe.
class ServedMethod {
 public:
  virtual ~ServedMethod() = default;

  // Serves a call of `caller`, who may call. The reactor owns itself until
  // OnDone().
  virtual grpc::ServerGenericBidiReactor* Serve(
      const ControlCaller& caller, grpc::CallbackServerContext* context) = 0;
};

// Ends a call with `status` before a message of it is read.
grpc::ServerGenericBidiReactor* Refuse(const absl::Status& status,
                                       grpc::CallbackServerContext* context);

// Service of a task's server. Identifies each caller from the metadata alone.
// Passes the call to the server of its method, or refuses it.
class GrpcService final : public grpc::CallbackGenericService {
 public:
  // Gets the connection of each admitted call, by gRPC's name for its peer.
  using Vouch =
      std::function<void(const std::string& peer, const ControlCaller& caller)>;

  // `options`, `control` and `transfers` outlive this object.
  GrpcService(const GrpcTransportOptions* options, ServedMethod* control,
              ServedMethod* transfers, Vouch vouch);

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  absl::StatusOr<ControlCaller> Check(
      grpc::GenericCallbackServerContext* context) const;
  ServedMethod* MethodOf(const std::string& name) const;

  const GrpcTransportOptions* const options_;
  const JobIdentity job_;
  ServedMethod* const control_;
  ServedMethod* const transfers_;
  const Vouch vouch_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_GRPC_SERVICE_H_
