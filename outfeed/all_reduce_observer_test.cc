#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace all_reduce_observer_test {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kNumDevices = 2;
constexpr uint32_t kConsumer = 5;
constexpr InstanceKey kWatched = 7;

struct Item {
  uint32_t consumer_id = 0;
  int64_t step = 0;
  int64_t execution = 0;
  std::vector<float> values;

  friend bool operator==(const Item&, const Item&) = default;
};

// Two devices. The observer watches instance 7 of their all-reduces. The
// receiver has a separate environment: items are delivered only by Deliver().
class AllReduceObserverTest : public testing::Test {
 protected:
  AllReduceObserverTest() { Watch(); }

  AllReduceObserver::Options Options(const OutfeedReceiver& receiver) const {
    return {.devices = job_.devices(),
            .registry = receiver.registry(),
            .selections = {{job_.AllReduceRequest(1).group_key, kWatched,
                            kConsumer}},
            .max_waiting_items = 3};
  }

  void Watch() {
    receiver_ = *OutfeedReceiver::Create(
        {.devices = job_.devices(),
         .callback =
             [this](Device& device, uint32_t id, absl::Span<Tensor> arrays) {
               int64_t numbers[2] = {};
               std::memcpy(numbers, arrays[0].data(), sizeof(numbers));
               const auto* values =
                   reinterpret_cast<const float*>(arrays[1].data());
               items_[device.attributes().name.index].push_back(
                   {id,
                    numbers[0],
                    numbers[1],
                    {values, values + arrays[1].num_elements()}});
               return absl::OkStatus();
             },
         .max_queued_bytes = 24,  // An item of two floats.
         .environment = environment_.get()});
    observer_ = *AllReduceObserver::Create(Options(*receiver_));
    job_.manager().SetObserver(observer_);
    EXPECT_THAT(receiver_->Start(), IsOk());
  }

  // Runs an all-reduce, by default of two floats.
  std::vector<LocalJob::Call*> Run(InstanceKey instance,
                                   int64_t num_elements = 2) {
    CollectiveRequest request = job_.AllReduceRequest(num_elements);
    request.instance_key = instance;
    const auto calls = job_.RunAll(request);
    for (const auto* call : calls) EXPECT_THAT(*call->status, IsOk());
    return calls;
  }

  void Deliver() { environment_.RunAll(); }

