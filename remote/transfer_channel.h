#ifndef TUTTI_REMOTE_TRANSFER_CHANNEL_H_
#define TUTTI_REMOTE_TRANSFER_CHANNEL_H_

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "tutti/peer_access.h"

namespace tutti {

// Gets bytes that lie in other tasks: the receiving side of a transport that
// pulls. Thread-safe.
class TransferChannel {
 public:
  virtual ~TransferChannel() = default;

  // Asks `task` for the bytes that it lends, now or later, under `key`. The
  // borrower gets them by OnPart(), or by OnLanded() where the transport writes
  // to devices (Transport::least_device_bytes()), in order and in whole
  // elements, and then OnDelivery() once: with OK and nothing to release, or
  // with an error. Both run on a thread of the channel's, one after the other,
  // or inside this call. Errors: those of the lender's task; UNAVAILABLE,
  // naming task and address, if it cannot be reached or the connection closes;
  // INTERNAL if it sends what was not asked for.
  virtual void Request(int task, const BufKey& key, const Ask& ask) = 0;

  // Ends `borrower`'s request for `key` with `reason` if it is under way, and
  // tells the task, whose lender gets the same reason. The borrower may be told
  // after this returns, soon; the key may be asked for again at once.
  virtual void Cancel(int task, const BufKey& key, const Borrower* borrower,
                      absl::Status reason) = 0;
};

// Who lends bytes to other tasks: the sending side. Thread-safe; must not
// block.
class TransferService {
 public:
  virtual ~TransferService() = default;

  // The caller asks for what is lent under `key`; nothing of it has been
  // checked but that it can be read. `ask.borrower` is told once, by
  // OnDelivery(), now or later; it releases the delivery when the bytes have
  // been sent.
  virtual void Serve(const ControlCaller& caller, const BufKey& key,
                     const Ask& ask) = 0;

  // The caller does not want it any more, or is gone: if the ask still waits,
  // its borrower is told `reason`.
  virtual void Withdraw(const BufKey& key, const Borrower* borrower,
                        absl::Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_TRANSFER_CHANNEL_H_
