#include "gpu/nccl/runtime/nccl_keys.h"

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace nccl_keys_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Group of all devices, with the leader's entries for NcclReduce.
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

TEST(NcclKeysTest, ALeaderThatFailsToMakeOneKeepsWhy) {
  FakeNcclTasks tasks({});
  tasks.network().FailNextId(absl::InternalError("no socket"));
  const CollGroupParams group = GroupOf(tasks);
  EXPECT_EQ(group.runtime_details.communicator_key, "");
  EXPECT_THAT(group.runtime_details.key_status,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no socket")));
}

TEST(NcclKeysTest, WhereCommunicatorsBlockOnlyAGroupOfOneTaskHasAKey) {
  FakeNcclTasks one({.why_blocking = "it is old"});
  EXPECT_THAT(NcclKeyOf(GroupOf(one)).value_or(""), SizeIs(kNcclIdBytes));
  FakeNcclTasks two({.num_tasks = 2, .why_blocking = "it is old"});
  const CollGroupParams group = GroupOf(two);
  EXPECT_EQ(group.runtime_details.communicator_key, "");
  EXPECT_THAT(group.runtime_details.key_status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "among several tasks NCCL may not block: it is old"));
  EXPECT_EQ(two.network().counts().ids, 0);
}

TEST(NcclKeysTest, ALeaderWithoutNcclKeepsThat) {
  NcclKeys keys;
  CollGroupParams group;
  AddNcclKey(keys, &group);
  EXPECT_EQ(group.runtime_details.communicator_key, "");
  EXPECT_THAT(
      group.runtime_details.key_status,
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr("no device of the leader's process has NCCL")));
}

TEST(NcclKeysTest, WhatIsNoKeyIsRefused) {
  for (const size_t size : {size_t{0}, kNcclIdBytes - 1, kNcclIdBytes + 1}) {
    CollGroupParams group;
    group.runtime_details.communicator_key = std::string(size, 'x');
    EXPECT_THAT(NcclKeyOf(group),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(absl::StrCat("of ", size, " bytes"))));
  }
}

}  // namespace nccl_keys_test
}  // namespace tutti
