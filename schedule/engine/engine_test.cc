#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/collective/params_test_data.h"
#include "framework/executor/executor_core.h"
#include "framework/executor/table_entries.h"
#include "framework/peer/local_peer_access.h"
#include "resolvers/local/param_resolver_local.h"
#include "schedule/chunk_map.h"
#include "schedule/engine/chunk_pipeline.h"
#include "schedule/engine/hierarchical_run.h"
#include "schedule/engine/inter_task_level.h"
#include "schedule/engine/intra_task_level.h"
#include "schedule/engine/schedule_cache.h"
#include "schedule/engine/scratch_pool.h"
#include "schedule/engine/spare_objects.h"
#include "schedule/engine/stand_in.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/peer_access.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace engine_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// --- algorithm ---------------------------------------------------------------

TEST(AlgorithmTest, WithoutAPlanFunctionCannotBeRegistered) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("Planless", Scheduled({})),
              IsInvalidArgument("Planless"));
}

TEST(AlgorithmTest, IsFoundBehindItsFactory) {
  const auto factory = Scheduled({.plan = [](const PlanRequest&) {
    return ScheduleBuilder(/*num_chunks=*/1).Build();
  }});
  ASSERT_NE(AlgorithmOf(*factory), nullptr);
  EXPECT_NE(AlgorithmOf(*factory)->plan, nullptr);
}

// Hook that the plan function calls.
void (*while_planning)() = nullptr;
CollectiveImplementationInterface* implementation_in_use = nullptr;
const CollectiveContext* context_in_use = nullptr;

TEST(AlgorithmTest, PlansWithNoLockHeld) {
  const auto factory = Scheduled({.plan = [](const PlanRequest&) {
    if (while_planning != nullptr) while_planning();
    return ScheduleBuilder(/*num_chunks=*/1).Build();
  }});
  const auto implementation = factory->Create();
  const auto params = ParamsOf({.shape = ShapeOf({4})}, /*group_size=*/2,
                               /*rank=*/0);
  CpuDevice device({.name = {"localhost", 0, 0, "CPU", 0}});
  CollectiveContext context;
  context.params = params.get();
  context.device = &device;
  implementation_in_use = implementation.get();
  context_in_use = &context;
  while_planning = [] {
    while_planning = nullptr;
    CollectiveContext other;
    other.params = context_in_use->params;
    other.device = context_in_use->device;
    EXPECT_THAT(implementation_in_use->InitializeCollectiveContext(&other),
                IsOk());
    EXPECT_NE(other.implementation_state, nullptr);
  };
  ASSERT_THAT(implementation->InitializeCollectiveContext(&context), IsOk());
  // The runner that was made inside the plan stays.
  CollectiveContext later;
  later.params = context.params;
  later.device = context.device;
  ASSERT_THAT(implementation->InitializeCollectiveContext(&later), IsOk());
  EXPECT_EQ(later.implementation_state, context.implementation_state);
}

// --- stand in ----------------------------------------------------------------

Schedule PlanNothing(const PlanRequest& /*request*/) { return {}; }

// Creates no implementation: nothing runs here.
class Code : public CollectiveFactory {
 public:
  using CollectiveFactory::CollectiveFactory;
  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return nullptr;
  }
};

class Shown : public Code, public HasStandIn {
 public:
  explicit Shown(absl::Status status)
      : Code(ImplementationTraits()), status_(std::move(status)) {}
  absl::StatusOr<StandIn> MakeStandIn() const override {
    if (!status_.ok()) return status_;
    return StandIn{.algorithm = {.plan = PlanNothing}, .note = "is otherwise"};
  }

 private:
  const absl::Status status_;
};

TEST(StandInTest, AScheduleStandsForItself) {
  const auto stand_in = StandInOf(*Scheduled({.plan = PlanNothing}));
  ASSERT_THAT(stand_in.status(), IsOk());
  EXPECT_EQ(stand_in->algorithm.plan, PlanNothing);
  EXPECT_EQ(stand_in->note, "");
}

TEST(StandInTest, CodeMayHaveOneAndStaysCode) {
  const Shown factory((absl::OkStatus()));
  const auto stand_in = StandInOf(factory);
  ASSERT_THAT(stand_in.status(), IsOk());
  EXPECT_EQ(stand_in->algorithm.plan, PlanNothing);
  EXPECT_EQ(stand_in->note, "is otherwise");
  EXPECT_EQ(AlgorithmOf(factory), nullptr);
}

TEST(StandInTest, WithoutOneTheErrorSaysWhy) {
  EXPECT_THAT(StandInOf(Code(ImplementationTraits())).status(),
              IsUnimplemented("is code"));
  ImplementationTraits traits;
  traits.delegate = "Courier";
  EXPECT_THAT(StandInOf(Code(traits)).status(), IsUnimplemented("Courier"));
  EXPECT_THAT(StandInOf(Shown(absl::NotFoundError("lost"))).status(),
              IsNotFound("lost"));
}

