// A oneTBB flow graph that sends the results of its all-reduce to the host in
// each run, and waits for the host if the host is slow.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/tbb/flow_graph.h>

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "examples/flow_graph/flow_graph_builder.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/lowering.h"
#include "tutti/outfeed.h"
#include "tutti/params.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

using testing::Each;
using testing::ElementsAreArray;

constexpr int kNumDevices = 3;
constexpr int kNumRuns = 200;

class FlowGraphOutfeedTest : public testing::Test {
 protected:
  FlowGraphOutfeedTest() {
    request_.group_size = kNumDevices;
    request_.op = AllReduce();
    request_.shape = TensorShape::Vector(1);
    request_.impl_details.implementation = "RingReduce";
    for (int rank = 0; rank < kNumDevices; ++rank) {
      inputs_.push_back(*Tensor::Allocate(request_.dtype, request_.shape));
      outputs_.push_back(*Tensor::Allocate(request_.dtype, request_.shape));
    }
  }

  static float& ValueOf(Tensor& tensor) {
    return *reinterpret_cast<float*>(tensor.mutable_data());
  }

  // Builds the all-reduce, and an outfeed of each device's result.
  absl::Status Build(OutfeedReceiver& receiver) {
    const auto layout = GroupLayout::Uniform(1, kNumDevices);
    absl::Status status =
        LowerGroup({.collective = request_, .layout = layout}, builder_);
    const auto last = builder_.LastSteps();
    for (int rank = 0; rank < kNumDevices; ++rank) {
      const auto token = AddOutfeed(
          {builder_, *group_->devices()[rank], receiver.registry()}, last,
          /*consumer_id=*/1,
          {{{request_.dtype, request_.shape},
            {rank, Space::kData, 0, sizeof(float)}}});
      status.Update(token.status());
    }
    builder_.Connect();
    return status;
  }

  void RunGraph() {
    builder_.start().try_put({});
    graph_.wait_for_all();
  }

  std::unique_ptr<OutfeedReceiver> NewReceiver() {
    return *OutfeedReceiver::Create(
        {.devices = group_->devices(),
         .callback =
             [this](Device& device, uint32_t, absl::Span<Tensor> arrays) {
               received_[device.attributes().name.index].push_back(
                   ValueOf(arrays[0]));
               return absl::OkStatus();
             },
         .max_queued_bytes = 8,
         .environment = environment_.get()});
  }

  const DefaultEnvironment environment_;
  const std::unique_ptr<LocalGroup> group_ =
      *LocalGroup::Create(environment_.get(), 1, kNumDevices);
  CollectiveRequest request_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<float> received_[kNumDevices];
  tbb::flow::graph graph_;
  FlowGraphBuilder builder_{graph_, request_, inputs_, outputs_};
};

TEST_F(FlowGraphOutfeedTest, EachRunHandsOutItsResults) {
  const auto receiver = NewReceiver();
  ASSERT_THAT(receiver->Start(), IsOk());
  ASSERT_THAT(Build(*receiver), IsOk());
  std::vector<float> sums;
  for (int run = 0; run < kNumRuns; ++run) {
    for (Tensor& input : inputs_) ValueOf(input) = static_cast<float>(run);
    sums.push_back(static_cast<float>(kNumDevices * run));
    RunGraph();
  }
  EXPECT_THAT(builder_.status(), IsOk());
  BlockingCounter ended(1);
  receiver->Shutdown([&](const absl::Status& status) {
    EXPECT_THAT(status, IsOk());
    ended.DecrementCount();
  });
  ended.Wait();
  EXPECT_THAT(received_, Each(ElementsAreArray(sums)));
}

TEST_F(FlowGraphOutfeedTest, AnOutfeedThatFailsIsTheGraphsError) {
  const auto receiver = NewReceiver();
  ASSERT_THAT(Build(*receiver), IsOk());
  RunGraph();  // Without a receiver.
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("nobody listens")));
}

}  // namespace
}  // namespace tutti
