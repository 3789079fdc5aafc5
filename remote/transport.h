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

// One task's connections to the other tasks of its cluster.
//
// Thread-safe. Serves nobody before Start(); after Shutdown() it calls nobody:
// what is under way has ended with CANCELLED.
class Transport {
 public:
  virtual ~Transport() = default;  // Shuts down.

  virtual ControlChannel& control() = 0;
  virtual TransferChannel& transfers() = 0;

  // As PeerAccessInterface::least_device_bytes(), of what it sends and gets.
  virtual size_t least_device_bytes() const { return kNoDeviceBytes; }

  // Who can run whole collectives among the tasks, as long as this lives; null:
  // nobody.
  virtual CollectiveDelegate* delegate() { return nullptr; }

  // What messages between the tasks cost, by which algorithms are chosen.
  virtual CostModel cost_model() const { return {}; }

  // Begins to listen and to serve. Both services outlive Shutdown(). Errors:
  // UNAVAILABLE, naming the address, if it cannot be listened at;
  // FAILED_PRECONDITION if it has been started or shut down.
  virtual absl::Status Start(ControlService* control,
                             TransferService* transfers) = 0;

  // A process is lost: ends with `reason` what is being sent to it or asked of
  // it, however much of it is on its way. Does not wait.
  virtual void Drop(const ControlCaller& process,
                    const absl::Status& reason) = 0;

  // The task does not answer; Drop() of its process follows. For a transport
  // whose end waits for all tasks. Does not wait.
  virtual void OnSilent(int /*task*/, const absl::Status& /*reason*/) {}

  // Blocks until all that was under way has ended.
  virtual void Shutdown() = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_TRANSPORT_H_
