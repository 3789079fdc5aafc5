// All-reduces of several members in each of several processes. The processes
// are tasks in this one: tests/process_matrix_test.py runs them as processes.

#include "implementations/local_then.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/collective_context.h"
#include "framework/collective_executor.h"
#include "framework/collective_executor_mgr.h"
#include "framework/cpu_device.h"
#include "framework/device_manager.h"
#include "framework/group_layout.h"
#include "framework/local_peer_access.h"
#include "framework/params.h"
#include "framework/prepared_collective.h"
#include "framework/reduction_test_data.h"
#include "framework/registry.h"
#include "schedule/algorithm.h"
#include "schedule/schedule_builder.h"
#include "schedule/stand_in.h"
#include "tests/failing_peer_access.h"
#include "tests/local_job.h"
#include "tests/simulated_environment.h"
#include "tests/status_matchers.h"
#include "tests/tasks_in_process.h"

namespace tutti {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::Combine;
using testing::Each;
using testing::HasSubstr;
using testing::Optional;
using testing::Values;

constexpr int64_t kChunkElements = 16;
constexpr int64_t kChunkBytes = kChunkElements * sizeof(int32_t);

// As those that are registered, in small chunks.
REGISTER_COLLECTIVE(ThenRing, LocalThenFactory<"RingReduce", kChunkBytes>());
REGISTER_COLLECTIVE(
    ThenHalving,
    LocalThenFactory<"RecursiveHalvingDoublingReduce", kChunkBytes>());
REGISTER_COLLECTIVE(ThenTrees,
                    LocalThenFactory<"DoubleTreeReduce", kChunkBytes>());
REGISTER_COLLECTIVE(ThenRingByElement, LocalThenFactory<"RingReduce", 0>());
REGISTER_COLLECTIVE(ThenShuffle, LocalThenFactory<"ShuffleReduce">());
REGISTER_COLLECTIVE(ThenNobody, LocalThenFactory<"Nobody">());
REGISTER_COLLECTIVE(ThenLocalReduce, LocalThenFactory<"LocalReduce">());
REGISTER_COLLECTIVE(ThenRingGather, LocalThenFactory<"RingGather">());
REGISTER_COLLECTIVE(ThenLocalThenRing, LocalThenFactory<"LocalThenRing">());

// Sends to nobody.
Schedule PlanOfNoUse(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().Send(request.layout.size(), /*tag=*/0, Input(0));
  return builder.Build();
}
REGISTER_COLLECTIVE(
    NotPlannable,
    Scheduled({.traits = {.summary = "for a test",
                          .collectives = {CollectiveType::kAllReduce}},
               .plan = PlanOfNoUse}));
REGISTER_COLLECTIVE(ThenNotPlannable, LocalThenFactory<"NotPlannable">());

// Only says that it is made of steps.
class Pretender : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(
      CollectiveContext* /*context*/) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext& /*context*/, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};
REGISTER_COLLECTIVE(
    Pretending,
    Implemented<Pretender>({.summary = "for a test",
                            .collectives = {CollectiveType::kAllReduce},
                            .is_made_of_steps = true}));
REGISTER_COLLECTIVE(ThenPretending, LocalThenFactory<"Pretending">());

// One member's call, of which the buffers stay.
struct Call {
  Bytes input;
  Tensor output;
  std::optional<absl::Status> status;  // Unset until `done`.

  Bytes result() const {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(output.data());
    return {bytes, bytes + output.size_bytes()};
  }
};

