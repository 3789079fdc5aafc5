#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/runtime/pinned_pool.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/gpu_reference.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace gpu_step_stream_test {

using ::testing::Each;
using ::testing::Eq;
using ::testing::IsEmpty;
using ::testing::Optional;

// Tests how the steps of schedules run on the streams of GPUs, and how they
// end. gpu/nccl/gpu_tasks_test.cc tests their results.

constexpr int64_t kElements = 24;

// Makes all-reduces of this implementation.
std::unique_ptr<Sums> SumsBy(const std::string& implementation,
                             FakeGpuGroup::Options options) {
  auto sums = std::make_unique<Sums>(std::move(options), kElements);
  sums->request().impl_details.implementation = implementation;
  return sums;
}

TEST(GpuStepStreamTest, AllStepsAreOnTheStreamsBeforeAnyHasRun) {
  for (const int size : {2, 4, 8}) {
    const auto sums = SumsBy("RingReduce", {.devices_per_gpu = size});
    FakeGpuGroup& group = sums->group();
    sums->FillAll();
    sums->CallAll();
    // In each of 2 (n - 1) rounds every member reads once.
    const auto num_launches = [&] {
      return group.runtime().NumCalls(GpuCall::kLaunchReduce) +
             group.runtime().NumCalls(GpuCall::kLaunchCopy);
    };
    EXPECT_EQ(num_launches(), 2 * (size - 1) * size);
    EXPECT_EQ(group.runtime().NumCalls(GpuCall::kCallHost), size);
    EXPECT_THAT(group.ended(), Each(Eq(std::nullopt)));
    group.RunAll();
    EXPECT_EQ(num_launches(), 2 * (size - 1) * size);
    EXPECT_EQ(group.runtime().NumCalls(GpuCall::kCallHost), size);
    EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
  }
}

TEST(GpuStepStreamTest, AMemberEndsWhenItsStreamIsPastAllSteps) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto sums =
        SumsBy("TreeReduce", {.seed = seed, .devices_per_gpu = 5});
    FakeGpuGroup& group = sums->group();
    sums->FillAll();
    int num_ended = 0;
    for (int rank = 0; rank < group.size(); ++rank) {
      group.executor().ExecuteAsync(
          sums->Args(rank), [&, rank](const absl::Status& status) {
            ++num_ended;
            EXPECT_THAT(status, IsOk());
            EXPECT_EQ(group.Read(sums->output(rank)), sums->Sum());
          });
    }
    group.RunAll();
    EXPECT_EQ(num_ended, group.size());
  }
}

// Runs an execution whose call of the runtime fails after `num_good` good ones.
// Returns true if the failure ended it.
bool EndsWhereACallFails(const std::string& implementation, GpuCall call,
                         int num_good) {
  SCOPED_TRACE(absl::StrCat(implementation, ": call ", static_cast<int>(call),
                            " after ", num_good, " good ones"));
  const auto sums = SumsBy(implementation, {.devices_per_gpu = 3});
  FakeGpuGroup& group = sums->group();
  sums->FillAll();
  group.runtime().FailCall(call, num_good, absl::InternalError("no luck"));
  sums->CallAll();
  group.RunAll();
  group.environment().Advance(GpuPassEnd::kLookEvery);
  EXPECT_EQ(group.environment().num_alarms(), 0);
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!group.ended(rank).has_value()) {
      ADD_FAILURE() << "rank " << rank << " has not ended";
    } else if (!group.ended(rank)->ok()) {
      EXPECT_THAT(*group.ended(rank), IsInternal("no luck"));
    } else {
      EXPECT_EQ(group.Read(sums->output(rank)), sums->Sum());
    }
  }
  const bool has_failed = !group.ended(0).value_or(absl::OkStatus()).ok() ||
                          !group.ended(1).value_or(absl::OkStatus()).ok() ||
                          !group.ended(2).value_or(absl::OkStatus()).ok();
  // Otherwise the failed call may be one that frees memory.
  if (has_failed) {
    EXPECT_THAT(sums->Remains(), IsEmpty());
  }
  return has_failed;
}

