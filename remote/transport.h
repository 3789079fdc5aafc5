#ifndef TUTTI_REMOTE_TRANSPORT_H_
#define TUTTI_REMOTE_TRANSPORT_H_

#include <cstddef>

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "remote/transfer_channel.h"
#include "tutti/implementation.h"
#include "tutti/peer_access.h"

namespace tutti {

class CollectiveDelegate;

// Connections of one task to the other tasks of its cluster.
//
// Thread-safe. Serves no task before Start(). Runs no callback after
// Shutdown(): all work under way has then ended with CANCELLED.
class Transport {
 public:
  virtual ~Transport() = default;  // Shuts down.

  virtual ControlChannel& control() = 0;
  virtual TransferChannel& transfers() = 0;

  // Same as PeerAccessInterface::least_device_bytes(), for sent and received
  // bytes.
  virtual size_t least_device_bytes() const { return kNoDeviceBytes; }

  // Returns an object that can run whole collectives among the tasks, or null.
  // It lives as long as this transport.
  virtual CollectiveDelegate* delegate() { return nullptr; }

  // Returns the costs of messages between the tasks, by which algorithms are
  // chosen.
  virtual CostModel cost_model() const { return {}; }

  // Begins to listen and to serve. Both services outlive Shutdown(). Errors:
  // UNAVAILABLE, naming the address, if listening there fails;
  // FAILED_PRECONDITION if the transport has been started or shut down.
  virtual absl::Status Start(ControlService* control,
                             TransferService* transfers) = 0;

  // Ends with `reason` all transfers and calls to a lost process, however much
  // of them is on its way. Does not wait.
  virtual void Drop(const ControlCaller& process,
                    const absl::Status& reason) = 0;

  // Notes that the task does not answer; Drop() of its process follows. For a
  // transport whose end waits for all tasks. Does not wait.
  virtual void OnSilent(int /*task*/, const absl::Status& /*reason*/) {}

  // Blocks until all work under way has ended.
  virtual void Shutdown() = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_TRANSPORT_H_
