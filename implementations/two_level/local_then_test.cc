#include "implementations/two_level/local_then.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/collective_delegate.h"
#include "framework/peer/local_peer_access.h"
#include "framework/reduce/reduction_test_data.h"
#include "implementations/two_level/local_then_outline.h"
#include "implementations/two_level/local_then_plan.h"
#include "schedule/engine/schedule_between_tasks.h"
#include "schedule/engine/stand_in.h"
#include "schedule/proof/expression.h"
#include "schedule/proof/expression_testing.h"
#include "schedule/proof/standard_cases.h"
#include "schedule/proof/symbolic.h"
#include "schedule/proof/verifier.h"
#include "schedule/simulate/outline_testing.h"
#include "schedule/simulate/planned_outline.h"
#include "tests/cluster/tasks_in_process.h"
#include "tests/doubles/failing_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/reduction.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_test {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Combine;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::SizeIs;
using ::testing::Values;

// Makes a Hierarchical<"LocalReduce", ...>() (tutti/schedule.h) with chunks of
// any size and a registered schedule between processes:
//   REGISTER_COLLECTIVE(ThenStar, LocalThenFactory<"StarReduce">());
template <ImplementationName between,
          int64_t chunk_bytes = kLocalThenChunkBytes>
std::shared_ptr<const CollectiveFactory> LocalThenFactory() {
  return MakeLocalThenFactory(
      std::string(between.view()), chunk_bytes,
      {.traits = {.check_parts =
                      [] {
                        return FindInterTaskLevel(between.view()).status();
                      },
                  .cost_seconds =
                      [](const CostQuery& query) {
                        return LocalThenSeconds(between.view(), chunk_bytes,
                                                query);
                      }},
       .plan =
           [](const PlanRequest& request) {
             return PlanLocalThen(between.view(), request);
           },
       .subdivide =
           [](const SubdivisionRequest& request) {
             return SubdivideLocalThen(between.view(), chunk_bytes, request);
           },
       .outline =
           [](const PlanRequest& request) {
             return LocalThenOutline(between.view(), request);
           }});
}

// Chunk size of the implementations registered below. ThenRing, ThenHalving and
// ThenTrees are LocalThenRing, LocalThenRecursiveHalvingDoubling and
// LocalThenDoubleTree with such chunks.
inline constexpr int64_t kChunkElements = 16;
inline constexpr int64_t kChunkBytes = kChunkElements * sizeof(int32_t);

REGISTER_COLLECTIVE(ThenRing, LocalThenFactory<"RingReduce", kChunkBytes>());
REGISTER_COLLECTIVE(
    ThenHalving,
    LocalThenFactory<"RecursiveHalvingDoublingReduce", kChunkBytes>());
REGISTER_COLLECTIVE(ThenTrees,
                    LocalThenFactory<"DoubleTreeReduce", kChunkBytes>());

// --- local then plan ---------------------------------------------------------

REGISTER_COLLECTIVE(ThenShuffle, LocalThenFactory<"ShuffleReduce">());
REGISTER_COLLECTIVE(LocalThenCourier,
                    LocalThenDelegateFactory("Courier", "by courier"));

absl::StatusOr<StandIn> StandInFor(absl::string_view name) {
  return StandInOf(**CollectiveRegistry::Global().Find(name));
}

Algorithm AlgorithmFor(absl::string_view name) {
  return StandInFor(name)->algorithm;
}

const std::vector<const char*>& Names() {
  static const auto* const names = new std::vector<const char*>{
      "LocalThenRing", "LocalThenRecursiveDoubling",
      "LocalThenRecursiveHalvingDoubling", "LocalThenDoubleTree",
      "ThenShuffle"};
  return *names;
}

GroupLayout LayoutOf(const std::vector<int>& devices) {
  std::vector<int> tasks;
  for (size_t task = 0; task < devices.size(); ++task) {
    tasks.insert(tasks.end(), static_cast<size_t>(devices[task]),
                 static_cast<int>(task));
  }
  return *GroupLayout::Create(tasks);
}

VerifyCase CaseOf(const Algorithm& algorithm, const GroupLayout& layout,
                  std::vector<int> offsets = {0}) {
  if (!algorithm.traits.supports_subdivisions) offsets.clear();
  return {.layout = layout, .subdiv_offsets = std::move(offsets)};
}

