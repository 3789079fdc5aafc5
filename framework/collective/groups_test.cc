#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "framework/collective/group_directory.h"
#include "framework/collective/group_resources.h"
#include "framework/collective/layout_text.h"
#include "framework/collective/member_params.h"
#include "framework/collective/params_test_data.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace groups_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

ClusterSpec Spec(std::vector<std::string> addresses, int this_task = 0) {
  return {.addresses = std::move(addresses), .this_task = this_task};
}

TEST(ClusterSpecTest, NamesItsTasks) {
  const ClusterSpec spec = Spec({"a:1", "b:2"});
  EXPECT_EQ(spec.Label(1), "task 1 (b:2)");
  EXPECT_EQ(spec.Label(2), "task 2");
  EXPECT_EQ(spec.Label(-1), "task -1");
  EXPECT_EQ(spec.TaskName(1), "/job:worker/replica:0/task:1");
}

TEST(ClusterSpecTest, FindsTheTaskOfADevice) {
  const ClusterSpec spec = Spec({"a:1", "b:2"});
  EXPECT_EQ(*spec.TaskOf({"worker", 0, 1, "CPU", 3}), 1);
  for (const DeviceName& stranger :
       {DeviceName{"ps", 0, 1, "CPU", 0}, DeviceName{"worker", 1, 1, "CPU", 0},
        DeviceName{"worker", 0, 2, "CPU", 0},
        DeviceName{"worker", 0, -1, "CPU", 0}}) {
    EXPECT_THAT(
        spec.TaskOf(stranger),
        IsNotFound(stranger.ToString(), "/job:worker/replica:0/task:1"));
  }
}

TEST(ClusterSpecTest, AcceptsNamesNumbersAndIpv6) {
  EXPECT_THAT(
      Validate(Spec({"host.example:7000", "10.0.0.1:1", "[::1]:65535"}, 2)),
      IsOk());
}

struct WrongSpec {
  ClusterSpec spec;
  std::string error;
};

class WrongClusterSpecTest : public testing::TestWithParam<WrongSpec> {};

INSTANTIATE_TEST_SUITE_P(
    All, WrongClusterSpecTest,
    testing::Values(
        WrongSpec{Spec({}), "1 to 65536 tasks, this one has 0"},
        WrongSpec{Spec({"a:1"}, 1), "no task 1: the 1 tasks"},
        WrongSpec{Spec({"a:1"}, -1), "no task -1"},
        WrongSpec{Spec({"a:1", ""}), "of task 1, \"\", has no port"},
        WrongSpec{Spec({"a"}), "\"a\", has no port; wanted is host:port"},
        WrongSpec{Spec({":7"}), "has no host"},
        WrongSpec{Spec({"a:"}), "not a number from 1 to 65535"},
        WrongSpec{Spec({"a:0"}), "not a number from 1 to 65535"},
        WrongSpec{Spec({"a:65536"}), "not a number from 1 to 65535"},
        WrongSpec{Spec({"a:1", "b:1", "a:1"}),
                  "tasks 0 and 2 both have the address a:1"},
        WrongSpec{{.job = "a/b", .addresses = {"a:1"}}, "\"a/b\" cannot be"},
        WrongSpec{{.job = "", .addresses = {"a:1"}}, "cannot be the name"}));

TEST_P(WrongClusterSpecTest, IsRefused) {
  EXPECT_THAT(Validate(GetParam().spec), IsInvalidArgument(GetParam().error));
}

constexpr Determinism kAll[] = {Determinism::kByRankOrder,
                                Determinism::kFixedLayout,
                                Determinism::kNotGuaranteed};

TEST(DeterminismTest, EveryNameIsParsed) {
  for (const Determinism determinism : kAll) {
    const auto parsed = ParseDeterminism(Name(determinism)).value();
    EXPECT_EQ(parsed, determinism);
  }
}

TEST(DeterminismTest, UnderscoresStandForSpaces) {
  const auto parsed = ParseDeterminism("by_rank_order").value();
  EXPECT_EQ(parsed, Determinism::kByRankOrder);
}

TEST(DeterminismTest, AnUnknownNameListsTheKnown) {
  EXPECT_THAT(ParseDeterminism("bitwise"),
              IsInvalidArgument("\"bitwise\"", "by_rank_order"));
  EXPECT_FALSE(ParseDeterminism("").ok());
}

