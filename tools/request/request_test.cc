#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "implementations/two_level/local_then.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/base/named_only_testing.h"
#include "tools/request/collective_spec.h"
#include "tools/request/request_options.h"
#include "tools/request/schedule_request.h"

namespace tutti {
namespace request_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class AlgorithmNamesTest : public ::testing::Test {
 protected:
  AlgorithmNamesTest() {
    Register("Rings", {CollectiveType::kAllReduce, CollectiveType::kReduce},
             {});
    Register("Host", {CollectiveType::kAllReduce}, {"GPU", "CPU"});
    Register("Gpu", {CollectiveType::kAllReduce}, {"GPU"});
  }

  void Register(const std::string& name, std::vector<CollectiveType> types,
                std::vector<std::string> devices) {
    ASSERT_THAT(registry_.Register(
                    name, std::make_shared<NamedOnly>(ImplementationTraits{
                              .collectives = types, .device_types = devices})),
                IsOk());
  }

  CollectiveRegistry registry_;
};

TEST_F(AlgorithmNamesTest, UnknownNamesAreAWrongCommandLineAndListTheKnown) {
  EXPECT_THAT(FindAlgorithm(registry_, "Rings"), IsOk());
  EXPECT_THAT(FindAlgorithm(registry_, "Ring"),
              ExitsWith(2, "unknown algorithm \"Ring\" (did you mean Rings?)"));
  EXPECT_THAT(FindAlgorithm(registry_, "Tree"),
              ExitsWith(2,
                        "unknown algorithm \"Tree\"; known: Gpu, Host, "
                        "Rings"));
}

TEST_F(AlgorithmNamesTest, OnesThatDoNotServeAreToldWhichDo) {
  EXPECT_THAT(CheckAlgorithm(registry_, "Host", CollectiveType::kAllReduce),
              IsOk());
  for (const char* name : {"Host", "Gpu"}) {
    EXPECT_THAT(CheckAlgorithm(registry_, name, CollectiveType::kReduce),
                ExitsWith(2, AllOf(HasSubstr(name), HasSubstr("not do reduce"),
                                   EndsWith("these do: Rings"))));
  }
  EXPECT_EQ(
      ExitStatus(CheckAlgorithm(registry_, "Gpu", CollectiveType::kAllReduce)),
      2);
  EXPECT_THAT(
      std::string(
          CheckAlgorithm(registry_, "Gpu", CollectiveType::kGather).message()),
      EndsWith("these do: none"));
}

TEST_F(AlgorithmNamesTest, WhatALibraryRunsIsNamedAndNotAmongAll) {
  ASSERT_THAT(registry_.Register(
                  "Theirs", std::make_shared<NamedOnly>(ImplementationTraits{
                                .collectives = {CollectiveType::kAllReduce},
                                .delegate = "Library"})),
              IsOk());
  EXPECT_THAT(CheckAlgorithm(registry_, "Theirs", CollectiveType::kAllReduce),
              IsOk());
  EXPECT_EQ(
      ExitStatus(CheckAlgorithm(registry_, "Theirs", CollectiveType::kReduce)),
      2);
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kAllReduce),
              ElementsAre("Host", "Rings"));
}

TEST_F(AlgorithmNamesTest, WhatCannotBeMadeOfItsPartsSaysWhy) {
  ASSERT_THAT(
      registry_.Register(
          "Made",
          std::make_shared<NamedOnly>(ImplementationTraits{
              .collectives = {CollectiveType::kAllReduce},
              .check_parts =
                  [] { return absl::NotFoundError("nobody is Lost"); }})),
      IsOk());
  EXPECT_THAT(CheckAlgorithm(registry_, "Made", CollectiveType::kAllReduce),
              ExitsWith(2, "Made cannot be made of its parts: nobody is Lost"));
  EXPECT_THAT(
      std::string(
          CheckAlgorithm(registry_, "Made", CollectiveType::kGather).message()),
      HasSubstr("not do gather"));
}

