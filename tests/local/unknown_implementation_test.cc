// The leader, in another task, has chosen an implementation that this task's
// program does not have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective/group_resources.h"
#include "framework/executor/executor_core.h"
#include "framework/peer/local_peer_access.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/params.h"

namespace tutti {
namespace unknown_implementation_test {

constexpr GroupKey kGroup = 7;

// Answers at once that a group is settled, in which the device has rank 0.
class ResolverDouble : public ParamResolverInterface {
 public:
  void CompleteParamsAsync(const DeviceAttributes& device,
                           std::shared_ptr<const CollectiveRequest>, CallNumber,
                           std::shared_ptr<Cancellation>, Done done) override {
    CollGroupParams group;
    group.key = kGroup;
    group.generation = 1;
    group.members = {{device}, {device}};
    group.cancellation = std::make_shared<Cancellation>();
    group.resources = std::make_shared<GroupResources>();
    CollInstanceParams instance;
    instance.impl_details.implementation = "UnheardOf";
    CollectiveParams params;
    params.group = std::make_shared<const CollGroupParams>(std::move(group));
    params.instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
    params.task = std::make_shared<const CollTaskParams>(
        CollTaskParams{.is_local = {true, false}, .num_local = 1});
    std::move(done)(
        std::make_shared<const CollectiveParams>(std::move(params)));
  }
  std::string DescribeWaiting(const CollectiveRequest&) override { return ""; }
  void GiveUp(InstanceId instance, CallNumber number,
              const absl::Status& reason) override {
    EXPECT_EQ(instance.group_key, kGroup);
    EXPECT_EQ(number, CallNumber{});
    given_up = reason;
  }
  void EndGroup(GroupKey, absl::Status) override { has_ended = true; }

  std::optional<absl::Status> given_up;
  bool has_ended = false;
};

absl::Status CallWith(const std::shared_ptr<ResolverDouble>& resolver) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto devices = DeviceManager::CreateCpu(
      /*num_tasks=*/1, /*devices_per_task=*/1, environment.get().random);
  if (!devices.ok()) return devices.status();
  const auto executor =
      MakeCollectiveExecutor({.environment = environment.get(),
                              .devices = devices->get(),
                              .param_resolver = resolver,
                              .peers = std::make_unique<LocalPeerAccess>()});
  auto request = std::make_shared<CollectiveRequest>();
  request->group_key = kGroup;
  request->group_size = 2;
  request->op = AllReduce{};
  request->shape = TensorShape::Vector(7);
  absl::Status status = absl::UnknownError("it has not ended");
  executor->ExecuteAsync(
      {.device = (*devices)->devices()[0], .request = std::move(request)},
      [&status](absl::Status ended) { status = std::move(ended); });
  return status;
}

// At this point the execution has no key to tell other tasks of a failure.
TEST(UnknownImplementationTest, IsGivenUpSoThatOtherTasksDoNotWait) {
  const auto resolver = std::make_shared<ResolverDouble>();
  const absl::Status status = CallWith(resolver);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                               testing::HasSubstr("UnheardOf")));
  EXPECT_EQ(resolver->given_up, status);
  EXPECT_FALSE(resolver->has_ended);
}

}  // namespace unknown_implementation_test
}  // namespace tutti
