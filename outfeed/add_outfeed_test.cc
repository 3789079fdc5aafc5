#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "outfeed/outfeed_testing.h"
#include "schedule/lower/recorded_graph.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/lowering.h"
#include "tutti/outfeed.h"
#include "tutti/params.h"

namespace tutti {
namespace add_outfeed_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
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
      AddOutfeed(Program(graph, 0), {first}, kNumberId, {NumberAt(Output(0))});
  ASSERT_THAT(token, IsOk());
  graph.AddCopy({Input(1), Output(0)}, {*token});  // Overwrites the sent array.
  for (const uint32_t seed : {1, 2, 3}) EXPECT_TRUE(Run(graph, seed));
  environment_.RunAll();
  EXPECT_THAT(job_.numbers[0], ElementsAre(10, 10, 10));
}

TEST_F(AddOutfeedTest, AddsANodeForTheHeaderAndOneForTheArraysAfterIt) {
  Listen();
  RecordedGraph graph;
  const NodeId copy = graph.AddCopy({Input(0), Output(0)}, {});
  const auto token = AddOutfeed(Program(graph, 0), {copy}, 2,
                                {NumberAt(Output(0)), NumberAt(Input(0))});
  ASSERT_THAT(token, IsOk());
  ASSERT_THAT(graph.nodes(), SizeIs(3));
  EXPECT_THAT(graph.nodes()[1].after, ElementsAre(copy));
  EXPECT_THAT(graph.nodes()[1].reads, IsEmpty());
  EXPECT_THAT(graph.nodes()[2].after, ElementsAre(1));
  EXPECT_THAT(graph.nodes()[2].reads, SizeIs(2));
  EXPECT_EQ(*token, 2);
}

TEST_F(AddOutfeedTest, TokensKeepTheItemsOfADeviceInOrder) {
  Listen();
  RecordedGraph graph;
  for (int device = 0; device < 2; ++device) {
    std::vector<NodeId> token;
    for (int rank = 0; rank < kNumDevices; ++rank) {
      const auto next = AddOutfeed(Program(graph, device), token, kNumberId,
                                   {NumberAt(Input(rank))});
      ASSERT_THAT(next, IsOk());
      token = {*next};
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
        AddOutfeed(Program(graph, 0), token, kNumberId, {NumberAt(Input(i))});
    ASSERT_THAT(next, IsOk());
    token = {*next};
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
  EXPECT_THAT(job_.registry->Find(2),
              StatusIs(StatusCode::kNotFound, HasSubstr("2")));

  CpuDevice other({.name = {"localhost", 0, 0, "OTHER", 0}});
  EXPECT_THAT(AddOutfeed({graph, other, job_.registry}, {}, kNumberId,
                         {NumberAt(Input(0))})
                  .status(),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("OTHER")));
  EXPECT_THAT(graph.nodes(), IsEmpty());
}

}  // namespace add_outfeed_test
}  // namespace tutti