TEST(DeterminismTest, EachClassSatisfiesItselfAndThoseAfterIt) {
  for (const Determinism offered : kAll) {
    for (const Determinism wanted : kAll) {
      EXPECT_EQ(Satisfies(offered, wanted),
                static_cast<int>(offered) <= static_cast<int>(wanted));
    }
  }
}

struct Shared {
  explicit Shared(Cancellation& cancellation) : cancellation(cancellation) {}
  Cancellation& cancellation;
};

TEST(ExecutionTest, AllMembersShareOneObject) {
  Execution execution(InstanceId(), 1);
  std::vector<Shared*> shared(4);
  std::vector<std::thread> members;
  for (Shared*& mine : shared) {
    members.emplace_back([&] { mine = &execution.Shared<Shared>(); });
  }
  for (std::thread& member : members) member.join();
  for (const Shared* mine : shared) EXPECT_EQ(mine, shared[0]);
  EXPECT_EQ(&shared[0]->cancellation, &execution.cancellation);
}

TEST(ExecutionTest, EachExecutionHasAnObjectOfItsOwn) {
  Execution first(InstanceId(), 1), second(InstanceId(), 2);
  EXPECT_NE(&first.Shared<Shared>(), &second.Shared<Shared>());
}

std::shared_ptr<const CollGroupParams> Group(GroupKey key,
                                             uint64_t generation) {
  auto group = std::make_shared<CollGroupParams>();
  group->key = key;
  group->generation = generation;
  group->cancellation = std::make_shared<Cancellation>();
  return group;
}

const absl::Status kLost = absl::UnavailableError("task 3 was lost");

TEST(GroupDirectoryTest, FindsWhatLives) {
  GroupDirectory directory;
  const auto group = Group(1, 4);
  directory.Add(group);
  EXPECT_EQ(*directory.Find(1, 4), group);
  EXPECT_THAT(directory.Living(), ElementsAre(group));
  EXPECT_EQ(directory.EndedGeneration(1), 0);
}

TEST(GroupDirectoryTest, DoesNotKnowWhatComesLater) {
  GroupDirectory directory;
  EXPECT_THAT(directory.Find(1, 4),
              IsNotFound("generation 4 of group 1 is not known"));
  directory.Add(Group(1, 4));
  EXPECT_THAT(directory.Find(1, 5), IsNotFound("generation 5"));
  EXPECT_THAT(directory.Find(2, 4), IsNotFound("group 2"));
}

TEST(GroupDirectoryTest, SaysWhyAGenerationHasEnded) {
  GroupDirectory directory;
  const auto group = Group(1, 4);
  directory.Add(group);
  EXPECT_TRUE(directory.End(1, 4, kLost));
  EXPECT_FALSE(directory.End(1, 4, absl::UnknownError("later")));
  EXPECT_EQ(group->cancellation->status(), kLost);
  for (const uint64_t generation : {3, 4}) {
    EXPECT_THAT(
        directory.Find(1, generation),
        StatusIs(kLost.code(), HasSubstr("has ended: task 3 was lost")));
  }
  EXPECT_EQ(directory.EndedGeneration(1), 4);
  EXPECT_TRUE(directory.Living().empty());
}

// Key 1 lives on, key 2 ends first, and then more keys than are kept.
TEST(GroupDirectoryTest, KnowsForgottenKeysByTheirGenerations) {
  constexpr GroupKey kMany = GroupDirectory::kMaxEnded;
  GroupDirectory directory;
  directory.Add(Group(1, 4));
  directory.Add(Group(2, 5));
  EXPECT_TRUE(directory.End(2, 5, kLost));
  for (GroupKey key = 10; key < 10 + kMany; ++key) {
    EXPECT_EQ(directory.EndedGeneration(2), 5);
    directory.Add(Group(key, static_cast<uint64_t>(key)));
    EXPECT_TRUE(directory.End(key, static_cast<uint64_t>(key), kLost));
  }
  EXPECT_THAT(directory.Find(2, 5),
              IsAborted("generation 5 of group 2 has ended"));
  EXPECT_FALSE(directory.End(2, 5, kLost));
  directory.Add(Group(2, 5));
  EXPECT_THAT(directory.Find(2, 5), IsAborted("has ended"));
  EXPECT_THAT(directory.Find(10, 10), IsUnavailable("task 3 was lost"));
  EXPECT_TRUE(directory.Find(1, 4).ok());
  EXPECT_THAT(directory.Find(2, 5000), IsNotFound("is not known"));
}