TEST(GpuStepStreamTest, ACallThatFailsEndsTheExecutionAndLeavesNothing) {
  constexpr int kMostCalls = 100;
  for (const std::string name :
       {"RingReduce", "DoubleTreeReduce", "ShuffleReduce"}) {
    for (const GpuCall call :
         {GpuCall::kCreateEvent, GpuCall::kRecordEvent, GpuCall::kWaitForEvent,
          GpuCall::kLaunchReduce, GpuCall::kLaunchCopy}) {
      int num_good = 0;
      while (num_good < kMostCalls &&
             EndsWhereACallFails(name, call, num_good)) {
        ++num_good;
      }
      EXPECT_GT(num_good, 0) << name << ", call " << static_cast<int>(call);
      EXPECT_LT(num_good, kMostCalls);
    }
  }
}

TEST(GpuStepStreamTest, TheEndIsFoundWhereTheHostCannotBeCalled) {
  EXPECT_FALSE(EndsWhereACallFails("RingReduce", GpuCall::kCallHost, 0));
}

// Covers members that wait for the GPU only through other members.
TEST(GpuStepStreamTest, ASpoiltGpuEndsAllMembersWithItsError) {
  for (const std::string name :
       {"RingReduce", "TreeReduce", "GpuLocalReduce"}) {
    for (int spoilt = 0; spoilt < 5; ++spoilt) {
      SCOPED_TRACE(absl::StrCat(name, ", GPU ", spoilt));
      const auto sums = SumsBy(
          name, {.num_gpus = 5, .devices_per_gpu = 1, .keeps_host_work = true});
      FakeGpuGroup& group = sums->group();
      group.runtime().FailStream(group.device(spoilt).compute_stream(),
                                 absl::InternalError("illegal address"));
      sums->CallAll();
      group.RunAll();
      EXPECT_THAT(group.ended(), Each(Eq(std::nullopt)));
      group.environment().Advance(GpuPassEnd::kLookEvery);
      EXPECT_THAT(group.ended(), Each(Optional(IsInternal("illegal address"))));
      EXPECT_EQ(group.environment().num_alarms(), 0);
      EXPECT_THAT(group.runtime().Mistakes(), IsEmpty());
    }
  }
}

// CUDA may refuse to answer while another thread captures a graph.
TEST(GpuStepStreamTest, ALookThatFailsOnAGoodGpuEndsNothing) {
  for (const std::string name : {"RingReduce", "GpuLocalReduce"}) {
    SCOPED_TRACE(name);
    const auto sums = SumsBy(name, {.devices_per_gpu = 3});
    FakeGpuGroup& group = sums->group();
    sums->FillAll();
    const auto gate = std::make_shared<std::atomic<bool>>(false);
    ASSERT_THAT(group.runtime().PutGate(group.device(0).compute_stream(), gate),
                IsOk());
    sums->CallAll();
    group.RunAll();
    group.runtime().FailCall(GpuCall::kIsDone, /*num_good=*/0,
                             absl::InternalError("capturing"));
    const int64_t num_before = group.runtime().NumCalls(GpuCall::kIsDone);
    group.environment().Advance(GpuPassEnd::kLookEvery);
    EXPECT_GT(group.runtime().NumCalls(GpuCall::kIsDone), num_before);
    EXPECT_THAT(group.ended(), Each(Eq(std::nullopt)));
    *gate = true;
    group.runtime().Waker()();
    group.RunAll();
    EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
    for (int rank = 0; rank < group.size(); ++rank) {
      EXPECT_EQ(group.Read(sums->output(rank)), sums->Sum());
    }
  }
}

