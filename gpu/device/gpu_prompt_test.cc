// Tests executions whose streams run at once: the last member's end then comes
// before the call that caused it has returned.

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {
namespace gpu_prompt_test {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Optional;

// Runs each work on another thread, and waits for it inside Schedule().
class PromptQueue : public WorkQueue {
 public:
  void Schedule(Work work) override { std::thread(std::move(work)).join(); }
  int num_workers() const override { return 1; }
};

// Runs an all-reduce among all devices. Each callback checks that nothing is
// left (FakeNcclTasks::Call).
void Reduce(const std::string& implementation, int num_tasks,
            int devices_per_gpu) {
  SCOPED_TRACE(absl::StrCat(implementation, " of ", num_tasks, " tasks with ",
                            devices_per_gpu, " devices on a GPU"));
  const SimulatedEnvironment simulated(1);
  PromptQueue queue;
  Environment environment = simulated.get();
  environment.queue = &queue;
  FakeNcclTasks tasks({.num_tasks = num_tasks,
                       .gpus_per_task = 1,
                       .devices_per_gpu = devices_per_gpu,
                       .tasks_with_nccl = 0,
                       .environment = &environment});
  CollectiveRequest request =
      tasks.Request(AllReduce{}, DType::kUint8, /*num_elements=*/24);
  request.impl_details.implementation = implementation;
  std::vector<Tensor> outputs(static_cast<size_t>(tasks.size()));
  for (int rank = 0; rank < tasks.size(); ++rank) {
    const Tensor input = tasks.Allocate(rank, DType::kUint8, request.shape);
    tasks.Write(rank, input, Bytes(24, static_cast<uint8_t>(rank + 1)));
    tasks.Call(rank, request, input, &outputs[static_cast<size_t>(rank)]);
  }
  EXPECT_THAT(tasks.ended(), Each(Optional(IsOk())));
  const int sum = tasks.size() * (tasks.size() + 1) / 2;
  for (int rank = 0; rank < tasks.size(); ++rank) {
    EXPECT_THAT(tasks.Read(rank, outputs[static_cast<size_t>(rank)]),
                Each(sum));
  }
  outputs.clear();
  EXPECT_THAT(tasks.Remains(), IsEmpty());
}

TEST(GpuPromptTest, NothingOfADeviceIsKeptWhenTheLastMemberEnds) {
  for (const std::string name :
       {"RingReduce", "TreeReduce", "RecursiveHalvingDoublingReduce"}) {
    for (const int size : {2, 3, 4}) {
      Reduce(name, /*num_tasks=*/1, size);
    }
  }
}

TEST(GpuPromptTest, NothingOfADeviceIsKeptWhereOthersGetItsBytesByTheHost) {
  for (const std::string name :
       {"RingReduce", "TreeReduce", "RecursiveHalvingDoublingReduce"}) {
    for (const int devices_per_gpu : {1, 2, 3}) {
      Reduce(name, /*num_tasks=*/2, devices_per_gpu);
    }
  }
}

}  // namespace gpu_prompt_test
}  // namespace tutti