  AllReduceObserver::Tallies tallies(int device) const {
    return observer_->tallies(*job_.devices()[device]);
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  LocalJob job_{{.devices_per_task = kNumDevices}};
  std::vector<Item> items_[kNumDevices];  // Indexed by device.
  std::unique_ptr<OutfeedReceiver> receiver_;
  std::shared_ptr<AllReduceObserver> observer_;
};

TEST_F(AllReduceObserverTest, SegmentsAreOneTensorOfTheRequestsShape) {
  CollectiveRequest request = job_.AllReduceRequest(2);
  request.instance_key = kWatched;
  request.shape = *TensorShape::Create({1, 2});
  float values[] = {1, 2};
  const auto part = [&](int i) {
    return *Tensor::Wrap(DType::kFloat32, TensorShape::Vector(1), &values[i]);
  };
  const auto segments =
      *SegmentList::Create({{part(0), part(0)}, {part(1), part(1)}});
  const auto calls = job_.RunAll(request, [&](CollectiveArgs& args) {
    if (args.device != job_.devices()[0]) return;  // Device 0 has one tensor.
    args.input = Tensor();
    args.output = nullptr;
    args.segments = segments;
  });
  for (const auto* call : calls) EXPECT_THAT(*call->status, IsOk());
  Deliver();
  for (const auto& items : items_) {
    EXPECT_THAT(items, ElementsAre(Item{kConsumer, 1, 0, {3, 4}}));
  }
}

TEST_F(AllReduceObserverTest, StreamsTheResultsOfTheChosenInstance) {
  Run(kWatched);
  Run(/*instance=*/8);
  Deliver();
  Run(kWatched);
  Deliver();
  for (const auto& items : items_) {
    EXPECT_THAT(items, ElementsAre(Item{kConsumer, 1, 0, {3, 3}},
                                   Item{kConsumer, 1, 1, {3, 3}}));
  }
  EXPECT_EQ(tallies(0).num_sent, 2U);
  EXPECT_THAT(tallies(0).first_error, IsOk());
}

TEST_F(AllReduceObserverTest, TheResultMayBeOverwrittenAtOnce) {
  for (auto* call : Run(kWatched)) {
    std::memset(call->output.mutable_data(), 0, call->output.size_bytes());
  }
  Deliver();
  EXPECT_THAT(items_[0], ElementsAre(Item{kConsumer, 1, 0, {3, 3}}));
}

TEST_F(AllReduceObserverTest, PassesOverOtherCollectives) {
  CollectiveRequest request = job_.AllReduceRequest(2);
  request.instance_key = kWatched;
  request.op = AllGather();
  for (const auto* call : job_.RunAll(request)) {
    EXPECT_THAT(*call->status, IsOk());
  }
  Deliver();
  EXPECT_THAT(items_[0], IsEmpty());
  EXPECT_EQ(tallies(0).num_failed, 0U);
}

// The limit has room for one item of one device, the channel for much more.
TEST_F(AllReduceObserverTest, DropsAndCountsWhatComesWhenTheOutfeedIsFull) {
  const int64_t more_than_the_channel = int64_t{1} << 19;  // Floats.
  for (int i = 0; i < 10; ++i) {
    for (auto* call : Run(kWatched, more_than_the_channel)) {
      call->output = Tensor();
    }
  }
  // The receiver has an item, the channel has another, three wait.
  uint64_t num_dropped = 0;
  for (int device : {0, 1}) num_dropped += tallies(device).num_dropped;
  EXPECT_GE(num_dropped, 10U);
  Deliver();
  for (int device : {0, 1}) {
    EXPECT_EQ(tallies(device).num_sent + tallies(device).num_dropped, 10U);
    EXPECT_EQ(items_[device].size(), tallies(device).num_sent);
    EXPECT_GE(tallies(device).num_sent, 4U);
    EXPECT_EQ(items_[device].front().execution, 0);
  }
  Run(kWatched, more_than_the_channel);  // There is room again.
  Deliver();
  EXPECT_EQ(items_[0].back().execution, 10);
}

TEST_F(AllReduceObserverTest, AnotherShapeIsCountedAndFailsNoCollective) {
  ASSERT_THAT(receiver_->registry()->Register(
                  kConsumer, {{DType::kInt64, TensorShape::Vector(2)},
                              {DType::kFloat32, TensorShape::Vector(3)}}),
              IsOk());
  Run(kWatched);
  Deliver();
  EXPECT_EQ(tallies(1).num_sent, 0U);
  EXPECT_EQ(tallies(1).num_failed, 1U);
  EXPECT_THAT(
      tallies(1).first_error,
      IsInvalidArgument("of consumer id 5 is float32[3], found float32[2]"));
  EXPECT_THAT(receiver_->statistics(1).status, IsOk());
}

TEST_F(AllReduceObserverTest, AnEndedStreamFailsNoCollective) {
  receiver_->Shutdown(nullptr);
  Deliver();
  Run(kWatched);
  EXPECT_EQ(tallies(0).num_failed, 1U);
  EXPECT_THAT(tallies(0).first_error, IsCancelled("outfeed"));
}

TEST_F(AllReduceObserverTest, WhatWaitsOutlivesTheObserver) {
  for (int i = 0; i < 4; ++i) Run(kWatched);
  job_.manager().Cleanup(1);
  job_.manager().SetObserver(nullptr);
  observer_ = nullptr;
  Deliver();
  EXPECT_EQ(items_[0].size(), 4U);
}

TEST_F(AllReduceObserverTest, RejectsOptionsThatMakeNoSense) {
  const auto expect = [&](StatusCode code, const char* message, auto change) {
    auto options = Options(*receiver_);
    change(options);
    EXPECT_THAT(AllReduceObserver::Create(options).status(),
                StatusIs(code, HasSubstr(message)));
  };
  const auto invalid = StatusCode::kInvalidArgument;
  expect(invalid, "registry", [](auto& o) { o.registry = nullptr; });
  expect(invalid, "max_waiting_items",
         [](auto& o) { o.max_waiting_items = 0; });
  expect(invalid, "null", [](auto& o) { o.devices[1] = nullptr; });
  expect(invalid, "instance 7 of group",
         [](auto& o) { o.selections.push_back(o.selections[0]); });
  expect(invalid, "Consumer ID cannot be a reserved value: 0",
         [](auto& o) { o.selections[0].consumer_id = 0; });
  CpuDevice other({.name = {"localhost", 0, 0, "OTHER", 0}});
  expect(StatusCode::kUnimplemented, "OTHER",
         [&](auto& o) { o.devices[0] = &other; });
}

// Tests results streamed while the devices continue.

constexpr int kManyDevices = 4;
constexpr int kNumSteps = 2000;
constexpr int64_t kNumElements = 100;

TEST(AllReduceObserverConcurrencyTest, EveryResultIsDeliveredOrCounted) {
  const DefaultEnvironment environment(/*num_workers=*/3);
  const auto group = *LocalGroup::Create(environment.get(), 1, kManyDevices);
  struct Seen {
    uint64_t num_items = 0;
    uint64_t num_wrong = 0;
    int64_t last_step = 0;
  };
  Seen seen[kManyDevices];
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
               is_right &= values[i] == kManyDevices * static_cast<float>(step);
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
  request.group_size = kManyDevices;
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
  std::vector<float> data[kManyDevices];
  Tensor tensors[kManyDevices];
  for (int64_t step = 1; step <= kNumSteps; ++step) {
    CollectiveArgs calls[kManyDevices];
    for (int i = 0; i < kManyDevices; ++i) {
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
  for (int i = 0; i < kManyDevices; ++i) {
    const auto tallies = observer->tallies(*group->devices()[i]);
    EXPECT_EQ(tallies.num_sent, seen[i].num_items);
    EXPECT_EQ(tallies.num_sent + tallies.num_dropped, uint64_t{kNumSteps});
    EXPECT_GE(tallies.num_sent, 1U);
    EXPECT_EQ(seen[i].num_wrong, 0U);
  }
}

}  // namespace all_reduce_observer_test
}  // namespace tutti
