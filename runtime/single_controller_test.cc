#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace single_controller_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class SingleControllerTest : public testing::Test {
 protected:
  static Tensor Make(const TensorShape& shape, float first) {
    Tensor tensor = *Tensor::Allocate(DType::kFloat32, shape);
    auto* values = reinterpret_cast<float*>(tensor.mutable_data());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      values[i] = first + static_cast<float>(i);
    }
    return tensor;
  }

  // Makes tensors: tensor i is 10^i, 10^i + 1, ...
  static std::vector<Tensor> Tensors(int count, int64_t length = 2) {
    std::vector<Tensor> tensors;
    float first = 1;
    for (int i = 0; i < count; ++i, first *= 10) {
      tensors.push_back(Make(TensorShape::Vector(length), first));
    }
    return tensors;
  }

  static std::vector<float> Values(const Tensor& tensor) {
    const auto* begin = reinterpret_cast<const float*>(tensor.data());
    return {begin, begin + tensor.num_elements()};
  }

  // Runs AllReduce and returns the elements that all outputs share.
  std::vector<float> Reduced(const std::vector<Tensor>& tensors,
                             const AllReduceOptions& options) {
    const auto reduced = controller_.AllReduce(tensors, options);
    EXPECT_THAT(reduced, IsOk());
    if (!reduced.ok()) return {};
    EXPECT_THAT(*reduced, SizeIs(tensors.size()));
    for (const Tensor& tensor : *reduced) {
      EXPECT_EQ(tensor.shape(), tensors[0].shape());
      EXPECT_EQ(Values(tensor), Values((*reduced)[0]));
    }
    return Values((*reduced)[0]);
  }

  // Makes tensors with one element per tensor. Their sums depend on the order.
  static std::vector<Tensor> OrderSensitive(int count) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < count; ++i) {
      tensors.push_back(Make(TensorShape::Vector(count), 0));
      auto* values = reinterpret_cast<float*>(tensors.back().mutable_data());
      for (int j = 0; j < count; ++j) {
        values[j] = 1.0F / static_cast<float>(3 + 7 * i + 11 * j * j);
      }
    }
    return tensors;
  }

  static float Value(const Tensor& tensor, int i) { return Values(tensor)[i]; }

  const DefaultEnvironment environment_;
  SingleController controller_{environment_.get()};
};

