#ifndef TUTTI_FRAMEWORK_BASE_ENVIRONMENT_CHECK_H_
#define TUTTI_FRAMEWORK_BASE_ENVIRONMENT_CHECK_H_

#include "absl/status/status.h"
#include "tutti/environment.h"

namespace tutti {

// Errors: INVALID_ARGUMENT if a part of `environment` is missing.
absl::Status Validate(const Environment& environment);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_ENVIRONMENT_CHECK_H_
