#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_RECEIVE_STREAM_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_RECEIVE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
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
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"

namespace tutti {

// Smaller payloads come over the stream, also from the same host: there it is
// as fast (64 KiB: 130 us either way, AMD EPYC, 2 busy cores, November 2026).
inline constexpr size_t kMinMemoryBytes = size_t{128} << 10;

// One stream over which this task pulls bytes from another one. The next
// message is read when the one before has been consumed. If the other task is
// on the same host, large payloads are read where they lie, one at a time.
//
// Thread-safe. Borrowers are called on threads of gRPC's, with no lock held, or
// of the work queue, or inside Cancel().
class ReceiveStream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Runs when the stream has ended and all its requests have.
  using OnEnd = absl::AnyInvocable<void(const ReceiveStream*) &&>;

  struct Target {
    int task = 0;
    int lane = 0;
  };

  // Does not connect yet. `options` and `peers` outlive the stream.
  static std::shared_ptr<ReceiveStream> Create(
      const GrpcTransportOptions* options, Peers* peers, const Target& target,
      OnEnd on_end);

  ReceiveStream(const GrpcTransportOptions* options, Peers* peers, int task,
                OnEnd on_end);
  ~ReceiveStream() override;

  // Once, and also if it was closed before: OnEnd comes after this.
  void Start() { StartCall(); }

  // False if the stream has ended: nothing has happened then. Errors, to the
  // borrower: ALREADY_EXISTS if somebody asks under `key` who has not been
  // cancelled.
  bool Request(const BufKey& key, const Ask& ask) ABSL_LOCKS_EXCLUDED(mu_);

  // False if there is no such request.
  bool Cancel(const BufKey& key, const Borrower* borrower, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the stream and, with `reason`, its requests, soon.
  void Close(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Closes the stream if another process has taken the place of the one that is
  // asked: what is meant for that one would end with it.
  void CloseIfReplaced() ABSL_LOCKS_EXCLUDED(mu_);

  // Of the process that is asked; 0 as long as none is known.
  uint64_t incarnation() ABSL_LOCKS_EXCLUDED(mu_);

  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  // REQUIRES: the metadata of the peer's process are there.
  void LearnWhoAnswers() ABSL_LOCKS_EXCLUDED(mu_);

  // A request until its last frame has come. What is not guarded belongs to the
  // thread that reads messages, or to the one that reads memory.
  struct Incoming {
    Incoming(uint64_t id, const BufKey& key, const Ask& ask,
             bool may_read_memory)
        : id(id),
          key(key),
          ask(ask),
          may_read_memory(may_read_memory),
          feeder(ask) {}

    const uint64_t id;
    const BufKey key;
    const Ask ask;
    const bool may_read_memory;
    PartFeeder feeder;
    uint64_t num_received_bytes = 0;
    std::optional<LentReader> reader;  // Once the place is known.

    // Guarded by the stream's mutex:
    bool is_told = false;     // The borrower has been told.
    bool is_feeding = false;  // The borrower is being given bytes.
    bool is_lent = false;     // Belongs to the thread that reads memory.
    absl::Status end_reason;  // Why it ends early.
  };

  void BindTo(int lane) ABSL_LOCKS_EXCLUDED(mu_);

  // Checks the next frame and gives its payload to whom it is for.
  absl::Status ConsumeFrame(SliceCursor& message);
  absl::StatusOr<std::shared_ptr<Incoming>> Find(const FrameHeader& header)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Feed(Incoming& incoming, size_t num_bytes, SliceCursor& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  // What the other side says about its memory.
  absl::Status TakeOffer(SliceCursor& message) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status TakePlace(const std::shared_ptr<Incoming>& incoming,
                         SliceCursor& message) ABSL_LOCKS_EXCLUDED(mu_);

  // Reads all that is lent. REQUIRES: is_reading_memory_ was set for this.
  void ReadMemory() ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<Incoming> NextLent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // OK, but not all bytes: the rest cannot be read, or is not to be.
  absl::Status ReadBlocks(Incoming& incoming) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsStopped(const Incoming& incoming) ABSL_LOCKS_EXCLUDED(mu_);
  void EndReading(Incoming& incoming, absl::Status status)
      ABSL_LOCKS_EXCLUDED(mu_);

  void EndEarly(Incoming& incoming, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  void End(Incoming& incoming, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void SetTold(Incoming& incoming) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Tell(const Incoming& incoming, absl::Status status);

  // Tells all who are left, when gRPC and whoever reads memory are done.
  void EndAll() ABSL_LOCKS_EXCLUDED(mu_);

  // Why a stream ended that gRPC ended with `status`.
  absl::Status EndReason(const grpc::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void Enqueue(const TransferRecord& record, absl::string_view message = "")
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteWhatWaits() ABSL_LOCKS_EXCLUDED(mu_);

  // No write begins after this; gRPC may be done with the stream.
  void StopWriting() ABSL_LOCKS_EXCLUDED(mu_);

  const GrpcTransportOptions* const options_;
  Peers* const peers_;
  const int task_;
  OnEnd on_end_;
  std::shared_ptr<ReceiveStream> self_;  // Until EndAll().
  grpc::ByteBuffer incoming_message_;
  grpc::ByteBuffer outgoing_message_;  // Of whoever has set is_writing_.
  // Of the thread that reads messages; nothing when it has been answered.
  std::optional<MemoryChallenge> challenge_;
  std::unique_ptr<MemoryBlock>
      block_;  // Of whoever has set is_reading_memory_.

  Mutex mu_;
  std::optional<PeerMemory> memory_ ABSL_GUARDED_BY(mu_);
  uint64_t incarnation_ ABSL_GUARDED_BY(mu_) = 0;
  bool asks_for_memory_ ABSL_GUARDED_BY(mu_) = false;
  bool is_reading_memory_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::shared_ptr<Incoming>> lent_ ABSL_GUARDED_BY(mu_);
  bool is_done_ ABSL_GUARDED_BY(mu_) = false;  // gRPC is.
  absl::Status done_reason_ ABSL_GUARDED_BY(mu_);
  absl::Status close_reason_ ABSL_GUARDED_BY(mu_);  // OK: not closed by us.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;  // Takes no request any more.
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_writing_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::string> waiting_records_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<Incoming>> open_
      ABSL_GUARDED_BY(mu_);
  // Whose borrower has not been told; of a key's, the last one.
  absl::flat_hash_map<BufKey, std::shared_ptr<Incoming>> untold_
      ABSL_GUARDED_BY(mu_);

  // Null when gRPC is done with it: it holds the channel, which must not go on
  // a thread of gRPC's, as it would with the last stream.
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_RECEIVE_STREAM_H_
