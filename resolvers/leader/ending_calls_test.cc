#include "resolvers/leader/ending_calls.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace tutti {
namespace ending_calls_test {

TEST(EndingCallsTest, AnErrorStaysUntilTheLastCallHasEnded) {
  const InstanceId id{7, 3};
  EndingCalls calls;
  EXPECT_EQ(calls.ErrorOf(id), "");
  calls.Begin(id, absl::AbortedError("first"));
  calls.Begin(id, absl::AbortedError("last"));
  EXPECT_EQ(calls.ErrorOf({7, 4}), "");
  calls.End(id);
  EXPECT_EQ(calls.ErrorOf(id), "last");
  calls.End(id);
  EXPECT_EQ(calls.ErrorOf(id), "");
}

}  // namespace ending_calls_test
}  // namespace tutti
