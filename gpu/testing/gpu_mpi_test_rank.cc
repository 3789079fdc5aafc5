// Tests GPUs of several processes, whose bytes go through pinned memory and
// MPI, or through MPI alone. mpirun_test.py starts the processes.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/gpu_cases.h"
#include "gpu/testing/gpu_mpi_process.h"
#include "gtest/gtest.h"
#include "tests/conformance/case.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/tested_implementation.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using conformance::Case;
using conformance::ImplementationUnderTest;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Devices, GpuMpiTest, testing::Values(1, 2),
                         testing::PrintToStringParamName());

TEST_P(GpuMpiTest, AllSchedulesHaveTheBitsOfTheHost) {
  for (const std::string& name : ScheduleNames()) {
    const ImplementationUnderTest under_test = ScheduleNamed(name);
    for (const CollectiveType type : under_test.traits().collectives) {
      for (const Case& c : SampleCases(under_test, type, grid())) {
        RunCase(under_test, c);
      }
    }
  }
}

// Lengths: fewer elements than members, a small message, more bytes than MPI
// sends eagerly, and several chunks.
TEST_P(GpuMpiTest, CollectivesOfEveryLengthHaveThem) {
  const std::pair<CollectiveType, std::string> collectives[] = {
      {CollectiveType::kAllReduce, "RingReduce"},
      {CollectiveType::kAllGather, "RingGather"},
      {CollectiveType::kBroadcast, "HierarchicalTreeBroadcast"},
      {CollectiveType::kReduceScatter, "RingReduceScatter"},
      {CollectiveType::kAllToAll, "PairwiseAllToAll"}};
  // Each process makes the inputs of all processes.
  const int64_t largest = num_tasks() <= 4 ? 700'001 : 100'001;
  const std::pair<DType, std::vector<int64_t>> lengths[] = {
      {DType::kFloat32, {0, 1, 7, 4099, 40'001, largest}},
      {DType::kFloat16, {0, 1, 7, 4099, 80'001}}};
  for (const auto& [type, name] : collectives) {
    const ImplementationUnderTest under_test = ScheduleNamed(name);
    for (const auto& [dtype, of_dtype] : lengths) {
      for (const int64_t length : of_dtype) {
        const bool is_of_all =
            conformance::HasBlocks(type) && length > conformance::kMaxBlock;
        const Case c = {
            .type = type,
            .grid = grid(),
            .dtype = dtype,
            .length = is_of_all ? length / grid().size() : length,
            .root = type == CollectiveType::kBroadcast ? grid().size() - 1 : 0};
        RunCase(under_test, c);
      }
    }
  }
}

// With 16 ranks, each rank sends more than one message carries; with few ranks,
// more than a chunk.
constexpr int64_t kMany = 100'001;

TEST_P(GpuMpiTest, OnlyWhereMpiIsNotCudaAwareManyBytesPassThroughTheHost) {
  for (const std::string name : {"RingReduce", "TreeReduce", "ShuffleReduce"}) {
    RunCase(ScheduleNamed(name), {.grid = grid(), .length = kMany});
  }
  const bool has_pinned = gpus().NumCalls(GpuCall::kAllocatePinned) > 0;
  const bool has_landed = gpus().NumCalls(GpuCall::kAllocatePinnedOnGpu) > 0;
  EXPECT_EQ(has_pinned, num_tasks() > 1 && !is_cuda_aware());
  EXPECT_EQ(has_landed, num_tasks() > 1 && is_cuda_aware());
}

TEST_P(GpuMpiTest, FewBytesPassThroughTheHost) {
  RunCase(ScheduleNamed("RingReduce"), {.grid = grid(), .length = 100});
  EXPECT_EQ(gpus().NumCalls(GpuCall::kAllocatePinned) > 0, num_tasks() > 1);
  EXPECT_EQ(gpus().NumCalls(GpuCall::kAllocatePinnedOnGpu), 0);
}

// Collectives then use host memory: from the start, or after a first
// allocation.
TEST_P(GpuMpiTest, WhereAGpuHasNoMoreMemoryWhatGoesAndComesUsesTheHosts) {
  if (!is_cuda_aware() || num_tasks() == 1) return;
  for (const int num_good : {0, 1}) {
    gpus().FailCall(GpuCall::kAllocatePinnedOnGpu, num_good,
                    absl::ResourceExhaustedError("no more"),
                    /*num_bad=*/std::numeric_limits<int>::max());
    RunCase(ScheduleNamed("RingReduce"), {.grid = grid(), .length = kMany});
  }
  EXPECT_GT(gpus().NumCalls(GpuCall::kAllocatePinned), 0);
}

// MPI would get the addresses of these buffers.
TEST_P(GpuMpiTest, CollectivesThatMpiRunsAreRefused) {
  const Case c = {.grid = grid(), .length = 100};
  const auto inputs =
      conformance::MakeInputs(ScheduleNamed("RingReduce"), c, /*seed=*/1);
  for (const std::string name : {"MpiReduce", "LocalThenMpi"}) {
    GpuMpiCalls calls = Calls(name, c, *inputs);
    for (GpuMpiCall& call : calls) Start(call);
    for (GpuMpiCall& call : calls) {
      EXPECT_THAT(
          call.Wait(),
          IsInvalidArgument(absl::StrCat(name, " runs on CPU, not on GPU"),
                            "RingReduce"));
    }
  }
}

class SeveralGpusTest : public GpuMpiTest {
 protected:
  int num_gpus() const override { return 2; }
};

INSTANTIATE_TEST_SUITE_P(Devices, SeveralGpusTest, testing::Values(2),
                         testing::PrintToStringParamName());

// MPI may work with a single GPU only.
TEST_P(SeveralGpusTest, WhatTheySendPassesThroughTheHost) {
  for (const std::string name : {"RingReduce", "TreeReduce"}) {
    RunCase(ScheduleNamed(name), {.grid = grid(), .length = kMany});
  }
  EXPECT_EQ(gpus().NumCalls(GpuCall::kAllocatePinned) > 0, num_tasks() > 1);
  EXPECT_EQ(gpus().NumCalls(GpuCall::kAllocatePinnedOnGpu), 0);
}

// Sums that end with an error on all members.
class GpuMpiFailureTest : public GpuMpiTest {
 protected:
  GpuMpiCalls Sums(int64_t length, DType dtype = DType::kFloat32) {
    const Case c = {.grid = grid(), .dtype = dtype, .length = length};
    return Calls(ring_.name, c, *conformance::MakeInputs(ring_, c, /*seed=*/1));
  }

  static void ExpectAll(GpuMpiCalls& calls, absl::StatusCode code,
                        const std::string& text) {
    for (GpuMpiCall& call : calls) {
      EXPECT_THAT(call.Wait(), StatusIs(code, HasSubstr(text)));
    }
  }

  void ExpectTheNextIsRight() {
    RunCase(ring_, {.grid = grid(), .length = 30'001});
  }

  const ImplementationUnderTest ring_ = ScheduleNamed("RingReduce");
};

INSTANTIATE_TEST_SUITE_P(Devices, GpuMpiFailureTest, testing::Values(1, 2),
                         testing::PrintToStringParamName());

// The last rank does not call. The others have posted their staged bytes, and
// request more.
TEST_P(GpuMpiFailureTest, ACancellationOfOneEndsItOnAll) {
  if (grid().size() == 1) return;
  int64_t step = 1;
  for (const int64_t length : {100, 600'001}) {
    SCOPED_TRACE(length);
    GpuMpiCalls calls = Sums(length);
    // Settles the instance.
    for (GpuMpiCall& call : calls) Start(call);
    for (GpuMpiCall& call : calls) EXPECT_THAT(call.Wait(), IsOk());

    GpuMpiCalls cancelled = Again(calls);
    if (is_last()) cancelled.pop_back();
    const auto cancellation = std::make_shared<Cancellation>();
    ++step;
    for (GpuMpiCall& call : cancelled) {
      Start(call, step, call.request.rank == 0 ? cancellation : nullptr);
    }
    if (task() == 0) cancellation->Cancel(absl::AbortedError("not any more"));
    ExpectAll(cancelled, absl::StatusCode::kAborted, "not any more");
    ExpectTheNextIsRight();
  }
}

TEST_P(GpuMpiFailureTest, ADTypeThatDiffersEndsItOnAll) {
  if (num_tasks() == 1) return;
  GpuMpiCalls calls = Sums(100, is_last() ? DType::kFloat16 : DType::kFloat32);
  for (GpuMpiCall& call : calls) Start(call, /*step=*/2);
  ExpectAll(calls, absl::StatusCode::kInvalidArgument, "float16");
  ExpectTheNextIsRight();
}

TEST_P(GpuMpiFailureTest, ACallOfOneRuntimeThatFailsEndsItOnAll) {
  if (num_tasks() == 1) return;
  int64_t step = 1;
  std::vector<GpuCall> gpu_calls;
  if (is_cuda_aware()) {
    gpu_calls = {GpuCall::kLaunchCopy};  // Copies sent bytes.
  } else {
    gpu_calls = {GpuCall::kAllocatePinned, GpuCall::kCopyAsync};
  }
  gpu_calls.insert(gpu_calls.end(),
                   {GpuCall::kCreateEvent, GpuCall::kLaunchReduce});
  for (const GpuCall gpu_call : gpu_calls) {
    SCOPED_TRACE(static_cast<int>(gpu_call));
    GpuMpiCalls calls = Sums(300'001);
    if (is_last()) {
      gpus().FailCall(gpu_call, /*num_good=*/0, absl::InternalError("no luck"));
    }
    ++step;
    for (GpuMpiCall& call : calls) Start(call, step);
    ExpectAll(calls, absl::StatusCode::kInternal, "no luck");
    ExpectTheNextIsRight();
  }
}

TEST_P(GpuMpiFailureTest, ASpoiltGpuEndsItOnAll) {
  if (grid().size() == 1) return;
  GpuMpiCalls calls = Sums(300'001);
  if (is_last()) {
    gpus().FailStream(device(0).compute_stream(),
                      absl::InternalError("illegal address"));
  }
  for (GpuMpiCall& call : calls) Start(call);
  ExpectAll(calls, absl::StatusCode::kInternal, "illegal address");
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::RunGpuMpiTests(argc, argv); }
