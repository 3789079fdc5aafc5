#ifndef TUTTI_TOOLS_BASE_EXITS_WITH_TESTING_H_
#define TUTTI_TOOLS_BASE_EXITS_WITH_TESTING_H_

#include <gmock/gmock.h>

#include <string>

#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {

// Matches a Status or StatusOr with this exit status and a message that
// `message` matches. Exit status 2 means a UsageError.
//   EXPECT_THAT(status, ExitsWith(2, HasSubstr("--root 9")));
MATCHER_P2(ExitsWith, exit_status, message, "") {
  const absl::Status& status = GetStatus(arg);
  *result_listener << status.ToString();
  return ExitStatus(status) == exit_status &&
         testing::Matches(message)(std::string(status.message()));
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_EXITS_WITH_TESTING_H_
