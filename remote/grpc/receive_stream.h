#ifndef TUTTI_REMOTE_GRPC_RECEIVE_STREAM_H_
#define TUTTI_REMOTE_GRPC_RECEIVE_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "framework/buf_key.h"
#include "framework/mutex.h"
#include "framework/peer_access.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "remote/grpc/part_feeder.h"
#include "remote/grpc/peers.h"
#include "remote/grpc/slice_cursor.h"
#include "remote/grpc/transfer_wire.h"

namespace tutti {

// One stream over which this task pulls bytes from another one. The next
// message is read when the one before has been consumed.
//
// Thread-safe. Borrowers are called on threads of gRPC's, with no lock held, or
// inside Cancel().
class ReceiveStream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Runs when the stream has ended and all its requests have.
  using OnEnd = absl::AnyInvocable<void(const ReceiveStream*) &&>;

  // Does not connect yet. `peers` outlives the stream.
  static std::shared_ptr<ReceiveStream> Create(Peers* peers, int task, int lane,
                                               size_t max_frame_bytes,
                                               OnEnd on_end);

  ReceiveStream(Peers* peers, int task, size_t max_frame_bytes, OnEnd on_end);

  // Once, and also if it was closed before: OnEnd comes after this.
  void Start() { StartCall(); }

  // False if the stream has ended: nothing has happened then.
  bool Request(const BufKey& key, const Ask& ask) ABSL_LOCKS_EXCLUDED(mu_);

  // False if there is no such request.
  bool Cancel(const BufKey& key, absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the stream and, with `reason`, its requests, soon.
  void Close(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  // A request until its last frame has come. What is not guarded belongs to the
  // thread that reads.
  struct Incoming {
    Incoming(uint64_t id, const BufKey& key, const Ask& ask)
        : id(id), key(key), ask(ask), feeder(ask) {}

    const uint64_t id;
    const BufKey key;
    const Ask ask;
    PartFeeder feeder;
    uint64_t num_received_bytes = 0;

    // Guarded by the stream's mutex:
    bool is_told = false;     // The borrower has been told.
    bool is_feeding = false;  // The borrower is being given bytes.
    absl::Status end_reason;  // Why it ends early.
  };

  void BindTo(int lane) ABSL_LOCKS_EXCLUDED(mu_);

  // Checks the next frame and gives its payload to whom it is for.
  absl::Status ConsumeFrame(SliceCursor& message);
  absl::StatusOr<std::shared_ptr<Incoming>> Find(const FrameHeader& header)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Feed(Incoming& incoming, size_t num_bytes, SliceCursor& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndEarly(Incoming& incoming, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  void End(Incoming& incoming, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void Tell(const Incoming& incoming, absl::Status status);

  // Why a stream ended that gRPC ended with `status`.
  absl::Status EndReason(const grpc::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void Enqueue(const TransferRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteWhatWaits() ABSL_LOCKS_EXCLUDED(mu_);

  // No write begins after this; gRPC may be done with the stream.
  void StopWriting() ABSL_LOCKS_EXCLUDED(mu_);

  Peers* const peers_;
  const int task_;
  const size_t max_frame_bytes_;
  OnEnd on_end_;
  std::shared_ptr<ReceiveStream> self_;  // Until OnDone().
  uint64_t expected_incarnation_ = 0;
  grpc::ByteBuffer incoming_message_;
  grpc::ByteBuffer outgoing_message_;  // Of whoever has set is_writing_.

  Mutex mu_;
  absl::Status close_reason_ ABSL_GUARDED_BY(mu_);  // OK: not closed by us.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;  // Takes no request any more.
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_writing_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::byte> waiting_records_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<Incoming>> open_
      ABSL_GUARDED_BY(mu_);
  // Of those whose borrower has not been told.
  absl::flat_hash_map<BufKey, uint64_t> ids_ ABSL_GUARDED_BY(mu_);

  // Null when gRPC is done with it: it holds the channel, which must not go on
  // a thread of gRPC's, as it would with the last stream.
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_RECEIVE_STREAM_H_