TEST(GpuStepStreamTest, AnAbortBehindTheStepsEndsThemWhenTheStreamsArePast) {
  const auto sums = SumsBy("RingReduce", {.devices_per_gpu = 4});
  FakeGpuGroup& group = sums->group();
  sums->FillAll();
  sums->CallAll();  // All steps are on the streams.
  group.executor().StartAbort(absl::AbortedError("enough"));
  EXPECT_THAT(group.ended(), Each(Eq(std::nullopt)));
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Optional(IsAborted("enough"))));
  EXPECT_THAT(sums->Remains(), IsEmpty());
}

// More operands than a kernel reads. In place, the sum of one of the last
// members is written before its own operand is read.
TEST(GpuStepStreamTest, AStepReducesAnyNumberOfOperands) {
  for (const int size : {9, 18}) {
    const auto sums = SumsBy("ShuffleReduce", {.devices_per_gpu = size});
    sums->request().final_op = FinalOp::DivideByGroupSize();
    FakeGpuGroup& group = sums->group();
    sums->FillAll();
    std::vector<Tensor> buffers;
    for (int rank = 0; rank < size; ++rank) {
      buffers.push_back(sums->Args(rank).input);
    }
    for (int rank = 0; rank < size; ++rank) {
      CollectiveArgs args = sums->Args(rank);
      args.output = &buffers[static_cast<size_t>(rank)];
      group.Call(rank, std::move(args));
    }
    group.RunAll();
    EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
    const Bytes average = sums->Elements(static_cast<float>(size + 1) / 2);
    for (const Tensor& buffer : buffers) {
      EXPECT_EQ(group.Read(buffer), average);
    }
    buffers.clear();
    EXPECT_THAT(sums->Remains(), IsEmpty());
  }
}

// Reduces into an operand that is still unread, and into others.
TEST(GpuStepStreamTest, MoreOperandsThanAKernelReadsAreRoundedEachTime) {
  const ReductionPair pair = {ReductionKind::kSum, DType::kBFloat16};
  for (const int64_t into : {0, 7, 8, 17}) {
    FakeGpuGroup group({});
    CudaDevice& device = group.device(0);
    const auto steps = *device.OpenSteps(*group.environment().get().clock);
    std::vector<Bytes> inputs;
    std::vector<Tensor> tensors;
    std::vector<const std::byte*> operands;
    for (uint64_t seed = 0; seed < 18; ++seed) {
      inputs.push_back(RandomElements(pair.dtype, kElements, seed));
      tensors.push_back(group.Allocate(0, pair.dtype, kElements));
      group.Write(0, tensors.back(), inputs.back());
      operands.push_back(tensors.back().data());
    }
    group.RunAll();
    Tensor& output = tensors[static_cast<size_t>(into)];
    EXPECT_THAT(steps->Reduce({.kind = pair.kind,
                               .dtype = pair.dtype,
                               .operands = operands,
                               .into = output.mutable_data(),
                               .num_elements = kElements}),
                IsOk());
    steps->CallWhenOver([](absl::Status /*status*/) {});
    group.RunAll();
    EXPECT_EQ(group.Read(output),
              ReferenceReduceInPasses(pair, inputs, /*most=*/8, /*divisor=*/1));
  }
}

// Each member has different segments; the last one has none.
TEST(GpuStepStreamTest, SegmentsArePackedByTheDevice) {
  for (const std::string name : {"RingReduce", "TreeReduce"}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto sums = SumsBy(name, {.seed = seed, .devices_per_gpu = 3});
      FakeGpuGroup& group = sums->group();
      sums->FillAll();
      for (int rank = 0; rank < group.size(); ++rank) {
        CollectiveArgs args = sums->Args(rank);
        if (rank < 2) {
          const int64_t cut = 5 + rank;
          args.segments = *SegmentList::Create(
              {{*args.input.Slice(0, cut), *args.output->Slice(0, cut)},
               {*args.input.Slice(cut, kElements),
                *args.output->Slice(cut, kElements)}});
          args.input = Tensor();
          args.output = nullptr;
        }
        group.Call(rank, std::move(args));
      }
      group.RunAll();
      EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
      for (int rank = 0; rank < group.size(); ++rank) {
        EXPECT_EQ(group.Read(sums->output(rank)), sums->Sum());
      }
      EXPECT_THAT(sums->Remains(), IsEmpty());
    }
  }
}

