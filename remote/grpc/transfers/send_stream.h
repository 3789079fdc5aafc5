#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_SEND_STREAM_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_SEND_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "remote/grpc/transfers/loan.h"
#include "remote/grpc/transfers/transfer_sender.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "remote/peer_memory.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

// Stream over which another task pulls bytes from this one. gRPC has one
// message at a time; the deliveries under way share each message. A receiver at
// a Unix socket, whose user the kernel vouches for, reads large deliveries
// directly from memory if it likes.
//
// Thread-safe. The sender holds the stream until gRPC is done with it. Each
// request holds it until the service has answered.
class SendStream final : public grpc::ServerGenericBidiReactor,
                         public std::enable_shared_from_this<SendStream> {
 public:
  // Begins a stream; `shared` outlives it. At its end the stream calls End() of
  // `shared->open_streams()`.
  static SendStream* Begin(TransferSender* shared, const ControlCaller& caller,
                           grpc::CallbackServerContext* context);

  SendStream(TransferSender* shared, const ControlCaller& caller,
             grpc::CallbackServerContext* context);

  const ControlCaller& caller() const { return caller_; }

  // Ends the chosen requests with `reason`. The caller may still read memory
  // that was posted to it: it then finds that the bytes were taken back.
  void Cancel(const TransferChannel::Choice& choice, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends with `reason` all requests of the caller, which is lost, and breaks
  // its connection.
  void Drop(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  class Outgoing;

  // Handles the peer's requests. Errors: INTERNAL for invalid ones;
  // RESOURCE_EXHAUSTED if the peer reads no refusals.
  absl::Status TakeRecords(const grpc::ByteBuffer& message);
  absl::Status TakeRequest(const TransferRecord& record)
      ABSL_LOCKS_EXCLUDED(mu_);
  void CancelRequest(uint64_t id, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Takes posted memory back: the peer has read it, cannot, or asks why the
  // bytes were taken back before. Errors: INTERNAL
  // if none was posted.
  absl::Status TakeBack(const TransferRecord& record) ABSL_LOCKS_EXCLUDED(mu_);
  void Serve(const std::shared_ptr<Outgoing>& outgoing)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Withdraw(const std::shared_ptr<Outgoing>& outgoing,
                const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);
  void OnAnswer(Outgoing& outgoing, absl::Status status,
                const Delivery& delivery) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the stream, and all its requests, with `status`.
  void Close(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  void FinishStream() ABSL_LOCKS_EXCLUDED(mu_);

  void WriteWhatIsReady() ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<grpc::Slice> NextMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Appends the next frame of `outgoing`, with at most `max_bytes` of payload
  // or of a status's text. Subtracts its size from `max_bytes`. Returns true if
  // no frame follows it for now.
  bool AppendFrame(Outgoing& outgoing, size_t& max_bytes,
                   std::vector<grpc::Slice>& slices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void AppendPlace(Outgoing& outgoing, std::vector<grpc::Slice>& slices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Ends a request. A refused request is not in open_, where its id may belong
  // to another one.
  void EndRequest(const Outgoing& outgoing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Gives bytes back to their sender, as soon as gRPC does not hold them.
  void Release(std::shared_ptr<Loan> loan, const absl::Status& reason);

  TransferSender* const shared_;
  const ControlCaller caller_;
  grpc::CallbackServerContext* const context_;  // Valid until OnDone().
  const std::string peer_;
  const bool lends_memory_;
  grpc::ByteBuffer incoming_message_;
  grpc::ByteBuffer outgoing_message_;  // Owned by the holder of is_writing_.

  Mutex mu_;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status close_status_ ABSL_GUARDED_BY(mu_);   // For senders.
  absl::Status finish_status_ ABSL_GUARDED_BY(mu_);  // For the peer.
  // The one table of the requests, by the number that the peer gave them.
  absl::flat_hash_map<uint64_t, std::shared_ptr<Outgoing>> open_
      ABSL_GUARDED_BY(mu_);
  // Requests with something to send, in turn.
  std::deque<std::shared_ptr<Outgoing>> ready_ ABSL_GUARDED_BY(mu_);
  // Bytes of the message that gRPC has.
  std::vector<std::shared_ptr<Loan>> writing_ ABSL_GUARDED_BY(mu_);
  // Sent to the last byte, but gRPC may still hold bytes.
  struct Sent {
    BufKey key;
    std::weak_ptr<Loan> loan;
  };
  absl::flat_hash_map<uint64_t, Sent> sent_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_SEND_STREAM_H_
