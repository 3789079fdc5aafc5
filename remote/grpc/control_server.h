#ifndef TUTTI_REMOTE_GRPC_CONTROL_SERVER_H_
#define TUTTI_REMOTE_GRPC_CONTROL_SERVER_H_

#include "framework/control/control_channel.h"
#include "remote/grpc/connection/grpc_service.h"
#include "remote/grpc/connection/in_flight.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// Serves the calls of other tasks by a control service.
class ControlServer final : public ServedMethod {
 public:
  // `options` and `service` outlive this object.
  ControlServer(const GrpcTransportOptions* options, ControlService* service)
      : options_(options),
        service_(service),
        open_(&options->cluster, "calls", options->bounds.max_open_calls) {}

  grpc::ServerGenericBidiReactor* Serve(
      const ControlCaller& caller,
      grpc::CallbackServerContext* context) override;

  // Blocks until the service has answered all calls. REQUIRES: no further call
  // begins.
  void Wait() { in_flight_.Wait(); }

 private:
  class IncomingCall;

  const GrpcTransportOptions* const options_;
  ControlService* const service_;
  OpenCounts open_;
  InFlight in_flight_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONTROL_SERVER_H_