TEST(GpuStepStreamTest, WhatIsPreparedRunsAgainAndAgain) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto sums =
        SumsBy("RingReduce", {.seed = seed, .devices_per_gpu = 3});
    FakeGpuGroup& group = sums->group();
    std::vector<std::shared_ptr<PreparedCollective>> prepared(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      group.executor().Prepare(
          sums->Args(rank), [&, rank](auto made) { prepared[rank] = *made; });
    }
    group.RunAll();
    int num_ended = 0;
    for (int run = 1; run <= 5; ++run) {
      for (int rank = 0; rank < group.size(); ++rank) {
        sums->Fill(rank, static_cast<float>(run));
        prepared[rank]->Start([&, rank, run](const absl::Status& status) {
          EXPECT_THAT(status, IsOk());
          EXPECT_EQ(group.Read(prepared[rank]->output()),
                    sums->Elements(static_cast<float>(run * group.size())));
          ++num_ended;
        });
      }
      group.RunAll();
      EXPECT_EQ(num_ended, run * group.size());
    }
    prepared.clear();
    EXPECT_THAT(sums->Remains(), IsEmpty());
  }
}

TEST(GpuStepStreamTest, WhoComesToAnExecutionThatEndedLeavesNothingEither) {
  for (int num_here = 1; num_here < 4; ++num_here) {
    const auto sums = SumsBy("RingReduce", {.devices_per_gpu = 4});
    FakeGpuGroup& group = sums->group();
    sums->FillAll();
    const auto token = std::make_shared<Cancellation>();
    for (int rank = 0; rank < num_here; ++rank) {
      CollectiveArgs args = sums->Args(rank);
      args.cancellation = token;
      group.Call(rank, std::move(args));
    }
    group.RunAll();
    token->Cancel(absl::CancelledError("enough"));
    for (int rank = num_here; rank < group.size(); ++rank) sums->Call(rank);
    group.RunAll();
    EXPECT_THAT(group.ended(), Each(Optional(IsCancelled("enough"))));
    EXPECT_THAT(sums->Remains(), IsEmpty());
  }
}

// The callback may destroy the member, and then the runtime.
TEST(GpuStepStreamTest, ACopyToTheHostThatFailsHasGivenItsBufferBack) {
  constexpr int64_t kBytes = 1000;
  for (const GpuCall call : {GpuCall::kCreateEvent, GpuCall::kCopyAsync}) {
    FakeGpuGroup group({});
    CudaDevice& device = group.device(0);
    const auto steps = *device.OpenSteps(*group.environment().get().clock);
    const Tensor bytes = group.Allocate(0, DType::kUint8, kBytes);
    group.runtime().FailCall(call, /*num_good=*/0, absl::InternalError("no"));
    int num_ended = 0;
    steps->CopyToHost({bytes.data(), bytes.size_bytes()},
                      [&](const absl::StatusOr<Tensor>& copy) {
                        ++num_ended;
                        EXPECT_THAT(copy.status(), IsInternal("no"));
                        EXPECT_THAT(device.staging()->Take(kBytes).status(),
                                    IsOk());
                      });
    group.RunAll();
    EXPECT_EQ(num_ended, 1);
    EXPECT_EQ(group.runtime().NumCalls(GpuCall::kAllocatePinned), 1);
    steps->CallWhenOver([](absl::Status /*status*/) {});
    group.RunAll();
  }
}

// Fixture whose test can block streams.
class GatedStreamsTest : public testing::Test {
 protected:
  static constexpr int64_t kBytes = 1000;

  explicit GatedStreamsTest(FakeGpuGroup::Options options)
      : group_(std::move(options)) {}

