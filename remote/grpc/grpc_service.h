#ifndef TUTTI_REMOTE_GRPC_GRPC_SERVICE_H_
#define TUTTI_REMOTE_GRPC_GRPC_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "framework/control/control_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/served_call.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// The one service of a task's server: sees who calls, from the metadata alone,
// and hands the call to whoever serves its method, or refuses it.
class GrpcService final : public grpc::CallbackGenericService {
 public:
  // Told of the connection, by gRPC's name for its peer, of each call that is
  // let in.
  using Vouch =
      std::function<void(const std::string& peer, const ControlCaller& caller)>;

  // Told of that of each call that is refused.
  using Refused = std::function<void(const std::string& peer)>;

  // What is given outlives this.
  GrpcService(const GrpcTransportOptions* options, ServedMethod* control,
              ServedMethod* transfers, Vouch vouch, Refused refused);

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
  const Refused refused_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_GRPC_SERVICE_H_
