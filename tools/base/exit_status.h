#ifndef TUTTI_TOOLS_BASE_EXIT_STATUS_H_
#define TUTTI_TOOLS_BASE_EXIT_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

// A status that blames the command line, not what it asked for.
absl::Status UsageError(absl::string_view message);
bool IsUsageError(const absl::Status& status);

// That of a program that failed with such an exit status, which is not 0.
absl::Status ErrorWithExitStatus(int exit_status, absl::string_view message);

// 0 for OK, 2 for a UsageError, its own for an ErrorWithExitStatus, 1 for
// everything else.
int ExitStatus(const absl::Status& status);

// "tutti: " and the message, on one line whatever the message holds, and a
// newline.
std::string ErrorLine(const absl::Status& status);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_EXIT_STATUS_H_
