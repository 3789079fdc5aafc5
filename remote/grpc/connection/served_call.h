#ifndef TUTTI_REMOTE_GRPC_CONNECTION_SERVED_CALL_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_SERVED_CALL_H_

#include <memory>

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "grpcpp/generic/async_generic_service.h"

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

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_SERVED_CALL_H_