// Tasks with some CPU devices each. Ranks are theirs one task after the other,
// or dealt out in turn.
class Processes {
 public:
  explicit Processes(const std::vector<int>& num_devices, uint64_t seed = 1,
                     bool in_turn = false)
      : environment_(seed) {
    const int most = *std::max_element(num_devices.begin(), num_devices.end());
    for (int device = 0; in_turn && device < most; ++device) {
      for (size_t task = 0; task < num_devices.size(); ++task) {
        if (device < num_devices[task]) {
          task_of_.push_back(static_cast<int>(task));
        }
      }
    }
    int number = 0;
    for (const int num : num_devices) {
      std::vector<std::unique_ptr<Device>> devices;
      for (int i = 0; i < num; ++i) {
        DeviceAttributes attributes;
        attributes.name = {
            .job = "worker", .task = number, .type = "CPU", .index = i};
        attributes.incarnation = 100 + number;
        devices.push_back(std::make_unique<CpuDevice>(std::move(attributes)));
      }
      Task& task = tasks_.emplace_back();
      task.devices = *DeviceManager::Create(std::move(devices));
      task.executors =
          *together_.NewExecutors(environment_.get(), task.devices.get());
      if (!in_turn) {
        task_of_.insert(task_of_.end(), static_cast<size_t>(num), number);
      }
      ++number;
    }
  }

  int size() const { return static_cast<int>(task_of_.size()); }
  int num_tasks() const { return static_cast<int>(tasks_.size()); }
  SimulatedEnvironment& environment() { return environment_; }
  const std::vector<int>& task_of() const { return task_of_; }

  CollectiveRequest Request(std::string name, DType dtype,
                            int64_t num_elements) const {
    CollectiveRequest request;
    request.group_key = 1;
    request.group_size = size();
    request.instance_key = 1;
    request.op = AllReduce{};
    request.dtype = dtype;
    request.shape = TensorShape::Vector(num_elements);
    request.impl_details.implementation = std::move(name);
    return request;
  }

  CollectiveArgs ArgsOf(int rank, CollectiveRequest request, Call& call,
                        bool in_place) {
    request.rank = rank;
    const Tensor input =
        *Tensor::Wrap(request.dtype, request.shape, call.input.data());
    call.output = in_place ? input : Tensor();
    Task& task = tasks_[static_cast<size_t>(task_of_[rank])];
    const auto device = static_cast<size_t>(
        std::count(task_of_.begin(), task_of_.begin() + rank, task_of_[rank]));
    return {.device = task.devices->devices()[device],
            .request =
                std::make_shared<const CollectiveRequest>(std::move(request)),
            .input = input,
            .output = &call.output};
  }
  CollectiveExecutor& executor(int rank) {
    return *tasks_[static_cast<size_t>(task_of_[rank])].executors->FindOrCreate(
        1);
  }

  void Start(int rank, const CollectiveRequest& request, Call& call,
             bool in_place = false,
             absl::Time deadline = absl::InfiniteFuture()) {
    CollectiveArgs args = ArgsOf(rank, request, call, in_place);
    args.deadline = deadline;
    call.status.reset();
    executor(rank).ExecuteAsync(std::move(args), [&call](absl::Status status) {
      EXPECT_FALSE(call.status.has_value());
      call.status = std::move(status);
    });
  }

  void RunAll(const CollectiveRequest& request, std::vector<Call>& calls,
              bool in_place = false) {
    for (int rank = 0; rank < size(); ++rank) {
      Start(rank, request, calls[static_cast<size_t>(rank)], in_place);
    }
    environment_.RunAll();
  }

  void EndGroup(absl::Status reason) {
    together_.EndGroup(1, std::move(reason));
  }

 private:
  struct Task {
    std::unique_ptr<DeviceManager> devices;
    std::unique_ptr<CollectiveExecutorMgr> executors;
  };

  SimulatedEnvironment environment_;
  TasksInProcess together_;
  std::vector<int> task_of_;  // By rank.
  std::vector<Task> tasks_;
};

std::vector<Call> RandomCalls(const Processes& processes, DType dtype,
                              int64_t num_elements, uint64_t seed = 1) {
  std::vector<Call> calls(static_cast<size_t>(processes.size()));
  for (Call& call : calls) {
    call.input =
        RandomElements(dtype, static_cast<size_t>(num_elements), seed++);
    call.input.reserve(1);  // Has an address.
  }
  return calls;
}

