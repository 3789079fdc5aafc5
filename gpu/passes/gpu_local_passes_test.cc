#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/passes/gpu_local_pass.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gpu/testing/gpu_reference.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace gpu_local_passes_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Eq;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr int64_t kElements = 4;
constexpr uint64_t kSeeds = 20;

// Names the pass, as other implementations are linked too.
CollectiveRequest RequestOf(FakeGpuGroup& group, const CollectiveOp& op,
                            DType dtype, int64_t num_elements) {
  CollectiveRequest request = group.Request(op, dtype, num_elements);
  const bool reduces = std::holds_alternative<AllReduce>(op) ||
                       std::holds_alternative<ReduceToRoot>(op);
  request.impl_details.implementation = reduces ? "GpuLocalReduce"
                                        : std::holds_alternative<Broadcast>(op)
                                            ? "GpuLocalBroadcast"
                                            : "GpuLocalGather";
  return request;
}

// Hook that PlanCopies() calls, if set, before it plans copies of the first
// member's input to all outputs.
absl::AnyInvocable<void(const GpuMembers&)>& Hook() {
  static absl::AnyInvocable<void(const GpuMembers&)> hook;
  return hook;
}

absl::StatusOr<GpuPlan> PlanCopies(const GpuMembers& members) {
  if (Hook() != nullptr) Hook()(members);
  std::vector<std::byte*> outputs;
  for (int rank = 0; rank < members.size(); ++rank) {
    outputs.push_back(members.output(rank));
  }
  GpuPlan plan;
  AppendCopies(members.input(0), outputs, members.context(0).input.size_bytes(),
               &plan.launches);
  return plan;
}

using Copier = GpuLocalPlanned<PlanCopies>;

// Without a price it runs only by name.
ImplementationTraits CopierTraits() {
  ImplementationTraits traits =
      GpuLocalTraits("copies", {CollectiveType::kAllReduce});
  traits.cost_seconds = nullptr;
  return traits;
}

REGISTER_COLLECTIVE(TestCopies, Implemented<Copier>(CopierTraits()));

// Needs of a leader whose version demands less of the devices.
ImplementationTraits TraitsWithoutNeeds() {
  ImplementationTraits traits = CopierTraits();
  traits.device_needs = {};
  return traits;
}

REGISTER_COLLECTIVE(TestCopiesAnywhere,
                    Implemented<Copier>(TraitsWithoutNeeds()));

CollectiveRequest CopyRequest(FakeGpuGroup& group) {
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kInt8, kElements);
  request.impl_details.implementation = "TestCopies";
  return request;
}

TEST(GpuLocalCollectiveTest, MemoryThatTheFirstOneDoesNotReachIsLeftAlone) {
  FakeGpuGroup group(
      {.num_gpus = 3, .devices_per_gpu = 1, .link = [](int a, int b) {
         return a + b == 2 ? PeerLink::kNone : PeerLink::kBus;
       }});
  auto request = CopyRequest(group);
  request.impl_details.implementation = "TestCopiesAnywhere";
  std::vector<Tensor> outputs(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, request, group.Allocate(rank, DType::kInt8, kElements),
               &outputs[rank]);
  }
  group.RunAll();
  EXPECT_THAT(group.ended(),
              Each(Optional(IsFailedPrecondition(
                  "device:GPU:0 does not reach that of "
                  "/job:localhost/replica:0/task:0/device:GPU:2"))));
  outputs.clear();
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST(GpuLocalCollectiveTest, WhatFailsJustBeforeTheLaunchTouchesNothing) {
  FakeGpuGroup group({});
  Hook() = [](const GpuMembers& members) {
    members.context(0).executor->StartAbort(absl::AbortedError("enough"));
  };
  const auto request = CopyRequest(group);
  std::vector<Tensor> outputs;
  for (int rank = 0; rank < group.size(); ++rank) {
    outputs.push_back(group.Allocate(rank, DType::kInt8, kElements));
    group.Write(rank, outputs[rank], Bytes(kElements, 7));
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, request, group.Allocate(rank, DType::kInt8, kElements),
               &outputs[rank]);
  }
  Hook() = nullptr;
  EXPECT_THAT(group.ended(),
              Each(Optional(StatusIs(absl::StatusCode::kAborted, "enough"))));
  group.RunAll();
  for (const Tensor& output : outputs) {
    EXPECT_THAT(group.Read(output), Each(7));
  }
  outputs.clear();
  EXPECT_THAT(group.Remains(), IsEmpty());
}

