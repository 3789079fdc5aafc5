#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "outfeed/frame.h"
#include "outfeed/outfeed_testing.h"
#include "schedule/lower/recorded_graph_testing.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/lowering.h"
#include "tutti/outfeed.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace outfeed_program_test {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StrEq;

class OutfeedSenderTest : public testing::Test {
 protected:
  OutfeedSenderTest() {
    job_.Create(/*max_queued_bytes=*/100);
    EXPECT_THAT(job_.receiver->Start(), IsOk());
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  OutfeedJob job_{/*num_devices=*/1, environment_.get()};
};

TEST_F(OutfeedSenderTest, RejectsAnIdThatIsNotRegistered) {
  EXPECT_THAT(job_.sender(0).SendAndWait(9, {Number(1)}),
              IsNotFound("consumer id 9 was not registered"));
  EXPECT_THAT(job_.sender(0).SendAndWait(0, {}), IsNotFound("0"));
}

TEST_F(OutfeedSenderTest, RejectsOtherArraysThanRegistered) {
  EXPECT_THAT(job_.sender(0).SendAndWait(1, {}),
              IsInvalidArgument("has 1 arrays, found 0"));
  EXPECT_THAT(job_.sender(0).SendAndWait(1, {Bytes(4)}),
              IsInvalidArgument("is int32[], found uint8[4]"));
  EXPECT_THAT(job_.sender(0).SendAndWait(1, {Tensor()}),
              IsInvalidArgument("not set"));
  environment_.RunAll();
  EXPECT_EQ(job_.receiver->statistics(0).num_items, 0U);
  EXPECT_THAT(job_.receiver->statistics(0).status, IsOk());
}

TEST_F(OutfeedSenderTest, SendsManyItemsAtOnce) {
  const OutfeedSender sender = job_.sender(0);
  std::vector<Tensor> batch;
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(sender.AddItem(1, {Number(i)}, batch), IsOk());
  }
  EXPECT_THAT(sender.AddItem(1, {}, batch), IsInvalidArgument("1"));
  Outcome outcome;
  sender.channel().TransferToOutfeed(absl::MakeSpan(batch), outcome.Done());
  environment_.RunAll();
  EXPECT_THAT(outcome.status, IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(0, 1, 2));
}

TEST_F(OutfeedSenderTest, TheCallbackGetsTheSameMemory) {
  int32_t value = 7;
  bool is_free = false;
  const std::byte* seen = nullptr;
  job_.on_item = [&](int, uint32_t, absl::Span<Tensor> arrays) {
    seen = arrays[0].data();
    EXPECT_FALSE(is_free);
    return absl::OkStatus();
  };
  EXPECT_THAT(job_.sender(0).SendAndWait(
                  1, {*Tensor::Wrap(DType::kInt32, TensorShape(), &value,
                                    [&is_free] { is_free = true; })}),
              IsOk());
  environment_.RunAll();
  EXPECT_EQ(seen, reinterpret_cast<const std::byte*>(&value));
  EXPECT_TRUE(is_free);
}

ArraySpec Floats(int64_t size) {
  return {DType::kFloat32, TensorShape::Vector(size)};
}

TEST(OutfeedRegistryTest, FindsWhatWasRegistered) {
  OutfeedRegistry registry;
  ASSERT_THAT(registry.Register(5, {Floats(3), {DType::kInt8, TensorShape()}}),
              IsOk());
  const auto consumer = registry.Find(5).value();
  EXPECT_EQ(consumer->id, 5U);
  EXPECT_EQ(consumer->payload_bytes, 13);
  EXPECT_EQ(*ReadHeader(consumer->header), 5U);
  EXPECT_THAT(registry.Find(6), IsNotFound("6"));
}

TEST(OutfeedRegistryTest, TheSameAgainIsFine) {
  OutfeedRegistry registry;
  ASSERT_THAT(registry.Register(5, {Floats(3)}), IsOk());
  const OutfeedConsumer* consumer = *registry.Find(5);
  EXPECT_THAT(registry.Register(5, {Floats(3)}), IsOk());
  EXPECT_EQ(*registry.Find(5), consumer);
}