// --- schedule cache ----------------------------------------------------------

constexpr int kSize = 4;

std::atomic<int> num_plans{0};

// Plans `root` steps.
Schedule CountedPlan(const PlanRequest& request) {
  ++num_plans;
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  for (int i = 0; i < request.root; ++i) lane.Copy(Data(0), Input(0));
  return builder.Build();
}

CollInstanceParams Instance() {
  return {.key = 1,
          .type = CollectiveType::kBroadcast,
          .shape = ShapeOf({8}),
          .root = 1,
          .impl_details = {.implementation = "Counted"}};
}

class ScheduleCacheTest : public testing::Test {
 protected:
  ScheduleCacheTest() { num_plans = 0; }

  std::shared_ptr<const CompiledSchedule> Get(
      const CollInstanceParams& instance, int rank = 1, bool in_place = false) {
    return cache_.Get(algorithm_, *ParamsOf(instance, group_, rank), in_place)
        .value();
  }

  const std::shared_ptr<const Algorithm> algorithm_ =
      std::make_shared<const Algorithm>(Algorithm{.plan = CountedPlan});
  const std::shared_ptr<const CollGroupParams> group_ = GroupOf(kSize);
  ScheduleCache cache_;
};

TEST_F(ScheduleCacheTest, PlansOnceForInstancesOfOneKind) {
  CollInstanceParams instance = Instance();
  const auto first = Get(instance);
  EXPECT_EQ(num_plans, 1);
  instance.key = 2;
  EXPECT_EQ(Get(instance), first);
  instance.shape = ShapeOf({1001, 3});
  EXPECT_EQ(Get(instance), first);
  instance.dtype = DType::kFloat16;
  EXPECT_EQ(Get(instance), first);
  instance.merge_op = ReductionKind::kMax;
  EXPECT_EQ(Get(instance), first);
  EXPECT_EQ(num_plans, 1);
}

TEST_F(ScheduleCacheTest, PlansAnewForAllThatAPlanMayDependOn) {
  std::vector<std::shared_ptr<const CompiledSchedule>> schedules;
  schedules.push_back(Get(Instance()));
  schedules.push_back(Get(Instance(), /*rank=*/1, /*in_place=*/true));
  CollInstanceParams reduce = Instance();
  reduce.type = CollectiveType::kReduce;
  schedules.push_back(Get(reduce));
  CollInstanceParams divided = Instance();
  divided.impl_details.subdiv_offsets = {0, -1};
  schedules.push_back(Get(divided));
  CollInstanceParams permute = Instance();
  permute.type = CollectiveType::kPermute;
  permute.permutation = {0, 1, 2, 3};
  schedules.push_back(Get(permute));
  permute.permutation = {1, 0, 2, 3};
  schedules.push_back(Get(permute));
  permute.root = 2;
  schedules.push_back(Get(permute));
  schedules.push_back(Get(permute, /*rank=*/2));
  EXPECT_EQ(num_plans, static_cast<int>(schedules.size()));
  for (size_t i = 0; i < schedules.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(schedules[i], schedules[j]);
  }
}

TEST_F(ScheduleCacheTest, AlgorithmsAreKeptApart) {
  const auto other =
      std::make_shared<const Algorithm>(Algorithm{.plan = CountedPlan});
  const auto params = ParamsOf(Instance(), group_, 1);
  ASSERT_THAT(cache_.Get(algorithm_, *params, false), IsOk());
  ASSERT_THAT(cache_.Get(other, *params, false), IsOk());
  EXPECT_EQ(num_plans, 2);
}

Schedule PlanOfTwoChunks(const PlanRequest&) {
  return ScheduleBuilder(/*num_chunks=*/2).Build();
}

TEST_F(ScheduleCacheTest, ANumberOfChunksThatDoesNotFitIsInvalidAndShown) {
  const auto algorithm =
      std::make_shared<const Algorithm>(Algorithm{.plan = PlanOfTwoChunks});
  CollInstanceParams gather = Instance();
  gather.type = CollectiveType::kAllGather;
  EXPECT_THAT(cache_.Get(algorithm, *ParamsOf(gather, group_, 1), false),
              IsInvalidArgument("the plan of Counted",
                                "all_gather among 4 ranks in 2 chunks"));
}

Schedule PlanForNobody(const PlanRequest&) {
  ++num_plans;
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().Send(/*peer=*/99, /*tag=*/0, Input(0));
  return builder.Build();
}

