#ifndef TUTTI_REMOTE_TRANSFER_CHANNEL_H_
#define TUTTI_REMOTE_TRANSFER_CHANNEL_H_

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "tutti/peer_access.h"

namespace tutti {

// Receiving side of a transport that pulls: fetches bytes from other tasks.
// Thread-safe.
class TransferChannel {
 public:
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

  // Ends `receiver`'s request for `key` with `reason` if it is under way.
  // Reports this to the task, whose sender gets the same reason. The receiver's
  // OnDelivery() may run soon after this returns. The key may be requested
  // again at once.
  virtual void Cancel(int task, const BufKey& key, const Receiver* receiver,
                      absl::Status reason) = 0;
};

// Sending side: offers bytes to other tasks. Thread-safe. Functions must not
// block.
class TransferService {
 public:
  virtual ~TransferService() = default;

  // Handles a request for the bytes under `key`. Only its format has been
  // checked. OnDelivery() of `recv.receiver` runs once, now or later; the
  // receiver releases the delivery when the bytes have been sent.
  virtual void Serve(const ControlCaller& caller, const BufKey& key,
                     const RecvRequest& recv) = 0;

  // Withdraws a request that its caller has cancelled, or whose caller is gone.
  // If it still waits, its receiver gets `reason`.
  virtual void Withdraw(const BufKey& key, const Receiver* receiver,
                        absl::Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_TRANSFER_CHANNEL_H_
