#ifndef TUTTI_FRAMEWORK_BASE_RUN_IN_TURN_H_
#define TUTTI_FRAMEWORK_BASE_RUN_IN_TURN_H_

#include "absl/status/status.h"
#include "tutti/environment.h"

namespace tutti {

// Runs `work` on this thread: inside this call, or, if what calls this is
// itself such work, once that has ended. So a chain in which each callback
// causes the next one needs no stack, however long it is.
void RunInTurn(Work work);

// Runs `done` with `status` so: for a callback that may make the next call, of
// which the same is to be expected, such as that it fails too.
void EndInTurn(StatusCallback done, absl::Status status);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_RUN_IN_TURN_H_