// Tasks are reduced in rank order, then merged in their order.
Bytes Expected(const CollectiveRequest& request,
               const std::vector<int>& task_of,
               const std::vector<Call>& calls) {
  const int64_t num_elements = request.shape.num_elements();
  const auto merge = [&](Bytes& into, const Bytes& other) {
    EXPECT_THAT(request.merge_op.Apply(request.dtype, into.data(), other.data(),
                                       into.data(), num_elements),
                IsOk());
  };
  std::vector<Bytes> sums;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const auto task = static_cast<size_t>(task_of[rank]);
    if (task == sums.size()) {
      sums.push_back(calls[rank].input);
    } else {
      merge(sums[task], calls[rank].input);
    }
  }
  for (size_t task = 1; task < sums.size(); ++task) merge(sums[0], sums[task]);
  EXPECT_THAT(
      request.final_op.Apply(request.dtype, sums[0].data(), num_elements,
                             static_cast<int>(calls.size())),
      IsOk());
  return sums[0];
}

void ExpectAll(const std::vector<Call>& calls, const Bytes& expected) {
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    ASSERT_THAT(calls[rank].status, Optional(IsOk())) << rank;
    ASSERT_TRUE(calls[rank].result() == expected) << rank;
  }
}

class LocalThenLayoutsTest
    : public testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {
};
INSTANTIATE_TEST_SUITE_P(
    NamesAndDevices, LocalThenLayoutsTest,
    Combine(Values("LocalThenRing", "LocalThenRecursiveHalvingDoubling",
                   "LocalThenDoubleTree", "LocalThenRecursiveDoubling",
                   "ThenRing", "ThenHalving", "ThenTrees", "ThenRingByElement"),
            Values(std::vector<int>{3}, std::vector<int>{1, 1},
                   std::vector<int>{2, 2}, std::vector<int>{2, 3},
                   std::vector<int>{1, 4, 2}, std::vector<int>{3, 3, 3, 3},
                   std::vector<int>{2, 1, 1, 2, 9})));

// Integers: the same in any order.
TEST_P(LocalThenLayoutsTest, EveryMemberGetsTheReduction) {
  const auto& [name, devices] = GetParam();
  Processes processes(devices);
  int64_t instance = 0;
  // Without elements, with few, with one chunk, and with a rest after others.
  for (const int64_t num_elements : {int64_t{0}, int64_t{1}, int64_t{7},
                                     kChunkElements, 5 * kChunkElements + 3}) {
    SCOPED_TRACE(num_elements);
    CollectiveRequest request =
        processes.Request(name, DType::kInt32, num_elements);
    request.instance_key = ++instance;
    if (instance % 2 == 0) request.final_op = FinalOp::DivideByGroupSize();
    // The same instance again.
    for (const bool in_place : {false, true}) {
      std::vector<Call> calls =
          RandomCalls(processes, DType::kInt32, num_elements, 100 * instance);
      const Bytes expected = Expected(request, processes.task_of(), calls);
      processes.RunAll(request, calls, in_place);
      ExpectAll(calls, expected);
    }
  }
}

// The name under which a program can run what stands for that one.
std::string RunnableStandIn(const std::string& name) {
  CollectiveRegistry& registry = CollectiveRegistry::Global();
  std::string runnable = "StandInFor" + name;
  if (registry.Find(runnable).ok()) return runnable;
  const auto stand_in = StandInOf(**registry.Find(name));
  EXPECT_THAT(stand_in.status(), IsOk());
  EXPECT_THAT(registry.Register(runnable, Scheduled(stand_in->algorithm)),
              IsOk());
  return runnable;
}