// Each member calls the second collective first; it waits for the launch of the
// first one.
TEST(GpuLocalCollectiveTest, WhatDependsOnAnotherReadsItsResults) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group({.seed = seed});
    auto first = CopyRequest(group);
    auto second = first;
    second.instance_key = 1;
    second.impl_details.dependencies = {{first.group_key, first.instance_key}};
    std::vector<Tensor> inputs, between, outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      inputs.push_back(group.Allocate(rank, DType::kInt8, kElements));
      between.push_back(group.Allocate(rank, DType::kInt8, kElements));
      group.Write(rank, inputs[rank], Bytes(kElements, 5 + rank));
      group.Call(rank, second, between[rank], &outputs[rank]);
    }
    int num_ended = 0;
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank,
                 {.request = std::make_shared<const CollectiveRequest>(first),
                  .input = inputs[rank],
                  .output = &between[rank]},
                 [&](const absl::Status& status) {
                   EXPECT_THAT(status, IsOk());
                   ++num_ended;
                 });
    }
    group.RunAll();
    EXPECT_EQ(num_ended, group.size());
    EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
    for (const Tensor& output : outputs) {
      EXPECT_THAT(group.Read(output), Each(5));
    }
  }
}

// A device of type GPU that is unknown to CUDA.
class OtherGpu : public Device {
 public:
  OtherGpu()
      : Device({.name = {.job = "localhost", .type = CudaDevice::kType}}) {}
  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    return Tensor::Allocate(dtype, shape);
  }
};

TEST(GpuLocalCollectiveTest, DevicesOfAnotherKindAreRefused) {
  SimulatedEnvironment environment(/*seed=*/1);
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<OtherGpu>());
  const auto manager = *DeviceManager::Create(std::move(devices));
  const auto executors =
      *CreateLocalExecutorMgr(environment.get(), manager.get());
  CollectiveRequest request;
  request.group_size = 1;
  request.device_type = CudaDevice::kType;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(kElements);
  Device* const device = manager->devices()[0];
  Tensor output;
  std::optional<absl::Status> ended;
  executors->FindOrCreate(/*step_id=*/1)
      ->ExecuteAsync(
          {.device = device,
           .request = std::make_shared<const CollectiveRequest>(request),
           .input = *device->Allocate(request.dtype, request.shape),
           .output = &output},
          [&](absl::Status status) { ended = std::move(status); });
  environment.RunAll();
  EXPECT_THAT(ended,
              Optional(IsInvalidArgument("device:GPU:0 is another one")));
}

std::vector<Bytes> RandomInputs(DType dtype, int num_ranks, size_t num_elements,
                                uint64_t seed) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < num_ranks; ++rank) {
    inputs.push_back(RandomElements(dtype, num_elements, 100 * seed + rank));
  }
  return inputs;
}

struct Case {
  ReductionPair pair = {ReductionKind::kSum, DType::kFloat32};
  int64_t num_elements = 0;
  bool is_average = false;
  bool in_place = false;
  int root = -1;  // -1: all-reduce.
};

