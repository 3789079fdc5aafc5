#include "schedule/engine/hierarchical_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/executor/executor_core.h"
#include "framework/executor/table_instance.h"
#include "framework/peer/local_peer_access.h"
#include "resolvers/local/param_resolver_local.h"
#include "schedule/chunk_map.h"
#include "schedule/engine/inter_task_level.h"
#include "schedule/engine/intra_task_level.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {
namespace hierarchical_run_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

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
  EXPECT_THAT(fate(), StatusIs(StatusCode::kDataLoss, "first"));
  EXPECT_THAT(TakeBegun(), IsEmpty());
  End(under_way[0], absl::InternalError("second"));
  EXPECT_THAT(TakeBegun(), IsEmpty());
  End(under_way[1], absl::InternalError("third"));
  EXPECT_THAT(TakeBegun(), ElementsAre("end"));
  EXPECT_THAT(fate(), StatusIs(StatusCode::kDataLoss, "first"));
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
  EXPECT_THAT(fate(), StatusIs(StatusCode::kDataLoss, "no meeting"));
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
  EXPECT_THAT(fate(), StatusIs(StatusCode::kDataLoss, "a fault"));
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

}  // namespace hierarchical_run_test
}  // namespace tutti