// Runs the same calls, of which any order of operands has its own bits.
std::vector<Call> RunFloats(Processes& processes, const std::string& name,
                            int64_t num_elements, const FinalOp& final_op,
                            bool in_place) {
  static int64_t instance = 0;
  CollectiveRequest request =
      processes.Request(name, DType::kFloat32, num_elements);
  request.instance_key = ++instance;
  request.final_op = final_op;
  std::vector<Call> calls =
      RandomCalls(processes, DType::kFloat32, num_elements);
  processes.RunAll(request, calls, in_place);
  return calls;
}

class StandInBitsTest
    : public testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {
};
INSTANTIATE_TEST_SUITE_P(
    NamesAndDevices, StandInBitsTest,
    Combine(Values("LocalThenRing", "LocalThenRecursiveHalvingDoubling",
                   "LocalThenDoubleTree", "LocalThenRecursiveDoubling",
                   "ThenShuffle"),
            Values(std::vector<int>{1}, std::vector<int>{4},
                   std::vector<int>{1, 1, 1, 1}, std::vector<int>{2, 2},
                   std::vector<int>{4, 4}, std::vector<int>{3, 1, 2},
                   std::vector<int>{3, 3, 3, 3})));

TEST_P(StandInBitsTest, AreThoseOfWhatRuns) {
  const auto& [name, devices] = GetParam();
  const std::string stand_in = RunnableStandIn(name);
  Processes processes(devices);
  for (const FinalOp& final_op : {FinalOp(), FinalOp::DivideByGroupSize()}) {
    for (const int64_t num_elements : {0, 1, 3, 7, 1001, 40'003}) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(num_elements);
        const auto run =
            RunFloats(processes, name, num_elements, final_op, in_place);
        const auto shown =
            RunFloats(processes, stand_in, num_elements, final_op, in_place);
        ASSERT_THAT(run[0].status, Optional(IsOk()));
        ExpectAll(run, run[0].result());
        ExpectAll(shown, run[0].result());
      }
    }
  }
}

TEST(LocalThenTest, StandInsOfSeveralSubdivisionsHaveTheSameBits) {
  constexpr int64_t kNumElements = kLocalThenChunkBytes / 4 - 12345;
  Processes processes({2, 3});
  for (const std::string name : {"LocalThenRing", "LocalThenDoubleTree"}) {
    const auto run = RunFloats(processes, name, kNumElements, FinalOp(),
                               /*in_place=*/false);
    const auto shown = RunFloats(processes, RunnableStandIn(name), kNumElements,
                                 FinalOp(), /*in_place=*/false);
    ASSERT_THAT(run[0].status, Optional(IsOk()));
    ExpectAll(shown, run[0].result());
  }
}

TEST(LocalThenTest, FloatsThatAreSummedInAnotherOrderHaveOtherBits) {
  Processes processes({3, 3, 3, 3});
  const auto sums = [&](const char* name) {
    return RunFloats(processes, name, 1001, FinalOp(),
                     /*in_place=*/false)[0]
        .result();
  };
  EXPECT_NE(sums("LocalThenRing"), sums("LocalThenRecursiveDoubling"));
  EXPECT_NE(sums("LocalThenRing"), sums("RingReduce"));
}

// More than passes do inline, and more than one of the registered chunks.
TEST(LocalThenTest, LargeOnesAreReducedBySlices) {
  Processes processes({2, 3});
  constexpr int64_t kNumElements = kLocalThenChunkBytes / 4 + 12345;
  const CollectiveRequest request =
      processes.Request("LocalThenRing", DType::kInt32, kNumElements);
  for (const bool in_place : {false, true}) {
    std::vector<Call> calls =
        RandomCalls(processes, DType::kInt32, kNumElements);
    const Bytes expected = Expected(request, processes.task_of(), calls);
    processes.RunAll(request, calls, in_place);
    ExpectAll(calls, expected);
  }
}