// Runs the case as instance `key` while inputs are still being written, and
// compares the outputs that the compute streams read.
void RunCase(FakeGpuGroup& group, const Case& test, int64_t key) {
  const auto [kind, dtype] = test.pair;
  const std::vector<Bytes> inputs =
      RandomInputs(dtype, group.size(), test.num_elements, key);
  CollectiveRequest request =
      RequestOf(group, AllReduce{}, dtype, test.num_elements);
  if (test.root >= 0) request.op = ReduceToRoot{.root = test.root};
  request.instance_key = key;
  request.merge_op = kind;
  if (test.is_average) request.final_op = FinalOp::DivideByGroupSize();
  const auto has_output = [&](int rank) {
    return test.root < 0 || rank == test.root;
  };
  std::vector<Tensor> outputs(inputs.size()), seen(inputs.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    const Tensor input = group.Allocate(rank, dtype, test.num_elements);
    if (test.in_place) outputs[rank] = input;
    group.Write(rank, input, inputs[rank]);
    group.Call(rank, request, input,
               has_output(rank) ? &outputs[rank] : nullptr);
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    if (has_output(rank)) seen[rank] = group.Copy(rank, outputs[rank]);
  }
  group.RunAll();
  const Bytes expected =
      ReferenceGpuLocalReduce(test.pair, inputs, test.is_average);
  for (int rank = 0; rank < group.size(); ++rank) {
    ASSERT_THAT(group.ended(rank), Optional(IsOk()));
    if (!has_output(rank)) continue;
    ASSERT_EQ(group.Read(seen[rank]), expected) << rank;
  }
}

class SizesTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Members, SizesTest,
                         testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 23));

TEST_P(SizesTest, EveryMemberGetsTheReduction) {
  FakeGpuGroup group({.devices_per_gpu = GetParam()});
  int64_t key = 0;
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    for (const bool is_average : {false, true}) {
      for (const bool in_place : {false, true}) {
        const int64_t num_elements = 1 + key % 38;
        ++key;
        ASSERT_NO_FATAL_FAILURE(RunCase(group,
                                        {.pair = pair,
                                         .num_elements = num_elements,
                                         .is_average = is_average,
                                         .in_place = in_place},
                                        key));
      }
    }
  }
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST_P(SizesTest, EveryRootGetsTheReduction) {
  FakeGpuGroup group({.devices_per_gpu = GetParam()});
  int64_t key = 0;
  for (int root = 0; root < group.size(); ++root) {
    for (const bool in_place : {false, true}) {
      ++key;
      ASSERT_NO_FATAL_FAILURE(RunCase(
          group, {.num_elements = 7, .in_place = in_place, .root = root}, key));
    }
  }
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST_P(SizesTest, NothingIsReducedToNothing) {
  FakeGpuGroup group({.devices_per_gpu = GetParam()});
  ASSERT_NO_FATAL_FAILURE(RunCase(group, {.num_elements = 0}, 1));
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST(GpuLocalReduceTest, GpusWithLinksReduceInWhicheverOrderTheirStreamsRun) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group({.seed = seed, .num_gpus = 3, .devices_per_gpu = 1});
    for (int64_t key = 1; key <= 4; ++key) {
      ASSERT_NO_FATAL_FAILURE(
          RunCase(group, {.num_elements = 33, .in_place = key % 2 == 0}, key));
    }
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST(GpuLocalReduceTest, TensorsMayGoOnceDoneHasRun) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed});
    sums.FillAll();
    sums.CallAll();
    while (!sums.group().ended(0).has_value()) {
      ASSERT_TRUE(sums.group().environment().RunSome(1));
    }
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(GpuLocalReduceTest, TheStreamGoesOnBeforeTheHostIsCalled) {
  Sums sums({});
  FakeGpuGroup& group = sums.group();
  CudaDevice& first = group.device(0);
  const auto gate = std::make_shared<std::atomic<bool>>(false);
  ASSERT_THAT(
      group.runtime().PutGate(first.SignalsOf(first.collective_stream()), gate),
      IsOk());
  sums.FillAll();
  sums.CallAll();
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Eq(std::nullopt)));
  {
    const auto behind = first.Mark(first.collective_stream());
    ASSERT_THAT(behind, IsOk());
    group.RunAll();
    EXPECT_TRUE(group.runtime().IsDone(behind->get()).value_or(false));
  }
  *gate = true;
  group.runtime().Waker()();
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
}