// A claim about the future of a key concerns that key alone.
TEST(GroupDirectoryTest, AGenerationThatWasNeverThereForgetsNoOther) {
  constexpr GroupKey kMany = GroupDirectory::kMaxEnded;
  GroupDirectory directory;
  directory.Add(Group(1, 4));
  EXPECT_TRUE(directory.End(2, uint64_t{1} << 40, kLost));
  for (GroupKey key = 10; key < 10 + kMany; ++key) {
    EXPECT_TRUE(directory.End(key, 1, kLost));
  }
  EXPECT_EQ(directory.EndedGeneration(2), 4);
  const auto next = Group(3, 5);
  directory.Add(next);
  EXPECT_EQ(*directory.Find(3, 5), next);
}

TEST(GroupDirectoryTest, NoGroupHasGenerationZero) {
  GroupDirectory directory;
  directory.Add(Group(1, 4));
  EXPECT_THAT(directory.Find(1, 0), IsInvalidArgument("group 1"));
}

TEST(GroupDirectoryTest, WhatEndedBeforeItWasKnownStaysEnded) {
  GroupDirectory directory;
  EXPECT_TRUE(directory.End(1, 4, kLost));
  directory.Add(Group(1, 4));
  directory.Add(Group(1, 3));
  EXPECT_TRUE(directory.Living().empty());
  const auto next = Group(1, 5);
  directory.Add(next);
  EXPECT_EQ(*directory.Find(1, 5), next);
}

TEST(GroupDirectoryTest, ANewGenerationEndsTheOldOne) {
  GroupDirectory directory;
  const auto old = Group(1, 4);
  directory.Add(old);
  directory.Add(Group(1, 6));
  EXPECT_THAT(old->cancellation->status(),
              IsAborted("formed again, as generation 6"));
  EXPECT_THAT(directory.Find(1, 4), IsAborted("formed again"));
  EXPECT_FALSE(directory.End(1, 4, kLost));
  EXPECT_TRUE(directory.Find(1, 6).ok());
}

TEST(GroupDirectoryTest, EndingAnOldGenerationLeavesTheLivingOne) {
  GroupDirectory directory;
  const auto group = Group(1, 6);
  directory.Add(group);
  directory.End(1, 5, kLost);
  EXPECT_EQ(*directory.Find(1, 6), group);
  EXPECT_FALSE(group->cancellation->cancelled());
}

TEST(GroupDirectoryTest, TellsTheListenerOfEachChange) {
  GroupDirectory directory;
  std::vector<std::pair<GroupKey, uint64_t>> changes;
  directory.SetListener([&](GroupKey key, uint64_t generation) {
    directory.Living();  // Would block if a lock was held.
    changes.emplace_back(key, generation);
  });
  directory.Add(Group(1, 4));
  directory.Add(Group(1, 4));
  directory.End(1, 4, kLost);
  directory.End(1, 3, kLost);
  EXPECT_THAT(changes, ElementsAre(Pair(1, 4), Pair(1, 4)));
}

TEST(GroupLayoutTest, GroupsRanksByTaskAndTasksByTheirLowestRank) {
  const auto layout = GroupLayout::Create({7, 3, 7, 9, 3}).value();
  EXPECT_EQ(layout.size(), 5);
  EXPECT_EQ(layout.num_tasks(), 3);
  EXPECT_THAT(layout.tasks(), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4),
                                          ElementsAre(3)));
  for (int task = 0; task < layout.num_tasks(); ++task) {
    for (int rank : layout.tasks()[task]) {
      EXPECT_EQ(layout.task_of(rank), task);
    }
  }
}

TEST(GroupLayoutTest, NoRankIsInvalid) {
  EXPECT_THAT(GroupLayout::Create({}), IsInvalidArgument("at least one rank"));
}