// Returns the final value of each chunk of `rank` (expression_testing.h).
std::vector<std::string> OutputsOf(const Algorithm& algorithm,
                                   const VerifyCase& request, int rank) {
  const auto run = Symbolically(algorithm, request);
  EXPECT_THAT(run.status(), IsOk());
  Evaluator<WrittenExpression> write(run->expressions, {});
  std::vector<std::string> written;
  for (const ExpressionId id : run->outputs[static_cast<size_t>(rank)]) {
    written.push_back(write(id));
  }
  return written;
}

class LocalThenPlanTest
    : public testing::TestWithParam<std::tuple<const char*, std::vector<int>>> {
 protected:
  const Algorithm algorithm_ = AlgorithmFor(std::get<0>(GetParam()));
  const GroupLayout layout_ = LayoutOf(std::get<1>(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(
    NamesAndDevices, LocalThenPlanTest,
    Combine(testing::ValuesIn(Names()),
            Values(std::vector<int>{1}, std::vector<int>{4},
                   std::vector<int>{1, 1, 1, 1}, std::vector<int>{2, 2},
                   std::vector<int>{4, 4}, std::vector<int>{3, 1, 2},
                   std::vector<int>{3, 3, 3, 3}, std::vector<int>{2, 5, 3})));

TEST_P(LocalThenPlanTest, IsProvedRight) {
  for (const std::vector<int>& offsets :
       {std::vector<int>{0}, {0, -1, 2}, {0, 0, 0, 0}}) {
    for (const InPlace in_place :
         {InPlace::kNone, InPlace::kAll, InPlace::kEvenRanks}) {
      VerifyCase request = CaseOf(algorithm_, layout_, offsets);
      request.in_place = in_place;
      EXPECT_THAT(Verify(algorithm_, request), IsOk()) << ToString(request);
    }
  }
}

TEST_P(LocalThenPlanTest, TheOutlineIsThatOfThePlans) {
  for (const std::vector<int>& offsets :
       {std::vector<int>{0}, {0, -1, 2}, {0, 0, 0, 0}}) {
    const VerifyCase request = CaseOf(algorithm_, layout_, offsets);
    EXPECT_THAT(CheckOutline(algorithm_, request), IsOk()) << ToString(request);
  }
}

TEST(LocalThenStandInTest, IsProvedRightInAllStandardCases) {
  for (const char* name : Names()) {
    const VerifyReport report =
        VerifyStandardCases(AlgorithmFor(name), {.max_ranks = 16});
    EXPECT_GT(report.cases, 0);
    EXPECT_THAT(report.first_failure, IsOk()) << name;
  }
}

TEST(LocalThenStandInTest, EveryTaskIsReducedInOneStepInRankOrder) {
  const Algorithm ring = AlgorithmFor("LocalThenRing");
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_THAT(OutputsOf(ring, CaseOf(ring, LayoutOf({3, 2})), rank),
                testing::ElementsAre("f((3.0+4.0)+(0.0+1.0+2.0))",
                                     "f((0.1+1.1+2.1)+(3.1+4.1))"));
  }
}

TEST(LocalThenStandInTest, BetweenTasksIsTheScheduleOfThatName) {
  const GroupLayout firsts = GroupLayout::Uniform(5, 1);
  for (const auto& [name, between] :
       {std::pair{"LocalThenRing", "RingReduce"},
        {"LocalThenRecursiveDoubling", "RecursiveDoublingReduce"},
        {"LocalThenRecursiveHalvingDoubling", "RecursiveHalvingDoublingReduce"},
        {"LocalThenDoubleTree", "DoubleTreeReduce"},
        {"ThenShuffle", "ShuffleReduce"}}) {
    const Algorithm whole = AlgorithmFor(name);
    const Algorithm part = AlgorithmFor(between);
    for (int rank = 0; rank < firsts.size(); ++rank) {
      EXPECT_EQ(OutputsOf(whole, CaseOf(whole, firsts), rank),
                OutputsOf(part, CaseOf(part, firsts), rank))
          << name;
    }
  }
}

TEST(LocalThenStandInTest, SubdivisionsAreThoseOfAChunkAmongFirstRanks) {
  const Algorithm whole = AlgorithmFor("LocalThenRing");
  const Algorithm ring = AlgorithmFor("RingReduce");
  const GroupLayout layout = GroupLayout::Uniform(2, 4);
  const GroupLayout firsts = GroupLayout::Uniform(2, 1);
  for (const int64_t bytes : {int64_t{1000}, kLocalThenChunkBytes}) {
    EXPECT_EQ(whole.subdivide({.layout = layout, .bytes = bytes}),
              ring.subdivide({.layout = firsts, .bytes = bytes}));
  }
  EXPECT_EQ(
      whole.subdivide({.layout = layout, .bytes = 8 * kLocalThenChunkBytes}),
      ring.subdivide({.layout = firsts, .bytes = kLocalThenChunkBytes}));
  EXPECT_EQ(AlgorithmFor("LocalThenRecursiveDoubling").subdivide, nullptr);
}

TEST(LocalThenStandInTest, TheOutlineIsMadeOfThatOfTheScheduleBetween) {
  const Algorithm doubling = AlgorithmFor("LocalThenRecursiveDoubling");
  EXPECT_EQ((*OutlineOf(doubling,
                        CaseOf(doubling, GroupLayout::Uniform(64, 1000)), 0))
                ->size()
                .num_rounds,
            1 + 6 + 2);
  const Algorithm ring = AlgorithmFor("LocalThenRing");
  const auto outline =
      OutlineOf(ring, CaseOf(ring, GroupLayout::Uniform(1000, 100)), 0);
  ASSERT_THAT(outline.status(), IsOk());
  EXPECT_EQ((*outline)->size().num_rounds, 1 + 2 * 999 + 2);
  EXPECT_EQ((*outline)->size().period, 100);
  const VerifyCase one_each = CaseOf(ring, GroupLayout::Uniform(100'000, 1));
  EXPECT_TRUE((*OutlineOf(ring, one_each, 0))->size().is_ring);
  // Only plans know the rounds in which tasks begin.
  EXPECT_THAT(OutlineOf(ring, CaseOf(ring, LayoutOf({3, 1})), 0).status(),
              IsResourceExhausted("at most 0"));
}

TEST(LocalThenStandInTest, SaysWhatRunsOtherwise) {
  EXPECT_THAT(StandInFor("LocalThenRing")->note,
              HasSubstr("within a task, passes over memory"));
  EXPECT_EQ(StandInFor("RingReduce")->note, "");
}

TEST(LocalThenStandInTest, ThereIsNoneWithoutAScheduleBetween) {
  EXPECT_THAT(StandInFor("LocalThenCourier").status(),
              IsUnimplemented("Courier"));
}

constexpr int kNumDevices = 3;

// A delegate of one process: no other process adds anything.
class Courier final : public CollectiveDelegate {
 public:
  absl::string_view name() const override { return name_; }

  absl::Status Prepare(CollectiveContext* context) override {
    group_sizes.push_back(context->params->group->size());
    context->implementation_state = this;
    return refusal;
  }

  void Run(const CollectiveContext& context, StatusCallback done) override {
    EXPECT_EQ(context.implementation_state, this);
    EXPECT_TRUE(context.params->instance->final_op.is_identity());
    EXPECT_EQ(OverlapOf(context.input, context.output), Overlap::kNone);
    Tensor output = context.output;
    std::memcpy(output.mutable_data(), context.input.data(),
                output.size_bytes());
    context.executor->Launched(context);
    std::move(done)(failure);
  }

  std::string DescribeWaiting(const CollGroupParams& /*group*/,
                              const ExecKey& /*exec*/) override {
    return "";
  }

  std::string name_ = "Courier";
  absl::Status refusal;
  absl::Status failure;
  std::vector<int> group_sizes;
};

class ByCourier final : public LocalPeerAccess {
 public:
  explicit ByCourier(Courier* courier) : courier_(courier) {}
  CollectiveDelegate* delegate() override { return courier_; }

 private:
  Courier* const courier_;
};

class LocalThenDelegateTest : public testing::Test {
 protected:
  CollectiveRequest Request(int64_t num_elements = 2) {
    CollectiveRequest request =
        job_.AllReduceRequest(num_elements, "LocalThenCourier");
    request.final_op = FinalOp::DivideByGroupSize();
    return request;
  }

  void ExpectAll(StatusCode code, const std::string& text) {
    for (const LocalJob::Call* call : job_.RunAll(Request())) {
      EXPECT_THAT(call->status, Optional(StatusIs(code, HasSubstr(text))));
    }
  }

  Courier courier_;
  LocalJob job_{
      {.devices_per_task = kNumDevices,
       .make_peer_access =
           [this](int64_t) { return std::make_unique<ByCourier>(&courier_); },
       .resolver = {.policy = {.delegate = "Courier"}}}};
};

TEST_F(LocalThenDelegateTest, TheDelegateKnowsTheFirstMembersAlone) {
  for (const int64_t num_elements : {2, 100'000, 1'000'000}) {
    CollectiveRequest request = Request(num_elements);
    request.instance_key = num_elements;
    for (const LocalJob::Call* call : job_.RunAll(request)) {
      ASSERT_THAT(call->status, Optional(IsOk()));
      EXPECT_THAT(call->result(), Each(2));
    }
  }
  EXPECT_THAT(courier_.group_sizes, ElementsAre(1, 1, 1));
}

TEST_F(LocalThenDelegateTest, WhatTheDelegateRefusesOrFailsEndsAllMembers) {
  courier_.failure = absl::UnavailableError("lost on the way");
  ExpectAll(StatusCode::kUnavailable, "lost on the way");
  courier_.failure = absl::OkStatus();
  courier_.refusal = absl::InvalidArgumentError("too heavy");
  LocalJob::Call& first = *job_.RunAll([this] {
    CollectiveRequest request = Request();
    request.instance_key = 2;
    return request;
  }())[0];
  EXPECT_THAT(first.status, Optional(IsInvalidArgument("too heavy")));
}

TEST_F(LocalThenDelegateTest, AnotherDelegateIsAnError) {
  courier_.name_ = "Pigeon";
  ExpectAll(StatusCode::kFailedPrecondition,
            "Courier does not connect the processes of the group");
}

TEST_F(LocalThenDelegateTest, AMergeOpThatFailsEndsAllBeforeTheDelegate) {
  CollectiveRequest request = Request();
  request.merge_op = *MergeOp::Custom(
      {.name = "fails",
       .commutative = true,
       .apply = [](DType, const void*, const void*, void*, int64_t) {
         return absl::DataLossError("no merge");
       }});
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    EXPECT_THAT(call->status, Optional(IsDataLoss("no merge")));
  }
}

TEST_F(LocalThenDelegateTest, SegmentsArePackedForIt) {
  std::vector<std::vector<float>> values;
  std::vector<std::shared_ptr<const SegmentList>> lists;
  for (int device = 0; device < kNumDevices; ++device) {
    values.push_back({3, 6, 9});
  }
  const auto calls = job_.RunAll(Request(3), [&](CollectiveArgs& args) {
    std::vector<float>& own =
        values[static_cast<size_t>(args.device->attributes().name.index)];
    const Tensor all =
        *Tensor::Wrap(DType::kFloat32, TensorShape::Vector(3), own.data());
    lists.push_back(
        *SegmentList::Create({{*all.Slice(0, 1), *all.Slice(0, 1)},
                              {*all.Slice(1, 3), *all.Slice(1, 3)}}));
    args.input = Tensor();
    args.output = nullptr;
    args.segments = lists.back();
  });
  for (const LocalJob::Call* call : calls) {
    ASSERT_THAT(call->status, Optional(IsOk()));
  }
  EXPECT_THAT(values, Each(ElementsAre(3, 6, 9)));
}

TEST_F(LocalThenDelegateTest, WhatIsPreparedRunsAgainAndAgain) {
  std::vector<float> values(kNumDevices, 1);
  std::vector<Tensor> outputs(kNumDevices);
  std::vector<std::shared_ptr<PreparedCollective>> prepared;
  for (size_t device = 0; device < kNumDevices; ++device) {
    job_.executor().Prepare(
        {.device = job_.devices()[device],
         .request = std::make_shared<const CollectiveRequest>(Request(1)),
         .input = *Tensor::Wrap(DType::kFloat32, TensorShape::Vector(1),
                                &values[device]),
         .output = &outputs[device]},
        [&](auto made) {
          ASSERT_THAT(made.status(), IsOk());
          prepared.push_back(*std::move(made));
        });
  }
  job_.environment().RunAll();
  ASSERT_EQ(prepared.size(), kNumDevices);
  for (int i = 1; i <= 3; ++i) {
    values.assign(kNumDevices, static_cast<float>(i));
    int num_done = 0;
    for (const auto& member : prepared) {
      member->Start([&](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
        ++num_done;
      });
    }
    job_.environment().RunAll();
    EXPECT_EQ(num_done, kNumDevices);
    for (const auto& member : prepared) {
      float result = 0;
      std::memcpy(&result, member->output().data(), sizeof(result));
      EXPECT_EQ(result, i);
    }
  }
}

// --- local then --------------------------------------------------------------

// Runs all-reduces of several members in each of several processes. The
// processes are tasks in this process; tests/processes/matrix.h has real ones.

// Tasks with some CPU devices each. Ranks follow task after task, or are dealt
// out to tasks in turn. Without threads: calls run on the test's thread, or
// when the test runs the environment's work.
class Processes {
 public:
  // The call of one member. Its buffers outlive the execution.
  struct Call {
    Bytes input;
    Tensor output;
    std::optional<absl::Status> status;  // Unset until `done`.

    Bytes result() const {
      const auto* const bytes = reinterpret_cast<const uint8_t*>(output.data());
      return {bytes, bytes + output.size_bytes()};
    }
  };

  explicit Processes(const std::vector<int>& num_devices, uint64_t seed = 1,
                     bool in_turn = false);

  int size() const { return static_cast<int>(task_of_.size()); }
  SimulatedEnvironment& environment() { return environment_; }
  const std::vector<int>& task_of() const { return task_of_; }

  // Returns an all-reduce among all ranks, which tests may change.
  CollectiveRequest Request(std::string name, DType dtype,
                            int64_t num_elements) const;

  CollectiveArgs ArgsOf(int rank, CollectiveRequest request, Call& call,
                        bool in_place);
  CollectiveExecutor& executor(int rank);

  void Start(int rank, const CollectiveRequest& request, Call& call,
             bool in_place = false,
             absl::Time deadline = absl::InfiniteFuture());

  // Starts a call on every rank and runs all work.
  void RunAll(const CollectiveRequest& request, std::vector<Call>& calls,
              bool in_place = false);

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

Processes::Processes(const std::vector<int>& num_devices, uint64_t seed,
                     bool in_turn)
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

CollectiveRequest Processes::Request(std::string name, DType dtype,
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

CollectiveArgs Processes::ArgsOf(int rank, CollectiveRequest request,
                                 Call& call, bool in_place) {
  request.rank = rank;
  const Tensor input =
      *Tensor::Wrap(request.dtype, request.shape, call.input.data());
  call.output = in_place ? input : Tensor();
  Task& task = tasks_[static_cast<size_t>(task_of_[rank])];
  const auto device = static_cast<size_t>(
      std::count(task_of_.begin(), task_of_.begin() + rank, task_of_[rank]));
  return {
      .device = task.devices->devices()[device],
      .request = std::make_shared<const CollectiveRequest>(std::move(request)),
      .input = input,
      .output = &call.output};
}

CollectiveExecutor& Processes::executor(int rank) {
  return *tasks_[static_cast<size_t>(task_of_[rank])].executors->FindOrCreate(
      1);
}

void Processes::Start(int rank, const CollectiveRequest& request, Call& call,
                      bool in_place, absl::Time deadline) {
  CollectiveArgs args = ArgsOf(rank, request, call, in_place);
  args.deadline = deadline;
  call.status.reset();
  executor(rank).ExecuteAsync(std::move(args), [&call](absl::Status status) {
    EXPECT_FALSE(call.status.has_value());
    call.status = std::move(status);
  });
}

void Processes::RunAll(const CollectiveRequest& request,
                       std::vector<Call>& calls, bool in_place) {
  for (int rank = 0; rank < size(); ++rank) {
    Start(rank, request, calls[static_cast<size_t>(rank)], in_place);
  }
  environment_.RunAll();
}

// Returns one call for each rank, not started.
std::vector<Processes::Call> RandomCalls(const Processes& processes,
                                         DType dtype, int64_t num_elements,
                                         uint64_t seed = 1) {
  std::vector<Processes::Call> calls(static_cast<size_t>(processes.size()));
  for (Processes::Call& call : calls) {
    call.input =
        RandomElements(dtype, static_cast<size_t>(num_elements), seed++);
    call.input.reserve(1);  // Gives it an address.
  }
  return calls;
}

// Returns the result of all ranks: tasks are reduced in rank order, and their
// sums merged in task order.
Bytes Expected(const CollectiveRequest& request,
               const std::vector<int>& task_of,
               const std::vector<Processes::Call>& calls) {
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

void ExpectAll(const std::vector<Processes::Call>& calls,
               const Bytes& expected) {
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    ASSERT_THAT(calls[rank].status, testing::Optional(IsOk())) << rank;
    ASSERT_TRUE(calls[rank].result() == expected) << rank;
  }
}

// Returns a sum that counts its calls in `num_calls`, and fails after
// `num_good` calls.
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

using Call = Processes::Call;

std::vector<Call> CallsFor(const Processes& processes,
                           const CollectiveRequest& request,
                           uint64_t seed = 1) {
  return RandomCalls(processes, request.dtype, request.shape.num_elements(),
                     seed);
}

// Runs random calls, and expects that each member gets the reduction.
void ExpectReduction(Processes& processes, const CollectiveRequest& request,
                     bool in_place = false, uint64_t seed = 1) {
  std::vector<Call> calls = CallsFor(processes, request, seed);
  const Bytes expected = Expected(request, processes.task_of(), calls);
  processes.RunAll(request, calls, in_place);
  ExpectAll(calls, expected);
}

REGISTER_COLLECTIVE(ThenRingByElement, LocalThenFactory<"RingReduce", 0>());

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

// Sums integers, which are the same in any order.
TEST_P(LocalThenLayoutsTest, EveryMemberGetsTheReduction) {
  const auto& [name, devices] = GetParam();
  Processes processes(devices);
  int64_t instance = 0;
  // Covers no elements, few elements, one chunk, and several chunks with a
  // shorter last one.
  for (const int64_t num_elements : {int64_t{0}, int64_t{1}, int64_t{7},
                                     kChunkElements, 5 * kChunkElements + 3}) {
    SCOPED_TRACE(num_elements);
    CollectiveRequest request =
        processes.Request(name, DType::kInt32, num_elements);
    request.instance_key = ++instance;
    if (instance % 2 == 0) {
      request.merge_op = ReductionKind::kMax;
      request.final_op = FinalOp::DivideByGroupSize();
    }
    // Runs the same instance again.
    for (const bool in_place : {false, true}) {
      ExpectReduction(processes, request, in_place, 100 * instance);
    }
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
    ExpectReduction(processes, request, /*in_place=*/false, 10 * instance);
  }
}

TEST(LocalThenTest, RanksMayBeDealtOutToTasksInTurn) {
  Processes processes({2, 1, 3}, /*seed=*/1, /*in_turn=*/true);
  ASSERT_EQ(processes.task_of(), (std::vector<int>{0, 1, 2, 0, 2, 2}));
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kFloat32, 3 * kChunkElements + 5);
  request.merge_op = ReductionKind::kMax;
  ExpectReduction(processes, request);
}

TEST(LocalThenTest, WhatIsPreparedRunsAgainAndAgain) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenHalving", DType::kInt32, 2 * kChunkElements + 1);
  std::vector<Call> calls = CallsFor(processes, request);
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

// Tests of collectives that cannot run and are refused before any message.

// Plans a send to a rank that does not exist.
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

TEST(LocalThenTest, WhatIsPreparedIsPlanned) {
  Processes processes({2, 1});
  CollectiveRequest request =
      processes.Request("ThenNotPlannable", DType::kInt32, 4);
  std::vector<Call> calls = CallsFor(processes, request);
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
                Optional(IsInvalidArgument("NotPlannable")));
  }
}

TEST(LocalThenTest, AMergeOpThatNeedsTheOrderOfRanksIsRefused) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("LocalThenRing", DType::kInt32, 4);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/false, &num_calls);
  std::vector<Call> calls = CallsFor(processes, request);
  processes.RunAll(request, calls);
  for (const Call& call : calls) {
    EXPECT_THAT(call.status, Optional(IsInvalidArgument("LocalThenRing")));
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
              IsInvalidArgument("LocalThenRing needs each task in one "
                                "process, but rank 1 is not in that of "
                                "rank 0"));
}

// Tests that a failure in any stage ends all members.

TEST(LocalThenTest, AMergeOpOfTheCallerRunsAndEndsAllMembersIfItFails) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/true, &num_calls);
  std::vector<Call> calls = CallsFor(processes, request);
  const Bytes expected = Expected(request, processes.task_of(), calls);
  num_calls = 0;
  processes.RunAll(request, calls);
  ExpectAll(calls, expected);

  // Fails at every merge, in every chunk and stage.
  const int most = num_calls;
  for (int num_good = 0; num_good < most; ++num_good) {
    ++request.instance_key;
    num_calls = 0;
    request.merge_op = CustomSum(/*commutative=*/true, &num_calls, num_good);
    processes.RunAll(request, calls);
    for (const Call& call : calls) {
      ASSERT_THAT(call.status, Optional(IsDataLoss("no merge"))) << num_good;
    }
  }
}

