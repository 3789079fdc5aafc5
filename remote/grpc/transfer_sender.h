#ifndef TUTTI_REMOTE_GRPC_TRANSFER_SENDER_H_
#define TUTTI_REMOTE_GRPC_TRANSFER_SENDER_H_

#include <utility>

#include "remote/grpc/grpc_options.h"
#include "remote/grpc/send_context.h"
#include "remote/grpc/send_stream.h"
#include "remote/grpc/served_call.h"
#include "remote/transfer_channel.h"

namespace tutti {

// Lets a transfer service lend bytes to other tasks, over the streams that they
// open. Thread-safe.
class TransferSender final : public ServedMethod {
 public:
  // What is given outlives this.
  TransferSender(const GrpcTransportOptions* options, TransferService* service,
                 SendContext::BreakConnection break_connection)
      : context_(options, service, std::move(break_connection)) {}

  grpc::ServerGenericBidiReactor* Serve(
      const ControlCaller& caller,
      grpc::CallbackServerContext* context) override {
    return SendStream::Begin(&context_, caller, context);
  }

  // Blocks until the service has answered all requests and all lenders have
  // been told. No stream begins any more.
  void Wait() { context_.in_flight().Wait(); }

 private:
  SendContext context_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFER_SENDER_H_
