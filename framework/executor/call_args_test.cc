#include "framework/executor/call_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/collective/params_test_data.h"
#include "framework/executor/premultiplication.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/params.h"

namespace tutti {
namespace call_args_test {

constexpr int kSize = 3;
constexpr int kRank = 1;
constexpr int kRoot = 1;

// Refuses to allocate.
class FullDevice : public Device {
 public:
  using Device::Device;
  absl::StatusOr<Tensor> Allocate(DType, const TensorShape&) override {
    return absl::ResourceExhaustedError("full");
  }
};

class BufferCheckTest : public testing::Test {
 protected:
  static std::shared_ptr<const CollectiveParams> Params(
      CollectiveType type, std::vector<int64_t> rows = {}, int rank = kRank) {
    return ParamsOf({.type = type,
                     .shape = ShapeOf({rows.empty() ? 6 : rows[0], 2}),
                     .root = kRoot,
                     .permutation = {1, 2, 0},
                     .rows = std::move(rows)},
                    kSize, rank);
  }

  // Returns a tensor that begins at element `begin` of the buffer.
  Tensor At(int64_t begin, const TensorShape& shape) {
    return *Tensor::Wrap(DType::kFloat32, shape, buffer_ + begin);
  }
  Tensor InputAt(int64_t begin, const CollectiveParams& params) {
    return At(begin, params.input_shape);
  }
  Tensor OutputAt(int64_t begin, const CollectiveParams& params) {
    return At(begin, params.output_shape);
  }

  absl::Status Prepare(const CollectiveParams& params, Tensor input,
                       Tensor output) {
    return PrepareBuffers(params, device_, &input, &output);
  }

  // Returns where the smaller of input and output lies in the larger one.
  static int64_t BlockBegin(const CollectiveParams& params) {
    int64_t rows = 0;
    for (int rank = 0; rank < params.default_rank; ++rank) {
      rows += BlockRows(*params.instance, kSize, rank, rank);
    }
    return 2 * rows;
  }