TEST(LocalThenTest, EveryDtypeAndReductionIsThatOfTheTasksInTurn) {
  Processes processes({2, 2});
  int64_t instance = 0;
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    constexpr int64_t kNumElements = 1023;
    CollectiveRequest request =
        processes.Request("ThenRing", pair.dtype, kNumElements);
    request.instance_key = ++instance;
    request.merge_op = pair.kind;
    std::vector<Call> calls =
        RandomCalls(processes, pair.dtype, kNumElements, 10 * instance);
    const Bytes expected = Expected(request, processes.task_of(), calls);
    processes.RunAll(request, calls);
    ExpectAll(calls, expected);
  }
}

TEST(LocalThenTest, RanksMayBeDealtOutToTasksInTurn) {
  Processes processes({2, 1, 3}, /*seed=*/1, /*in_turn=*/true);
  ASSERT_EQ(processes.task_of(), (std::vector<int>{0, 1, 2, 0, 2, 2}));
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kFloat32, 3 * kChunkElements + 5);
  request.merge_op = ReductionKind::kMax;
  std::vector<Call> calls =
      RandomCalls(processes, DType::kFloat32, request.shape.num_elements());
  const Bytes expected = Expected(request, processes.task_of(), calls);
  processes.RunAll(request, calls);
  ExpectAll(calls, expected);
}

TEST(LocalThenTest, ChunksOverlapInAnyOrder) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Processes processes({2, 1, 3}, seed);
    CollectiveRequest request =
        processes.Request(seed % 2 == 0 ? "ThenRing" : "ThenTrees",
                          DType::kInt32, 6 * kChunkElements + 1);
    std::vector<Call> calls =
        RandomCalls(processes, DType::kInt32, request.shape.num_elements());
    const Bytes expected = Expected(request, processes.task_of(), calls);
    processes.RunAll(request, calls, /*in_place=*/seed % 3 == 0);
    ExpectAll(calls, expected);
  }
}

TEST(LocalThenTest, SumsOfManyChunksHaveTheSameBitsInAnyOrder) {
  for (const char* const name : {"ThenRing", "ThenHalving", "ThenTrees"}) {
    SCOPED_TRACE(name);
    Bytes first;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      Processes processes({2, 1, 3}, seed);
      const std::vector<Call> calls =
          RunFloats(processes, name, 6 * kChunkElements + 1, FinalOp(),
                    /*in_place=*/seed % 3 == 0);
      if (first.empty()) first = calls[0].result();
      ExpectAll(calls, first);
    }
  }
}

// Fails after so many calls, which it counts in `num_calls`.
MergeOp CustomSum(bool commutative, int* num_calls, int num_good = INT_MAX) {
  return *MergeOp::Custom(
      {.name = "mine",
       .commutative = commutative,
       .apply = [num_calls, num_good](DType dtype, const void* left,
                                      const void* right, void* into,
                                      int64_t num_elements) {
         if (++*num_calls > num_good) return absl::DataLossError("no merge");
         return MergeOp().Apply(dtype, left, right, into, num_elements);
       }});
}

TEST(LocalThenTest, AMergeOpOfTheCallerRunsAndEndsAllMembersIfItFails) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/true, &num_calls);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 3 * kChunkElements);
  const Bytes expected = Expected(request, processes.task_of(), calls);
  num_calls = 0;
  processes.RunAll(request, calls);
  ExpectAll(calls, expected);

  // Whichever chunk and stage it is of.
  const int most = num_calls;
  for (int num_good = 0; num_good < most; ++num_good) {
    ++request.instance_key;
    num_calls = 0;
    request.merge_op = CustomSum(/*commutative=*/true, &num_calls, num_good);
    processes.RunAll(request, calls);
    for (const Call& call : calls) {
      ASSERT_THAT(call.status, Optional(StatusIs(StatusCode::kDataLoss,
                                                 HasSubstr("no merge"))))
          << num_good;
    }
  }
}

