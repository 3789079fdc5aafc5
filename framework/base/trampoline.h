#ifndef TUTTI_FRAMEWORK_BASE_TRAMPOLINE_H_
#define TUTTI_FRAMEWORK_BASE_TRAMPOLINE_H_

#include "absl/status/status.h"
#include "tutti/environment.h"

namespace tutti {

// Runs `work` on this thread, inside this call. Inside other such work, runs it
// after that work has ended. So a chain of callbacks that each cause the next
// one does not deepen the stack.
void RunOnTrampoline(Work work);

// Runs `done(status)` by RunOnTrampoline(). For callbacks that may issue the
// next call, which may fail in the same way.
void FinishOnTrampoline(StatusCallback done, absl::Status status);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_TRAMPOLINE_H_
