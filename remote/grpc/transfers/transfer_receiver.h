#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_RECEIVER_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_RECEIVER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "remote/grpc/connection/in_flight.h"
#include "remote/grpc/connection/peers.h"
#include "remote/transfer_channel.h"
#include "tutti/grpc_transport.h"

namespace tutti {

class ReceiveStream;

// Pulls bytes from other tasks. Opens a stream at its first use, and again
// after it has ended.
class TransferReceiver {
 public:
  using Choice = TransferChannel::Choice;

  // `options` and `peers` outlive this object.
  TransferReceiver(const GrpcTransportOptions* options, Peers* peers);
  ~TransferReceiver();
  TransferReceiver(const TransferReceiver&) = delete;
  TransferReceiver& operator=(const TransferReceiver&) = delete;

  // Same as those of TransferChannel, for requests of this task.
  void Request(int task, const BufKey& key, const RecvRequest& recv);
  void Cancel(const Choice& choice, const absl::Status& reason);
  std::vector<BufKey> UnderWay(const Choice& choice);

  // Closes the streams that have had no request since the last call.
  void CloseIdle() ABSL_LOCKS_EXCLUDED(mu_);

  // Closes the streams to a lost process: no further request goes over them.
  void Drop(const ControlCaller& process, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all requests with CANCELLED, also later ones. Blocks until all have
  // ended.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using StreamKey = std::pair<int, int>;  // Task and lane.

  absl::Status Check(int task, const RecvRequest& recv) const;
  int LaneOf(const BufKey& key, const RecvRequest& recv) const;

  // Gives the request to a stream. Returns false after Shutdown().
  bool Take(const StreamKey& stream_key, const BufKey& key,
            const RecvRequest& recv) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<ReceiveStream> Create(const StreamKey& stream_key);
  std::vector<std::pair<StreamKey, std::shared_ptr<ReceiveStream>>> Streams()
      ABSL_LOCKS_EXCLUDED(mu_);
  void Forget(const StreamKey& stream_key, const ReceiveStream* stream)
      ABSL_LOCKS_EXCLUDED(mu_);

  const GrpcTransportOptions* const options_;
  Peers* const peers_;
  InFlight in_flight_;  // Counts streams.

  Mutex mu_;
  absl::flat_hash_map<StreamKey, std::shared_ptr<ReceiveStream>> streams_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_TRANSFER_RECEIVER_H_