  // Blocks present and later work of `stream` until Open().
  void Close(GpuStream stream) {
    gate_ = std::make_shared<std::atomic<bool>>(false);
    EXPECT_THAT(group_.runtime().PutGate(stream, gate_), IsOk());
  }
  void Open() {
    *gate_ = true;
    group_.runtime().Waker()();
    group_.RunAll();
  }

  std::unique_ptr<StepStream> OpenSteps(int rank) {
    return *group_.device(rank).OpenSteps(*group_.environment().get().clock);
  }

  FakeGpuGroup group_;

 private:
  std::shared_ptr<std::atomic<bool>> gate_;
};

// Fixture for a transport that reads and writes the memory of GPUs.
class GpuStepsOfATransportTest : public GatedStreamsTest {
 protected:
  GpuStepsOfATransportTest()
      : GatedStreamsTest({.most_landing_bytes = kMostLandings * 4096}) {}

  void Close() {
    GatedStreamsTest::Close(group_.device(0).collective_stream());
  }

  // Puts a step that copies the landing into `into`.
  void Read(std::shared_ptr<DeviceLanding> landing, Tensor into) {
    EXPECT_THAT(steps_->ReadLanding(std::move(landing),
                                    [&](const std::byte* bytes) {
                                      return steps_->Copy(into.mutable_data(),
                                                          bytes, kBytes);
                                    }),
                IsOk());
  }

  void EndSteps() {
    std::optional<absl::Status> ended;
    steps_->CallWhenOver(
        [&](absl::Status status) { ended = std::move(status); });
    group_.RunAll();
    EXPECT_THAT(ended, Optional(IsOk()));
    EXPECT_THAT(group_.runtime().Mistakes(), IsEmpty());
  }

  static constexpr int kMostLandings = 5;

  const std::unique_ptr<StepStream> steps_ = OpenSteps(/*rank=*/0);
};

TEST_F(GpuStepsOfATransportTest, IsCalledWhenAllWasWrittenBefore) {
  const Tensor from = group_.Allocate(0, DType::kUint8, kBytes);
  Tensor into = group_.Allocate(0, DType::kUint8, kBytes);
  group_.Write(0, from, Bytes(kBytes, 7));
  group_.RunAll();
  std::optional<absl::Status> written;
  Close();
  EXPECT_THAT(steps_->Copy(into.mutable_data(), from.data(), kBytes), IsOk());
  steps_->CallWhenWritten([&](absl::Status status) {
    written = std::move(status);
    EXPECT_THAT(group_.Read(into), Each(7));
  });
  group_.RunAll();
  EXPECT_EQ(written, std::nullopt);
  Open();
  EXPECT_THAT(written, Optional(IsOk()));
  EndSteps();
}

TEST_F(GpuStepsOfATransportTest, WhatCannotBeAwaitedEndsWithTheError) {
  for (const GpuCall call : {GpuCall::kCreateEvent, GpuCall::kRecordEvent}) {
    group_.runtime().FailCall(call, /*num_good=*/0, absl::InternalError("no"));
    std::optional<absl::Status> written;
    steps_->CallWhenWritten(
        [&](absl::Status status) { written = std::move(status); });
    group_.RunAll();
    EXPECT_THAT(written, Optional(IsInternal("no")));
  }
  EndSteps();
}

TEST_F(GpuStepsOfATransportTest, LandingsAreOfTheGpuAndCanBeWrittenAtOnce) {
  const auto landing = steps_->Land(kBytes);
  ASSERT_NE(landing, nullptr);
  EXPECT_EQ(landing->bytes().size(), kBytes);
  EXPECT_THAT(group_.runtime().Read(landing->bytes().data(), kBytes), IsOk());
  EXPECT_EQ(group_.runtime().NumCalls(GpuCall::kAllocatePinned), 0);
  EndSteps();
}