TEST_F(ScheduleCacheTest, AnInvalidPlanIsAnErrorEachTime) {
  const auto algorithm =
      std::make_shared<const Algorithm>(Algorithm{.plan = PlanForNobody});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(cache_.Get(algorithm, *ParamsOf(Instance(), group_, 1), false),
                IsInvalidArgument("send input[0] to 99"));
  }
}

// An instance whose plan has `num_steps` steps.
CollInstanceParams InstanceOfSteps(int num_steps) {
  CollInstanceParams instance = Instance();
  instance.type = CollectiveType::kAllReduce;  // All-reduces ignore the root.
  instance.root = num_steps;
  return instance;
}

TEST_F(ScheduleCacheTest, HoldsNoMoreStepsThanItMay) {
  ScheduleCache cache(/*max_numbers=*/100);
  std::vector<std::weak_ptr<const CompiledSchedule>> schedules;
  for (int i = 0; i < 20; ++i) {
    const auto params = ParamsOf(InstanceOfSteps(30 + i), group_, 1);
    schedules.push_back(cache.Get(algorithm_, *params, false).value());
    size_t num_ops = 0;
    for (const auto& weak : schedules) {
      const auto schedule = weak.lock();
      if (schedule != nullptr) num_ops += schedule->ops().size();
    }
    EXPECT_LE(num_ops, 100u);
    EXPECT_FALSE(schedules.back().expired());
  }
}

TEST_F(ScheduleCacheTest, CountsTheNumbersOfARequestToo) {
  ScheduleCache cache(/*max_numbers=*/100);
  CollInstanceParams instance = InstanceOfSteps(0);
  instance.impl_details.subdiv_offsets.resize(20);
  std::vector<std::weak_ptr<const CompiledSchedule>> schedules;
  for (int i = 0; i < 20; ++i) {
    instance.impl_details.subdiv_offsets[0] = i;
    schedules.push_back(
        cache.Get(algorithm_, *ParamsOf(instance, group_, 1), false).value());
    // Each schedule counts as 36.
    EXPECT_LE(std::count_if(schedules.begin(), schedules.end(),
                            [](const auto& weak) { return !weak.expired(); }),
              2);
  }
}

TEST_F(ScheduleCacheTest, ForgetsWhatWasUsedLongestAgo) {
  ScheduleCache cache(/*max_numbers=*/100);
  const auto get = [&](int num_steps) {
    const auto params = ParamsOf(InstanceOfSteps(num_steps), group_, 1);
    ASSERT_THAT(cache.Get(algorithm_, *params, false), IsOk());
  };
  get(1);
  get(2);
  get(3);
  get(4);
  get(1);
  EXPECT_EQ(num_plans, 4);
  get(20);  // Drops 2 and 3.
  get(1);
  get(4);
  EXPECT_EQ(num_plans, 5);
  get(2);
  EXPECT_EQ(num_plans, 6);
}

TEST_F(ScheduleCacheTest, WhatIsInUseOutlivesTheCache) {
  auto cache = std::make_unique<ScheduleCache>(/*max_numbers=*/100);
  const auto params = ParamsOf(InstanceOfSteps(80), group_, 1);
  const auto in_use = cache->Get(algorithm_, *params, false).value();
  const auto others = ParamsOf(InstanceOfSteps(90), group_, 1);
  ASSERT_THAT(cache->Get(algorithm_, *others, false), IsOk());
  EXPECT_EQ(in_use->ops().size(), 80u);
  EXPECT_NE(cache->Get(algorithm_, *params, false).value(), in_use);
  cache.reset();
  EXPECT_EQ(in_use->ops().size(), 80u);
}

TEST_F(ScheduleCacheTest, ThreadsMayAskAtATime) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const int num_steps = i % 10;
        const auto params =
            ParamsOf(InstanceOfSteps(num_steps), group_, i % kSize);
        const auto schedule = cache_.Get(algorithm_, *params, false).value();
        EXPECT_EQ(schedule->ops().size(), static_cast<size_t>(num_steps));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int planned = num_plans;
  EXPECT_EQ(Get(InstanceOfSteps(7), /*rank=*/3)->ops().size(), 7u);
  EXPECT_EQ(num_plans, planned);
}

// --- scratch pool ------------------------------------------------------------

constexpr size_t kMiB = size_t{1} << 20;

// Counts its allocations.
class CountingDevice : public CpuDevice {
 public:
  CountingDevice()
      : CpuDevice(DeviceAttributes{.name = {"localhost", 0, 0, "CPU", 0}}) {}

  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    ++num_allocated;
    return CpuDevice::Allocate(dtype, shape);
  }

  int num_allocated = 0;
};

