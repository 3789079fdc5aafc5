#include "gpu/nccl/nccl_keys.h"

#include <string>

#include "absl/status/status.h"
#include "framework/params.h"
#include "framework/registry.h"
#include "gmock/gmock.h"
#include "gpu/nccl/fake_nccl_tasks.h"
#include "gpu/nccl/nccl_runtime.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What the leader's NcclReduce adds to a group of all devices.
CollGroupParams GroupOf(FakeNcclTasks& tasks) {
  CollGroupParams group;
  for (int rank = 0; rank < tasks.size(); ++rank) {
    group.members.push_back({.device = tasks.device(rank).attributes()});
  }
  const auto factory = CollectiveRegistry::Global().Find("NcclReduce");
  EXPECT_THAT(factory, IsOk());
  EXPECT_THAT(
      (*factory)->Create()->InitializeCollectiveGroupRuntimeDetails(&group),
      IsOk());
  return group;
}

TEST(NcclKeysTest, AGroupHasAKey) {
  FakeNcclTasks tasks({.num_tasks = 2});
  EXPECT_THAT(NcclKeyOf(GroupOf(tasks)).value_or(""), SizeIs(kNcclIdBytes));
  EXPECT_EQ(tasks.network().counts().ids, 1);
}

TEST(NcclKeysTest, AGroupThatNcclDoesNotServeHasNoneAndSaysWhy) {
  FakeNcclTasks tasks({.num_tasks = 2, .devices_per_gpu = 2});
  EXPECT_THAT(
      NcclKeyOf(GroupOf(tasks)),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("made no key"), HasSubstr("device:GPU:0 and"),
                     HasSubstr("are on one"))));
  EXPECT_EQ(tasks.network().counts().ids, 0);
}

TEST(NcclKeysTest, ALeaderThatFailsToMakeOneSaysWhy) {
  FakeNcclTasks tasks({});
  // As long as a key would be.
  const std::string why(kNcclIdBytes - std::string("INTERNAL: ").size(), 'x');
  tasks.network().FailNextId(absl::InternalError(why));
  EXPECT_THAT(NcclKeyOf(GroupOf(tasks)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(why)));
}

TEST(NcclKeysTest, AGroupWithoutNcclSaysSo) {
  EXPECT_THAT(NcclKeyOf(CollGroupParams()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("NCCL is not linked there")));
}

}  // namespace
}  // namespace tutti
