#ifndef TUTTI_TOOLS_BASE_EXIT_STATUS_H_
#define TUTTI_TOOLS_BASE_EXIT_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Error in the command line itself, as opposed to a failure of the run.
absl::Status UsageError(absl::string_view message);
bool IsUsageError(const absl::Status& status);

// Error of a program that ended with `exit_status`, which is not 0.
absl::Status ErrorWithExitStatus(int exit_status, absl::string_view message);

// Returns 0 for OK, 2 for a UsageError, the given status for an
// ErrorWithExitStatus, 1 for every other error.
int ExitStatus(const absl::Status& status);

// "tutti: ", the message on one line (even if it contains newlines), and a
// newline.
std::string ErrorLine(const absl::Status& status);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_EXIT_STATUS_H_