TEST(GroupLayoutTest, UniformFillsOneTaskAfterTheOther) {
  const GroupLayout layout = GroupLayout::Uniform(2, 3);
  EXPECT_THAT(layout.tasks(),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
}

TEST(GroupLayoutTest, UniformCountsValuesBelowOneAsOne) {
  EXPECT_EQ(GroupLayout::Uniform(0, -2), GroupLayout::Uniform(1, 1));
  EXPECT_EQ(GroupLayout::Uniform(-1, 3).size(), 3);
}

TEST(GroupLayoutTest, OnlyWhoSharesATaskMatters) {
  EXPECT_EQ(*GroupLayout::Create({4, 4, 8}), *GroupLayout::Create({1, 1, 0}));
  EXPECT_FALSE(*GroupLayout::Create({0, 0, 1}) ==
               *GroupLayout::Create({0, 1, 1}));
}

TEST(GroupLayoutTest, IsWrittenAsTasksTimesDevicesOrAsASum) {
  EXPECT_EQ(GroupLayout::Uniform(4, 2).ToString(), "4x2");
  EXPECT_EQ(GroupLayout::Uniform(1, 1).ToString(), "1x1");
  EXPECT_EQ(GroupLayout::Create({0, 0, 0, 1, 2, 2})->ToString(), "3+1+2");
}

TEST(LayoutTextTest, AProductAndASumAreRead) {
  const auto product = ParseLayoutText("4x2", 8).value();
  EXPECT_THAT(product, ElementsAre(2, 2, 2, 2));
  const auto sum = ParseLayoutText("3+1+2", 8).value();
  EXPECT_THAT(sum, ElementsAre(3, 1, 2));
}

TEST(LayoutTextTest, ItsTextIsThatOfTheGroup) {
  EXPECT_EQ(LayoutText({2, 2}), GroupLayout::Uniform(2, 2).ToString());
  EXPECT_EQ(LayoutText({2, 1}), GroupLayout::Create({0, 0, 1})->ToString());
  EXPECT_EQ(LayoutText({7}), GroupLayout::Uniform(1, 7).ToString());
}

TEST(LayoutTextTest, WhatIsNoLayoutIsQuoted) {
  for (const char* text : {"", "x", "8", "4x2 ", "1+", "0x2", "-1x2"}) {
    EXPECT_THAT(ParseLayoutText(text, 8),
                IsInvalidArgument(text, "is no layout"));
  }
  const std::string many(1'000'000, '+');
  EXPECT_LT(ParseLayoutText(many, 8).status().message().size(), 300u);
}

TEST(LayoutTextTest, MoreRanksThanTheLimitAreRefused) {
  EXPECT_THAT(ParseLayoutText("8x1", 8), IsOk());
  EXPECT_THAT(ParseLayoutText("5+3", 8), IsOk());
  for (const char* text : {"99999999999x1", "1x9", "3x3", "8+1"}) {
    EXPECT_THAT(ParseLayoutText(text, 8),
                IsInvalidArgument("wanted at most 8 ranks"));
  }
}

struct Cache {
  std::atomic<int> num_uses{0};
};
struct Communicator {
  int id = 7;
};

TEST(GroupResourcesTest, MakesOneObjectOfEachType) {
  GroupResources resources;
  const auto cache = resources.GetOrCreate<Cache>();
  const auto communicator = resources.GetOrCreate<Communicator>();
  EXPECT_EQ(communicator->id, 7);
  communicator->id = 8;
  EXPECT_EQ(resources.GetOrCreate<Cache>(), cache);
  EXPECT_EQ(resources.GetOrCreate<Communicator>()->id, 8);
}

TEST(GroupResourcesTest, GroupsShareNothing) {
  GroupResources one;
  GroupResources other;
  EXPECT_NE(one.GetOrCreate<Cache>(), other.GetOrCreate<Cache>());
}

TEST(GroupResourcesTest, TheObjectsEndWithTheGroupAndItsLastUser) {
  std::weak_ptr<Cache> cache;
  std::shared_ptr<Communicator> in_use;
  {
    GroupResources resources;
    cache = resources.GetOrCreate<Cache>();
    in_use = resources.GetOrCreate<Communicator>();
    EXPECT_FALSE(cache.expired());
  }
  EXPECT_TRUE(cache.expired());
  EXPECT_EQ(in_use->id, 7);
}

GroupResources* resources_in_use = nullptr;
struct CommunicatorWithCache {
  std::shared_ptr<Cache> cache = resources_in_use->GetOrCreate<Cache>();
};

TEST(GroupResourcesTest, AnObjectMayUseAnotherWhileItIsMade) {
  GroupResources resources;
  resources_in_use = &resources;
  EXPECT_EQ(resources.GetOrCreate<CommunicatorWithCache>()->cache,
            resources.GetOrCreate<Cache>());
}

TEST(GroupResourcesTest, ThreadsGetTheSameObject) {
  GroupResources resources;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&resources] { ++resources.GetOrCreate<Cache>()->num_uses; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(resources.GetOrCreate<Cache>()->num_uses, 4);
}

constexpr int kRank = 1;

// Params of an all_gather among three members.
std::shared_ptr<const CollectiveParams> Settled(std::vector<int64_t> rows) {
  return ParamsOf({.type = CollectiveType::kAllGather,
                   .shape = ShapeOf({rows[0], 2}),
                   .rows = std::move(rows)},
                  /*group_size=*/3, kRank);
}

CollectiveRequest Request(int64_t own_rows, std::vector<int64_t> rows) {
  CollectiveRequest request;
  request.group_key = 3;
  request.group_size = 3;
  request.instance_key = 4;
  request.op = AllGather{.uneven = true, .rows = std::move(rows)};
  request.shape = ShapeOf({own_rows, 2});
  return request;
}

TEST(ParamsOfCallTest, ARequestWithItsRowsGetsShapesByThese) {
  const auto settled = Settled({1, 2, 3});
  const auto params = ParamsOfCall(settled, Request(5, {4, 5, 0})).value();
  EXPECT_THAT(params->instance->rows, ElementsAre(4, 5, 0));
  EXPECT_EQ(params->instance->shape, ShapeOf({4, 2}));
  EXPECT_EQ(params->input_shape, ShapeOf({5, 2}));
  EXPECT_EQ(params->output_shape, ShapeOf({9, 2}));
  EXPECT_EQ(params->default_rank, kRank);
  EXPECT_EQ(params->group, settled->group);
  EXPECT_EQ(params->task, settled->task);
}

TEST(ParamsOfCallTest, WithoutRowsOrWithTheSameItIsWhatWasSettled) {
  const auto settled = Settled({1, 2, 3});
  for (const auto& request : {Request(2, {}), Request(2, {1, 2, 3})}) {
    const auto params = ParamsOfCall(settled, request).value();
    EXPECT_EQ(params, settled);
  }
}

TEST(ParamsOfCallTest, RowsThatDoNotSuitTheShapeAreAnError) {
  EXPECT_THAT(ParamsOfCall(Settled({1, 2, 3}), Request(2, {4, 5, 0})),
              IsInvalidArgument("group 3, instance 4",
                                "rows says that rank 1 has 5 rows, but its "
                                "shape is [2,2]"));
}

TEST(ParamsOfCallTest, AScatterMayHaveAnotherTotal) {
  const auto settled = ParamsOf({.type = CollectiveType::kReduceScatter,
                                 .shape = ShapeOf({6, 2}),
                                 .rows = {1, 2, 3},
                                 .rows_are_given = true},
                                /*group_size=*/3, kRank);
  CollectiveRequest request = Request(9, {});
  request.op = ReduceScatter{.uneven = true, .rows = {4, 5, 0}};
  const auto params = ParamsOfCall(settled, request).value();
  EXPECT_EQ(params->input_shape, ShapeOf({9, 2}));
  EXPECT_EQ(params->output_shape, ShapeOf({5, 2}));
}

// Rank 0's rows of an all_to_all stand in for those of all until members call.
TEST(ParamsOfCallTest, AnExchangeHasTheRowsOfItsRankAlone) {
  const auto settled = ParamsOf({.type = CollectiveType::kAllToAll,
                                 .shape = ShapeOf({6, 2}),
                                 .rows = {1, 2, 3, 1, 0, 0},
                                 .rows_are_given = true},
                                /*group_size=*/3, kRank);
  CollectiveRequest request = Request(6, {});
  request.op = AllToAll{.send_rows = {2, 4, 0}, .recv_rows = {3, 4, 1}};
  const auto params = ParamsOfCall(settled, request).value();
  EXPECT_EQ(params->input_shape, ShapeOf({6, 2}));
  EXPECT_EQ(params->output_shape, ShapeOf({8, 2}));
  EXPECT_EQ(params->instance->rows_rank, kRank);
  EXPECT_EQ(ParamsOfCall(params, request).value(), params);
  // The same numbers, but of another rank.
  request.op = AllToAll{.send_rows = {1, 2, 3}, .recv_rows = {1, 2, 0}};
  EXPECT_EQ(ParamsOfCall(settled, request).value()->output_shape,
            ShapeOf({3, 2}));
  request.op = AllToAll{.send_rows = {2, 4, 0}, .recv_rows = {3, 5, 1}};
  EXPECT_THAT(
      ParamsOfCall(settled, request),
      IsInvalidArgument("rank 1 sends 4 rows to itself, but receives 5"));
}

TEST(ParamsOfCallTest, AnOutputThatIsTooLargeIsAnError) {
  constexpr int64_t kMost = int64_t{1} << 62;
  EXPECT_THAT(ParamsOfCall(Settled({1, 2, 3}), Request(0, {kMost, 0, 0})),
              IsInvalidArgument("group 3, instance 4", "4611686018427387904"));
}

TEST(ParamsOfCallTest, RowsForAGroupOfAnotherSizeAreAnError) {
  EXPECT_THAT(ParamsOfCall(Settled({1, 2, 3}), Request(5, {4, 5})),
              IsInvalidArgument("rows has 2 entries for a group of 3"));
}

// --- Sub-groups --------------------------------------------------------------

TEST(SubgroupsTest, EachRowIsAGroupInTheOrderOfItsRanks) {
  const auto base = GroupOf(5);
  const std::vector<std::vector<int>> rows = {{4, 0, 2}, {1}};
  const auto requests = SubgroupsByEnumeration(*base, rows);
  ASSERT_THAT(requests, IsOk());
  ASSERT_EQ(requests->size(), 5u);
  for (const std::vector<int>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const CollectiveRequest& request = (*requests)[row[i]];
      EXPECT_EQ(request.group_key, (*requests)[row[0]].group_key);
      EXPECT_EQ(request.group_size, static_cast<int>(row.size()));
      EXPECT_EQ(request.rank, static_cast<int>(i));
      EXPECT_EQ(request.device_type, base->device_type);
    }
  }
  EXPECT_EQ((*requests)[3].group_size, 0);  // In no row.
}