TEST(LocalThenTest, AFinalOpThatFailsEndsAllMembers) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  std::vector<Call> calls = CallsFor(processes, request);
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
  // Two members make two sends and two receives each, for each of three chunks.
  for (int64_t n = 1; n <= 24; ++n) EXPECT_GT(run(n), 0) << n;
  EXPECT_EQ(run(25), 0);
}

TEST(LocalThenTest, AProcessThatDoesNotComeEndsTheOthersByTheirDeadline) {
  Processes processes({2, 2});
  const CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  std::vector<Call> calls = CallsFor(processes, request);
  processes.RunAll(request, calls);  // The others need not come again.
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
    std::vector<Call> calls = CallsFor(processes, request);
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
        EXPECT_THAT(*call.status, IsAborted("over"));
      }
    }
  }
}

// --- local then bits ---------------------------------------------------------

// Returns the name under which a program can run the stand-in of `name`.
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

// Runs the same calls. Each order of operands gives different bits.
std::vector<Call> RunFloats(Processes& processes, const std::string& name,
                            int64_t num_elements, const FinalOp& final_op = {},
                            bool in_place = false,
                            CollImplDetails details = {}) {
  static int64_t instance = 0;
  CollectiveRequest request =
      processes.Request(name, DType::kFloat32, num_elements);
  request.instance_key = ++instance;
  request.final_op = final_op;
  details.implementation = name;
  request.impl_details = std::move(details);
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
    const auto run = RunFloats(processes, name, kNumElements);
    const auto shown = RunFloats(processes, RunnableStandIn(name), kNumElements,
                                 FinalOp(), /*in_place=*/false);
    ASSERT_THAT(run[0].status, Optional(IsOk()));
    ExpectAll(shown, run[0].result());
  }
}