class ScratchPoolTest : public testing::Test {
 protected:
  Tensor Take(size_t num_bytes, int rank = 0) {
    Tensor tensor = pool_.Take(rank, device_, num_bytes).value();
    EXPECT_GE(tensor.size_bytes(), num_bytes);
    EXPECT_LE(tensor.size_bytes() / 2, num_bytes);
    return tensor;
  }

  // Returns the number of newly allocated tensors among these sizes.
  int NumNew(std::vector<size_t> sizes, int rank = 0) {
    const int before = device_.num_allocated;
    std::vector<Tensor> taken;
    for (const size_t size : sizes) taken.push_back(Take(size, rank));
    return device_.num_allocated - before;
  }

  CountingDevice device_;
  ScratchPool pool_;
};

TEST_F(ScratchPoolTest, WhatWasGivenIsTakenAgain) {
  Tensor first = Take(kMiB);
  const std::byte* const data = first.data();
  pool_.Give(0, std::move(first));
  EXPECT_EQ(Take(kMiB).data(), data);
  EXPECT_EQ(device_.num_allocated, 1);
}

TEST_F(ScratchPoolTest, NobodyElseHasWhatIsTaken) {
  pool_.Give(0, Take(kMiB));
  const Tensor one = Take(kMiB);
  const Tensor other = Take(kMiB);
  EXPECT_NE(one.data(), other.data());
}

TEST_F(ScratchPoolTest, WhatIsALittleLargerDoesToo) {
  pool_.Give(0, Take(4 * kMiB));
  EXPECT_EQ(NumNew({2 * kMiB}), 0);
}

TEST_F(ScratchPoolTest, WhatIsTooSmallOrMuchTooLargeDoesNot) {
  pool_.Give(0, Take(4 * kMiB));
  EXPECT_EQ(NumNew({2 * kMiB - 1, 4 * kMiB + 1}), 2);
}

TEST_F(ScratchPoolTest, MembersHaveTheirOwn) {
  pool_.Give(0, Take(kMiB));
  EXPECT_EQ(NumNew({kMiB}, /*rank=*/1), 1);
}

TEST_F(ScratchPoolTest, AFewAreKept) {
  std::vector<Tensor> taken;
  for (size_t i = 0; i < ScratchPool::kMostKept + 1; ++i) {
    taken.push_back(Take(kMiB));
  }
  for (Tensor& tensor : taken) pool_.Give(0, std::move(tensor));
  EXPECT_EQ(NumNew(std::vector<size_t>(ScratchPool::kMostKept + 1, kMiB)), 1);
}

TEST_F(ScratchPoolTest, AFewBytesAreKeptAndTheLatestStays) {
  constexpr size_t kMost = ScratchPool::kMostKeptBytes;
  Tensor first = Take(kMost / 2 + 1);
  Tensor second = Take(kMost / 2);
  const std::byte* const latest = second.data();
  pool_.Give(0, std::move(first));
  pool_.Give(0, std::move(second));
  EXPECT_EQ(Take(kMost / 2).data(), latest);
  EXPECT_EQ(NumNew({kMost / 2}), 1);
}

TEST_F(ScratchPoolTest, WhatIsVeryLargeIsNotKeptAndDrivesNothingOut) {
  pool_.Give(0, Take(kMiB));
  pool_.Give(0, Take(ScratchPool::kMostKeptBytes + 1));
  EXPECT_EQ(NumNew({kMiB, ScratchPool::kMostKeptBytes + 1}), 1);
}

// --- spare objects -----------------------------------------------------------

constexpr size_t kHalf = SpareBytes::kMostBytes / 2;

// Counts its living objects.
struct Counted {
  explicit Counted(int* num_living) : num_living(num_living) { ++*num_living; }
  ~Counted() { --*num_living; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int* const num_living;
};

class SpareObjectsTest : public testing::Test {
 protected:
  using Spares = SpareObjects<Counted>;

  void Keep(Spares& spares, int count) {
    for (int i = 0; i < count; ++i) {
      spares.Keep(std::make_unique<Counted>(&num_living_));
    }
  }