TEST(LocalThenTest, AFinalOpThatFailsEndsAllMembers) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 3 * kChunkElements);
  for (int num_good = 0; num_good < 6; ++num_good) {
    ++request.instance_key;
    int num_calls = 0;
    request.final_op = *FinalOp::Custom(
        {.name = "fails", .apply = [&](DType, void*, int64_t, int) {
           return ++num_calls > num_good ? absl::DataLossError("no end")
                                         : absl::OkStatus();
         }});
    processes.RunAll(request, calls);
    for (const Call& call : calls) {
      ASSERT_TRUE(call.status.has_value()) << num_good;
    }
    const auto fails = [](const Call& call) { return !call.status->ok(); };
    EXPECT_TRUE(std::any_of(calls.begin(), calls.end(), fails)) << num_good;
  }
}

TEST(LocalThenTest, TheNextChunkIsReducedWhileOneMeetsOthers) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 4 * kChunkElements);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/true, &num_calls);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 4 * kChunkElements);
  processes.RunAll(request, calls);
  num_calls = 0;
  for (const int rank : {0, 1}) {
    processes.Start(rank, request, calls[static_cast<size_t>(rank)]);
  }
  processes.environment().RunAll();
  // The first one waits for the other process, and the third one for that.
  EXPECT_EQ(num_calls, 2);
  for (const int rank : {2, 3}) {
    processes.Start(rank, request, calls[static_cast<size_t>(rank)]);
  }
  processes.environment().RunAll();
  for (const Call& call : calls) EXPECT_THAT(call.status, Optional(IsOk()));
}

TEST(LocalThenTest, ATransferThatFailsEndsAllMembers) {
  const auto run = [](int64_t n) {
    LocalJob job({.num_tasks = 2,
                  .devices_per_task = 2,
                  .make_peer_access = [n](int64_t /*step_id*/) {
                    return std::make_unique<FailNthTransfer>(
                        std::make_unique<LocalPeerAccess>(), n);
                  }});
    int num_failed = 0;
    for (const LocalJob::Call* call :
         job.RunAll(job.AllReduceRequest(3 * kChunkElements, "ThenRing"))) {
      EXPECT_EQ(call->num_done, 1) << n;
      if (call->status->ok()) {
        EXPECT_THAT(call->result(), Each(1 + 2 + 3 + 4));
      } else {
        ++num_failed;
      }
    }
    return num_failed;
  };
  // Two sends and two receives of each of two members, for each chunk.
  for (int64_t n = 1; n <= 24; ++n) EXPECT_GT(run(n), 0) << n;
  EXPECT_EQ(run(25), 0);
}

// Remembers what is sent under which keys.
class KeyRecorder : public LocalPeerAccess {
 public:
  explicit KeyRecorder(std::vector<BufKey>* keys) : keys_(keys) {}
  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    keys_->push_back(key);
    LocalPeerAccess::PostToPeer(peer, key, offer);
  }

 private:
  std::vector<BufKey>* const keys_;
};

// A transport may still be at the end of the chunk before.
TEST(LocalThenTest, NoTwoChunksInARowUseTheSameKeys) {
  std::vector<BufKey> keys;
  LocalJob job({.num_tasks = 2,
                .devices_per_task = 2,
                .make_peer_access = [&keys](int64_t /*step_id*/) {
                  return std::make_unique<KeyRecorder>(&keys);
                }});
  for (const LocalJob::Call* call :
       job.RunAll(job.AllReduceRequest(5 * kChunkElements, "ThenRing"))) {
    ASSERT_THAT(call->status, Optional(IsOk()));
  }
  std::vector<int32_t> tags;  // That the first one sends under, in order.
  for (const BufKey& key : keys) {
    if (key.from == 0) tags.push_back(key.tag);
  }
  constexpr size_t kPerChunk = 2;
  ASSERT_EQ(tags.size(), 5 * kPerChunk);
  for (size_t i = kPerChunk; i < tags.size(); ++i) {
    for (size_t j = i / kPerChunk * kPerChunk - kPerChunk;
         j < i / kPerChunk * kPerChunk; ++j) {
      EXPECT_NE(tags[i], tags[j]) << i << ", " << j;
    }
  }
}

