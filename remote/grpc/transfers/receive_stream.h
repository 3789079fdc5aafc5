#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_RECEIVE_STREAM_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_RECEIVE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "remote/grpc/connection/peers.h"
#include "remote/grpc/transfers/part_feeder.h"
#include "remote/grpc/wire/slice_cursor.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "remote/peer_memory.h"
#include "remote/transfer_channel.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"

namespace tutti {

// Smallest payload read from memory. Smaller ones come over the stream, also
// from the same host, which is as fast (64 KiB: 130 us either way, AMD EPYC, 2
// busy cores, November 2026).
inline constexpr size_t kMinMemoryBytes = size_t{128} << 10;

// Stream over which this task pulls bytes from another one. Reads the next
// message when the one before has been consumed. If a Unix socket connects the
// other task, reads large payloads directly from its memory, one at a time: the
// kernel then says which process has the other end.
//
// Thread-safe. Receiver callbacks run with no lock held: on threads of gRPC, on
// the work queue, or inside Cancel().
class ReceiveStream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public std::enable_shared_from_this<ReceiveStream> {
 public:
  // Runs when the stream and all its requests have ended.
  using OnEnd = absl::AnyInvocable<void(const ReceiveStream*) &&>;

  struct Target {
    int task = 0;
    int lane = 0;
  };

  // Creates a stream that is not connected yet. `options` and `peers` outlive
  // the stream.
  static std::shared_ptr<ReceiveStream> Create(
      const GrpcTransportOptions* options, Peers* peers, const Target& target,
      OnEnd on_end);

  ReceiveStream(const GrpcTransportOptions* options, Peers* peers,
                const Target& target, OnEnd on_end);
  ~ReceiveStream() override;

  // Connects, and then sends what has been requested. Call once.
  void Start();

  // Sends a request. Returns false, and does nothing, if the stream has ended.
  bool Request(const BufKey& key, const RecvRequest& recv)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the chosen requests; adds the keys of the chosen requests.
  void Cancel(const TransferChannel::Choice& choice, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  void AddUnderWay(const TransferChannel::Choice& choice,
                   std::vector<BufKey>& keys) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the stream soon, and its requests with `reason`.
  void Close(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Closes the stream if no request has been under way since the last call.
  void CloseIfIdle() ABSL_LOCKS_EXCLUDED(mu_);

  // Closes the stream if another process has replaced its peer: requests to the
  // new process would end with the old one.
  void CloseIfReplaced() ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the incarnation of the stream's peer; 0 as long as it is unknown.
  uint64_t incarnation() ABSL_LOCKS_EXCLUDED(mu_);

  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  // REQUIRES: the peer's initial metadata has come.
  void LearnWhoAnswers() ABSL_LOCKS_EXCLUDED(mu_);

  // Request until its last frame. Fields without a lock belong to the thread
  // that reads messages, or to the thread that reads memory.
  struct Incoming {
    Incoming(uint64_t id, const BufKey& key, const RecvRequest& recv,
             bool may_read_memory)
        : id(id),
          key(key),
          recv(recv),
          may_read_memory(may_read_memory),
          feeder(recv) {}

    const uint64_t id;
    const BufKey key;
    const RecvRequest recv;
    const bool may_read_memory;
    PartFeeder feeder;
    uint64_t num_received_bytes = 0;
    std::optional<LoanReader> reader;  // Set once the place is known.
    bool was_taken_back = false;       // The sender knows why.

    // Guarded by the stream's mutex:
    bool is_reported = false;   // OnDelivery() has run or is about to.
    bool is_feeding = false;    // The receiver is in OnPart().
    bool is_at_reader = false;  // Belongs to the thread that reads memory.
    absl::Status end_reason;    // Reason to end early.
  };

  // Begins the call, unless the stream has been closed.
  void OnLink(const absl::StatusOr<Peers::Link>& link) ABSL_LOCKS_EXCLUDED(mu_);

  // Checks the next frame and gives its payload to its request.
  absl::Status ConsumeFrame(SliceCursor& message);
  absl::StatusOr<std::shared_ptr<Incoming>> Find(const FrameHeader& header)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Feed(Incoming& incoming, size_t num_bytes, SliceCursor& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status TakePlace(const std::shared_ptr<Incoming>& incoming,
                         SliceCursor& message) ABSL_LOCKS_EXCLUDED(mu_);

  // Reads all posted memory. REQUIRES: the caller has set is_reading_memory_.
  void ReadMemory() ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<Incoming> NextLent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns OK, possibly before all bytes are read: the rest is unreadable,
  // taken back or unwanted.
  absl::Status ReadBlocks(Incoming& incoming) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsStopped(const Incoming& incoming) ABSL_LOCKS_EXCLUDED(mu_);
  void EndReading(Incoming& incoming, absl::Status status)
      ABSL_LOCKS_EXCLUDED(mu_);

  void EndEarly(Incoming& incoming, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  void End(Incoming& incoming, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void Report(const Incoming& incoming, absl::Status status);

  // Ends all remaining requests, once gRPC and the reader of memory are done.
  void EndAll() ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the reason of a stream that gRPC ended with `status`.
  absl::Status EndReason(const grpc::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void Enqueue(const TransferRecord& record, absl::string_view message = "")
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteWhatWaits() ABSL_LOCKS_EXCLUDED(mu_);

  // Stops writes: none begins after this, and gRPC may finish the stream.
  void StopWriting() ABSL_LOCKS_EXCLUDED(mu_);

  const GrpcTransportOptions* const options_;
  Peers* const peers_;
  const int task_;
  const int lane_;
  OnEnd on_end_;
  std::shared_ptr<ReceiveStream> self_;  // Set until EndAll().
  grpc::ByteBuffer incoming_message_;
  grpc::ByteBuffer outgoing_message_;  // Owned by the holder of is_writing_.
  std::unique_ptr<MemoryBlock>
      block_;  // Owned by the thread that has set is_reading_memory_.

  Mutex mu_;
  std::optional<PeerMemory> memory_ ABSL_GUARDED_BY(mu_);
  uint64_t incarnation_ ABSL_GUARDED_BY(mu_) = 0;
  bool requests_memory_ ABSL_GUARDED_BY(mu_) = false;
  bool is_reading_memory_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::shared_ptr<Incoming>> at_reader_ ABSL_GUARDED_BY(mu_);
  bool has_call_ ABSL_GUARDED_BY(mu_) = false;  // gRPC has the call.
  bool is_done_ ABSL_GUARDED_BY(mu_) = false;   // gRPC is done, or never began.
  absl::Status done_reason_ ABSL_GUARDED_BY(mu_);
  absl::Status close_reason_ ABSL_GUARDED_BY(mu_);  // OK: not closed by us.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;         // Accepts no more requests.
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_writing_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_id_seen_ ABSL_GUARDED_BY(mu_) = 0;  // At CloseIfIdle().
  RecordQueue waiting_records_ ABSL_GUARDED_BY(mu_);
  // The one table of the requests, by the number that their frames have.
  absl::flat_hash_map<uint64_t, std::shared_ptr<Incoming>> open_
      ABSL_GUARDED_BY(mu_);

  // Null when gRPC is done with it. It holds the channel, which must not be
  // destroyed on a thread of gRPC.
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_RECEIVE_STREAM_H_