// Expects that the details change nothing but what they change in the stand-in.
void ExpectStandInBits(const std::string& name, const CollImplDetails& details,
                       Processes& processes) {
  const FinalOp average = FinalOp::DivideByGroupSize();
  const auto run = RunFloats(processes, name, 1001, average,
                             /*in_place=*/false, details);
  const auto shown = RunFloats(processes, RunnableStandIn(name), 1001, average,
                               /*in_place=*/false, details);
  ASSERT_THAT(run[0].status, Optional(IsOk()));
  ExpectAll(run, run[0].result());
  ExpectAll(shown, run[0].result());
}

TEST(LocalThenTest, StandInsOfDetailsHaveTheSameBits) {
  Processes processes({2, 1, 3, 1, 2});
  for (const std::string name : {"LocalThenRing", "LocalThenDoubleTree"}) {
    ExpectStandInBits(name, {.subdiv_offsets = {0, -1, 2}}, processes);
  }
  ExpectStandInBits("LocalThenRing", {.rank_list = {7, 4, 0, 2, 1, 3, 5, 6, 8}},
                    processes);
  ExpectStandInBits("ThenShuffle", {.rank_list = {8, 3, 2, 7}}, processes);
}

TEST(LocalThenTest, ListedRanksOrderTheirTasksBetweenProcesses) {
  Processes processes({2, 1, 3, 1, 2});
  const auto sums = [&](std::vector<int> rank_list) {
    return RunFloats(processes, "LocalThenRing", 1001, FinalOp(),
                     /*in_place=*/false, {.rank_list = std::move(rank_list)})[0]
        .result();
  };
  const Bytes listed = sums({7, 4, 0, 2, 1, 3, 5, 6, 8});
  EXPECT_NE(listed, sums({}));
  EXPECT_EQ(listed, sums({8, 7, 3, 1, 0, 2, 6, 5, 4}));
}

