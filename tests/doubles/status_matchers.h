#ifndef TUTTI_TESTS_DOUBLES_STATUS_MATCHERS_H_
#define TUTTI_TESTS_DOUBLES_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <source_location>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"

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

// Matches a Status or StatusOr with this code, whose message has all `texts`.
MATCHER_P2(HasCodeAndTexts, code, texts, "") {
  *result_listener << GetStatus(arg).ToString();
  for (const std::string& text : texts) {
    if (!absl::StrContains(GetStatus(arg).message(), text)) return false;
  }
  return GetStatus(arg).code() == code;
}

// Makes such a matcher of its texts:
//   EXPECT_THAT(status, IsNotFound("RingReduce", "rank 3"));
template <absl::StatusCode code>
inline constexpr auto kCodeMatcher = [](const auto&... texts) {
  return HasCodeAndTexts(code, std::vector<std::string>{std::string(texts)...});
};

inline constexpr auto IsAborted = kCodeMatcher<absl::StatusCode::kAborted>;
inline constexpr auto IsAlreadyExists =
    kCodeMatcher<absl::StatusCode::kAlreadyExists>;
inline constexpr auto IsCancelled = kCodeMatcher<absl::StatusCode::kCancelled>;
inline constexpr auto IsDataLoss = kCodeMatcher<absl::StatusCode::kDataLoss>;
inline constexpr auto IsDeadlineExceeded =
    kCodeMatcher<absl::StatusCode::kDeadlineExceeded>;
inline constexpr auto IsFailedPrecondition =
    kCodeMatcher<absl::StatusCode::kFailedPrecondition>;
inline constexpr auto IsInternal = kCodeMatcher<absl::StatusCode::kInternal>;
inline constexpr auto IsInvalidArgument =
    kCodeMatcher<absl::StatusCode::kInvalidArgument>;
inline constexpr auto IsNotFound = kCodeMatcher<absl::StatusCode::kNotFound>;
inline constexpr auto IsOutOfRange =
    kCodeMatcher<absl::StatusCode::kOutOfRange>;
inline constexpr auto IsPermissionDenied =
    kCodeMatcher<absl::StatusCode::kPermissionDenied>;
inline constexpr auto IsResourceExhausted =
    kCodeMatcher<absl::StatusCode::kResourceExhausted>;
inline constexpr auto IsUnauthenticated =
    kCodeMatcher<absl::StatusCode::kUnauthenticated>;
inline constexpr auto IsUnavailable =
    kCodeMatcher<absl::StatusCode::kUnavailable>;
inline constexpr auto IsUnimplemented =
    kCodeMatcher<absl::StatusCode::kUnimplemented>;
inline constexpr auto IsUnknown = kCodeMatcher<absl::StatusCode::kUnknown>;

// Expects that each call has ended, with a status that `matcher` matches. Takes
// pointers to calls that have a function EndOf(call), which returns a status.
template <typename CallPtr>
void ExpectEnds(const std::vector<CallPtr>& calls,
                const testing::Matcher<absl::Status>& matcher,
                std::source_location here = std::source_location::current()) {
  const testing::ScopedTrace trace(here.file_name(), here.line(), "calls");
  for (const CallPtr& call : calls) EXPECT_THAT(EndOf(*call), matcher);
}
template <typename CallPtr>
void ExpectEnds(std::initializer_list<CallPtr> calls,
                const testing::Matcher<absl::Status>& matcher,
                std::source_location here = std::source_location::current()) {
  ExpectEnds(std::vector<CallPtr>(calls), matcher, here);
}

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_STATUS_MATCHERS_H_
