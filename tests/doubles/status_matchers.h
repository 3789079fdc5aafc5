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

// Match a Status or StatusOr with this code and a message that contains `part`:
//   EXPECT_THAT(status, IsNotFound("RingReduce"));
inline auto IsAborted(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kAborted, testing::HasSubstr(part));
}
inline auto IsAlreadyExists(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kAlreadyExists, testing::HasSubstr(part));
}
inline auto IsCancelled(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kCancelled, testing::HasSubstr(part));
}
inline auto IsDataLoss(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr(part));
}
inline auto IsDeadlineExceeded(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kDeadlineExceeded,
                  testing::HasSubstr(part));
}
inline auto IsFailedPrecondition(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kFailedPrecondition,
                  testing::HasSubstr(part));
}
inline auto IsInternal(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kInternal, testing::HasSubstr(part));
}
inline auto IsInvalidArgument(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr(part));
}
inline auto IsNotFound(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kNotFound, testing::HasSubstr(part));
}
inline auto IsOutOfRange(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kOutOfRange, testing::HasSubstr(part));
}
inline auto IsResourceExhausted(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kResourceExhausted,
                  testing::HasSubstr(part));
}
inline auto IsUnavailable(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(part));
}
inline auto IsUnimplemented(const std::string& part = "") {
  return StatusIs(absl::StatusCode::kUnimplemented, testing::HasSubstr(part));
}

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_STATUS_MATCHERS_H_