TEST(GpuLocalReduceTest, WhatIsPreparedRunsAgainAndAgain) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .devices_per_gpu = 3});
    FakeGpuGroup& group = sums.group();
    std::vector<std::shared_ptr<PreparedCollective>> prepared(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      group.executor().Prepare(
          sums.Args(rank), [&, rank](auto made) { prepared[rank] = *made; });
    }
    group.RunAll();
    int num_ended = 0;
    for (int run = 1; run <= 5; ++run) {
      std::vector<Tensor> seen;
      for (int rank = 0; rank < group.size(); ++rank) {
        sums.Fill(rank, static_cast<float>(run));
        prepared[rank]->Start([&](const absl::Status& status) {
          EXPECT_THAT(status, IsOk());
          ++num_ended;
        });
      }
      for (int rank = 0; rank < group.size(); ++rank) {
        seen.push_back(group.Copy(rank, prepared[rank]->output()));
      }
      group.RunAll();
      EXPECT_EQ(num_ended, run * group.size());
      for (const Tensor& copy : seen) {
        EXPECT_EQ(group.Read(copy),
                  sums.Elements(static_cast<float>(run * group.size())));
      }
    }
    prepared.clear();
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(GpuLocalReduceTest, MembersMayCallTwoCollectivesInDifferentOrder) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group({.seed = seed});
    int num_ended = 0;
    std::vector<Tensor> outputs(4);
    const auto call = [&](int rank, int64_t key) {
      CollectiveRequest request =
          RequestOf(group, AllReduce{}, DType::kFloat32, 5);
      request.instance_key = key;
      const Tensor input = group.Allocate(rank, DType::kFloat32, 5);
      group.Write(rank, input, Floats(5, static_cast<float>(key)));
      group.executor().ExecuteAsync(
          {.device = &group.device(rank),
           .request = std::make_shared<const CollectiveRequest>(request),
           .input = input,
           .output = &outputs[2 * rank + key - 1]},
          [&](const absl::Status& status) {
            EXPECT_THAT(status, IsOk());
            ++num_ended;
          });
    };
    call(0, 1);
    call(0, 2);
    call(1, 2);
    call(1, 1);
    group.RunAll();
    EXPECT_EQ(num_ended, 4);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(group.Read(outputs[i]),
                Floats(5, static_cast<float>(2 * (i % 2 + 1))));
    }
  }
}

TEST(GpuLocalReduceTest, WhatFailsBeforeAllHaveCalledTouchesNothing) {
  Sums sums({.devices_per_gpu = 3});
  FakeGpuGroup& group = sums.group();
  sums.CallAll();  // Settles the instance.
  group.RunAll();
  group.Write(0, sums.output(0), sums.Elements(-1));
  sums.FillAll();
  sums.Call(0);
  sums.Call(1);
  group.executor().StartAbort(absl::AbortedError("enough"));
  const auto aborted = Optional(IsAborted("enough"));
  EXPECT_THAT(group.ended(0), aborted);
  EXPECT_THAT(group.ended(1), aborted);
  sums.Call(2);
  EXPECT_THAT(group.ended(2), aborted);
  group.RunAll();
  EXPECT_EQ(group.Read(sums.output(0)), sums.Elements(-1));
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(GpuLocalReduceTest, WhatFailsLaterEndsWhenTheStreamIsPastIt) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .devices_per_gpu = 3});
    FakeGpuGroup& group = sums.group();
    sums.FillAll();
    sums.CallAll();
    group.executor().StartAbort(absl::AbortedError("enough"));
    EXPECT_THAT(group.ended(), Each(Eq(std::nullopt)));
    while (!group.ended(0).has_value()) {
      ASSERT_TRUE(group.environment().RunSome(1));
    }
    EXPECT_EQ(group.Read(sums.output(2)), sums.Sum());
    EXPECT_THAT(group.ended(),
                Each(Optional(StatusIs(absl::StatusCode::kAborted, "enough"))));
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

