// Collectives of one process: GpuLocalReduce, GpuLocalBroadcast and
// GpuLocalGather, whose inputs are still being written and whose outputs are
// read at once, and every registered schedule. They run the cases of
// tests/conformance/ and compare bit by bit.

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/gpu_group.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/gpu_machine.h"
#include "bench/gpu/group_cases.h"
#include "bench/gpu/ring_trace.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/gpu_cases.h"
#include "gpu/testing/gpu_reference.h"
#include "gtest/gtest.h"
#include "tests/conformance/case.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using conformance::Case;
using ::testing::Values;

// In place of a number of devices on GPU 0: all GPUs, with a device on each.
constexpr int kAllGpus = 0;

std::string NameOfGroup(int num_devices) {
  return num_devices == kAllGpus ? "AllGpus"
                                 : absl::StrCat(num_devices, "OnOneGpu");
}

class OneTaskCheck : public GpuCheck {
 protected:
  // Leaves the check out where the machine has one GPU of several.
  void MakeGroup(int num_devices) {
    const int num_gpus = machine().num_gpus();
    GroupShape shape = {.devices_per_gpu = num_devices};
    if (num_devices == kAllGpus) {
      if (num_gpus == 1) GTEST_SKIP() << "there is one GPU";
      shape = {.gpus_per_task = num_gpus};
    }
    group_ = std::make_unique<GpuGroup>(machine(), shape);
  }

  GpuGroup& group() { return *group_; }

 private:
  std::unique_ptr<GpuGroup> group_;
};

class LocalChecks : public OneTaskCheck,
                    public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    // Kernels of the GPU that reduces read the memory of all others.
    const int num_gpus = GetParam() == kAllGpus ? machine().num_gpus() : 1;
    for (int peer = 1; peer < num_gpus; ++peer) {
      if (runtime().LinkBetween(0, peer).value() == PeerLink::kNone) {
        GTEST_SKIP() << "GPU 0 has no link to GPU " << peer;
      }
    }
    MakeGroup(GetParam());
  }

  // Reduces random elements in place, many times without a wait: outputs of one
  // reduction are inputs of the next. The bits are those of the reference.
  void ReduceInARow(const ReductionPair& pair, int64_t length, int rounds);

  // Runs the cases, and one of many bytes for each collective.
  void RunCasesOf(const std::string& implementation);
};

void LocalChecks::ReduceInARow(const ReductionPair& pair, int64_t length,
                               int rounds) {
  CollectiveRequest request = group().Request(AllReduce{}, pair.dtype, length);
  request.impl_details.implementation = "GpuLocalReduce";
  request.merge_op = pair.kind;
  std::vector<Bytes> values;
  std::vector<Tensor> tensors;
  for (int rank = 0; rank < group().size(); ++rank) {
    values.push_back(RandomElements(pair.dtype, static_cast<size_t>(length),
                                    100 + static_cast<uint64_t>(rank)));
    tensors.push_back(group().Allocate(rank, pair.dtype, length));
    group().Write(rank, tensors[rank], values[rank]);
  }
  for (int round = 0; round < rounds; ++round) {
    for (int rank = 0; rank < group().size(); ++rank) {
      group().Call(rank, request, tensors[rank], &tensors[rank]);
    }
    values.assign(values.size(),
                  ReferenceGpuLocalReduce(pair, values, /*is_average=*/false));
  }
  std::vector<const uint8_t*> found;
  for (int rank = 0; rank < group().size(); ++rank) {
    found.push_back(group().Read(rank, tensors[rank]));
  }
  group().Finish();
  for (int rank = 0; rank < group().size(); ++rank) {
    Ok(CompareBytes(absl::StrCat("rank ", rank), values[rank], found[rank]));
  }
}

void LocalChecks::RunCasesOf(const std::string& implementation) {
  const auto under_test = FindUnderTest(implementation);
  const conformance::Grid grid = GridOf(group());
  std::vector<Case> cases = CasesOf(under_test, grid, scale());
  AddLargeCases(under_test, grid, scale(), &cases);
  RunCases(group(), under_test, cases, ReadBack::kAtOnce);
}

TEST_P(LocalChecks, GpuLocalReduce) {
  for (const ReductionPair& pair : SupportedPairs()) {
    if (!Passes(Describe(pair), [&] { ReduceInARow(pair, 127, 1); })) return;
  }
  RunCasesOf("GpuLocalReduce");
}

TEST_P(LocalChecks, GpuLocalReduceManyInARow) {
  ReduceInARow({ReductionKind::kSum, DType::kInt32}, 1001, scale().rounds);
}

TEST_P(LocalChecks, GpuLocalBroadcast) { RunCasesOf("GpuLocalBroadcast"); }

TEST_P(LocalChecks, GpuLocalGather) { RunCasesOf("GpuLocalGather"); }

// 11 devices are more than one pass over memory takes.
INSTANTIATE_TEST_SUITE_P(Devices, LocalChecks, Values(1, 2, 4, 8, 11, kAllGpus),
                         [](const auto& info) {
                           return NameOfGroup(info.param);
                         });

class ScheduleChecks
    : public OneTaskCheck,
      public ::testing::WithParamInterface<std::tuple<int, std::string>> {};

TEST_P(ScheduleChecks, MembersGetWhatTheCollectivePromises) {
  const auto& [num_devices, name] = GetParam();
  MakeGroup(num_devices);
  if (IsSkipped()) return;
  const auto schedule = ScheduleNamed(name);
  RunCases(group(), schedule, CasesOf(schedule, GridOf(group()), scale()));
}

INSTANTIATE_TEST_SUITE_P(
    Devices, ScheduleChecks,
    ::testing::Combine(Values(2, 4, 8, kAllGpus),
                       ::testing::ValuesIn(ScheduleNames())),
    [](const auto& info) {
      return CheckName(absl::StrCat(NameOfGroup(std::get<0>(info.param)), "_",
                                    std::get<1>(info.param)));
    });

class RingTraceChecks : public GpuCheck,
                        public ::testing::WithParamInterface<int> {};

TEST_P(RingTraceChecks, TheHostDoesNotWaitBetweenSteps) {
  TraceRing(machine(), GetParam(), /*num_elements=*/1001);
}

INSTANTIATE_TEST_SUITE_P(OnOneGpu, RingTraceChecks, Values(2, 4, 8),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti
