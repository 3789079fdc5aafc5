#include "gpu/nccl/nccl_then.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"

namespace tutti {
namespace nccl_then_test {

using ::testing::AllOf;
using ::testing::Combine;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using ::testing::Values;

constexpr int64_t kChunkElements = 16;
constexpr int64_t kChunkBytes = kChunkElements * sizeof(int32_t);

// Same as the registered hybrids, in small chunks.
REGISTER_COLLECTIVE(ThenRing, NcclThenFactory("RingReduce", kChunkBytes));
REGISTER_COLLECTIVE(ThenShuffle, NcclThenFactory("ShuffleReduce", kChunkBytes));
REGISTER_COLLECTIVE(ThenHalving,
                    NcclThenFactory("RecursiveHalvingDoublingReduce",
                                    kChunkBytes));

// First of two processes with two ranks each.
constexpr int kFirstProcess[] = {0, 1};

// Sums of integers, which wrap: the same in any order.
class Sums {
 public:
  Sums(FakeNcclTasks::Options options, std::string name, int64_t num_elements,
       uint64_t seed = 1)
      : tasks_(options),
        request_(tasks_.Request(AllReduce{}, DType::kInt32, num_elements)),
        sum_(static_cast<size_t>(num_elements)),
        given_(tasks_.size()),
        outputs_(tasks_.size()) {
    request_.impl_details.implementation = std::move(name);
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      inputs_.push_back(
          RandomElements(DType::kInt32, sum_.size(), 100 * seed + rank));
      for (size_t i = 0; i < sum_.size(); ++i) {
        uint32_t value = 0;
        std::memcpy(&value, &inputs_.back()[i * sizeof(value)], sizeof(value));
        sum_[i] += value;
      }
    }
  }

  FakeNcclTasks& tasks() { return tasks_; }
  CollectiveRequest& request() { return request_; }

  // Makes the buffers of the rank's call.
  void Give(int rank, bool in_place) {
    Tensor& input = given_[rank];
    input = tasks_.Allocate(rank, DType::kInt32, request_.shape);
    if (!inputs_[rank].empty()) tasks_.Write(rank, input, inputs_[rank]);
    outputs_[rank] = in_place ? input : Tensor();
  }
  void CallGiven(int rank) {
    tasks_.Call(rank, request_, std::move(given_[rank]), &outputs_[rank],
                step_);
  }
  void Call(int rank, bool in_place) {
    Give(rank, in_place);
    CallGiven(rank);
  }
  void CallAll(bool in_place) {
    for (int rank = 0; rank < tasks_.size(); ++rank) Call(rank, in_place);
  }

  // Runs repeatedly: launches follow each other when NCCL gets ready.
  void RunAll() {
    constexpr int kMostLaunches = 20;
    for (int i = 0; i < kMostLaunches; ++i) tasks_.RunAll();
  }

  // Calls on all ranks, and expects the sum. Settles the instance: later calls
  // of a process begin at once.
  void Run() {
    CallAll(/*in_place=*/false);
    RunAll();
    ASSERT_THAT(tasks_.ended(), Each(Optional(IsOk())));
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      ASSERT_TRUE(Result(rank) == Sum()) << rank;
    }
  }

  // Calls on the ranks of the first process. Returns the number of its launches
  // until it waits for the other process.
  int NumLaunchesOfOneProcess() {
    const int before = tasks_.network().counts().launches;
    for (const int rank : kFirstProcess) Call(rank, /*in_place=*/false);
    RunAll();
    return tasks_.network().counts().launches - before;
  }

  // Ends the generation: later calls belong to the next one, and to another
  // step.
  void FormAgain() {
    tasks_.EndGroup(absl::AbortedError("formed again"));
    RunAll();
    ++step_;
  }

  // Expects that the two ranks of a process can reduce as a separate group.
  void ExpectProcessReducesAlone(int first_rank) {
    CollectiveRequest request = request_;
    request.group_key = 7;
    request.group_size = 2;
    std::vector<Tensor> outputs(2);
    for (int place = 0; place < 2; ++place) {
      const int rank = first_rank + place;
      Tensor input = tasks_.Allocate(rank, DType::kInt32, request.shape);
      tasks_.Write(rank, input, Bytes(input.size_bytes(), 1 + place));
      request.rank = place;
      tasks_.Call(
          rank,
          {.request = std::make_shared<const CollectiveRequest>(request),
           .input = input,
           .output = &outputs[place]},
          step_);
    }
    RunAll();
    for (int place = 0; place < 2; ++place) {
      EXPECT_THAT(tasks_.ended()[first_rank + place], Optional(IsOk()));
      EXPECT_THAT(tasks_.Read(first_rank + place, outputs[place]), Each(1 + 2));
    }
  }