TEST(OutfeedRegistryTest, RejectsOtherArraysForAnId) {
  OutfeedRegistry registry;
  ASSERT_THAT(registry.Register(5, {Floats(3)}), IsOk());
  EXPECT_THAT(registry.Register(5, {Floats(3), Floats(4)}),
              StatusIs(StatusCode::kInvalidArgument,
                       StrEq("Shape (float32[3], float32[4]) does not match "
                             "previous shape (float32[3]) used for consumer id "
                             "5")));
  EXPECT_THAT(registry.Register(5, {{DType::kInt32, TensorShape::Vector(3)}}),
              IsInvalidArgument("Shape (int32[3]) does not match"));
  EXPECT_EQ((*registry.Find(5))->payload_bytes, 12);
}

TEST(OutfeedRegistryTest, RejectsTheReservedId) {
  OutfeedRegistry registry;
  EXPECT_THAT(registry.Register(0, {Floats(3)}),
              StatusIs(StatusCode::kInvalidArgument,
                       StrEq("Consumer ID cannot be a reserved value: 0")));
}

TEST(OutfeedRegistryTest, RejectsMoreBytesThanCanBeCounted) {
  OutfeedRegistry registry;
  const ArraySpec half{DType::kInt8, TensorShape::Vector(int64_t{1} << 61)};
  EXPECT_THAT(registry.Register(5, {half, half}),
              IsInvalidArgument("more than"));
  EXPECT_THAT(registry.Register(5, {Floats(int64_t{1} << 62)}),
              IsInvalidArgument("64 bits"));
  EXPECT_THAT(registry.Register(5, {half}), IsOk());
}

using NodeId = RecordedGraph::NodeId;

constexpr int kNumDevices = 3;
constexpr uint32_t kNumberId = OutfeedJob::kNumberId;

// Graphs of three devices. Each device has an int32 input and an int32 output.
class AddOutfeedTest : public testing::Test {
 protected:
  AddOutfeedTest() {
    for (int rank = 0; rank < kNumDevices; ++rank) {
      inputs_.push_back(Number(10 + rank));
      outputs_.push_back(Number(-1));
    }
    collective_.group_size = kNumDevices;
    collective_.op = AllReduce();
    collective_.dtype = DType::kInt32;
    collective_.impl_details.implementation = "RingReduce";
  }

  void Listen(int64_t max_queued_bytes = 1000) {
    job_.Create(max_queued_bytes);
    ASSERT_THAT(job_.receiver->Start(), IsOk());
  }

  OutfeedProgram Program(RecordedGraph& graph, int device) {
    return {graph, *job_.devices[device], job_.registry};
  }

  static Region Input(int rank) { return {rank, Space::kInput, 0, 4}; }
  static Region Output(int rank) { return {rank, Space::kData, 0, 4}; }
  static OutfeedArray NumberAt(const Region& region) {
    return {{DType::kInt32, TensorShape()}, region};
  }

  RecordedGraph::Memory Memory() {
    RecordedGraph::Memory memory;
    for (int rank = 0; rank < kNumDevices; ++rank) {
      memory.inputs.push_back(inputs_[rank].mutable_data());
      memory.outputs.push_back(outputs_[rank].mutable_data());
    }
    return memory;
  }

