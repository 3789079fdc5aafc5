#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"

namespace tutti {
namespace cluster_spec_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

ClusterSpec Spec(std::vector<std::string> addresses, int this_task = 0) {
  return {.addresses = std::move(addresses), .this_task = this_task};
}

TEST(ClusterSpecTest, NamesItsTasks) {
  const ClusterSpec spec = Spec({"a:1", "b:2"});
  EXPECT_EQ(spec.Label(1), "task 1 (b:2)");
  EXPECT_EQ(spec.Label(2), "task 2");
  EXPECT_EQ(spec.Label(-1), "task -1");
  EXPECT_EQ(spec.TaskName(1), "/job:worker/replica:0/task:1");
}

TEST(ClusterSpecTest, FindsTheTaskOfADevice) {
  const ClusterSpec spec = Spec({"a:1", "b:2"});
  EXPECT_EQ(*spec.TaskOf({"worker", 0, 1, "CPU", 3}), 1);
  for (const DeviceName& stranger :
       {DeviceName{"ps", 0, 1, "CPU", 0}, DeviceName{"worker", 1, 1, "CPU", 0},
        DeviceName{"worker", 0, 2, "CPU", 0},
        DeviceName{"worker", 0, -1, "CPU", 0}}) {
    EXPECT_THAT(spec.TaskOf(stranger),
                StatusIs(absl::StatusCode::kNotFound,
                         AllOf(HasSubstr(stranger.ToString()),
                               HasSubstr("/job:worker/replica:0/task:1"))));
  }
}

TEST(ClusterSpecTest, AcceptsNamesNumbersAndIpv6) {
  EXPECT_THAT(
      Validate(Spec({"host.example:7000", "10.0.0.1:1", "[::1]:65535"}, 2)),
      IsOk());
}

struct WrongSpec {
  ClusterSpec spec;
  std::string error;
};

class WrongClusterSpecTest : public testing::TestWithParam<WrongSpec> {};

INSTANTIATE_TEST_SUITE_P(
    All, WrongClusterSpecTest,
    testing::Values(
        WrongSpec{Spec({}), "1 to 65536 tasks, this one has 0"},
        WrongSpec{Spec({"a:1"}, 1), "no task 1: the 1 tasks"},
        WrongSpec{Spec({"a:1"}, -1), "no task -1"},
        WrongSpec{Spec({"a:1", ""}), "of task 1, \"\", has no port"},
        WrongSpec{Spec({"a"}), "\"a\", has no port; wanted is host:port"},
        WrongSpec{Spec({":7"}), "has no host"},
        WrongSpec{Spec({"a:"}), "not a number from 1 to 65535"},
        WrongSpec{Spec({"a:0"}), "not a number from 1 to 65535"},
        WrongSpec{Spec({"a:65536"}), "not a number from 1 to 65535"},
        WrongSpec{Spec({"a:1", "b:1", "a:1"}),
                  "tasks 0 and 2 both have the address a:1"},
        WrongSpec{{.job = "a/b", .addresses = {"a:1"}}, "\"a/b\" cannot be"},
        WrongSpec{{.job = "", .addresses = {"a:1"}}, "cannot be the name"}));

TEST_P(WrongClusterSpecTest, IsRefused) {
  EXPECT_THAT(Validate(GetParam().spec),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().error)));
}

}  // namespace cluster_spec_test
}  // namespace tutti