  Bytes Result(int rank) {
    return outputs_[rank].size_bytes() == 0 ? Bytes()
                                            : tasks_.Read(rank, outputs_[rank]);
  }
  Bytes Sum(int32_t divisor = 1) const {
    Bytes bytes(sum_.size() * sizeof(uint32_t));
    for (size_t i = 0; i < sum_.size(); ++i) {
      const int32_t value = static_cast<int32_t>(sum_[i]) / divisor;
      std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
    }
    return bytes;
  }

  std::vector<std::string> Remains() {
    outputs_.clear();
    return tasks_.Remains();
  }

 private:
  FakeNcclTasks tasks_;
  int64_t step_ = 1;
  CollectiveRequest request_;
  std::vector<Bytes> inputs_;
  std::vector<uint32_t> sum_;
  std::vector<Tensor> given_, outputs_;
};

class ThenLayoutsTest
    : public testing::TestWithParam<std::tuple<std::string, int, int>> {};
INSTANTIATE_TEST_SUITE_P(TasksAndGpus, ThenLayoutsTest,
                         Combine(Values("NcclThenRing", "NcclThenShuffle",
                                        "NcclThenRecursiveHalvingDoubling",
                                        "ThenRing", "ThenShuffle",
                                        "ThenHalving"),
                                 Values(1, 2, 3), Values(1, 2, 3)));