TEST(LocalThenTest, DetailsOfAnotherScheduleAreRefused) {
  Processes processes({2, 2});
  for (const auto& [details, why] :
       {std::pair{CollImplDetails{.subdiv_offsets = {0, 1}},
                  "has no subdivisions"},
        std::pair{CollImplDetails{.rank_list = {1, 0, 2, 3}},
                  "takes no list of ranks"}}) {
    const auto calls =
        RunFloats(processes, "LocalThenRecursiveDoubling", 7, FinalOp(),
                  /*in_place=*/false, details);
    EXPECT_THAT(
        calls[0].status,
        Optional(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why))));
  }
}

TEST(LocalThenTest, FloatsThatAreSummedInAnotherOrderHaveOtherBits) {
  Processes processes({3, 3, 3, 3});
  const auto sums = [&](const char* name) {
    return RunFloats(processes, name, 1001)[0].result();
  };
  EXPECT_NE(sums("LocalThenRing"), sums("LocalThenRecursiveDoubling"));
  EXPECT_NE(sums("LocalThenRing"), sums("RingReduce"));
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

// --- local then chunks -------------------------------------------------------

// Uses more bytes than passes run inline, and more than one registered chunk.
TEST(LocalThenTest, LargeOnesAreReducedBySlices) {
  Processes processes({2, 3});
  constexpr int64_t kNumElements = kLocalThenChunkBytes / 4 + 12345;
  const CollectiveRequest request =
      processes.Request("LocalThenRing", DType::kInt32, kNumElements);
  for (const bool in_place : {false, true}) {
    ExpectReduction(processes, request, in_place);
  }
}

TEST(LocalThenTest, TheNextChunkIsReducedWhileOneMeetsOthers) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 4 * kChunkElements);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/true, &num_calls);
  std::vector<Call> calls = CallsFor(processes, request);
  processes.RunAll(request, calls);
  num_calls = 0;
  for (const int rank : {0, 1}) {
    processes.Start(rank, request, calls[static_cast<size_t>(rank)]);
  }
  processes.environment().RunAll();
  // Chunk 0 waits for the other process, and chunk 2 waits for chunk 0.
  EXPECT_EQ(num_calls, 2);
  for (const int rank : {2, 3}) {
    processes.Start(rank, request, calls[static_cast<size_t>(rank)]);
  }
  processes.environment().RunAll();
  for (const Call& call : calls) EXPECT_THAT(call.status, Optional(IsOk()));
}