TEST_F(GpuStepsOfATransportTest, StepsReadWhatHasLanded) {
  const Bytes bytes(kBytes, 9);
  const Tensor into = group_.Allocate(0, DType::kUint8, kBytes);
  auto landing = steps_->Land(kBytes);
  ASSERT_THAT(
      group_.runtime().CopyAsync(landing->bytes().data(), bytes.data(), kBytes,
                                 group_.device(0).copy_stream()),
      IsOk());
  group_.RunAll();
  Read(std::move(landing), into);
  group_.RunAll();
  EXPECT_THAT(group_.Read(into), Each(9));
  EXPECT_EQ(group_.runtime().NumCalls(GpuCall::kAllocatePinned), 0);
  EndSteps();
}

TEST_F(GpuStepsOfATransportTest, ALandingIsUsedAgainWhenItHasBeenRead) {
  const Tensor into = group_.Allocate(0, DType::kUint8, kBytes);
  auto landing = steps_->Land(kBytes);
  const std::byte* const first = landing->bytes().data();
  Close();
  Read(std::move(landing), into);
  group_.RunAll();
  auto second = steps_->Land(kBytes);
  EXPECT_NE(second->bytes().data(), first);
  Open();
  Read(std::move(second), into);
  EXPECT_EQ(steps_->Land(kBytes)->bytes().data(), first);
  EndSteps();
}

TEST_F(GpuStepsOfATransportTest, WhereAGpuHasNoMoreMemoryThereIsNoLanding) {
  group_.runtime().FailCall(GpuCall::kAllocatePinnedOnGpu, /*num_good=*/0,
                            absl::ResourceExhaustedError("no"), /*num_bad=*/2);
  EXPECT_EQ(steps_->Land(kBytes), nullptr);
  EXPECT_NE(steps_->Land(kBytes), nullptr);
  EndSteps();
}

// Bounds the landings however much arrives: they could take all memory.
TEST_F(GpuStepsOfATransportTest,
       AStreamThatWaitsHoldsNoMoreLandingsThanWasSaid) {
  const Tensor into = group_.Allocate(0, DType::kUint8, kBytes);
  Close();
  for (int i = 0; i < kMostLandings; ++i) Read(steps_->Land(kBytes), into);
  EXPECT_EQ(steps_->Land(kBytes), nullptr);
  Open();
  auto landing = steps_->Land(kBytes);
  EXPECT_NE(landing, nullptr);
  EXPECT_EQ(group_.runtime().NumCalls(GpuCall::kAllocatePinnedOnGpu),
            kMostLandings);
  landing = nullptr;
  EndSteps();
}

// Two members have posted to each other; then neither can mark its read.
class UnmarkedReads {
 public:
  void Begin(FakeGpuGroup& group) {
    for (int rank = 0; rank < 2; ++rank) {
      members_[rank].stream = group.device(rank).collective_stream();
    }
  }

  // Marks of posted bytes come first. They return when both members have
  // requested the other's bytes.
  absl::Status OnRecord(GpuStream stream) {
    for (Member& member : members_) {
      if (!(member.stream == stream)) continue;
      const int num_before = member.num_marks++;
      if (num_before == 0) Meet(loaned_);
      if (num_before != 1) return absl::OkStatus();
      Meet(read_);
      return absl::InternalError("no luck");
    }
    return absl::OkStatus();
  }

 private:
  struct Member {
    GpuStream stream;
    std::atomic<int> num_marks = 0;
  };

  static void Meet(BlockingCounter& missing) {
    missing.DecrementCount();
    missing.Wait();
  }

  std::array<Member, 2> members_;
  BlockingCounter loaned_{2}, read_{2};
};