TEST_P(ThenLayoutsTest, EveryMemberGetsTheReduction) {
  const auto& [name, num_tasks, gpus_per_task] = GetParam();
  uint64_t seed = 0;
  // Lengths: empty, few elements, one chunk, three chunks and a rest.
  for (const int64_t num_elements : {int64_t{0}, int64_t{1}, int64_t{7},
                                     kChunkElements, 3 * kChunkElements + 5}) {
    SCOPED_TRACE(num_elements);
    const bool is_average = seed % 2 == 1;
    ++seed;
    Sums sums(
        {.seed = seed, .num_tasks = num_tasks, .gpus_per_task = gpus_per_task},
        name, num_elements, seed);
    FakeNcclTasks& tasks = sums.tasks();
    if (is_average) sums.request().final_op = FinalOp::DivideByGroupSize();
    // Runs the same instance twice.
    for (const bool in_place : {false, true}) {
      sums.CallAll(in_place);
      sums.RunAll();
      ASSERT_THAT(tasks.ended(), Each(Optional(IsOk())));
      for (int rank = 0; rank < tasks.size(); ++rank) {
        ASSERT_TRUE(sums.Result(rank) ==
                    sums.Sum(is_average ? tasks.size() : 1))
            << rank;
      }
    }
    // Both runs share a communicator per process, if any, with an end per rank.
    EXPECT_EQ(tasks.network().counts().inits,
              num_elements > 0 && gpus_per_task > 1 ? tasks.size() : 0);
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(NcclThenTest, ChunksOverlapInAnyOrderOfStreams) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Sums sums({.seed = seed, .num_tasks = 2, .gpus_per_task = 2}, "ThenRing",
              3 * kChunkElements + 3, seed);
    sums.CallAll(/*in_place=*/seed % 2 == 0);
    sums.RunAll();
    ASSERT_THAT(sums.tasks().ended(), Each(Optional(IsOk())));
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(sums.Result(rank) == sums.Sum()) << rank;
    }
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(NcclThenTest, SubdivisionsAndTheListOfRanksGoToTheSchedule) {
  Sums sums({.num_tasks = 3, .gpus_per_task = 2}, "ThenRing",
            2 * kChunkElements + 1);
  sums.request().impl_details.subdiv_offsets = {0, -1};
  sums.request().impl_details.rank_list = {5, 4, 0, 1, 2, 3};
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

auto IsErrorWith(const std::string& text) {
  return AllOf(Not(IsOk()), ::testing::ResultOf(
                                [](const absl::Status& status) {
                                  return std::string(status.message());
                                },
                                HasSubstr(text)));
}

// Runs until NCCL and the GPUs have been checked for errors.
void RunUntilErrorsShow(Sums& sums) {
  sums.RunAll();
  sums.tasks().environment().Advance(2 * NcclGroup::kLookEvery);
  sums.RunAll();
}

// Expects that an error in one process ends all members, which have all called.
void EndsAllWith(Sums& sums, const std::string& text) {
  RunUntilErrorsShow(sums);
  EXPECT_THAT(sums.tasks().ended(), Each(Optional(IsErrorWith(text))));
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

FakeNcclTasks::Options TwoByTwo() {
  return {.num_tasks = 2, .gpus_per_task = 2};
}

// Communicators here have ranks of one process only.
TEST(NcclThenTest, CommunicatorsThatBlockWillDo) {
  // Launches of an execution may exceed the bound on launches of others.
  constexpr int64_t kNumChunks = NcclGroup::kMostRunning + 3;
  Sums sums({.num_tasks = 2, .why_blocking = "it is old"}, "ThenRing",
            kNumChunks * kChunkElements);
  sums.CallAll(/*in_place=*/false);
  for (int64_t i = 0; i < kNumChunks; ++i) sums.tasks().RunAll();
  EXPECT_THAT(sums.tasks().ended(), Each(Optional(IsOk())));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(sums.Result(rank) == sums.Sum()) << rank;
  }
  EXPECT_EQ(sums.tasks().network().counts().inits, 4);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

// NCCL of one task cannot have a communicator with the other task.
TEST(NcclThenTest, WhereCommunicatorsOfATaskBlockSomethingElseIsChosen) {
  FakeNcclTasks::Options options = TwoByTwo();
  options.first_that_blocks = 1;
  for (const char* const why_blocking : {"it is old", ""}) {
    options.why_blocking = why_blocking;
    Sums sums(options, /*name=*/"", kChunkElements);
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    EXPECT_EQ(sums.tasks().network().counts().inits,
              options.why_blocking.empty() ? 4 : 0);
  }
}

TEST(NcclThenTest, NcclReducesTheNextChunkWhileOneIsBetweenProcesses) {
  Sums sums(TwoByTwo(), "ThenRing", 4 * kChunkElements);
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  // The first launch waits for the other process, and the third for the first.
  EXPECT_EQ(sums.NumLaunchesOfOneProcess(), 2);
  for (const int rank : {2, 3}) sums.Call(rank, /*in_place=*/false);
  sums.RunAll();
  EXPECT_THAT(sums.tasks().ended(), Each(Optional(IsOk())));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(sums.Result(rank) == sums.Sum()) << rank;
  }
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclThenTest, AnErrorOfNcclEndsAllMembers) {
  {
    Sums sums(TwoByTwo(), "ThenRing", 2 * kChunkElements);
    sums.tasks().network().FailNextInit(absl::InternalError("no init"));
    sums.CallAll(/*in_place=*/false);
    EndsAllWith(sums, "no init");
  }
  {
    Sums sums(TwoByTwo(), "ThenRing", 2 * kChunkElements);
    sums.tasks().network().FailNextLaunch(absl::InternalError("no launch"));
    sums.CallAll(/*in_place=*/false);
    EndsAllWith(sums, "no launch");
  }
}

TEST(NcclThenTest, ACallThatFailsEndsAllMembersAndLeavesNothing) {
  struct Calls {
    GpuCall call;
    int num;  // Calls needed for the result.
  };
  for (const auto& [call, num] :
       {Calls{GpuCall::kCreateEvent, 6}, Calls{GpuCall::kRecordEvent, 6},
        Calls{GpuCall::kWaitForEvent, 4}}) {
    for (int num_good = 0; num_good < num; ++num_good) {
      SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), " after ",
                                num_good, " others"));
      Sums sums(TwoByTwo(), "ThenRing", 2 * kChunkElements);
      for (int rank = 0; rank < 4; ++rank) sums.Give(rank, /*in_place=*/true);
      sums.tasks().gpus(0).FailCall(call, num_good,
                                    absl::InternalError("no luck"));
      for (int rank = 0; rank < 4; ++rank) sums.CallGiven(rank);
      EndsAllWith(sums, "no luck");
    }
  }
}

