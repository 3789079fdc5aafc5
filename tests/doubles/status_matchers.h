#ifndef TUTTI_TESTS_DOUBLES_STATUS_MATCHERS_H_
#define TUTTI_TESTS_DOUBLES_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tutti {

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status) {
  return status.status();
}

// Matches a Status or StatusOr that is OK.
MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

// Matches a Status or StatusOr with this code and a message that `message`
// matches:
//   EXPECT_THAT(status, StatusIs(kNotFound, HasSubstr("RingReduce")));
MATCHER_P2(StatusIs, code, message, "") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code &&
         testing::Matches(message)(std::string(GetStatus(arg).message()));
}

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_STATUS_MATCHERS_H_