// Records the keys of all sends.
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

// Returns the tags of the sends of the first member of one of two tasks.
std::vector<int32_t> TagsSent(const std::string& name, int64_t num_elements,
                              const CollImplDetails& details = {}) {
  std::vector<BufKey> keys;
  LocalJob job({.num_tasks = 2,
                .devices_per_task = 2,
                .make_peer_access = [&keys](int64_t /*step_id*/) {
                  return std::make_unique<KeyRecorder>(&keys);
                }});
  CollectiveRequest request = job.AllReduceRequest(num_elements, name);
  request.impl_details = details;
  request.impl_details.implementation = name;
  for (const LocalJob::Call* call : job.RunAll(request)) {
    EXPECT_THAT(call->status, Optional(IsOk()));
  }
  std::vector<int32_t> tags;
  for (const BufKey& key : keys) {
    if (key.from == 0) tags.push_back(key.tag);
  }
  return tags;
}

TEST(LocalThenTest, SubdivisionsReachTheLevelBetween) {
  constexpr size_t kPerRing = 2;
  EXPECT_THAT(TagsSent("LocalThenRing", 1001), SizeIs(kPerRing));
  EXPECT_THAT(TagsSent("LocalThenRing", 1001, {.subdiv_offsets = {0, -1, 2}}),
              SizeIs(3 * kPerRing));
}

TEST(LocalThenTest, TheLargestNumberOfSubdivisionsReachesTheLevelBetween) {
  constexpr int64_t kNumElements = kLocalThenChunkBytes / 4;
  constexpr size_t kPerRing = 2;
  EXPECT_THAT(TagsSent("LocalThenRing", kNumElements), SizeIs(2 * kPerRing));
  EXPECT_THAT(
      TagsSent("LocalThenRing", kNumElements, {.max_subdivs_per_device = -1}),
      SizeIs(kPerRing));
}

// A transport may still be ending the chunk before.
TEST(LocalThenTest, NoTwoChunksInARowUseTheSameKeys) {
  const std::vector<int32_t> tags = TagsSent("ThenRing", 5 * kChunkElements);
  constexpr size_t kPerChunk = 2;
  ASSERT_EQ(tags.size(), 5 * kPerChunk);
  for (size_t i = kPerChunk; i < tags.size(); ++i) {
    for (size_t j = i / kPerChunk * kPerChunk - kPerChunk;
         j < i / kPerChunk * kPerChunk; ++j) {
      EXPECT_NE(tags[i], tags[j]) << i << ", " << j;
    }
  }
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

}  // namespace local_then_test
}  // namespace tutti
