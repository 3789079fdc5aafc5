// Tests schedules whose steps run on the streams of GPUs.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_reference.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/gpu_cases.h"
#include "gtest/gtest.h"
#include "tests/conformance/case.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/tested_implementation.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using conformance::Case;
using conformance::Expectation;
using conformance::ImplementationUnderTest;
using ::testing::IsEmpty;
using ::testing::Optional;

// Runs the case as instance `key` while inputs are still being written, and
// compares the bits of all outputs.
void RunCase(FakeGpuGroup& group, const ImplementationUnderTest& under_test,
             const Case& c, int64_t key) {
  SCOPED_TRACE(absl::StrCat(under_test.name, " ", ToString(c)));
  const auto inputs = conformance::MakeInputs(under_test, c, /*seed=*/key);
  const auto expected = Expectation::Create(under_test, c, inputs);
  ASSERT_THAT(expected, IsOk());
  const auto requests = RequestsOf(c, under_test.name, key);
  std::vector<CaseBuffers> buffers(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    CollectiveRequest request = *requests[rank];
    request.device_type = CudaDevice::kType;
    buffers[rank] = MakeCaseBuffers(group.device(rank), c, rank);
    auto& [input, output] = buffers[rank];
    if (input.size_bytes() > 0) {
      group.Write(rank, input, Joined({(*inputs)[rank]}));
    }
    group.Call(rank, request, input,
               HasOutput(c.type, rank, c.root) ? &output : nullptr);
  }
  group.RunAll();
  for (int rank = 0; rank < group.size(); ++rank) {
    ASSERT_THAT(group.ended(rank), Optional(IsOk())) << rank;
    if (!HasOutput(c.type, rank, c.root)) continue;
    ASSERT_EQ(group.Read(buffers[rank].output),
              Joined((*expected)->output(rank)))
        << rank;
  }
}

class SchedulesTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, SchedulesTest, testing::ValuesIn(ScheduleNames()),
                         [](const auto& info) { return info.param; });

TEST_P(SchedulesTest, HaveTheBitsOfTheHost) {
  const ImplementationUnderTest under_test = ScheduleNamed(GetParam());
  int64_t key = 0;
  for (const int size : {1, 2, 3, 8}) {
    FakeGpuGroup group({.seed = static_cast<uint64_t>(size),
                        .devices_per_gpu = size,
                        .memory_bytes = int64_t{1} << 26});
    const conformance::Grid grid = {.devices = size};
    for (const CollectiveType type : under_test.traits().collectives) {
      std::vector<Case> cases = LengthCases(under_test, type, grid);
      for (const auto& more :
           {SpecialCases(under_test, type, grid),
            size == 8 ? std::vector<Case>()
                      : ReductionCases(under_test, type, grid)}) {
        cases.insert(cases.end(), more.begin(), more.end());
      }
      for (const Case& c : cases) {
        if (!RunsAlike(c)) continue;
        RunCase(group, under_test, c, ++key);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST(GpuScheduleTest, AveragesOf16BitFloatsAreRoundedOnce) {
  constexpr int64_t kElements = 1000;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    FakeGpuGroup group({});
    CollectiveRequest request = group.Request(AllReduce{}, dtype, kElements);
    request.final_op = FinalOp::DivideByGroupSize();
    request.impl_details.implementation = "RingReduce";
    std::vector<Bytes> inputs;
    std::vector<Tensor> outputs(2);
    for (int rank = 0; rank < 2; ++rank) {
      inputs.push_back(RandomElements(dtype, kElements, /*seed=*/rank));
      const Tensor input = group.Allocate(rank, dtype, kElements);
      group.Write(rank, input, inputs.back());
      group.Call(rank, request, input, &outputs[rank]);
    }
    group.RunAll();
    Bytes expected = inputs[0];
    // The second chunk is reduced in the opposite order, with the same bits.
    ReferenceReduceMany(ReductionKind::kSum, dtype,
                        {inputs[0].data(), inputs[1].data()}, expected.data(),
                        kElements, /*divisor=*/2);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(group.Read(outputs[rank]), expected);
    }
  }
}

// The host would use two rings.
TEST(GpuScheduleTest, OneRingHoweverLarge) {
  constexpr int64_t kElements = (9 << 20) / 4;
  FakeGpuGroup group({.memory_bytes = int64_t{1} << 27});
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kFloat32, kElements);
  request.impl_details.implementation = "RingReduce";
  std::vector<Tensor> outputs(2);
  for (int rank = 0; rank < 2; ++rank) {
    group.Call(rank, request, group.Allocate(rank, DType::kFloat32, kElements),
               &outputs[rank]);
  }
  group.RunAll();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(group.ended(rank), Optional(IsOk()));
  }
  EXPECT_EQ(group.runtime().NumCalls(GpuCall::kLaunchReduce), 2);
}

// Some order of streams reveals a step that does not wait for another device.
TEST_P(SchedulesTest, HaveThemWhateverTheOrderOfStreams) {
  const ImplementationUnderTest under_test = ScheduleNamed(GetParam());
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    // Seeds alternate: two GPUs with a link, or without.
    FakeGpuGroup group({.seed = seed,
                        .num_gpus = 2,
                        .devices_per_gpu = 2,
                        .memory_bytes = int64_t{1} << 26,
                        .link = [seed](int, int) {
                          return seed % 2 == 0 ? PeerLink::kNone
                                               : PeerLink::kNvLink;
                        }});
    int64_t key = 0;
    for (const CollectiveType type : under_test.traits().collectives) {
      for (Case c : SampleCases(under_test, type, {.devices = 4})) {
        if (seed % 4 < 2) c.in_place = InPlace::kAll;
        RunCase(group, under_test, c, ++key);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

}  // namespace
}  // namespace tutti
