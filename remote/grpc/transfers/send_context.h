#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_SEND_CONTEXT_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_SEND_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "remote/grpc/connection/in_flight.h"
#include "remote/grpc/connection/open_counts.h"
#include "remote/peer_memory.h"
#include "remote/transfer_channel.h"
#include "tutti/grpc_transport.h"

namespace tutti {

class SendStream;

// State shared by the streams over which a task sends. Thread-safe.
class SendContext {
 public:
  // Breaks the connection from a peer, given by gRPC's name for it.
  using BreakConnection = std::function<void(const std::string& peer)>;

  // `options` and `service` outlive this object.
  SendContext(const GrpcTransportOptions* options, TransferService* service,
              BreakConnection break_connection)
      : options_(options),
        service_(service),
        host_(NameOfHost()),
        break_connection_(std::move(break_connection)),
        requests_(&options->cluster, "requests for bytes",
                  options->bounds.max_open_transfers),
        open_streams_(&options->cluster, "streams",
                      options->bounds.max_open_streams) {}

  const GrpcTransportOptions& options() const { return *options_; }
  TransferService& service() { return *service_; }
  const std::string& host() const { return host_; }  // NameOfHost().
  void Break(const std::string& peer) const { break_connection_(peer); }

  // Streams that have begun and that gRPC is not done with.
  void AddStream(const std::shared_ptr<SendStream>& stream)
      ABSL_LOCKS_EXCLUDED(mu_);
  void RemoveStream(const SendStream* stream) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<std::shared_ptr<SendStream>> streams() ABSL_LOCKS_EXCLUDED(mu_);

  // Counts streams, requests that the service has not answered, and Loans that
  // are not released.
  InFlight& in_flight() { return in_flight_; }

  // Count the open requests and the streams of each task.
  OpenCounts& requests() { return requests_; }
  OpenCounts& open_streams() { return open_streams_; }

 private:
  const GrpcTransportOptions* const options_;
  TransferService* const service_;
  const std::string host_;
  const BreakConnection break_connection_;
  InFlight in_flight_;
  OpenCounts requests_;
  OpenCounts open_streams_;

  Mutex mu_;
  absl::flat_hash_map<const SendStream*, std::shared_ptr<SendStream>> streams_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_SEND_CONTEXT_H_
