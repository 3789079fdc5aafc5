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
#include "gpu/testing/fake_gpu_sums.h"
#include "gpu/testing/gpu_reference.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"
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

// Fixture for a transport that reads and writes the memory of GPUs.
class GpuStepsOfATransportTest : public testing::Test {
 protected:
  static constexpr int64_t kBytes = 1000;

  GpuStream stream() { return group_.device(0).collective_stream(); }

  // Blocks present and later work of the stream until Open().
  void Close() {
    gate_ = std::make_shared<std::atomic<bool>>(false);
    EXPECT_THAT(group_.runtime().PutGate(stream(), gate_), IsOk());
  }
  void Open() {
    *gate_ = true;
    group_.runtime().Waker()();
    group_.RunAll();
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

  FakeGpuGroup group_{{.most_landing_bytes = kMostLandings * 4096}};
  std::shared_ptr<std::atomic<bool>> gate_;
  const std::unique_ptr<StepStream> steps_ =
      *group_.device(0).OpenSteps(*group_.environment().get().clock);
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
class PeerFailsTest : public testing::Test {
 protected:
  static constexpr int64_t kBytes = 1000;

  PeerFailsTest() {
    EXPECT_THAT(steps_->WaitFor(**peer_steps_->Mark()), IsOk());
    peer_steps_->CallWhenOver([](absl::Status /*status*/) {});
    group_.RunAll();
  }

  static std::unique_ptr<StepStream> Open(CudaDevice& device,
                                          FakeGpuGroup& group) {
    return *device.OpenSteps(*group.environment().get().clock);
  }

  void FailPeer() {
    group_.runtime().FailStream(group_.device(1).compute_stream(),
                                absl::InternalError("illegal address"));
    group_.RunAll();
  }
  void Look() { group_.environment().Advance(GpuPassEnd::kLookEvery); }

  // Blocks present and later work of `stream` until Open().
  void Close(GpuStream stream) {
    EXPECT_THAT(group_.runtime().PutGate(stream, gate_), IsOk());
  }
  void Open() {
    *gate_ = true;
    group_.runtime().Waker()();
    group_.RunAll();
  }

  static auto HasFailed() { return IsInternal("illegal address"); }

  FakeGpuGroup group_{{.num_gpus = 2, .devices_per_gpu = 1}};
  CudaDevice& device_ = group_.device(0);
  const std::shared_ptr<std::atomic<bool>> gate_ =
      std::make_shared<std::atomic<bool>>(false);
  const std::unique_ptr<StepStream> steps_ = Open(device_, group_);
  const std::unique_ptr<StepStream> peer_steps_ =
      Open(group_.device(1), group_);
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
  std::optional<absl::Status> ended;
  Close(device_.collective_stream());
  EXPECT_THAT(steps_->ReadHost(from,
                               [&](const std::byte* incoming) {
                                 return steps_->Copy(bytes.mutable_data(),
                                                     incoming, kBytes);
                               }),
              IsOk());
  steps_->CallWhenOver([&](absl::Status status) { ended = std::move(status); });
  FailPeer();
  Look();
  EXPECT_THAT(ended, Optional(HasFailed()));
  const auto next = device_.staging()->Take(kBytes);
  ASSERT_THAT(next, IsOk());
  std::memset(next->data(), 0x11, kBytes);
  Open();
  EXPECT_THAT(group_.Read(bytes), Each(0x22));
}

TEST_F(PeerFailsTest, NobodyGetsALandingThatAStepMayStillRead) {
  Tensor into = group_.Allocate(0, DType::kUint8, kBytes);
  std::optional<absl::Status> ended;
  auto landing = steps_->Land(kBytes);
  const std::byte* const first = landing->bytes().data();
  Close(device_.collective_stream());
  EXPECT_THAT(steps_->ReadLanding(std::move(landing),
                                  [&](const std::byte* bytes) {
                                    return steps_->Copy(into.mutable_data(),
                                                        bytes, kBytes);
                                  }),
              IsOk());
  steps_->CallWhenOver([&](absl::Status status) { ended = std::move(status); });
  FailPeer();
  Look();
  EXPECT_THAT(ended, Optional(HasFailed()));
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
  std::optional<absl::Status> ended;
  Close(device_.SignalsOf(device_.collective_stream()));
  const std::vector<std::byte> from(kBytes);
  EXPECT_THAT(
      steps_->ReadHost(
          from, [](const std::byte* /*incoming*/) { return absl::OkStatus(); }),
      IsOk());
  steps_->CallWhenOver([&](absl::Status status) { ended = std::move(status); });
  FailPeer();
  Look();
  EXPECT_THAT(ended, Optional(HasFailed()));
  EXPECT_THAT(device_.staging()->Take(kBytes).status(), IsOk());
  EXPECT_EQ(group_.runtime().NumCalls(GpuCall::kAllocatePinned), 1);
  Open();
}

// CUDA returns the failed GPU's error for such calls.
TEST_F(PeerFailsTest, WhatNamesThePeerFailsAndTheGpuStaysGood) {
  const Tensor bytes = group_.Allocate(1, DType::kUint8, kBytes);
  Tensor into = group_.Allocate(0, DType::kUint8, kBytes);
  const auto peer_steps = Open(group_.device(1), group_);
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
  const auto next_steps = Open(device_, group_);
  std::optional<absl::Status> next_ended;
  next_steps->CallWhenOver(
      [&](absl::Status status) { next_ended = std::move(status); });
  group_.RunAll();
  EXPECT_THAT(next_ended, Optional(IsOk()));
  EXPECT_THAT(group_.runtime().Mistakes(), IsEmpty());
}

// Tests all-reduces among GPU devices whose members call on separate threads.

constexpr int kNumMembers = 3;
constexpr int64_t kThreadElements = 9;

// Devices on one GPU of a fake runtime, and an executor.
class Group {
 public:
  explicit Group(const std::string& implementation)
      : runtime_({.environment = environment_.get()}) {
    auto made = CreateCudaDevices({.runtime = &runtime_,
                                   .environment = environment_.get(),
                                   .devices_per_gpu = kNumMembers});
    std::vector<std::unique_ptr<Device>> devices;
    for (auto& device : *made) devices.push_back(std::move(device));
    devices_ = *DeviceManager::Create(std::move(devices));
    executors_ = *CreateLocalExecutorMgr(environment_.get(), devices_.get());
    executor_ = executors_->FindOrCreate(/*step_id=*/1);
    CollectiveRequest request;
    request.group_size = kNumMembers;
    request.device_type = CudaDevice::kType;
    request.op = AllReduce{};
    request.dtype = DType::kInt8;
    request.shape = TensorShape::Vector(kThreadElements);
    request.impl_details.implementation = implementation;
    request_ = std::make_shared<const CollectiveRequest>(request);
  }

  CollectiveExecutor& executor() { return *executor_; }
  FakeGpuRuntime& runtime() { return runtime_; }

  // Runs `member` on a thread for each device, and waits for all.
  template <typename Function>
  void RunMembers(Function member) {
    std::vector<std::thread> threads;
    threads.reserve(kNumMembers);
    for (int rank = 0; rank < kNumMembers; ++rank) {
      threads.emplace_back([&, rank] {
        member(static_cast<CudaDevice&>(*devices_->devices()[rank]));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Runs an all-reduce in place, and waits for its end.
  absl::Status Reduce(CudaDevice& device, Tensor tensor) {
    BlockingCounter is_done(1);
    absl::Status ended;
    executor_->ExecuteAsync({.device = &device,
                             .request = request_,
                             .input = tensor,
                             .output = &tensor},
                            [&](absl::Status status) {
                              ended = std::move(status);
                              is_done.DecrementCount();
                            });
    is_done.Wait();
    return ended;
  }

  Tensor Allocate(CudaDevice& device) {
    return *device.Allocate(request_->dtype, request_->shape);
  }

 private:
  const DefaultEnvironment environment_{/*num_workers=*/2};
  FakeGpuRuntime runtime_;
  std::unique_ptr<DeviceManager> devices_;
  std::unique_ptr<CollectiveExecutorMgr> executors_;
  std::shared_ptr<CollectiveExecutor> executor_;
  std::shared_ptr<const CollectiveRequest> request_;
};

// Takes the name of an implementation.
class GpuThreadsTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Implementations, GpuThreadsTest,
                         testing::Values("GpuLocalReduce", "RingReduce",
                                         "DoubleTreeReduce"),
                         [](const auto& info) { return info.param; });

TEST_P(GpuThreadsTest, EveryMemberGetsEverySum) {
  Group group(GetParam());
  group.RunMembers([&](CudaDevice& device) {
    Tensor tensor = group.Allocate(device);
    for (int run = 1; run <= 100; ++run) {
      const std::vector<uint8_t> ones(kThreadElements, run % 40);
      EXPECT_THAT(
          group.runtime().CopyAsync(tensor.mutable_data(), ones.data(),
                                    kThreadElements, device.compute_stream()),
          IsOk());
      EXPECT_THAT(group.Reduce(device, tensor), IsOk());
      EXPECT_THAT(*group.runtime().Read(tensor.data(), kThreadElements),
                  Each(run % 40 * kNumMembers));
    }
  });
  EXPECT_THAT(group.runtime().Mistakes(), IsEmpty());
}

TEST_P(GpuThreadsTest, AnAbortEndsAllCallsWheneverItComes) {
  for (int num_good = 0; num_good < 20; ++num_good) {
    Group group(GetParam());
    group.RunMembers([&](CudaDevice& device) {
      const bool aborts = device.attributes().name.index == num_good % 3;
      const Tensor tensor = group.Allocate(device);
      absl::Status status;
      for (int run = 0; status.ok(); ++run) {
        if (aborts && run == num_good) {
          group.executor().StartAbort(absl::AbortedError("enough"));
        }
        status = group.Reduce(device, tensor);
      }
      EXPECT_THAT(status, IsAborted("enough"));
    });
    EXPECT_THAT(group.runtime().Mistakes(), IsEmpty());
  }
}

}  // namespace gpu_step_stream_test
}  // namespace tutti
