#ifndef TUTTI_REMOTE_GRPC_CONTROL_CLIENT_H_
#define TUTTI_REMOTE_GRPC_CONTROL_CLIENT_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "remote/grpc/connection/in_flight.h"
#include "remote/grpc/connection/peers.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// Calls the control services of other tasks. Each call is one unary call of
// gRPC. If its caller waits for a task that cannot be reached, it is several,
// one after the other.
class ControlClient final : public ControlChannel {
 public:
  // `options` and `peers` outlive this object.
  ControlClient(const GrpcTransportOptions* options, Peers* peers)
      : options_(options), peers_(peers) {}
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done) override;

  // Ends all calls with CANCELLED, also later ones. Blocks until all have
  // ended.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class OutgoingCall;

  void Forget(const std::shared_ptr<OutgoingCall>& call)
      ABSL_LOCKS_EXCLUDED(mu_);

  const GrpcTransportOptions* const options_;
  Peers* const peers_;
  InFlight in_flight_;

  Mutex mu_;
  absl::flat_hash_set<std::shared_ptr<OutgoingCall>> calls_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONTROL_CLIENT_H_
