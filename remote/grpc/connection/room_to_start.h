#ifndef TUTTI_REMOTE_GRPC_CONNECTION_ROOM_TO_START_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_ROOM_TO_START_H_

#include "absl/status/status.h"

namespace tutti {

// Checks that this process may have the descriptors and threads that a
// transport needs at its start, by opening and starting as many for a moment.
// Without them gRPC ends the process. Errors: RESOURCE_EXHAUSTED with the
// system's reason.
absl::Status CheckRoomToStart();

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_ROOM_TO_START_H_