TEST_F(SingleControllerTest, ReturnsTheSumInTheShapesGiven) {
  const auto shape = *TensorShape::Create({2, 3});
  const std::vector<Tensor> tensors = {Make(shape, 1), Make(shape, 10)};
  EXPECT_THAT(Reduced(tensors, {}), ElementsAre(11, 13, 15, 17, 19, 21));
  EXPECT_THAT(Values(tensors[0]), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(SingleControllerTest, TakesReductionAndFinalOp) {
  EXPECT_THAT(Reduced(Tensors(4), {.reduction = ReductionKind::kMax}),
              ElementsAre(1000, 1001));
  EXPECT_THAT(Reduced(Tensors(2), {.final_op = FinalOp::DivideByGroupSize()}),
              ElementsAre(5.5, 6.5));
}

TEST_F(SingleControllerTest, EveryAlgorithmIsToBeHadByName) {
  for (const std::string name :
       {"RingReduce", "ShuffleReduce", "RecursiveHalvingDoublingReduce",
        "LocalReduce", "ShuffleThenRing"}) {
    EXPECT_THAT(Reduced(Tensors(4), {.algorithm = name, .num_tasks = 2}),
                ElementsAre(1111, 1115))
        << name;
  }
}

TEST_F(SingleControllerTest, TasksMayDifferByATensor) {
  for (const std::string name :
       {"", "RingReduce", "ShuffleReduce", "RecursiveHalvingDoublingReduce",
        "LocalReduce", "ShuffleThenRing", "TreeReduce"}) {
    for (const int num_tasks : {2, 3, 4, 5}) {
      EXPECT_THAT(
          Reduced(Tensors(5), {.algorithm = name, .num_tasks = num_tasks}),
          ElementsAre(11111, 11116))
          << name << " on " << num_tasks;
    }
  }
  EXPECT_THAT(Reduced(Tensors(5), {.num_tasks = 2, .num_subchunks = 2}),
              ElementsAre(11111, 11116));
}

// Devices of the caller: two of one task, and one of another.
TEST_F(SingleControllerTest, TakesTheCallersDevices) {
  const auto devices = *DeviceManager::CreateCpu(std::vector<int>{2, 1},
                                                 environment_.get().random);
  SingleController controller(environment_.get(), devices.get());
  for (const int size : {1, 2, 3}) {
    const auto reduced = controller.AllReduce(Tensors(size));
    ASSERT_THAT(reduced, IsOk());
    EXPECT_THAT(*reduced, SizeIs(size));
    EXPECT_THAT(Values(reduced->back()), ElementsAre(size == 1   ? 1
                                                     : size == 2 ? 11
                                                                 : 111,
                                                     size == 1   ? 2
                                                     : size == 2 ? 13
                                                                 : 114));
  }
  EXPECT_THAT(controller.AllReduce(Tensors(4)),
              IsInvalidArgument("got 4 tensors for 3 devices"));
  EXPECT_THAT(controller.AllReduce(Tensors(3), {.num_tasks = 2}),
              IsInvalidArgument("num_tasks is 2"));
  EXPECT_THAT(controller.AllReduce(Tensors(3), {.num_subchunks = 2}),
              IsInvalidArgument("wanted 0 to the 1 devices per task"));
}

TEST_F(SingleControllerTest, OneTensorIsItsOwnSum) {
  EXPECT_THAT(Reduced(Tensors(1), {}), ElementsAre(1, 2));
}

// The sum of each element follows the order in which the ring passes it.
TEST_F(SingleControllerTest, RingGoesRoundInTheOrderGiven) {
  const std::vector<Tensor> tensors = OrderSensitive(4);
  const std::vector<int> ring = {2, 0, 3, 1};
  const std::vector<float> reduced =
      Reduced(tensors, {.num_subchunks = 1, .ring_order = ring});
  for (int owner = 0; owner < 4; ++owner) {
    const auto place = std::find(ring.begin(), ring.end(), owner);
    float sum = 0;
    for (int i = 1; i <= 4; ++i) {
      const int device = ring[(place - ring.begin() + i) % 4];
      sum = i == 1 ? Value(tensors[device], owner)
                   : sum + Value(tensors[device], owner);
    }
    EXPECT_EQ(reduced[owner], sum) << owner;
  }
  EXPECT_NE(reduced, Reduced(tensors, {.num_subchunks = 1}));
}

TEST_F(SingleControllerTest, SubchunksAndGatherDevicesDoNotChangeSums) {
  const std::vector<float> sums = {1111, 1115, 1119, 1123, 1127, 1131, 1135};
  const std::vector<Tensor> tensors = Tensors(4, 7);
  for (int num_subchunks : {1, 2, 4}) {
    EXPECT_EQ(Reduced(tensors, {.num_subchunks = num_subchunks,
                                .ring_order = {3, 1, 0, 2}}),
              sums);
  }
  for (const std::vector<int>& devices :
       {std::vector<int>{3}, {2, 0}, {0, 1, 2, 3}}) {
    EXPECT_EQ(Reduced(tensors, {.gather_devices = devices}), sums);
  }
}

TEST_F(SingleControllerTest, CallsDoNotMeetEachOther) {
  EXPECT_THAT(Reduced(Tensors(2, 1), {}), ElementsAre(11));
  EXPECT_THAT(Reduced(Tensors(2, 3), {}), ElementsAre(11, 13, 15));
  EXPECT_THAT(Reduced(Tensors(3, 1), {}), ElementsAre(111));
}

// Counts settled instances.
class Counted : public CollectiveImplementationInterface {
 public:
  static inline std::atomic<int> num_settled = 0;
  static inline std::vector<int> subdiv_offsets;  // Set by the newest instance.

  absl::Status InitializeCollectiveParams(
      const CollGroupParams& /*group*/, CollInstanceParams* instance) override {
    ++num_settled;
    subdiv_offsets = instance->impl_details.subdiv_offsets;
    return absl::OkStatus();
  }
  absl::Status InitializeCollectiveContext(
      CollectiveContext* context) override {
    return reduce_->InitializeCollectiveContext(context);
  }
  void Run(const CollectiveContext& context, StatusCallback done) override {
    reduce_->Run(context, std::move(done));
  }

 private:
  const std::unique_ptr<CollectiveImplementationInterface> reduce_ =
      (*CollectiveRegistry::Global().Find("LocalReduce"))->Create();
};
REGISTER_COLLECTIVE(Counted,
                    Implemented<Counted>({.summary = "for tests",
                                          .collectives = {
                                              CollectiveType::kAllReduce}}));

REGISTER_COLLECTIVE(
    CountedRings,
    Implemented<Counted>({.summary = "for tests",
                          .collectives = {CollectiveType::kAllReduce},
                          .supports_subdivisions = true}));

TEST_F(SingleControllerTest, RingsBeginAtDevicesThatAreSpreadOverTheTask) {
  const auto offsets = [this](int num_tensors, int num_subchunks) {
    Reduced(Tensors(num_tensors, 1),
            {.algorithm = "CountedRings", .num_subchunks = num_subchunks});
    return Counted::subdiv_offsets;
  };
  EXPECT_THAT(offsets(4, 2), ElementsAre(0, 2));
  EXPECT_THAT(offsets(7, 3), ElementsAre(0, 2, 4));
  EXPECT_THAT(offsets(4, 4), ElementsAre(0, 1, 2, 3));
}

TEST_F(SingleControllerTest, CallsAlikeAreSettledOnce) {
  Counted::num_settled = 0;
  AllReduceOptions options{.algorithm = "Counted"};
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(Reduced(Tensors(2, 1), options), ElementsAre(11));
  }
  EXPECT_EQ(Counted::num_settled, 1);
  EXPECT_THAT(Reduced(Tensors(2, 2), options), ElementsAre(11, 13));
  EXPECT_EQ(Counted::num_settled, 2);
  options.reduction = ReductionKind::kMax;
  EXPECT_THAT(Reduced(Tensors(2, 2), options), ElementsAre(10, 11));
  EXPECT_EQ(Counted::num_settled, 3);
  options.final_op = FinalOp::DivideByGroupSize();
  EXPECT_THAT(Reduced(Tensors(2, 2), options), ElementsAre(5, 5.5));
  EXPECT_EQ(Counted::num_settled, 4);
}

TEST_F(SingleControllerTest, WhatWasSettledIsForgottenWhereItGetsMuch) {
  Counted::num_settled = 0;
  const AllReduceOptions options{.algorithm = "Counted"};
  constexpr int kKept = 1024;
  for (int round = 0; round < 2; ++round) {
    for (int64_t length = 1; length <= kKept + 1; ++length) {
      ASSERT_THAT(Reduced(Tensors(2, length), options), SizeIs(length));
    }
  }
  EXPECT_EQ(Counted::num_settled, 2 * (kKept + 1));
}

TEST_F(SingleControllerTest, AsManyAsItKeepsAreSettledOnce) {
  Counted::num_settled = 0;
  const AllReduceOptions options{.algorithm = "Counted"};
  constexpr int kKept = 1024;
  for (int round = 0; round < 2; ++round) {
    for (int64_t length = 1; length <= kKept; ++length) {
      ASSERT_THAT(Reduced(Tensors(2, length), options), SizeIs(length));
    }
  }
  EXPECT_EQ(Counted::num_settled, kKept);
}

// The functions differ but share a name.
TEST_F(SingleControllerTest, EachCallRunsTheCustomOpThatItBrings) {
  AllReduceOptions options;
  for (const float factor : {2.0F, 3.0F}) {
    options.final_op = *FinalOp::Custom(
        {.name = "scale",
         .apply = [factor](DType, void* values, int64_t num_elements, int) {
           for (int64_t i = 0; i < num_elements; ++i) {
             static_cast<float*>(values)[i] *= factor;
           }
           return absl::OkStatus();
         }});
    EXPECT_THAT(Reduced(Tensors(2, 1), options), ElementsAre(11 * factor));
  }
}

struct BadCall {
  int num_tensors;
  AllReduceOptions options;
  std::string shown;
  StatusCode code = StatusCode::kInvalidArgument;
};

TEST_F(SingleControllerTest, BadOptionsAreErrorsThatSayWhatWasGiven) {
  const BadCall calls[] = {
      {0, {}, "got no tensors"},
      {1, {.algorithm = "RingReduce"}, "at least 2 tensors; got 1"},
      {1, {.num_subchunks = 1}, "at least 2 tensors; got 1"},
      {3, {.num_tasks = 4}, "3 tensors cannot lie on 4 tasks"},
      {3, {.num_tasks = 0}, "3 tensors cannot lie on 0 tasks"},
      {4,
       {.num_tasks = 2, .num_subchunks = 3},
       "num_subchunks is 3; wanted 0 to the 2 devices per task"},
      {4, {.num_subchunks = -1}, "num_subchunks is -1"},
      {4,
       {.algorithm = "TreeReduce", .num_subchunks = 1},
       "AllReduce: TreeReduce has no subchunks for num_subchunks 1"},
      {4,
       {.algorithm = "LocalReduce", .num_subchunks = 2},
       "AllReduce: LocalReduce has no subchunks for num_subchunks 2"},
      {3, {.ring_order = {0, 1}}, "ring_order [0, 1] is not an order of 3"},
      {10,
       {.ring_order = {9, 8, 7, 6, 5, 4, 3, 2, 1, 1}},
       "ring_order [9, 8, 7, 6, 5, 4, 3, 2 and 2 more] names tensor 1 twice"},
      {3,
       {.ring_order = {0, 1, 1}},
       "AllReduce: ring_order [0, 1, 1] names tensor 1 twice"},
      {3,
       {.ring_order = {0, 1, 3}},
       "ring_order [0, 1, 3] names tensor 3 of 3"},
      {3,
       {.algorithm = "TreeReduce", .ring_order = {2, 1, 0}},
       "TreeReduce has no ring for ring_order [2, 1, 0]"},
      {4,
       {.gather_devices = {9}},
       "AllReduce: gather_devices [9] names tensor 9 of 4"},
      {4, {.gather_devices = {1, -1}}, "names tensor -1 of 4"},
      {4,
       {.gather_devices = {1, 0, 1}},
       "AllReduce: gather_devices [1, 0, 1] names tensor 1 twice"},
      {4,
       {.num_subchunks = 4, .gather_devices = {1}},
       "AllReduce: got both num_subchunks 4 and gather_devices [1]"},
      {4,
       {.algorithm = "ShuffleReduce",
        .num_subchunks = 4,
        .gather_devices = {1}},
       "AllReduce: ShuffleReduce has no subchunks for num_subchunks 4"},
      {3,
       {.algorithm = "RingReduce", .gather_devices = {0}},
       "RingReduce has no use for gather_devices [0]"},
      {3,
       {.ring_order = {2, 1, 0}, .gather_devices = {0}},
       "both ring_order [2, 1, 0] and gather_devices [0]"},
      {3,
       {.algorithm = "Ring"},
       "no implementation is named \"Ring\"",
       StatusCode::kNotFound},
  };
  for (const BadCall& call : calls) {
    EXPECT_THAT(controller_.AllReduce(Tensors(call.num_tensors), call.options),
                StatusIs(call.code, HasSubstr(call.shown)));
  }
}

TEST_F(SingleControllerTest, TensorsMustBeAlike) {
  std::vector<Tensor> tensors = Tensors(3);
  tensors[1] = Make(TensorShape::Vector(3), 1);
  EXPECT_THAT(controller_.AllReduce(tensors),
              IsInvalidArgument("tensor 1 is float32 [3], tensor 0 float32 "
                                "[2]"));
  tensors[1] = *Tensor::Allocate(DType::kInt32, TensorShape::Vector(2));
  EXPECT_THAT(controller_.AllReduce(tensors),
              IsInvalidArgument("tensor 1 is int32 [2]"));
  tensors[1] = Tensor();
  EXPECT_THAT(controller_.AllReduce(tensors),
              IsInvalidArgument("tensor 1 is not set"));
}

}  // namespace single_controller_test
}  // namespace tutti
