#ifndef TUTTI_REMOTE_GRPC_CONTROL_SERVER_H_
#define TUTTI_REMOTE_GRPC_CONTROL_SERVER_H_

#include <cstddef>

#include "framework/control_channel.h"
#include "remote/grpc/in_flight.h"
#include "remote/grpc/served_call.h"

namespace tutti {

// Lets a control service answer the calls of other tasks.
class ControlServer final : public ServedMethod {
 public:
  // The service outlives this.
  ControlServer(ControlService* service, size_t max_reply_bytes)
      : service_(service), max_reply_bytes_(max_reply_bytes) {}

  grpc::ServerGenericBidiReactor* Serve(
      const ControlCaller& caller,
      grpc::CallbackServerContext* context) override;

  // Blocks until the service has answered all calls. No call begins any more.
  void Wait() { in_flight_.Wait(); }

 private:
  class IncomingCall;

  ControlService* const service_;
  const size_t max_reply_bytes_;
  InFlight in_flight_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONTROL_SERVER_H_