TEST(SubgroupsTest, KeysDependOnTheBaseItsGenerationAndTheRowAlone) {
  CollGroupParams base = *GroupOf(4);
  const auto key_of = [&base](const std::vector<std::vector<int>>& rows) {
    return SubgroupsByEnumeration(base, rows)->front().group_key;
  };
  const GroupKey key = key_of({{0, 1}, {2, 3}});
  EXPECT_EQ(key_of({{2}, {0, 1}}), key);
  EXPECT_NE(key_of({{1, 0}}), key);
  EXPECT_NE(key_of({{0, 1, 2}}), key);
  ++base.generation;
  EXPECT_NE(key_of({{0, 1}}), key);
  --base.generation;
  ++base.key;
  EXPECT_NE(key_of({{0, 1}}), key);
}

TEST(SubgroupsTest, RefusesRowsThatAreNone) {
  const std::pair<std::vector<std::vector<int>>, std::string> cases[] = {
      {{{0}, {}}, "row 1 is empty"},
      {{{0, 3}}, "row 0 has rank 3, but the group has 3 members"},
      {{{-1}}, "row 0 has rank -1"},
      {{{0, 1}, {1}}, "rank 1 occurs twice, the second time in row 1"},
      {{{2, 2}}, "rank 2 occurs twice"}};
  for (const auto& [rows, error] : cases) {
    EXPECT_THAT(SubgroupsByEnumeration(*GroupOf(3), rows),
                IsInvalidArgument(error));
  }
}

}  // namespace groups_test
}  // namespace tutti
