#ifndef TUTTI_FRAMEWORK_EXECUTOR_POINT_TO_POINT_H_
#define TUTTI_FRAMEWORK_EXECUTOR_POINT_TO_POINT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/params.h"

namespace tutti {

// Side of a message, as the executor runs it: a broadcast from the sender
// in the group of sender and receiver, which is part of their group. Keys name
// the message (framework/peer/message_key.h), and the ranks of the whole group.
// A receive from any member has a group of the receiver alone, in which it
// waits (AnyReceives).
struct Message {
  std::shared_ptr<const CollectiveRequest> request;
  std::shared_ptr<const CollectiveParams> params;
};

// Checks the arguments. `devices` are those of this process. Errors:
// INVALID_ARGUMENT naming what is wrong.
absl::StatusOr<Message> MakeMessage(const PointToPointArgs& args, bool sends,
                                    const DeviceManager& devices);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_POINT_TO_POINT_H_
