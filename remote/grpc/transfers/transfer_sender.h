#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_SENDER_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_SENDER_H_

#include <utility>

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "remote/grpc/connection/served_call.h"
#include "remote/grpc/transfers/send_context.h"
#include "remote/grpc/transfers/send_stream.h"
#include "remote/transfer_channel.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// Sends the bytes of a transfer service to other tasks, over the streams that
// they open. Thread-safe.
class TransferSender final : public ServedMethod {
 public:
  // `options` and `service` outlive this object.
  TransferSender(const GrpcTransportOptions* options, TransferService* service,
                 SendContext::BreakConnection break_connection)
      : context_(options, service, std::move(break_connection)) {}

  grpc::ServerGenericBidiReactor* Serve(
      const ControlCaller& caller,
      grpc::CallbackServerContext* context) override {
    const absl::Status begun = context_.open_streams().Begin(caller.task);
    if (!begun.ok()) return Refuse(begun, context);
    return SendStream::Begin(&context_, caller, context);
  }

  // Ends all transfers to a process, and its connections.
  void Drop(const ControlCaller& process, const absl::Status& reason) {
    for (const auto& stream : context_.streams()) {
      if (stream->caller() == process) stream->Drop(reason);
    }
  }

  // Blocks until the service has answered all requests and all deliveries are
  // released. REQUIRES: no further stream begins.
  void Wait() { context_.in_flight().Wait(); }

 private:
  SendContext context_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_SENDER_H_