TEST_F(AlgorithmNamesTest, AllMeansWhatRunsTheCollectiveOnThisMachine) {
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kAllReduce),
              ElementsAre("Host", "Rings"));
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kReduce),
              ElementsAre("Rings"));
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kGather), ElementsAre());
}

class ChoiceOptionsTest : public testing::Test {
 protected:
  ChoiceOptionsTest() { AddChoiceOptions(&app_, &options_); }

  // The error message; empty if parsing succeeds.
  std::string Parse(const std::string& words) {
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app_;
  ChoiceOptions options_;
};

TEST_F(ChoiceOptionsTest, NothingIsDemandedByDefault) {
  EXPECT_EQ(Parse(""), "");
  EXPECT_EQ(options_.determinism, Determinism::kNotGuaranteed);
}

TEST_F(ChoiceOptionsTest, AClassOfDeterminismIsTaken) {
  EXPECT_EQ(Parse("--determinism by_rank_order"), "");
  EXPECT_EQ(options_.determinism, Determinism::kByRankOrder);
}

TEST_F(ChoiceOptionsTest, AnUnknownClassListsTheKnown) {
  EXPECT_THAT(Parse("--determinism exact"), HasSubstr("\"exact\"; known: "));
}

std::optional<std::string> NoVariable(const std::string& /*name*/) {
  return std::nullopt;
}

// Writes a file with one rule that chooses `algorithm`.
std::string FileFor(const std::string& algorithm) {
  const std::string path = testing::TempDir() + "/" + algorithm + ".json";
  std::ofstream(path) << R"({"version": 1, "rules": [
      {"collective": "all_reduce", "algorithm": ")"
                      << algorithm << "\"}]}";
  return path;
}

class TakeRulesTest : public ChoiceOptionsTest {
 protected:
  // The first rule's algorithm, "none" without rules, or the error message.
  std::string Taken(const Variables& variables) {
    const auto rules =
        TakeRules(options_, variables, CollectiveRegistry::Global());
    if (!rules.ok()) return rules.status().ToString();
    return *rules == nullptr ? "none" : (*rules)->rules[0].implementation;
  }
};

TEST_F(TakeRulesTest, TheOptionComesBeforeTheVariable) {
  const Variables variables =
      [](const std::string& name) -> std::optional<std::string> {
    return name == "TUTTI_RULES" ? FileFor("TreeReduce") : "";
  };
  EXPECT_EQ(Taken(NoVariable), "none");
  EXPECT_EQ(Taken(variables), "TreeReduce");
  EXPECT_EQ(Parse("--rules " + FileFor("RingReduce")), "");
  EXPECT_EQ(Taken(variables), "RingReduce");
}

TEST_F(TakeRulesTest, WhatIsWrongWithTheFileIsAUsageErrorWithItsLine) {
  options_.rules = FileFor("Rnig");
  const auto rules =
      TakeRules(options_, NoVariable, CollectiveRegistry::Global());
  EXPECT_EQ(ExitStatus(rules.status()), 2);
  EXPECT_THAT(rules.status().ToString(), HasSubstr("Rnig.json:2: "));
}

TEST(CollectiveSpecTest, KnowsEveryCollective) {
  for (CollectiveType type : kAllCollectiveTypes) {
    const auto spec =
        ParseCollectiveSpec({.collective = std::string(Name(type))});
    ASSERT_THAT(spec, IsOk());
    EXPECT_EQ(spec->type, type);
    EXPECT_EQ(TypeOf(RequestOf(*spec, 4, 0).op), type);
  }
}

TEST(CollectiveSpecTest, KnowsEveryReduction) {
  for (ReductionKind kind : kAllReductionKinds) {
    const auto spec = ParseCollectiveSpec(
        {.collective = "all_reduce", .reduction = std::string(Name(kind))});
    ASSERT_THAT(spec, IsOk());
    EXPECT_EQ(spec->merge_op, MergeOp(kind));
    EXPECT_TRUE(spec->final_op.is_identity());
  }
}

TEST(CollectiveSpecTest, TheAverageIsASumThatIsDivided) {
  const auto spec =
      ParseCollectiveSpec({.collective = "reduce", .reduction = "avg"});
  ASSERT_THAT(spec, IsOk());
  const CollectiveRequest request = RequestOf(*spec, 4, 0);
  EXPECT_EQ(request.merge_op, MergeOp(ReductionKind::kSum));
  EXPECT_EQ(request.final_op, FinalOp::DivideByGroupSize());
}

TEST(CollectiveSpecTest, AScanHasNoAverage) {
  const auto spec =
      ParseCollectiveSpec({.collective = "exscan", .reduction = "avg"});
  EXPECT_THAT(spec.status().ToString(),
              HasSubstr("--reduction avg does not go with exscan, only with "
                        "all_reduce, reduce_scatter, reduce"));
  EXPECT_EQ(ExitStatus(spec.status()), 2);
}

TEST(CollectiveSpecTest, SumAndRootZeroAreTheDefaults) {
  const auto spec = ParseCollectiveSpec({.collective = "reduce"});
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(ToString(*spec), "reduce sum to rank 0");
}

TEST(CollectiveSpecTest, MoreRanksMayPermuteThanAGroupHas) {
  CollectiveSpec spec{.type = CollectiveType::kPermute};
  spec.permutation.resize(kMaxGroupSize + 1);
  std::iota(spec.permutation.begin(), spec.permutation.end(), 0);
  EXPECT_THAT(CheckGroupSize(spec, kMaxGroupSize + 1), IsOk());
}

TEST(CollectiveSpecTest, OnlyTheRootIsTheSourceOfABroadcast) {
  const CollectiveSpec spec{.type = CollectiveType::kBroadcast, .root = 1};
  EXPECT_EQ(RequestOf(spec, 2, 0).op, CollectiveOp(Broadcast{false}));
  EXPECT_EQ(RequestOf(spec, 2, 1).op, CollectiveOp(Broadcast{true}));
}

TEST(CollectiveSpecTest, IsPrintedWithWhatMatters) {
  CollectiveSpec spec{.type = CollectiveType::kScatter, .root = 2};
  EXPECT_EQ(ToString(spec), "scatter from rank 2");
  spec.type = CollectiveType::kGather;
  EXPECT_EQ(ToString(spec), "gather to rank 2");
  spec = {.type = CollectiveType::kPermute, .permutation = {1, 0}};
  EXPECT_EQ(ToString(spec), "permute 1,0");
  EXPECT_EQ(ToString(CollectiveSpec{.type = CollectiveType::kBarrier}),
            "barrier");
}

absl::StatusOr<ScheduleRequest> Parse(const ScheduleWords& words) {
  return ParseScheduleRequest(words, CollectiveRegistry::Global(),
                              /*max_ranks=*/100);
}

TEST(ScheduleRequestTest, HasDefaults) {
  const auto request = Parse({.name = "RingReduce"});
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(TitleOf({.name = "RingReduce"}, *request),
            "RingReduce: all_reduce on 1x8, offsets 0");
  EXPECT_EQ(BytesOf(request->workload), 1 << 20);
}

TEST(ScheduleRequestTest, SubdivisionsAreThoseThatWouldBeChosen) {
  const auto request =
      Parse({.name = "RingReduce", .layout = "2x2", .bytes = "64M"});
  ASSERT_THAT(request, IsOk());
  EXPECT_THAT(request->request.subdiv_offsets, SizeIs(4));
}

TEST(ScheduleRequestTest, CodeThatAScheduleStandsForIsThatSchedule) {
  const auto request = Parse({.name = "LocalThenRing", .layout = "2x4"});
  ASSERT_THAT(request, IsOk());
  EXPECT_THAT(request->shown.note, HasSubstr("passes over memory"));
  EXPECT_EQ(TitleOf({.name = "LocalThenRing"}, *request),
            "LocalThenRing: all_reduce on 2x4, offsets 0");
  EXPECT_EQ(Parse({.name = "RingReduce"})->shown.note, "");
}

TEST(ScheduleRequestTest, WhyThereIsNothingToShowIsTold) {
  CollectiveRegistry registry;
  ASSERT_THAT(
      registry.Register("LocalThenCourier",
                        LocalThenDelegateFactory("Courier", "by courier")),
      IsOk());
  ASSERT_THAT(registry.Register("LocalThenNobody",
                                Hierarchical<"LocalReduce", "Nobody">()),
              IsOk());
  EXPECT_THAT(
      ParseScheduleRequest({.name = "LocalThenCourier"}, registry, 100),
      ExitsWith(2,
                "LocalThenCourier has no steps to show: its messages are "
                "those of Courier, which are not known here; these do: "
                "none"));
  EXPECT_THAT(ParseScheduleRequest({.name = "LocalThenNobody"}, registry, 100),
              ExitsWith(2, HasSubstr("Nobody\"")));
}

// Rank 0 sends chunks 0, 1 and 2 to rank 1, and copies one.
GroupPlan PlanOf(CollectiveType type, int num_chunks, Slot first_into) {
  std::vector<Schedule> schedules(2, {.num_chunks = num_chunks});
  schedules[0].lanes.push_back(
      {{.kind = StepKind::kCopy, .into = Data(0), .left = Input(0)}});
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    Slot into = first_into;
    into.chunk = chunk;
    schedules[0].lanes[0].push_back({.kind = StepKind::kSend,
                                     .left = Input(chunk),
                                     .peer = 1,
                                     .tag = chunk});
    schedules[1].lanes.resize(1);
    schedules[1].lanes[0].push_back(
        {.kind = StepKind::kRecv, .into = into, .peer = 0, .tag = chunk});
  }
  const auto plan = GroupPlan::Create({.type = type,
                                       .num_ranks = 2,
                                       .num_chunks = num_chunks,
                                       .in_place = {false, false}},
                                      schedules);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(TransferBytesTest, AreThoseOfTheChunks) {
  const GroupPlan plan = PlanOf(CollectiveType::kAllReduce, 3, Data(0));
  EXPECT_THAT(
      TransferBytes(plan,
                    {.dtype = DType::kFloat32, .group_size = 2, .count = 7}),
      ElementsAre(0, 12, 8, 8, /* rank 1: */ 12, 8, 8));
}

TEST(TransferBytesTest, EmptyChunksHaveNone) {
  const GroupPlan plan = PlanOf(CollectiveType::kAllReduce, 3, Scratch(0));
  EXPECT_THAT(
      TransferBytes(plan,
                    {.dtype = DType::kFloat64, .group_size = 2, .count = 1}),
      ElementsAre(0, 8, 0, 0, /* rank 1: */ 8, 0, 0));
}

TEST(TransferBytesTest, BlocksAreThoseOfRanks) {
  std::vector<Schedule> schedules(2, {.num_chunks = 2});
  for (int rank : {0, 1}) {
    schedules[rank].lanes = {
        {{.kind = StepKind::kSend, .left = Input(rank), .peer = 1 - rank}},
        {{.kind = StepKind::kRecv, .into = Data(1 - rank), .peer = 1 - rank}}};
  }
  const auto plan = GroupPlan::Create({.type = CollectiveType::kAllGather,
                                       .num_ranks = 2,
                                       .num_chunks = 2,
                                       .in_place = {false, false}},
                                      schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(
      TransferBytes(*plan, {.spec = {.type = CollectiveType::kAllGather},
                            .dtype = DType::kInt8,
                            .group_size = 2,
                            .count = 10}),
      ElementsAre(5, 5, 5, 5));
}

TEST(TransferBytesTest, TheTokenOfABarrierIsOneByte) {
  std::vector<Schedule> schedules(2);
  schedules[0].lanes = {
      {{.kind = StepKind::kSend, .left = Input(0), .peer = 1}}};
  schedules[1].lanes = {
      {{.kind = StepKind::kRecv, .into = Scratch(0), .peer = 0}}};
  const auto plan = GroupPlan::Create({.type = CollectiveType::kBarrier,
                                       .num_ranks = 2,
                                       .in_place = {false, false}},
                                      schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(TransferBytes(*plan, {.spec = {.type = CollectiveType::kBarrier},
                                    .group_size = 2}),
              ElementsAre(1, 1));
}

TEST(WorkloadOptionsTest, ALayoutIsTasksTimesDevices) {
  const auto layout = ParseLayout("4x2", 8);
  ASSERT_THAT(layout, IsOk());
  EXPECT_EQ(*layout, GroupLayout::Uniform(4, 2));
}

TEST(WorkloadOptionsTest, ALayoutMayNameTheDevicesOfEachTask) {
  const auto layout = ParseLayout("3+1+2", 8);
  ASSERT_THAT(layout, IsOk());
  EXPECT_EQ(layout->ToString(), "3+1+2");
  EXPECT_EQ(layout->tasks()[2], (std::vector<int>{4, 5}));
}

TEST(WorkloadOptionsTest, OtherLayoutsAreRefused) {
  for (const char* text :
       {"", "8", "x", "4x", "x2", "4x2x1", "0x2", "4x0", "-1x2", "4 x2", "4X2",
        "1+", "+1", "1+0", "2x3+1", "99999999999999999999x1"}) {
    EXPECT_THAT(ParseLayout(text, 8),
                ExitsWith(2, AllOf(HasSubstr(text), HasSubstr("such as 4x2"))));
  }
}

TEST(WorkloadOptionsTest, LayoutsHaveALimit) {
  EXPECT_THAT(ParseLayout("2x4", 8), IsOk());
  EXPECT_THAT(ParseLayout("5+3", 8), IsOk());
  for (const char* text : {"3x3", "9x1", "1x9", "8+1", "1x999999999999",
                           "999999999999x999999999999"}) {
    EXPECT_THAT(
        ParseLayout(text, 8),
        ExitsWith(2, AllOf(HasSubstr(text), HasSubstr("at most 8 ranks"))));
  }
}

TEST(WorkloadOptionsTest, SizesAreOneByteToOnePebibyte) {
  EXPECT_EQ(*ParseSize("--bytes", "4K"), 4096);
  EXPECT_EQ(*ParseSize("--bytes", "1048576G"), int64_t{1} << 50);
  for (const char* text : {"0", "1048577G", "x", "-1"}) {
    EXPECT_THAT(ParseSize("--bytes", text),
                ExitsWith(2, AllOf(HasSubstr("--bytes"), HasSubstr(text))));
  }
}

TEST(WorkloadOptionsTest, APermuteGoesToTheNextRankByDefault) {
  const auto workload = ParseWorkload({.collective = "permute"}, "int8", 3);
  ASSERT_THAT(workload, IsOk());
  EXPECT_THAT(workload->spec.permutation, ElementsAre(1, 2, 0));
}

TEST(WorkloadOptionsTest, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(
      ParseWorkload({.collective = "broadcast", .root = 3}, "float32", 3),
      ExitsWith(2, HasSubstr("--root 3")));
  EXPECT_THAT(ParseWorkload({.collective = "all_reduce"}, "bool", 3),
              ExitsWith(2, HasSubstr("bool")));
  EXPECT_THAT(ParseWorkload({.collective = "all_reduce"}, "float8", 3),
              ExitsWith(2, HasSubstr("float8")));
}

TEST(WorkloadOptionsTest, NamesOfAllDTypesFillLinesThatAreNotTooLong) {
  std::vector<std::string> names;
  for (const DType dtype : kAllDTypes) names.emplace_back(Name(dtype));
  for (const size_t columns : {16, 42, 72}) {
    const std::string text = DTypeNames(columns);
    for (const auto line : absl::StrSplit(text, '\n')) {
      EXPECT_LE(line.size(), columns);
    }
    const std::string joined = absl::StrReplaceAll(text, {{"\n", " "}});
    EXPECT_EQ(joined, absl::StrJoin(names, ", "));
  }
}

}  // namespace request_test
}  // namespace tutti
