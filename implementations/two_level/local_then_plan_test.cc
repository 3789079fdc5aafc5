#include "implementations/two_level/local_then_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/collective/collective_delegate.h"
#include "framework/peer/local_peer_access.h"
#include "implementations/two_level/local_then.h"
#include "schedule/engine/stand_in.h"
#include "schedule/proof/expression.h"
#include "schedule/proof/standard_cases.h"
#include "schedule/proof/symbolic.h"
#include "schedule/proof/verifier.h"
#include "schedule/proof/written_expression.h"
#include "schedule/simulate/planned_outline.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_plan_test {

using absl::StatusCode;
using ::testing::Combine;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::Values;

REGISTER_COLLECTIVE(PlannedThenShuffle, LocalThenFactory<"ShuffleReduce">());
REGISTER_COLLECTIVE(PlannedThenNobody, LocalThenFactory<"Nobody">());
REGISTER_COLLECTIVE(ThenThenRing, LocalThenFactory<"LocalThenRing">());
REGISTER_COLLECTIVE(ThenCourier,
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
      "PlannedThenShuffle"};
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

// Returns the final value of each chunk of `rank` (written_expression.h).
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
        {"PlannedThenShuffle", "ShuffleReduce"}}) {
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
  EXPECT_THAT(StandInFor("PlannedThenNobody").status(), IsNotFound("Nobody"));
  EXPECT_THAT(StandInFor("ThenThenRing").status(),
              IsInvalidArgument("LocalThenRing is no schedule"));
  EXPECT_THAT(StandInFor("ThenCourier").status(), IsUnimplemented("Courier"));
}

constexpr int kNumDevices = 3;

REGISTER_COLLECTIVE(LocalThenCourier,
                    LocalThenDelegateFactory("Courier", "by courier"));

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

}  // namespace local_then_plan_test
}  // namespace tutti
