// An implementation that the leader, in another task, has chosen, and that this
// task's program does not have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective_executor.h"
#include "framework/device_manager.h"
#include "framework/local_peer_access.h"
#include "framework/param_resolver.h"
#include "tests/simulated_environment.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

constexpr GroupKey kGroup = 7;

// Answers at once that a group is settled, of which the device is rank 0.
class ResolverDouble : public ParamResolverInterface {
 public:
  explicit ResolverDouble(int num_local) : num_local_(num_local) {}

  void CompleteParamsAsync(const DeviceAttributes& device,
                           std::shared_ptr<const CollectiveRequest>,
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
    params.task = std::make_shared<const CollTaskParams>(CollTaskParams{
        .is_local = {true, num_local_ == 2}, .num_local = num_local_});
    std::move(done)(
        std::make_shared<const CollectiveParams>(std::move(params)));
  }
  std::string DescribeWaiting(const CollectiveRequest&) override { return ""; }
  void EndGroup(GroupKey key, absl::Status reason) override {
    EXPECT_EQ(key, kGroup);
    end = std::move(reason);
  }

  std::optional<absl::Status> end;

 private:
  const int num_local_;
};

// How a call ends of a group with so many members here.
absl::Status CallWith(const std::shared_ptr<ResolverDouble>& resolver) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto devices = DeviceManager::CreateCpu(
      /*num_tasks=*/1, /*devices_per_task=*/1, environment.get().random);
  if (!devices.ok()) return devices.status();
  const auto executor = CollectiveExecutor::Create(
      {.environment = environment.get(),
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

TEST(UnknownImplementationTest, EndsTheGroupSoThatOtherTasksDoNotWait) {
  const auto resolver = std::make_shared<ResolverDouble>(/*num_local=*/1);
  const absl::Status status = CallWith(resolver);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                               testing::HasSubstr("UnheardOf")));
  EXPECT_EQ(resolver->end, status);
}

TEST(UnknownImplementationTest, EndsNoMoreThanTheCallWhereAllAreHere) {
  const auto resolver = std::make_shared<ResolverDouble>(/*num_local=*/2);
  EXPECT_THAT(CallWith(resolver), StatusIs(absl::StatusCode::kNotFound,
                                           testing::HasSubstr("UnheardOf")));
  EXPECT_EQ(resolver->end, std::nullopt);
}

}  // namespace
}  // namespace tutti