  CpuDevice device_{DeviceAttributes{.name = {"localhost", 0, 0, "CPU", 1}}};
  float buffer_[100] = {};
};

TEST_F(BufferCheckTest, BuffersApartAreFine) {
  for (CollectiveType type : kAllCollectiveTypes) {
    const auto params = Params(type);
    EXPECT_THAT(Prepare(*params, InputAt(0, *params), OutputAt(50, *params)),
                IsOk())
        << Name(type);
  }
}

TEST_F(BufferCheckTest, NeighboursAreFine) {
  const auto params = Params(CollectiveType::kAllReduce);
  EXPECT_THAT(Prepare(*params, InputAt(0, *params), OutputAt(12, *params)),
              IsOk());
  EXPECT_THAT(Prepare(*params, InputAt(12, *params), OutputAt(0, *params)),
              IsOk());
}

TEST_F(BufferCheckTest, TheSameMemoryIsInPlaceWhereShapesAreEqual) {
  for (CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kBroadcast,
        CollectiveType::kReduce, CollectiveType::kPermute,
        CollectiveType::kAllToAll, CollectiveType::kScan,
        CollectiveType::kExscan}) {
    const auto params = Params(type);
    EXPECT_THAT(Prepare(*params, InputAt(20, *params), OutputAt(20, *params)),
                IsOk())
        << Name(type);
  }
}

// Tries all places of the smaller tensor around the larger one.
TEST_F(BufferCheckTest, EveryOtherOverlapIsInvalid) {
  for (CollectiveType type : kAllCollectiveTypes) {
    const auto params = Params(type);
    const int64_t input_size = params->input_shape.num_elements();
    const int64_t output_size = params->output_shape.num_elements();
    if (type == CollectiveType::kBarrier) continue;
    const bool gathers =
        type == CollectiveType::kAllGather || type == CollectiveType::kGather;
    const bool scatters = type == CollectiveType::kReduceScatter ||
                          type == CollectiveType::kScatter;
    const int64_t in_place = gathers    ? BlockBegin(*params)
                             : scatters ? -BlockBegin(*params)
                                        : 0;
    for (int64_t begin = -input_size - 1; begin <= output_size + 1; ++begin) {
      const bool overlaps = begin > -input_size && begin < output_size;
      const absl::Status status =
          Prepare(*params, InputAt(40 + begin, *params), OutputAt(40, *params));
      if (!overlaps || begin == in_place) {
        EXPECT_THAT(status, IsOk()) << Name(type) << " at " << begin;
      } else {
        EXPECT_THAT(status,
                    IsInvalidArgument(std::string(Name(type)),
                                      "overlap, but not in place", "bytes"))
            << "at " << begin;
      }
    }
  }
}

TEST_F(BufferCheckTest, AnUnevenGatherIsInPlaceAtItsOwnBlock) {
  for (int rank = 0; rank < kSize; ++rank) {
    const auto params = Params(CollectiveType::kAllGather, {4, 2, 3}, rank);
    const int64_t begin = BlockBegin(*params);
    EXPECT_THAT(Prepare(*params, InputAt(begin, *params), OutputAt(0, *params)),
                IsOk());
    EXPECT_THAT(
        Prepare(*params, InputAt(begin + 1, *params), OutputAt(0, *params)),
        IsInvalidArgument("in place"));
  }
}

TEST_F(BufferCheckTest, AnUnevenScatterIsInPlaceAtItsOwnBlock) {
  for (int rank = 0; rank < kSize; ++rank) {
    const auto params = Params(CollectiveType::kReduceScatter, {4, 2, 3}, rank);
    const int64_t begin = BlockBegin(*params);
    EXPECT_THAT(Prepare(*params, InputAt(0, *params), OutputAt(begin, *params)),
                IsOk());
    EXPECT_THAT(
        Prepare(*params, InputAt(0, *params), OutputAt(begin + 1, *params)),
        IsInvalidArgument("in place"));
  }
}

TEST_F(BufferCheckTest, AnUnevenAllToAllIsInPlaceIfItSendsWhatItReceives) {
  // Rank 1 sends every rank as much as it receives from that rank.
  const auto symmetric =
      Params(CollectiveType::kAllToAll, {0, 2, 0, 2, 1, 3, 9, 3, 0});
  EXPECT_THAT(
      Prepare(*symmetric, InputAt(0, *symmetric), OutputAt(0, *symmetric)),
      IsOk());
  // Rank 1 sends as much as it receives in all, but not to the same ranks.
  const auto crossed =
      Params(CollectiveType::kAllToAll, {0, 3, 0, 2, 1, 3, 0, 2, 0});
  ASSERT_EQ(crossed->input_shape, crossed->output_shape);
  EXPECT_THAT(Prepare(*crossed, InputAt(0, *crossed), OutputAt(0, *crossed)),
              IsInvalidArgument("in place"));
  EXPECT_THAT(Prepare(*crossed, InputAt(0, *crossed), OutputAt(40, *crossed)),
              IsOk());
}

TEST_F(BufferCheckTest, EmptyTensorsNeverOverlap) {
  const auto params =
      ParamsOf({.type = CollectiveType::kAllReduce, .shape = ShapeOf({0, 2})},
               kSize, kRank);
  EXPECT_THAT(Prepare(*params, InputAt(0, *params), OutputAt(0, *params)),
              IsOk());
}

TEST_F(BufferCheckTest, AnUnsetOutputIsAllocated) {
  for (CollectiveType type : kAllCollectiveTypes) {
    if (!HasOutput(type, kRank, kRoot)) continue;
    const auto params = Params(type);
    Tensor input = InputAt(0, *params);
    Tensor output;
    ASSERT_THAT(PrepareBuffers(*params, device_, &input, &output), IsOk());
    EXPECT_TRUE(output.is_set());
    EXPECT_EQ(output.dtype(), DType::kFloat32);
    EXPECT_EQ(output.shape(), params->output_shape) << Name(type);
    EXPECT_EQ(OverlapOf(input, output), Overlap::kNone);
  }
}

TEST_F(BufferCheckTest, TheErrorOfTheAllocationIsPassedOn) {
  FullDevice device(device_.attributes());
  const auto params = Params(CollectiveType::kAllReduce);
  Tensor input = InputAt(0, *params);
  Tensor output;
  EXPECT_EQ(PrepareBuffers(*params, device, &input, &output),
            absl::ResourceExhaustedError("full"));
}

TEST_F(BufferCheckTest, TensorsWithoutAPartAreDropped) {
  const auto barrier = Params(CollectiveType::kBarrier);
  Tensor input = At(0, ShapeOf({3}));
  Tensor output = At(1, ShapeOf({3}));
  ASSERT_THAT(PrepareBuffers(*barrier, device_, &input, &output), IsOk());
  EXPECT_FALSE(input.is_set());
  EXPECT_FALSE(output.is_set());
  const auto receiver = Params(CollectiveType::kBroadcast, {}, /*rank=*/0);
  input = At(0, ShapeOf({3}));
  output = OutputAt(1, *receiver);
  ASSERT_THAT(PrepareBuffers(*receiver, device_, &input, &output), IsOk());
  EXPECT_FALSE(input.is_set());
  EXPECT_TRUE(output.is_set());
}

TEST_F(BufferCheckTest, TheFirstRankOfAnExscanGetsNoOutput) {
  const auto params = Params(CollectiveType::kExscan, {}, /*rank=*/0);
  Tensor input = InputAt(0, *params);
  Tensor output;
  ASSERT_THAT(PrepareBuffers(*params, device_, &input, &output), IsOk());
  EXPECT_TRUE(input.is_set());
  EXPECT_FALSE(output.is_set());
}

TEST_F(BufferCheckTest, AMissingInputIsInvalidAndTheMemberNamed) {
  for (CollectiveType type : kAllCollectiveTypes) {
    if (!HasInput(type, kRank, kRoot)) continue;
    const auto params = Params(type);
    EXPECT_THAT(Prepare(*params, Tensor(), OutputAt(0, *params)),
                IsInvalidArgument(std::string(Name(type)), "rank 1",
                                  "/device:CPU:1", "no input"));
  }
}

TEST_F(BufferCheckTest, AnotherShapeIsInvalidAndBothAreShown) {
  const auto params = Params(CollectiveType::kAllGather);
  EXPECT_THAT(
      Prepare(*params, At(0, ShapeOf({2, 6})), OutputAt(50, *params)),
      IsInvalidArgument("the input is float32[2,6]", "wanted float32[6,2]"));
  EXPECT_THAT(
      Prepare(*params, InputAt(0, *params), At(50, ShapeOf({6, 2}))),
      IsInvalidArgument("the output is float32[6,2]", "wanted float32[18,2]"));
}

TEST_F(BufferCheckTest, AnotherDtypeIsInvalidAndBothAreShown) {
  const auto params = Params(CollectiveType::kAllReduce);
  const Tensor integers =
      *Tensor::Wrap(DType::kInt32, params->input_shape, buffer_);
  EXPECT_THAT(
      Prepare(*params, integers, OutputAt(50, *params)),
      IsInvalidArgument("the input is int32[6,2]", "wanted float32[6,2]"));
  EXPECT_THAT(
      Prepare(*params, InputAt(50, *params), integers),
      IsInvalidArgument("the output is int32[6,2]", "wanted float32[6,2]"));
}

// Has memory that the processor cannot reach.
class OwnMemoryDevice : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  bool has_host_memory() const override { return false; }
};

TEST_F(BufferCheckTest, FactorsNeedHostMemory) {
  OwnMemoryDevice device({.name = {"localhost", 0, 0, "GPU", 1}});
  const SettledFacts settled(Params(CollectiveType::kAllReduce));
  CollectiveContext context;
  context.device = &device;
  EXPECT_THAT(
      Premultiplication::Create(2, settled, &context).status(),
      StatusIs(absl::StatusCode::kUnimplemented, testing::HasSubstr("GPU:1")));
}

}  // namespace call_args_test
}  // namespace tutti