  const std::shared_ptr<SpareBytes> bytes_ = std::make_shared<SpareBytes>();
  int num_living_ = 0;
};

TEST_F(SpareObjectsTest, WhatIsKeptLastIsTakenFirst) {
  Spares spares(bytes_, 1);
  auto first = std::make_unique<Counted>(&num_living_);
  auto second = std::make_unique<Counted>(&num_living_);
  const Counted* const objects[] = {first.get(), second.get()};
  spares.Keep(std::move(first));
  spares.Keep(std::move(second));
  first = spares.Take();
  second = spares.Take();
  EXPECT_EQ(first.get(), objects[1]);
  EXPECT_EQ(second.get(), objects[0]);
  EXPECT_EQ(spares.Take(), nullptr);
}

TEST_F(SpareObjectsTest, KeepsNoMoreThanItMayAndNothingAtTheEnd) {
  {
    Spares spares(bytes_, 1);
    Keep(spares, 5);
    EXPECT_EQ(num_living_, static_cast<int>(Spares::kMostKept));
  }
  EXPECT_EQ(num_living_, 0);
}

TEST_F(SpareObjectsTest, AllOfAGroupKeepNoMoreBytesThanTheyMay) {
  std::optional<Spares> large(std::in_place, bytes_, kHalf);
  Keep(*large, 1);
  Spares small(bytes_, kHalf / 2 + 1);
  Keep(small, 2);
  EXPECT_EQ(num_living_, 2);
  Keep(*large, 1);
  EXPECT_EQ(num_living_, 2);
  large.reset();
  EXPECT_EQ(num_living_, 1);
  Keep(small, 1);
  EXPECT_EQ(num_living_, 2);
}

TEST_F(SpareObjectsTest, APlaceIsCountedOnceHoweverOftenItIsUsed) {
  Spares spares(bytes_, kHalf);
  Keep(spares, 1);
  for (int i = 0; i < 10; ++i) spares.Keep(spares.Take());
  EXPECT_EQ(num_living_, 1);
  EXPECT_TRUE(bytes_->Take(kHalf));
  EXPECT_FALSE(bytes_->Take(1));
}

TEST_F(SpareObjectsTest, WhatIsTooLargeIsNotKept) {
  Spares spares(bytes_, SpareBytes::kMostBytes + 1);
  Keep(spares, 1);
  EXPECT_EQ(num_living_, 0);
}

// --- chunk pipeline ----------------------------------------------------------

auto Begins(std::optional<int64_t> to_reduce, std::optional<int64_t> to_meet) {
  return AllOf(Field(&ChunkPipeline::Next::to_reduce, to_reduce),
               Field(&ChunkPipeline::Next::to_meet, to_meet),
               Field(&ChunkPipeline::Next::ends, false));
}

auto Ends() {
  return AllOf(Field(&ChunkPipeline::Next::to_reduce, std::nullopt),
               Field(&ChunkPipeline::Next::to_meet, std::nullopt),
               Field(&ChunkPipeline::Next::ends, true));
}

TEST(ChunkPipelineTest, TheNextIsReducedWhileOneMeetsOthers) {
  Cancellation cancellation;
  ChunkPipeline pipeline(4, cancellation);
  EXPECT_THAT(pipeline.Take(), Begins(0, std::nullopt));
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndReduce();
  EXPECT_THAT(pipeline.Take(), Begins(1, 0));
  pipeline.EndReduce();
  // Two reduced chunks have not met others.
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndMeet(/*begins_spread=*/true);
  EXPECT_THAT(pipeline.Take(), Begins(2, 1));
  pipeline.EndMeet(/*begins_spread=*/true);
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndReduce();
  EXPECT_THAT(pipeline.Take(), Begins(3, 2));
  pipeline.EndReduce();
  pipeline.EndMeet(/*begins_spread=*/true);
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, 3));
  pipeline.EndMeet(/*begins_spread=*/true);
  // All four chunks are being spread.
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
    pipeline.EndSpread();
  }
  EXPECT_THAT(pipeline.Take(), Ends());
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
}

TEST(ChunkPipelineTest, EndsAtOnceWithoutChunks) {
  Cancellation cancellation;
  ChunkPipeline pipeline(0, cancellation);
  EXPECT_THAT(pipeline.Take(), Ends());
}

TEST(ChunkPipelineTest, AFailureLetsWhatIsUnderWayEndAndBeginsNothing) {
  Cancellation cancellation;
  ChunkPipeline pipeline(3, cancellation);
  EXPECT_THAT(pipeline.Take(), Begins(0, std::nullopt));
  pipeline.EndReduce();
  EXPECT_THAT(pipeline.Take(), Begins(1, 0));
  cancellation.Cancel(absl::AbortedError("over"));
  pipeline.EndReduce();
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndMeet(/*begins_spread=*/false);
  EXPECT_THAT(pipeline.Take(), Ends());
}

TEST(ChunkPipelineTest, SomethingElseKeepsItFromEnding) {
  Cancellation cancellation;
  ChunkPipeline pipeline(0, cancellation);
  ASSERT_TRUE(pipeline.BeginOther());
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndOther();
  EXPECT_THAT(pipeline.Take(), Ends());
  EXPECT_FALSE(pipeline.BeginOther());
}

// --- hierarchical run --------------------------------------------------------

constexpr int64_t kChunkElements = 2;