// Runs an all-reduce of 9 members whose call of the runtime fails after
// `num_good` good ones. Returns the status that all members got.
absl::Status StatusWhereACallFails(GpuCall call, int num_good) {
  SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), " after ",
                            num_good, " good ones"));
  Sums sums({.devices_per_gpu = 9});
  FakeGpuGroup& group = sums.group();
  sums.FillAll();
  group.runtime().FailCall(call, num_good, absl::InternalError("no luck"));
  sums.CallAll();
  group.RunAll();
  group.environment().Advance(GpuPassEnd::kLookEvery);
  EXPECT_NE(group.ended(0), std::nullopt);
  const absl::Status status = group.ended(0).value_or(absl::OkStatus());
  EXPECT_THAT(group.ended(), Each(Optional(Eq(status))));
  EXPECT_EQ(group.environment().num_alarms(), 0);
  if (!status.ok()) {
    EXPECT_THAT(status, IsInternal("no luck"));
    EXPECT_THAT(sums.Remains(), IsEmpty());
  } else {
    EXPECT_EQ(group.Read(sums.output(8)), sums.Sum());
  }
  return status;
}

TEST(GpuLocalReduceTest, ACallThatFailsEndsAllMembersAndLeavesNothing) {
  struct Calls {
    GpuCall call;
    int num;  // Calls in an all-reduce.
  };
  for (const auto& [call, num] :
       {Calls{GpuCall::kCreateEvent, 9 + 1},
        Calls{GpuCall::kRecordEvent, 9 + 1},
        Calls{GpuCall::kWaitForEvent, 9 + 9}, Calls{GpuCall::kLaunchReduce, 2},
        Calls{GpuCall::kLaunchCopy, 1}}) {
    for (int num_good = 0; num_good < num; ++num_good) {
      EXPECT_FALSE(StatusWhereACallFails(call, num_good).ok());
    }
    EXPECT_THAT(StatusWhereACallFails(call, num), IsOk());
  }
}

TEST(GpuLocalReduceTest, TheEndIsFoundWhereTheHostCannotBeCalled) {
  EXPECT_THAT(StatusWhereACallFails(GpuCall::kCallHost, 0), IsOk());
}

