#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/transport_registry.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"

namespace tutti {
namespace direct_transport_test {

constexpr int kTasks = 3;

TEST(DirectTransportTest, TasksReduceOverTheTransportThatIsFoundByName) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto transport = TransportRegistry::Global().Find("Direct");
  ASSERT_THAT(transport, IsOk());
  std::vector<std::unique_ptr<ClusterRuntime>> tasks;
  std::vector<absl::Status> statuses(2 * kTasks, absl::UnknownError("waits"));
  const auto set = [&](int i) {
    return [&, i](absl::Status status) { statuses[i] = std::move(status); };
  };
  for (int task = 0; task < kTasks; ++task) {
    const ClusterSpec cluster = {.addresses = {"a:1", "b:1", "c:1"},
                                 .this_task = task};
    const auto network = transport->connect(
        {.cluster = cluster, .environment = environment.get()});
    ASSERT_THAT(network, IsOk());
    auto runtime =
        ClusterRuntime::Create({.cluster = network->cluster,
                                .environment = environment.get(),
                                .make_transport = network->make_transport});
    ASSERT_THAT(runtime, IsOk());
    tasks.push_back(*std::move(runtime));
  }
  for (int task = 0; task < kTasks; ++task) {
    tasks[task]->Join(environment.get().clock->Now() + absl::Seconds(60),
                      /*progress=*/nullptr, set(task));
  }
  environment.RunAll();

  const auto request = std::make_shared<CollectiveRequest>();
  request->group_size = kTasks;
  request->op = AllReduce();
  request->shape = TensorShape::Vector(1001);
  std::vector<std::vector<float>> data;
  std::vector<Tensor> tensors(kTasks);
  for (int task = 0; task < kTasks; ++task) {
    data.emplace_back(1001, static_cast<float>(task + 1));
    tensors[task] =
        *Tensor::Wrap(request->dtype, request->shape, data.back().data());
    tasks[task]
        ->manager()
        .FindOrCreate(/*step_id=*/1)
        ->ExecuteAsync(
            {tasks[task]->devices()[0], request, tensors[task], &tensors[task]},
            set(kTasks + task));
  }
  environment.RunAll();
  EXPECT_THAT(statuses, testing::Each(IsOk()));
  EXPECT_THAT(data, testing::Each(testing::Each(6)));
  for (auto& task : tasks) task.reset();
  environment.RunAll();
}

}  // namespace direct_transport_test
}  // namespace tutti