  // Runs the graph, and expects no race: all needed edges are there.
  bool Run(RecordedGraph& graph, uint32_t seed) {
    EXPECT_EQ(graph.FindRace(Memory()), "");
    const bool is_complete = graph.Run(collective_, Memory(), seed);
    EXPECT_THAT(graph.complaints(), IsEmpty());
    return is_complete;
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  OutfeedJob job_{kNumDevices,
                  environment_.get(),
                  {.capacity_bytes = 20, .capacity_arrays = 4}};
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  CollectiveRequest collective_;
};

TEST_F(AddOutfeedTest, SendsWhatIsThereWhenTheProgramComesToIt) {
  Listen();
  RecordedGraph graph;
  const NodeId first = graph.AddCopy({Input(0), Output(0)}, {});
  const auto token =
      AddOutfeed(Program(graph, 0), {first}, kNumberId, {NumberAt(Output(0))})
          .value();
  graph.AddCopy({Input(1), Output(0)}, {token});  // Overwrites the sent array.
  for (const uint32_t seed : {1, 2, 3}) EXPECT_TRUE(Run(graph, seed));
  environment_.RunAll();
  EXPECT_THAT(job_.numbers[0], ElementsAre(10, 10, 10));
}

TEST_F(AddOutfeedTest, AddsANodeForTheHeaderAndOneForTheArraysAfterIt) {
  Listen();
  RecordedGraph graph;
  const NodeId copy = graph.AddCopy({Input(0), Output(0)}, {});
  const auto token = AddOutfeed(Program(graph, 0), {copy}, 2,
                                {NumberAt(Output(0)), NumberAt(Input(0))})
                         .value();
  ASSERT_THAT(graph.nodes(), SizeIs(3));
  EXPECT_THAT(graph.nodes()[1].after, ElementsAre(copy));
  EXPECT_THAT(graph.nodes()[1].reads, IsEmpty());
  EXPECT_THAT(graph.nodes()[2].after, ElementsAre(1));
  EXPECT_THAT(graph.nodes()[2].reads, SizeIs(2));
  EXPECT_EQ(token, 2);
}

TEST_F(AddOutfeedTest, TokensKeepTheItemsOfADeviceInOrder) {
  Listen();
  RecordedGraph graph;
  for (int device = 0; device < 2; ++device) {
    std::vector<NodeId> token;
    for (int rank = 0; rank < kNumDevices; ++rank) {
      const auto next = AddOutfeed(Program(graph, device), token, kNumberId,
                                   {NumberAt(Input(rank))})
                            .value();
      token = {next};
    }
  }
  for (const uint32_t seed : {1, 2, 3}) {
    for (auto& numbers : job_.numbers) numbers.clear();
    EXPECT_TRUE(Run(graph, seed));
    environment_.RunAll();
    EXPECT_THAT(job_.numbers[0], ElementsAre(10, 11, 12));
    EXPECT_THAT(job_.numbers[1], ElementsAre(10, 11, 12));
  }
}

TEST_F(AddOutfeedTest, TheResultOfALoweredAllReduceIsSentByEachDevice) {
  Listen();
  RecordedGraph graph;
  ASSERT_THAT(LowerGroup({.collective = collective_,
                          .layout = GroupLayout::Uniform(1, kNumDevices)},
                         graph),
              IsOk());
  std::vector<NodeId> all(graph.nodes().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<NodeId>(i);
  for (int rank = 0; rank < kNumDevices; ++rank) {
    ASSERT_THAT(AddOutfeed(Program(graph, rank), all, kNumberId,
                           {NumberAt(Output(rank))}),
                IsOk());
  }
  for (const uint32_t seed : {1, 2, 3}) EXPECT_TRUE(Run(graph, seed));
  environment_.RunAll();
  EXPECT_THAT(job_.numbers, testing::Each(ElementsAre(33, 33, 33)));
}

TEST_F(AddOutfeedTest, WithoutItsEdgeAnArrayIsInARace) {
  Listen();
  RecordedGraph graph;
  graph.AddCopy({Input(0), Output(0)}, {});
  ASSERT_THAT(
      AddOutfeed(Program(graph, 0), {}, kNumberId, {NumberAt(Output(0))}),
      IsOk());
  EXPECT_EQ(graph.FindRace(Memory()), "nodes 0 and 2 race");
}

TEST_F(AddOutfeedTest, ItemsMayHaveNoArraysOrEmptyOnes) {
  Listen();
  std::vector<size_t> num_arrays;
  job_.on_item = [&](int, uint32_t, absl::Span<Tensor> arrays) {
    num_arrays.push_back(arrays.size());
    return absl::OkStatus();
  };
  RecordedGraph graph;
  auto token = AddOutfeed(Program(graph, 0), {}, 2, {});
  ASSERT_THAT(token, IsOk());
  const OutfeedArray empty{{DType::kInt32, TensorShape::Vector(0)}, {}};
  token = AddOutfeed(Program(graph, 0), {*token}, 3, {empty});
  ASSERT_THAT(token, IsOk());
  token = AddOutfeed(Program(graph, 0), {*token}, 4,
                     {empty, NumberAt(Input(0)), empty});
  ASSERT_THAT(token, IsOk());
  EXPECT_THAT(graph.nodes(), SizeIs(5));
  EXPECT_TRUE(Run(graph, 1));
  environment_.RunAll();
  EXPECT_THAT(num_arrays, ElementsAre(0, 1, 3));
  EXPECT_THAT(job_.receiver->statistics(0).status, IsOk());
}

// The receiver takes one item; another item and a header fit into the channel.
TEST_F(AddOutfeedTest, TheProgramWaitsAsLongAsTheOutfeedIsFull) {
  Listen(/*max_queued_bytes=*/4);
  RecordedGraph graph;
  std::vector<NodeId> token;
  for (int i = 0; i < 3; ++i) {
    const auto next =
        AddOutfeed(Program(graph, 0), token, kNumberId, {NumberAt(Input(i))})
            .value();
    token = {next};
  }
  graph.AddCopy({Input(0), Output(0)}, token);
  EXPECT_FALSE(Run(graph, 1));
  EXPECT_EQ(NumberIn(outputs_[0]), -1);
  EXPECT_EQ(job_.devices[0]->outfeed_channel()->tallies().waiting_transfers,
            1U);
  environment_.RunAll();  // This graph cannot continue later.
  EXPECT_THAT(job_.numbers[0], ElementsAre(10, 11, 12));
}

TEST_F(AddOutfeedTest, ANodeFailsWhenNobodyListens) {
  job_.Create(/*max_queued_bytes=*/1000);
  RecordedGraph graph;
  ASSERT_THAT(
      AddOutfeed(Program(graph, 0), {}, kNumberId, {NumberAt(Input(0))}),
      IsOk());
  EXPECT_FALSE(graph.Run(collective_, Memory(), 1));
  EXPECT_THAT(graph.complaints(),
              ElementsAre(HasSubstr("nobody listens to the outfeed")));
}

TEST_F(AddOutfeedTest, AddsNothingThatMakesNoSense) {
  Listen();
  RecordedGraph graph;
  const auto expect = [&](StatusCode code, const char* message,
                          uint32_t consumer_id, const OutfeedArray& array) {
    EXPECT_THAT(
        AddOutfeed(Program(graph, 0), {}, consumer_id, {array}).status(),
        StatusIs(code, HasSubstr(message)));
  };
  const auto invalid = StatusCode::kInvalidArgument;
  expect(invalid, "Consumer ID cannot be a reserved value: 0", 0,
         NumberAt(Input(0)));
  expect(invalid, "does not match previous shape (int32[])", kNumberId,
         {{DType::kInt32, TensorShape::Vector(1)}, Input(0)});
  expect(invalid, "float32[2], 8 bytes; its region has 4", 2,
         {{DType::kFloat32, TensorShape::Vector(2)}, Input(0)});
  EXPECT_THAT(job_.registry->Find(2), IsNotFound("2"));

  CpuDevice other({.name = {"localhost", 0, 0, "OTHER", 0}});
  EXPECT_THAT(AddOutfeed({graph, other, job_.registry}, {}, kNumberId,
                         {NumberAt(Input(0))})
                  .status(),
              IsUnimplemented("OTHER"));
  EXPECT_THAT(graph.nodes(), IsEmpty());
}

constexpr int kObservedDevices = 2;
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
  LocalJob job_{{.devices_per_task = kObservedDevices}};
  std::vector<Item> items_[kObservedDevices];  // Indexed by device.
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

}  // namespace outfeed_program_test
}  // namespace tutti
