#ifndef TUTTI_FRAMEWORK_STATUS_CALLBACK_H_
#define TUTTI_FRAMEWORK_STATUS_CALLBACK_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace tutti {

// Runs exactly once, with no lock of ours held. It must not block or throw: the
// thread that runs it may have other members' work to do.
using StatusCallback = absl::AnyInvocable<void(absl::Status) &&>;

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_STATUS_CALLBACK_H_