TEST(LocalThenTest, AMergeOpThatNeedsTheOrderOfRanksIsRefused) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("LocalThenRing", DType::kInt32, 4);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/false, &num_calls);
  std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
  processes.RunAll(request, calls);
  for (const Call& call : calls) {
    EXPECT_THAT(call.status, Optional(StatusIs(StatusCode::kInvalidArgument,
                                               HasSubstr("LocalThenRing"))));
  }
}

TEST(LocalThenTest, AProcessThatDoesNotComeEndsTheOthersByTheirDeadline) {
  Processes processes({2, 2});
  const CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 3 * kChunkElements);
  processes.RunAll(request, calls);  // So the others need not come any more.
  const absl::Time now = processes.environment().get().clock->Now();
  for (const int rank : {0, 1}) {
    processes.Start(rank, request, calls[static_cast<size_t>(rank)],
                    /*in_place=*/false, now + absl::Seconds(2));
  }
  processes.environment().RunAll();
  EXPECT_EQ(calls[0].status, std::nullopt);
  processes.environment().Advance(absl::Seconds(2));
  for (const int rank : {0, 1}) {
    EXPECT_THAT(calls[static_cast<size_t>(rank)].status,
                Optional(StatusIs(
                    StatusCode::kDeadlineExceeded,
                    AllOf(HasSubstr("run phase"),
                          HasSubstr("data of rank 2 for rank 0 (tag ")))));
  }
}

TEST(LocalThenTest, AGroupThatEndsEndsAllStages) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Processes processes({2, 2}, seed);
    const CollectiveRequest request =
        processes.Request("ThenRing", DType::kInt32, 9 * kChunkElements);
    std::vector<Call> calls =
        RandomCalls(processes, DType::kInt32, 9 * kChunkElements);
    processes.RunAll(request, calls);
    for (int rank = 0; rank < processes.size(); ++rank) {
      processes.Start(rank, request, calls[static_cast<size_t>(rank)]);
    }
    processes.environment().RunSome(static_cast<int>(seed % 20));
    processes.EndGroup(absl::AbortedError("over"));
    processes.environment().RunAll();
    for (const Call& call : calls) {
      ASSERT_TRUE(call.status.has_value());
      if (!call.status->ok()) {
        EXPECT_THAT(*call.status,
                    StatusIs(StatusCode::kAborted, HasSubstr("over")));
      }
    }
  }
}

TEST(LocalThenTest, WhatIsPreparedRunsAgainAndAgain) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenHalving", DType::kInt32, 2 * kChunkElements + 1);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 2 * kChunkElements + 1);
  std::vector<std::shared_ptr<PreparedCollective>> prepared(calls.size());
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    processes.executor(static_cast<int>(rank))
        .Prepare(processes.ArgsOf(static_cast<int>(rank), request, calls[rank],
                                  /*in_place=*/false),
                 [&prepared, rank](auto made) {
                   ASSERT_THAT(made.status(), IsOk());
                   prepared[rank] = *std::move(made);
                 });
  }
  processes.environment().RunAll();
  for (int i = 0; i < 3; ++i) {
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      ASSERT_NE(prepared[rank], nullptr);
      calls[rank].input[0] += static_cast<uint8_t>(i);
      prepared[rank]->Start([&call = calls[rank]](absl::Status status) {
        call.status = std::move(status);
      });
    }
    processes.environment().RunAll();
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      calls[rank].output = prepared[rank]->output();
    }
    ExpectAll(calls, Expected(request, processes.task_of(), calls));
  }
}