// Stages of both levels. A stage ends when the test calls End() with its name,
// for example "reduce 0".
class Stages {
 public:
  void Note(std::string name) { begun_.push_back(std::move(name)); }
  void Begin(const std::string& name, StatusCallback done) {
    Note(name);
    if (end_inside) return std::move(done)(absl::OkStatus());
    under_way_[name] = std::move(done);
  }

  void End(const std::string& name, absl::Status status = absl::OkStatus()) {
    auto stage = under_way_.extract(name);
    ASSERT_FALSE(stage.empty()) << name;
    std::move(stage.mapped())(std::move(status));
  }

  // Returns the stages that have begun since the last call.
  std::vector<std::string> TakeBegun() { return std::exchange(begun_, {}); }

  bool end_inside = false;

 private:
  std::vector<std::string> begun_;
  std::map<std::string, StatusCallback> under_way_;
};

class FakeIntraTaskLevel : public IntraTaskLevel {
 public:
  FakeIntraTaskLevel(Stages& stages, const CollectiveContext& first)
      : stages_(stages), first_(first) {}

  void Reduce(Chunk chunk, StatusCallback done) override {
    stages_.Begin(absl::StrCat("reduce ", chunk.index), std::move(done));
  }
  bool launches_between_tasks() const override { return launches; }
  absl::Status BeginMeet(Chunk chunk, CollectiveContext& context) override {
    context.device = first_.device;
    context.input = first_.input;
    context.output = first_.output;
    return chunk.index == bad_meeting ? absl::DataLossError("no meeting")
                                      : absl::OkStatus();
  }
  void Spread(Chunk chunk, StatusCallback done) override {
    stages_.Begin(absl::StrCat("spread ", chunk.index), std::move(done));
  }
  void End() override { stages_.Note("end"); }

  int64_t bad_meeting = -1;
  bool launches = true;

 private:
  Stages& stages_;
  const CollectiveContext& first_;
};

class FakeInterTaskLevel : public InterTaskLevel {
 public:
  FakeInterTaskLevel(Stages& stages, int64_t num_chunks)
      : stages_(stages), num_chunks_(num_chunks) {}

  absl::Status Check(const CollectiveContext& /*context*/) const override {
    return absl::OkStatus();
  }
  absl::Status Prepare(const CollectiveContext& /*first*/,
                       const Tensor& /*input*/) override {
    return absl::OkStatus();
  }
  int64_t num_chunks() const override { return num_chunks_; }
  Range ChunkAt(int64_t index) const override {
    return {index * kChunkElements, kChunkElements};
  }
  void Run(int64_t index, CollectiveContext& context,
           StatusCallback done) const override {
    last_ = &context;
    stages_.Begin(absl::StrCat("meet ", index), std::move(done));
  }

  // Context of the chunk between tasks.
  const CollectiveContext& context() const { return *last_; }

 private:
  Stages& stages_;
  const int64_t num_chunks_;
  mutable const CollectiveContext* last_ = nullptr;
};

class HierarchicalRunTest : public testing::Test {
 protected:
  HierarchicalRunTest() {
    first_.executor = executor_.get();
    first_.device = devices_->devices()[0];
    first_.execution = &execution_;
    first_.exec_key = {.generation = 1, .step = 2, .execution = 3};
    first_.input = NewVector();
    first_.output = NewVector();
  }

  static Tensor NewVector() {
    return *Tensor::Allocate(DType::kInt32,
                             TensorShape::Vector(8 * kChunkElements));
  }

  std::shared_ptr<HierarchicalRun> NewRun(int64_t num_chunks) {
    between_ = std::make_unique<FakeInterTaskLevel>(stages_, num_chunks);
    auto within = std::make_shared<FakeIntraTaskLevel>(stages_, first_);
    within_ = within;
    return std::make_shared<HierarchicalRun>(std::move(within), *between_,
                                             first_);
  }
  void Start(int64_t num_chunks) { NewRun(num_chunks)->Start(); }

  std::vector<std::string> TakeBegun() { return stages_.TakeBegun(); }
  void End(const std::string& name, absl::Status status = absl::OkStatus()) {
    stages_.End(name, std::move(status));
  }
  absl::Status fate() const { return execution_.cancellation.status(); }

  SimulatedEnvironment environment_{/*seed=*/1};
  const std::unique_ptr<DeviceManager> devices_ = *DeviceManager::CreateCpu(
      /*num_tasks=*/1, /*devices_per_task=*/1, environment_.get().random);
  const std::shared_ptr<CollectiveExecutor> executor_ =
      MakeCollectiveExecutor({.environment = environment_.get(),
                              .devices = devices_.get(),
                              .param_resolver = ParamResolverLocal::Create({}),
                              .peers = std::make_unique<LocalPeerAccess>()});
  TableExecution execution_{InstanceId(), 1};
  CollectiveContext first_;
  Stages stages_;
  std::unique_ptr<FakeInterTaskLevel> between_;
  std::weak_ptr<FakeIntraTaskLevel> within_;
};