TEST(NcclThenTest, ALaunchThatHangsEndsWithTheCollective) {
  Sums sums(TwoByTwo(), "NcclThenRing", 100);
  FakeNcclTasks& tasks = sums.tasks();
  tasks.network().HangLaunches(true);
  sums.CallAll(/*in_place=*/false);
  sums.RunAll();
  EXPECT_THAT(tasks.ended(), Each(std::nullopt));
  tasks.EndGroup(absl::AbortedError("the group is over"));
  sums.RunAll();
  tasks.environment().Advance(2 * NcclGroup::kLookEvery);
  sums.RunAll();
  EXPECT_THAT(tasks.ended(), Each(Optional(IsAborted("the group is over"))));
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclThenTest, AProcessThatNeverComesIsNoReasonToKeepTheOthersBuffers) {
  Sums sums(TwoByTwo(), "ThenRing", 3 * kChunkElements);
  FakeNcclTasks& tasks = sums.tasks();
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  ASSERT_GT(sums.NumLaunchesOfOneProcess(), 0);
  for (const int rank : kFirstProcess) {
    EXPECT_EQ(tasks.ended()[rank], std::nullopt);
  }
  tasks.executor(2)->StartAbort(absl::AbortedError("no time for it"));
  tasks.executor(0)->StartAbort(absl::AbortedError("no time for it"));
  sums.RunAll();
  for (const int rank : kFirstProcess) {
    EXPECT_THAT(tasks.ended()[rank], Optional(IsAborted("no time for it")));
  }
  sums.FormAgain();
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclThenTest, AnAsynchronousErrorEndsAllMembers) {
  for (const bool is_hanging : {false, true}) {
    Sums sums(TwoByTwo(), "ThenRing", 3 * kChunkElements);
    FakeNcclTasks& tasks = sums.tasks();
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    tasks.network().HangLaunches(is_hanging);
    sums.CallAll(/*in_place=*/false);
    tasks.network().FailAll(absl::InternalError("the link is down"));
    RunUntilErrorsShow(sums);
    EXPECT_THAT(tasks.ended(), Each(Optional(IsInternal("the link is down"))));
    EXPECT_EQ(tasks.network().counts().aborts, 4);
    tasks.network().HangLaunches(false);
    sums.FormAgain();
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(NcclThenTest, AnAsynchronousErrorEndsAProcessThatIsAheadOfOthers) {
  Sums sums(TwoByTwo(), "ThenRing", 3 * kChunkElements);
  FakeNcclTasks& tasks = sums.tasks();
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  ASSERT_GT(sums.NumLaunchesOfOneProcess(), 0);
  tasks.network().FailAll(absl::InternalError("the link is down"));
  RunUntilErrorsShow(sums);
  for (const int rank : kFirstProcess) {
    EXPECT_THAT(tasks.ended()[rank], Optional(IsErrorWith("the link is down")));
  }
  sums.FormAgain();
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclThenTest, ASpoiltGpuEndsAllMembersAndNoOtherProcessIsSpoilt) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const int spoilt = static_cast<int>(seed % 4);
    SCOPED_TRACE(seed);
    Sums sums({.seed = seed, .num_tasks = 2, .gpus_per_task = 2}, "ThenRing",
              3 * kChunkElements);
    FakeNcclTasks& tasks = sums.tasks();
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    for (int rank = 0; rank < 4; ++rank) sums.Give(rank, /*in_place=*/true);
    tasks.gpus(spoilt).FailStream(tasks.device(spoilt).compute_stream(),
                                  absl::InternalError("illegal address"));
    for (int rank = 0; rank < 4; ++rank) sums.CallGiven(rank);
    RunUntilErrorsShow(sums);
    EXPECT_THAT(tasks.ended(), Each(Optional(IsInternal("illegal address"))));
    EXPECT_EQ(tasks.network().counts().living, 0);
    EXPECT_EQ(tasks.environment().num_alarms(), 0);
    sums.FormAgain();
    sums.ExpectProcessReducesAlone(/*first_rank=*/spoilt < 2 ? 2 : 0);
  }
}

TEST(NcclThenTest, FunctionsOfTheHostAreRefused) {
  Sums sums(TwoByTwo(), "NcclThenRing", 4);
  sums.request().merge_op =
      MergeOp::Custom({.name = "mine",
                       .commutative = true,
                       .apply = [](DType, const void*, const void*, void*,
                                   int64_t) { return absl::OkStatus(); }})
          .value();
  sums.CallAll(/*in_place=*/false);
  EndsAllWith(sums, "NcclThenRing cannot run the merge op \"mine\"");
}

}  // namespace nccl_then_test
}  // namespace tutti