TEST(GpuLocalReduceTest, LackOfMemoryForTheScratchEndsAllMembers) {
  FakeGpuGroup group({.devices_per_gpu = 9});
  const CollectiveRequest request =
      RequestOf(group, ReduceToRoot{.root = 8}, DType::kFloat32, 5);
  std::vector<Tensor> buffers;
  for (int rank = 0; rank < 9; ++rank) {
    buffers.push_back(group.Allocate(rank, DType::kFloat32, 5));
  }
  group.runtime().FailCall(GpuCall::kAllocateAsync, 0,
                           absl::ResourceExhaustedError("full"));
  for (int rank = 0; rank < 9; ++rank) {
    group.Call(rank, request, buffers[rank],
               rank == 8 ? &buffers[rank] : nullptr);
  }
  EXPECT_THAT(group.ended(), Each(Optional(IsResourceExhausted("full"))));
  buffers.clear();
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST(GpuLocalReduceTest, CallsOnASpoiltGpuFail) {
  Sums sums({});
  FakeGpuGroup& group = sums.group();
  group.runtime().FailStream(group.device(1).compute_stream(),
                             absl::InternalError("illegal address"));
  group.RunAll();
  sums.CallAll();
  EXPECT_THAT(group.ended(), Each(Optional(IsInternal("illegal address"))));
}

TEST(GpuLocalReduceTest, ALookBeforeTheEndEndsNothing) {
  Sums sums({});
  FakeGpuGroup& group = sums.group();
  std::vector<Bytes> seen;
  sums.FillAll();
  for (int rank = 0; rank < group.size(); ++rank) {
    group.executor().ExecuteAsync(sums.Args(rank),
                                  [&](const absl::Status& status) {
                                    EXPECT_THAT(status, IsOk());
                                    seen.push_back(group.Read(sums.output(0)));
                                  });
  }
  group.environment().Advance(10 * GpuPassEnd::kLookEvery);
  EXPECT_THAT(seen, AllOf(SizeIs(2), Each(Eq(sums.Sum()))));
  EXPECT_EQ(group.environment().num_alarms(), 0);
}

TEST(GpuLocalReduceTest, GpusWithoutALinkAreNamed) {
  Sums sums({.num_gpus = 3, .devices_per_gpu = 1, .link = [](int a, int b) {
               return a + b == 2 ? PeerLink::kNone : PeerLink::kBus;
             }});
  sums.request().impl_details.implementation = "GpuLocalReduce";
  sums.CallAll();
  EXPECT_THAT(sums.group().ended(),
              Each(Optional(IsInvalidArgument(
                  "GpuLocalReduce needs links from rank 0 "
                  "(/job:localhost/replica:0/task:0/device:GPU:0) to all, "
                  "but none leads to rank 2 "
                  "(/job:localhost/replica:0/task:0/device:GPU:2)"))));
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(GpuLocalReduceTest, OpsOfTheCallerAreRefused) {
  for (const bool is_merge_op : {true, false}) {
    Sums sums({});
    sums.request().impl_details.implementation = "GpuLocalReduce";
    if (is_merge_op) {
      sums.request().merge_op = *MergeOp::Custom(
          {.name = "mine", .apply = [](auto...) { return absl::OkStatus(); }});
    } else {
      sums.request().final_op = *FinalOp::Custom(
          {.name = "mine", .apply = [](auto...) { return absl::OkStatus(); }});
    }
    sums.CallAll();
    EXPECT_THAT(sums.group().ended(),
                Each(Optional(IsInvalidArgument(
                    "op \"mine\", a function of yours", "GpuLocalReduce"))));
  }
}

// Tests broadcasts and gathers among GPU devices.

// The parameter is the number of devices on the GPU.
class GpuLocalCopiesTest : public testing::TestWithParam<int> {
 protected:
  static FakeGpuGroup::Options Options(uint64_t seed) {
    return {.seed = seed, .devices_per_gpu = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(Members, GpuLocalCopiesTest,
                         testing::Values(1, 2, 3, 8, 9, 17));

// Waits for the end of all members. Returns the outputs, as the compute streams
// read them after all members have called.
std::vector<Bytes> ReadAfterCalls(FakeGpuGroup& group,
                                  const std::vector<Tensor>& outputs) {
  std::vector<Tensor> seen;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!outputs[rank].is_set()) continue;
    seen.push_back(group.Copy(rank, outputs[rank]));
  }
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
  std::vector<Bytes> bytes;
  bytes.reserve(seen.size());
  for (const Tensor& tensor : seen) bytes.push_back(group.Read(tensor));
  return bytes;
}

TEST_P(GpuLocalCopiesTest, EveryMemberGetsTheInputOfTheSource) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group(Options(seed));
    const int root = static_cast<int>(seed) % group.size();
    const bool in_place = seed % 2 == 0;
    const Bytes bytes = RandomElements(DType::kFloat16, 33, seed);
    std::vector<Tensor> outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      Tensor input;
      if (rank == root) {
        input = group.Allocate(rank, DType::kFloat16, 33);
        group.Write(rank, input, bytes);
        if (in_place) outputs[rank] = input;
      }
      group.Call(rank,
                 RequestOf(group, Broadcast{.is_source = rank == root},
                           DType::kFloat16, 33),
                 std::move(input), &outputs[rank]);
    }
    EXPECT_THAT(ReadAfterCalls(group, outputs), Each(bytes));
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

// Inputs of the members, of equal or of different lengths.
std::vector<Bytes> InputsOf(int num_ranks, bool is_uneven, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < num_ranks; ++rank) {
    inputs.push_back(RandomElements(DType::kInt8, is_uneven ? 2 * rank : 5,
                                    100 * seed + rank));
  }
  return inputs;
}

Bytes Joined(const std::vector<Bytes>& inputs) {
  Bytes all;
  for (const Bytes& input : inputs) {
    all.insert(all.end(), input.begin(), input.end());
  }
  return all;
}

TEST_P(GpuLocalCopiesTest, EveryMemberGetsAllInputs) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group(Options(seed));
    const bool is_uneven = seed % 2 == 0;
    const auto inputs = InputsOf(group.size(), is_uneven, seed);
    std::vector<Tensor> outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      const auto length = static_cast<int64_t>(inputs[rank].size());
      const Tensor input = group.Allocate(rank, DType::kInt8, length);
      group.Write(rank, input, inputs[rank]);
      group.Call(rank,
                 RequestOf(group, AllGather{.uneven = is_uneven}, DType::kInt8,
                           length),
                 input, &outputs[rank]);
    }
    EXPECT_THAT(ReadAfterCalls(group, outputs), Each(Joined(inputs)));
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST_P(GpuLocalCopiesTest, InputsMayBeThePartsOfTheOutputsThatTheyFill) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group(Options(seed));
    const auto inputs = InputsOf(group.size(), /*is_uneven=*/false, seed);
    std::vector<Tensor> outputs;
    for (int rank = 0; rank < group.size(); ++rank) {
      outputs.push_back(group.Allocate(rank, DType::kInt8, 5 * group.size()));
      const Tensor input = *outputs[rank].Slice(5 * rank, 5 * (rank + 1));
      group.Write(rank, input, inputs[rank]);
    }
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank, RequestOf(group, AllGather{}, DType::kInt8, 5),
                 *outputs[rank].Slice(5 * rank, 5 * (rank + 1)),
                 &outputs[rank]);
    }
    EXPECT_THAT(ReadAfterCalls(group, outputs), Each(Joined(inputs)));
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST_P(GpuLocalCopiesTest, TheRootGetsAllInputs) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group(Options(seed));
    const int root = static_cast<int>(seed) % group.size();
    const auto inputs = InputsOf(group.size(), /*is_uneven=*/false, seed);
    std::vector<Tensor> outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      const Tensor input = group.Allocate(rank, DType::kInt8, 5);
      group.Write(rank, input, inputs[rank]);
      group.Call(rank,
                 RequestOf(group, GatherToRoot{.root = root}, DType::kInt8, 5),
                 input, rank == root ? &outputs[rank] : nullptr);
    }
    EXPECT_THAT(ReadAfterCalls(group, outputs),
                testing::ElementsAre(Joined(inputs)));
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST(GpuLocalCopyFaultsTest, ACopyThatFailsEndsAllMembers) {
  for (const int num_good : {0, 1, 2}) {
    FakeGpuGroup group({.devices_per_gpu = 3});
    std::vector<Tensor> inputs, outputs;
    for (int rank = 0; rank < group.size(); ++rank) {
      inputs.push_back(group.Allocate(rank, DType::kInt8, 5));
      outputs.push_back(group.Allocate(rank, DType::kInt8, 15));
    }
    group.runtime().FailCall(GpuCall::kLaunchCopy, num_good,
                             absl::InternalError("no luck"));
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank, RequestOf(group, AllGather{}, DType::kInt8, 5),
                 inputs[rank], &outputs[rank]);
    }
    group.RunAll();
    EXPECT_THAT(group.ended(), Each(Optional(IsInternal("no luck"))));
    inputs.clear();
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

}  // namespace gpu_local_passes_test
}  // namespace tutti