TEST(GpuStepStreamTest, MembersThatLendToEachOtherEndWhereReadsCannotBeMarked) {
  UnmarkedReads reads;
  const auto sums = SumsBy(
      "RecursiveDoublingReduce",
      {.on_record = [&](GpuStream stream) { return reads.OnRecord(stream); }});
  FakeGpuGroup& group = sums->group();
  std::vector<std::shared_ptr<PreparedCollective>> prepared(2);
  std::vector<std::optional<absl::Status>> ended(2);
  for (int rank = 0; rank < 2; ++rank) {
    group.executor().Prepare(sums->Args(rank),
                             [&, rank](auto made) { prepared[rank] = *made; });
  }
  sums->FillAll();
  group.RunAll();
  reads.Begin(group);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      prepared[rank]->Start(
          [&, rank](absl::Status status) { ended[rank] = std::move(status); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ended, Each(Eq(std::nullopt)));
  group.RunAll();
  group.environment().Advance(GpuPassEnd::kLookEvery);
  EXPECT_THAT(ended, Each(Optional(IsInternal("no luck"))));
  prepared.clear();
  EXPECT_THAT(sums->Remains(), IsEmpty());
}

// Two devices on separate GPUs. The steps of the first wait for the second,
// which then fails.
class PeerFailsTest : public GatedStreamsTest {
 protected:
  PeerFailsTest() : GatedStreamsTest({.num_gpus = 2, .devices_per_gpu = 1}) {
    EXPECT_THAT(steps_->WaitFor(**peer_steps_->Mark()), IsOk());
    peer_steps_->CallWhenOver([](absl::Status /*status*/) {});
    group_.RunAll();
  }

  void FailPeer() {
    group_.runtime().FailStream(group_.device(1).compute_stream(),
                                absl::InternalError("illegal address"));
    group_.RunAll();
  }
  void Look() { group_.environment().Advance(GpuPassEnd::kLookEvery); }

  static auto HasFailed() { return IsInternal("illegal address"); }

  // Lets the peer fail, and expects that the steps end with its error.
  void ExpectStepsEndWithPeer() {
    steps_->CallWhenOver(
        [this](absl::Status status) { ended_ = std::move(status); });
    FailPeer();
    Look();
    EXPECT_THAT(ended_, Optional(HasFailed()));
  }

  std::optional<absl::Status> ended_;  // Of the steps.
  CudaDevice& device_ = group_.device(0);
  const std::unique_ptr<StepStream> steps_ = OpenSteps(/*rank=*/0);
  const std::unique_ptr<StepStream> peer_steps_ = OpenSteps(/*rank=*/1);
};

TEST_F(PeerFailsTest, NobodyGetsABufferThatACopyMayStillWrite) {
  const Tensor bytes = group_.Allocate(0, DType::kUint8, kBytes);
  std::optional<absl::Status> ended, steps_ended;
  Close(device_.copy_stream());
  steps_->CopyToHost(
      {bytes.data(), bytes.size_bytes()},
      [&](const absl::StatusOr<Tensor>& copy) { ended = copy.status(); });
  FailPeer();
  Look();
  EXPECT_THAT(ended, Optional(HasFailed()));
  const auto next = device_.staging()->Take(kBytes);
  ASSERT_THAT(next, IsOk());
  std::memset(next->data(), 0x11, kBytes);
  Open();
  EXPECT_THAT(std::vector<std::byte>(next->data(), next->data() + kBytes),
              Each(std::byte{0x11}));
  steps_->CallWhenOver(
      [&](absl::Status status) { steps_ended = std::move(status); });
  group_.RunAll();
  Look();
  EXPECT_THAT(steps_ended, Optional(HasFailed()));
}

TEST_F(PeerFailsTest, NobodyGetsABufferThatAStepMayStillRead) {
  Tensor bytes = group_.Allocate(0, DType::kUint8, kBytes);
  const std::vector<std::byte> from(kBytes, std::byte{0x22});
  Close(device_.collective_stream());
  EXPECT_THAT(steps_->ReadHost(from,
                               [&](const std::byte* incoming) {
                                 return steps_->Copy(bytes.mutable_data(),
                                                     incoming, kBytes);
                               }),
              IsOk());
  ExpectStepsEndWithPeer();
  const auto next = device_.staging()->Take(kBytes);
  ASSERT_THAT(next, IsOk());
  std::memset(next->data(), 0x11, kBytes);
  Open();
  EXPECT_THAT(group_.Read(bytes), Each(0x22));
}

TEST_F(PeerFailsTest, NobodyGetsALandingThatAStepMayStillRead) {
  Tensor into = group_.Allocate(0, DType::kUint8, kBytes);
  auto landing = steps_->Land(kBytes);
  const std::byte* const first = landing->bytes().data();
  Close(device_.collective_stream());
  EXPECT_THAT(steps_->ReadLanding(std::move(landing),
                                  [&](const std::byte* bytes) {
                                    return steps_->Copy(into.mutable_data(),
                                                        bytes, kBytes);
                                  }),
              IsOk());
  ExpectStepsEndWithPeer();
  EXPECT_NE(device_.landing()->Take(kBytes)->data(), first);
  Open();
}

TEST_F(PeerFailsTest, WhoWaitsForWhatIsWrittenGetsTheError) {
  std::optional<absl::Status> written;
  Close(device_.collective_stream());
  steps_->CallWhenWritten(
      [&](absl::Status status) { written = std::move(status); });
  FailPeer();
  Look();
  EXPECT_THAT(written, Optional(HasFailed()));
  steps_->CallWhenOver([](absl::Status /*status*/) {});
  Open();
}

TEST_F(PeerFailsTest, ABufferThatNothingUsesAnyMoreComesBack) {
  const Tensor bytes = group_.Allocate(0, DType::kUint8, kBytes);
  Close(device_.SignalsOf(device_.collective_stream()));
  const std::vector<std::byte> from(kBytes);
  EXPECT_THAT(
      steps_->ReadHost(
          from, [](const std::byte* /*incoming*/) { return absl::OkStatus(); }),
      IsOk());
  ExpectStepsEndWithPeer();
  EXPECT_THAT(device_.staging()->Take(kBytes).status(), IsOk());
  EXPECT_EQ(group_.runtime().NumCalls(GpuCall::kAllocatePinned), 1);
  Open();
}

// CUDA returns the failed GPU's error for such calls.
TEST_F(PeerFailsTest, WhatNamesThePeerFailsAndTheGpuStaysGood) {
  const Tensor bytes = group_.Allocate(1, DType::kUint8, kBytes);
  Tensor into = group_.Allocate(0, DType::kUint8, kBytes);
  const auto peer_steps = OpenSteps(/*rank=*/1);
  const auto written = *peer_steps->Mark();
  FailPeer();
  peer_steps->CallWhenOver([](absl::Status /*status*/) {});
  EXPECT_THAT(steps_->ReadPeer({bytes.data(), bytes.size_bytes()}, *written,
                               [](const std::byte* /*bytes*/) {
                                 ADD_FAILURE() << "put";
                                 return absl::OkStatus();
                               }),
              HasFailed());
  EXPECT_THAT(group_.runtime().CopyAsync(into.mutable_data(), bytes.data(),
                                         kBytes, device_.collective_stream()),
              HasFailed());
  std::optional<absl::Status> ended;
  steps_->CallWhenOver([&](absl::Status status) { ended = std::move(status); });
  group_.RunAll();
  Look();
  EXPECT_THAT(ended, Optional(HasFailed()));
  EXPECT_THAT(group_.runtime().FirstError(1), HasFailed());
  EXPECT_THAT(group_.runtime().FirstError(0), IsOk());
  const auto next_steps = OpenSteps(/*rank=*/0);
  std::optional<absl::Status> next_ended;
  next_steps->CallWhenOver(
      [&](absl::Status status) { next_ended = std::move(status); });
  group_.RunAll();
  EXPECT_THAT(next_ended, Optional(IsOk()));
  EXPECT_THAT(group_.runtime().Mistakes(), IsEmpty());
}

}  // namespace gpu_step_stream_test
}  // namespace tutti
