#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_SENDER_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_SENDER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "remote/grpc/connection/grpc_service.h"
#include "remote/grpc/connection/in_flight.h"
#include "remote/grpc/transfers/loan.h"
#include "remote/transfer_channel.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"

namespace tutti {

class SendStream;

// Sends the bytes of a transfer service over the streams that other tasks open.
// Holds the state that these streams share. Thread-safe.
class TransferSender final : public ServedMethod {
 public:
  // Breaks the connection from a peer, given by gRPC's name for it.
  using BreakConnection = std::function<void(const std::string& peer)>;

  // `options` and `service` outlive this object.
  TransferSender(const GrpcTransportOptions* options, TransferService* service,
                 BreakConnection break_connection)
      : options_(options),
        service_(service),
        break_connection_(std::move(break_connection)),
        requests_(&options->cluster, "requests for bytes",
                  options->bounds.max_open_transfers),
        open_streams_(&options->cluster, "streams",
                      options->bounds.max_open_streams) {}

  grpc::ServerGenericBidiReactor* Serve(
      const ControlCaller& caller,
      grpc::CallbackServerContext* context) override;

  // Ends the chosen transfers with `reason` (TransferChannel::Cancel).
  void Cancel(const TransferChannel::Choice& choice, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all transfers to a process, and its connections.
  void Drop(const ControlCaller& process, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Blocks until the service has answered all requests and all deliveries are
  // released. REQUIRES: no further stream begins.
  void Wait() { in_flight_.Wait(); }

  // Functions for streams.

  const GrpcTransportOptions& options() const { return *options_; }
  TransferService& service() { return *service_; }
  void Break(const std::string& peer) const { break_connection_(peer); }

  // Streams that have begun and that gRPC is not done with.
  void AddStream(const std::shared_ptr<SendStream>& stream)
      ABSL_LOCKS_EXCLUDED(mu_);
  void RemoveStream(const SendStream* stream) ABSL_LOCKS_EXCLUDED(mu_);

  // Counts streams, requests that the service has not answered, and Loans that
  // are not released.
  InFlight& in_flight() { return in_flight_; }

  // Count the open requests and the streams of each task.
  OpenCounts& requests() { return requests_; }
  OpenCounts& open_streams() { return open_streams_; }

  // Releases the caller's hold of `loan`, and watches that gRPC does the same:
  // breaks the connection from `peer` if gRPC still holds bytes after the grace
  // (GrpcTransportOptions::cancel_grace). A peer that does not read would
  // otherwise keep them. The connection has no other stream.
  void WatchSend(std::shared_ptr<Loan> loan, std::string peer);

 private:
  std::vector<std::shared_ptr<SendStream>> Streams() ABSL_LOCKS_EXCLUDED(mu_);

  const GrpcTransportOptions* const options_;
  TransferService* const service_;
  const BreakConnection break_connection_;
  InFlight in_flight_;
  OpenCounts requests_;
  OpenCounts open_streams_;

  Mutex mu_;
  absl::flat_hash_map<const SendStream*, std::shared_ptr<SendStream>> streams_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_SENDER_H_
