#ifndef TUTTI_FRAMEWORK_RUN_IN_TURN_H_
#define TUTTI_FRAMEWORK_RUN_IN_TURN_H_

#include "framework/environment.h"

namespace tutti {

// Runs `work` on this thread: inside this call, or, if what calls this is
// itself such work, once that has ended. So a chain in which each callback
// causes the next one needs no stack, however long it is.
void RunInTurn(Work work);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_RUN_IN_TURN_H_
