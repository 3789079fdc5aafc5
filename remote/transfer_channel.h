#ifndef TUTTI_REMOTE_TRANSFER_CHANNEL_H_
#define TUTTI_REMOTE_TRANSFER_CHANNEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

// Tables of a chunk on its way between two tasks, one entry in each:
//
//   receiving task                      sending task
//   requests under way of the channel   requests under way of the transport
//                                       BufRendezvous, until both sides are in
//
// The entry of the receiving task has the key. The entry of the sending task is
// the ServedRequest, which is also the receiver in the rendezvous. The end of
// an execution walks both on each task (TransferChannel::Cancel).

// Transfers of a transport that pulls: fetches bytes from other tasks, and ends
// transfers in both directions. Thread-safe.
class TransferChannel {
 public:
  // Chooses requests. Called with a lock of the channel held, on any thread.
  using Choice = std::function<bool(const BufKey& key)>;

  virtual ~TransferChannel() = default;

  // Requests the bytes that `task` offers, now or later, under `key`. The
  // receiver gets them in order and in whole elements by OnPart(). Where the
  // transport writes to devices (Transport::least_device_bytes()), it gets them
  // by OnLanded(). Then OnDelivery() runs once: with OK and nothing to release,
  // or with an error. The callbacks run one after the other, on a thread of the
  // channel or inside this call. Errors: from the sender's task;
  // UNAVAILABLE, naming task and address, if the task cannot be reached or the
  // connection closes; INTERNAL if the task sends bytes that were not
  // requested.
  virtual void Request(int task, const BufKey& key,
                       const RecvRequest& recv) = 0;

  // Ends the chosen transfers under way with `reason`: all that Request() has
  // got before this call, and all that other tasks have requested of this one.
  // Reports this to their tasks, which get the same reason. OnDelivery(), and
  // the release of bytes that this task sends, may run soon after this returns:
  // neither waits for the other task, which may stand still. The keys may be
  // requested again at once.
  virtual void Cancel(const Choice& choice, const absl::Status& reason) = 0;

  // Returns the keys of the chosen requests under way, for reports.
  virtual std::vector<BufKey> UnderWay(const Choice& choice) = 0;
};

class ServedRequests;

// Request of another task for bytes that a member of this task posts. Made by
// the transport, which derives from it. The service keeps it until OnAnswer().
class ServedRequest : public Receiver,
                      public std::enable_shared_from_this<ServedRequest> {
 public:
  ServedRequest(const ControlCaller& caller, const BufKey& key,
                const RecvRequest& request)
      : caller(caller), key(key), recv(request) {
    recv.receiver = this;
  }

  void OnDelivery(int32_t id, absl::Status status, Delivery delivery) final;

  const ControlCaller caller;
  const BufKey key;
  RecvRequest recv;  // Its receiver is this object.

 private:
  friend class ServedRequests;

  // Takes the answer, once: now or later, on any thread. Releases the delivery
  // when the bytes have been sent.
  virtual void OnAnswer(absl::Status status, const Delivery& delivery) = 0;

  // Set while ServedRequests counts this request.
  std::shared_ptr<ServedRequests> service_;
  std::shared_ptr<ServedRequest> self_;

  // Guarded by the mutex of ServedRequests.
  bool is_early_ = false;  // Its group is not known yet.
  Clock::AlarmId alarm_ = 0;
  std::optional<absl::Status> withdrawn_;
};

// Sending side: offers bytes to other tasks. Thread-safe. Functions must not
// block.
class TransferService {
 public:
  virtual ~TransferService() = default;

  // Handles a request, of which only the format has been checked, and answers
  // it once (ServedRequest::OnDelivery).
  virtual void Serve(std::shared_ptr<ServedRequest> request) = 0;

  // Withdraws a request that its caller has cancelled, or whose caller is gone.
  // If it still waits, `reason` is its answer. REQUIRES: Serve() has returned.
  virtual void Withdraw(const std::shared_ptr<ServedRequest>& request,
                        absl::Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_TRANSFER_CHANNEL_H_
