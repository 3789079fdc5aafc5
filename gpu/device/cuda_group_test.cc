// Tests collectives of the CPU's devices on groups of GPU devices.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace cuda_group_test {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

// Calls on two devices with tensors of 4 elements.
void Call(FakeGpuGroup& group, const CollectiveRequest& request) {
  std::vector<Tensor> outputs(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, request, group.Allocate(rank, request.dtype, 4),
               &outputs[rank]);
  }
  group.RunAll();
}

// Implementation without device needs.
class OfHostMemory : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

REGISTER_COLLECTIVE(OfHostMemory,
                    Implemented<OfHostMemory>({
                        .collectives = {CollectiveType::kAllReduce},
                    }));

TEST(CudaGroupTest, WhatWorksInTheHostsMemoryRefusesThatOfGpus) {
  FakeGpuGroup group({});
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kFloat32, /*num_elements=*/4);
  request.impl_details.implementation = "OfHostMemory";
  Call(group, request);
  EXPECT_THAT(group.ended(),
              Each(Optional(StatusIs(
                  absl::StatusCode::kUnimplemented,
                  HasSubstr("OfHostMemory works in the host's memory; "
                            "/job:localhost/replica:0/task:0/device:GPU:")))));
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST(CudaGroupTest, FunctionsOfTheHostAreRefused) {
  FakeGpuGroup group({});
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kFloat32, /*num_elements=*/4);
  request.impl_details.implementation = "RingReduce";
  request.merge_op =
      MergeOp::Custom({.name = "first",
                       .commutative = true,
                       .apply = [](DType, const void*, const void*, void*,
                                   int64_t) { return absl::OkStatus(); }})
          .value();
  Call(group, request);
  EXPECT_THAT(
      group.ended(),
      Each(Optional(StatusIs(absl::StatusCode::kUnimplemented,
                             testing::AllOf(HasSubstr("merge op \"first\""),
                                            HasSubstr("RingReduce"))))));
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST(CudaGroupTest, BarriersNeedNoneOfTheirMemory) {
  FakeGpuGroup group({.devices_per_gpu = 3});
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, group.Request(Barrier{}, DType::kFloat32, 0), Tensor(),
               nullptr);
  }
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST(CudaGroupTest, WhatRunsOnCpusAloneNamesWhatRunsOnGpus) {
  FakeGpuGroup group({});
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kFloat32, /*num_elements=*/4);
  request.impl_details.implementation = "LocalReduce";
  Call(group, request);
  EXPECT_THAT(
      group.ended(),
      Each(Optional(StatusIs(
          absl::StatusCode::kInvalidArgument,
          testing::AllOf(HasSubstr("LocalReduce runs on CPU, not on GPU"),
                         HasSubstr("GpuLocalReduce"))))));
}

// Runs an all-reduce by the chosen implementation, and expects OK.
void ExpectReduces(FakeGpuGroup& group, int64_t num_elements) {
  std::vector<Tensor> outputs(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, group.Request(AllReduce{}, DType::kInt8, num_elements),
               group.Allocate(rank, DType::kInt8, num_elements),
               &outputs[rank]);
  }
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
}

TEST(CudaGroupTest, AmongAllAlgorithmsOneThatRunsOnGpusIsChosen) {
  for (const int num_elements : {1, 1 << 20}) {
    FakeGpuGroup group({.memory_bytes = 1 << 26});
    ExpectReduces(group, num_elements);
  }
}

TEST(CudaGroupTest, WithoutLinksOneThatNeedsNoneIsChosen) {
  for (const int num_elements : {1, 1 << 20}) {
    FakeGpuGroup group({.num_gpus = 2,
                        .devices_per_gpu = 1,
                        .memory_bytes = 1 << 26,
                        .link = [](int, int) { return PeerLink::kNone; }});
    ExpectReduces(group, num_elements);
  }
}

}  // namespace cuda_group_test
}  // namespace tutti
