// Tests results streamed while the devices continue.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace all_reduce_observer_concurrency_test {

constexpr int kNumDevices = 4;
constexpr int kNumSteps = 2000;
constexpr int64_t kNumElements = 100;

TEST(AllReduceObserverConcurrencyTest, EveryResultIsDeliveredOrCounted) {
  const DefaultEnvironment environment(/*num_workers=*/3);
  const auto group = *LocalGroup::Create(environment.get(), 1, kNumDevices);
  struct Seen {
    uint64_t num_items = 0;
    uint64_t num_wrong = 0;
    int64_t last_step = 0;
  };
  Seen seen[kNumDevices];
  const auto receiver = *OutfeedReceiver::Create(
      {.devices = group->devices(),
       .callback =
           [&](Device& device, uint32_t, absl::Span<Tensor> arrays) {
             Seen& own = seen[device.attributes().name.index];
             int64_t step = 0;
             std::memcpy(&step, arrays[0].data(), sizeof(step));
             bool is_right = step > own.last_step;
             own.last_step = step;
             const auto* values =
                 reinterpret_cast<const float*>(arrays[1].data());
             for (int64_t i = 0; i < kNumElements; ++i) {
               is_right &= values[i] == kNumDevices * static_cast<float>(step);
             }
             ++own.num_items;
             own.num_wrong += is_right ? 0 : 1;
             return absl::OkStatus();
           },
       .max_queued_bytes = 1000,
       .environment = environment.get()});
  ASSERT_THAT(receiver->Start(), IsOk());
  CollectiveRequest request;
  request.group_key = 1;
  request.group_size = kNumDevices;
  request.instance_key = 2;
  request.op = AllReduce();
  request.shape = TensorShape::Vector(kNumElements);
  const auto observer = *AllReduceObserver::Create(
      {.devices = group->devices(),
       .registry = receiver->registry(),
       .selections = {{request.group_key, request.instance_key, 1}},
       .max_waiting_items = 1});
  group->manager().SetObserver(observer);

  const auto shared = std::make_shared<const CollectiveRequest>(request);
  std::vector<float> data[kNumDevices];
  Tensor tensors[kNumDevices];
  for (int64_t step = 1; step <= kNumSteps; ++step) {
    CollectiveArgs calls[kNumDevices];
    for (int i = 0; i < kNumDevices; ++i) {
      data[i].assign(kNumElements, static_cast<float>(step));
      tensors[i] = *Tensor::Wrap(request.dtype, request.shape, data[i].data());
      calls[i] = {
          .request = shared, .input = tensors[i], .output = &tensors[i]};
    }
    ASSERT_THAT(group->Run(step, absl::MakeSpan(calls)), IsOk());
    group->manager().Cleanup(step);
  }

  BlockingCounter ended(1);
  receiver->Shutdown([&](const absl::Status& status) {
    EXPECT_THAT(status, IsOk());
    ended.DecrementCount();
  });
  ended.Wait();
  for (int i = 0; i < kNumDevices; ++i) {
    const auto tallies = observer->tallies(*group->devices()[i]);
    EXPECT_EQ(tallies.num_sent, seen[i].num_items);
    EXPECT_EQ(tallies.num_sent + tallies.num_dropped, uint64_t{kNumSteps});
    EXPECT_GE(tallies.num_sent, 1U);
    EXPECT_EQ(seen[i].num_wrong, 0U);
  }
}

}  // namespace all_reduce_observer_concurrency_test
}  // namespace tutti