TEST_F(HierarchicalRunTest, AChunkIsReducedMeetsOthersAndIsSpread) {
  Start(/*num_chunks=*/1);
  EXPECT_THAT(TakeBegun(), ElementsAre("reduce 0"));
  End("reduce 0");
  EXPECT_THAT(TakeBegun(), ElementsAre("meet 0"));
  End("meet 0");
  EXPECT_THAT(TakeBegun(), ElementsAre("spread 0"));
  End("spread 0");
  EXPECT_THAT(TakeBegun(), ElementsAre("end"));
  EXPECT_THAT(fate(), IsOk());
}

TEST_F(HierarchicalRunTest, ChunksAreReducedAndSpreadWhileOneMeetsOthers) {
  Start(/*num_chunks=*/3);
  EXPECT_THAT(TakeBegun(), ElementsAre("reduce 0"));
  End("reduce 0");
  EXPECT_THAT(TakeBegun(), ElementsAre("meet 0", "reduce 1"));
  End("reduce 1");
  EXPECT_THAT(TakeBegun(), IsEmpty());
  End("meet 0");
  EXPECT_THAT(TakeBegun(), ElementsAre("spread 0", "meet 1", "reduce 2"));
  End("meet 1");
  EXPECT_THAT(TakeBegun(), ElementsAre("spread 1"));
  End("reduce 2");
  EXPECT_THAT(TakeBegun(), ElementsAre("meet 2"));
  End("meet 2");
  EXPECT_THAT(TakeBegun(), ElementsAre("spread 2"));
  for (const char* const name : {"spread 1", "spread 2"}) End(name);
  EXPECT_THAT(TakeBegun(), IsEmpty());
  End("spread 0");
  EXPECT_THAT(TakeBegun(), ElementsAre("end"));
}

TEST_F(HierarchicalRunTest, StagesMayEndWhereTheyBegin) {
  stages_.end_inside = true;
  Start(/*num_chunks=*/2);
  std::vector<std::string> begun = TakeBegun();
  ASSERT_FALSE(begun.empty());
  EXPECT_EQ(begun.back(), "end");
  EXPECT_THAT(begun,
              UnorderedElementsAre("reduce 0", "meet 0", "spread 0", "reduce 1",
                                   "meet 1", "spread 1", "end"));
}

TEST_F(HierarchicalRunTest, EndsAtOnceWithoutChunks) {
  Start(/*num_chunks=*/0);
  EXPECT_THAT(TakeBegun(), ElementsAre("end"));
  EXPECT_THAT(fate(), IsOk());
}

TEST_F(HierarchicalRunTest, TheLevelBetweenGetsTheChunkOfTheBuffers) {
  Start(/*num_chunks=*/2);
  for (size_t index = 0; index < 2; ++index) {
    End(absl::StrCat("reduce ", index));
    const CollectiveContext& context = between_->context();
    EXPECT_EQ(context.executor, executor_.get());
    EXPECT_EQ(context.device, first_.device);
    EXPECT_EQ(context.execution, &execution_);
    EXPECT_EQ(context.exec_key, first_.exec_key);
    const size_t offset = index * kChunkElements * sizeof(int32_t);
    EXPECT_EQ(context.input.data(), first_.input.data() + offset);
    EXPECT_EQ(context.output.data(), first_.output.data() + offset);
    EXPECT_EQ(context.input.num_elements(), kChunkElements);
    EXPECT_EQ(context.output.num_elements(), kChunkElements);
    End(absl::StrCat("meet ", index));
  }
}

// Later launches of the first member do not count again.
TEST_F(HierarchicalRunTest, TheFirstMemberIsLaunchedOnce) {
  Start(/*num_chunks=*/2);
  for (const char* stage : {"reduce 0", "meet 0", "reduce 1", "meet 1"}) {
    End(stage);
  }
  EXPECT_EQ(execution_.num_launched, 1u);
  executor_->Launched(first_);
  EXPECT_EQ(execution_.num_launched, 1u);
}

TEST_F(HierarchicalRunTest, TheLevelWithinTasksMayLaunchTheFirstMember) {
  const auto run = NewRun(/*num_chunks=*/1);
  within_.lock()->launches = false;
  run->Start();
  End("reduce 0");
  End("meet 0");
  EXPECT_EQ(execution_.num_launched, 0u);
  executor_->Launched(first_);
  EXPECT_EQ(execution_.num_launched, 1u);
}