TEST(LocalThenTest, WhatIsPreparedIsPlanned) {
  Processes processes({2, 1});
  CollectiveRequest request =
      processes.Request("ThenNotPlannable", DType::kInt32, 4);
  std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    processes.executor(static_cast<int>(rank))
        .Prepare(
            processes.ArgsOf(static_cast<int>(rank), request, calls[rank],
                             /*in_place=*/false),
            [&call = calls[rank]](auto made) { call.status = made.status(); });
  }
  processes.environment().RunAll();
  for (const size_t first : {0, 2}) {
    EXPECT_THAT(calls[first].status,
                Optional(StatusIs(StatusCode::kInvalidArgument,
                                  HasSubstr("NotPlannable"))));
  }
}

TEST(LocalThenTest, TasksMayShareAProcess) {
  LocalJob job({.num_tasks = 3, .devices_per_task = 2});
  for (int i = 0; i < 2; ++i) {
    for (const LocalJob::Call* call :
         job.RunAll(job.AllReduceRequest(5 * kChunkElements + 1, "ThenRing"))) {
      ASSERT_THAT(call->status, Optional(IsOk()));
      EXPECT_THAT(call->result(), Each(1 + 2 + 3 + 4 + 5 + 6));
    }
  }
}

TEST(LocalThenTest, ATaskThatIsInSeveralProcessesIsRefused) {
  auto group = std::make_shared<CollGroupParams>();
  group->layout =
      std::make_shared<const GroupLayout>(GroupLayout::Uniform(2, 2));
  auto instance = std::make_shared<CollInstanceParams>();
  instance->impl_details.implementation = "LocalThenRing";
  auto task = std::make_shared<CollTaskParams>();
  task->is_local = {true, false, false, false};
  task->num_local = 1;
  CollectiveParams params;
  params.group = group;
  params.instance = instance;
  params.task = task;
  params.default_rank = 0;
  CollectiveContext context;
  context.params = &params;
  const auto implementation =
      (*CollectiveRegistry::Global().Find("LocalThenRing"))->Create();
  EXPECT_THAT(implementation->InitializeCollectiveContext(&context),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("LocalThenRing needs each task in one "
                                 "process, but rank 1 is not in that of "
                                 "rank 0")));
}

TEST(LocalThenTest, ThePriceIsThatOfItsChunks) {
  const GroupLayout layout = GroupLayout::Uniform(2, 4);
  const auto price = [&layout](const std::string& name, int64_t bytes) {
    const auto factory = *CollectiveRegistry::Global().Find(name);
    return factory->traits().cost_seconds({.layout = layout, .bytes = bytes});
  };
  EXPECT_EQ(price("ThenRing", kChunkBytes),
            price("LocalThenRing", kChunkBytes));
  EXPECT_LT(price("ThenRing", 64 * kChunkBytes),
            price("LocalThenRing", 64 * kChunkBytes));
}

TEST(LocalThenTest, WhatCannotReduceBetweenProcessesIsRefused) {
  Processes processes({2, 2});
  int64_t instance = 0;
  for (const auto& [name, code, text] :
       {std::tuple{"ThenNobody", StatusCode::kNotFound, "Nobody"},
        std::tuple{"ThenLocalReduce", StatusCode::kInvalidArgument,
                   "LocalReduce is no schedule that all-reduces"},
        std::tuple{"ThenLocalThenRing", StatusCode::kInvalidArgument,
                   "LocalThenRing is no schedule that all-reduces"},
        std::tuple{"ThenPretending", StatusCode::kInvalidArgument,
                   "Pretending is no schedule that all-reduces"},
        std::tuple{"ThenRingGather", StatusCode::kInvalidArgument,
                   "RingGather is no schedule that all-reduces"}}) {
    CollectiveRequest request = processes.Request(name, DType::kInt32, 4);
    request.instance_key = ++instance;
    std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
    processes.RunAll(request, calls);
    for (const Call& call : calls) {
      EXPECT_THAT(call.status, Optional(StatusIs(code, HasSubstr(text))));
    }
  }
}

}  // namespace
}  // namespace tutti