// A level between tasks that fails may never launch.
TEST_F(HierarchicalRunTest, AChunkThatHasMetOthersIsLaunched) {
  Start(/*num_chunks=*/1);
  End("reduce 0");
  EXPECT_EQ(execution_.num_launched, 0u);
  End("meet 0", absl::DataLossError("no launch"));
  EXPECT_EQ(execution_.num_launched, 1u);
}

struct Failure {
  std::string stage;
  std::vector<std::string> under_way;  // Names of the other stages.
};

class HierarchicalRunFailureTest : public HierarchicalRunTest,
                                   public testing::WithParamInterface<Failure> {
 protected:
  // Chunk 0 is spread, chunk 1 meets others and chunk 2 is reduced.
  HierarchicalRunFailureTest() {
    Start(/*num_chunks=*/5);
    for (const char* const name : {"reduce 0", "reduce 1", "meet 0"}) End(name);
    EXPECT_THAT(TakeBegun(), ElementsAre("reduce 0", "meet 0", "reduce 1",
                                         "spread 0", "meet 1", "reduce 2"));
  }
};
INSTANTIATE_TEST_SUITE_P(
    Stages, HierarchicalRunFailureTest,
    testing::Values(Failure{"reduce 2", {"spread 0", "meet 1"}},
                    Failure{"meet 1", {"spread 0", "reduce 2"}},
                    Failure{"spread 0", {"meet 1", "reduce 2"}}),
    [](const auto& test) {
      return std::string(test.param.stage, 0, test.param.stage.find(' '));
    });

TEST_P(HierarchicalRunFailureTest, BeginsNothingAndEndsOnceAllStagesHave) {
  const auto& [stage, under_way] = GetParam();
  End(stage, absl::DataLossError("first"));
  EXPECT_EQ(fate(), absl::DataLossError("first"));
  EXPECT_THAT(TakeBegun(), IsEmpty());
  End(under_way[0], absl::InternalError("second"));
  EXPECT_THAT(TakeBegun(), IsEmpty());
  End(under_way[1], absl::InternalError("third"));
  EXPECT_THAT(TakeBegun(), ElementsAre("end"));
  EXPECT_EQ(fate(), absl::DataLossError("first"));
}

TEST_P(HierarchicalRunFailureTest, NothingBeginsOnceTheExecutionIsOver) {
  const auto& [stage, under_way] = GetParam();
  execution_.cancellation.Cancel(absl::AbortedError("over"));
  End(stage);
  for (const std::string& name : under_way) End(name);
  EXPECT_THAT(TakeBegun(), ElementsAre("end"));
}

TEST_F(HierarchicalRunTest, AChunkThatCannotMeetOthersEndsTheExecution) {
  const auto run = NewRun(/*num_chunks=*/2);
  within_.lock()->bad_meeting = 0;
  run->Start();
  End("reduce 0");
  EXPECT_EQ(fate(), absl::DataLossError("no meeting"));
  EXPECT_THAT(TakeBegun(), ElementsAre("reduce 0", "reduce 1"));
  End("reduce 1");
  EXPECT_THAT(TakeBegun(), ElementsAre("end"));
}

TEST_F(HierarchicalRunTest, DoesNotEndWhileSomebodyLooks) {
  const auto run = NewRun(/*num_chunks=*/1);
  run->Start();
  bool has_looked = false;
  run->Meanwhile([&] {
    has_looked = true;
    for (const char* const name : {"reduce 0", "meet 0", "spread 0"}) End(name);
    EXPECT_THAT(TakeBegun(), ElementsAre("reduce 0", "meet 0", "spread 0"));
    return absl::OkStatus();
  });
  EXPECT_TRUE(has_looked);
  EXPECT_THAT(TakeBegun(), ElementsAre("end"));
  run->Meanwhile([] {
    ADD_FAILURE() << "it has ended";
    return absl::OkStatus();
  });
  EXPECT_THAT(TakeBegun(), IsEmpty());
}

TEST_F(HierarchicalRunTest, WhoFindsAFaultEndsTheExecution) {
  const auto run = NewRun(/*num_chunks=*/2);
  run->Start();
  run->Meanwhile([] { return absl::DataLossError("a fault"); });
  EXPECT_EQ(fate(), absl::DataLossError("a fault"));
  End("reduce 0");
  EXPECT_THAT(TakeBegun(), ElementsAre("reduce 0", "end"));
}

TEST_F(HierarchicalRunTest, ItsStagesKeepIt) {
  Start(/*num_chunks=*/1);
  for (const char* const name : {"reduce 0", "meet 0", "spread 0"}) {
    EXPECT_FALSE(within_.expired());
    End(name);
  }
  EXPECT_TRUE(within_.expired());
}

}  // namespace engine_test
}  // namespace tutti
