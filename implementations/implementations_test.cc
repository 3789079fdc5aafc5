// Tests of promises that concern all implementations together. The conformance
// tests cover the promises of each one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tutti/implementation.h"
#include "tutti/schedule.h"
#include "tutti/selection.h"

namespace tutti {
namespace implementations_test {

const std::vector<std::string>& Names() {
  static const auto* const names =
      new std::vector<std::string>{"Barrier",
                                   "BruckAllToAll",
                                   "BruckGather",
                                   "ChainBroadcast",
                                   "DirectReduceScatter",
                                   "DoubleTreeBroadcast",
                                   "DoubleTreeReduce",
                                   "Gather",
                                   "HierarchicalDoubleTreeReduce",
                                   "HierarchicalGather",
                                   "HierarchicalHalvingDoublingReduce",
                                   "HierarchicalReduceScatter",
                                   "HierarchicalRingReduce",
                                   "HierarchicalTreeBroadcast",
                                   "LocalAllToAll",
                                   "LocalBarrier",
                                   "LocalBroadcast",
                                   "LocalGather",
                                   "LocalPermute",
                                   "LocalReduce",
                                   "LocalReduceScatter",
                                   "LocalScatter",
                                   "LocalThenDoubleTree",
                                   "LocalThenRecursiveDoubling",
                                   "LocalThenRecursiveHalvingDoubling",
                                   "LocalThenRing",
                                   "PairwiseAllToAll",
                                   "Permute",
                                   "RecursiveDoublingReduce",
                                   "RecursiveHalvingDoublingReduce",
                                   "RecursiveHalvingReduceScatter",
                                   "RingGather",
                                   "RingReduce",
                                   "RingReduceScatter",
                                   "Scatter",
                                   "ShuffleReduce",
                                   "ShuffleThenRecursiveHalvingDoubling",
                                   "ShuffleThenRing",
                                   "ShuffleThenShuffle",
                                   "TreeReduce"};
  return *names;
}

TEST(ImplementationsTest, AreRegisteredByTheirNames) {
  EXPECT_TRUE(CollectiveRegistry::Global().status().ok());
  std::vector<std::string> registered;
  for (const auto& entry : CollectiveRegistry::Global().List()) {
    registered.push_back(entry.name);
  }
  EXPECT_EQ(registered, Names());
}

double Cost(const std::string& name, const GroupLayout& layout, int64_t bytes) {
  const auto factory = CollectiveRegistry::Global().Find(name);
  const ImplementationTraits& traits = (*factory)->traits();
  return traits.cost_seconds(
      {.type = traits.collectives.front(), .layout = layout, .bytes = bytes});
}

TEST(ImplementationsTest, PriceTreesBelowRingsForFewBytesAndAboveForMany) {
  const GroupLayout layout = GroupLayout::Uniform(1, 8);
  EXPECT_LT(Cost("TreeReduce", layout, 4), Cost("RingReduce", layout, 4));
  EXPECT_GT(Cost("TreeReduce", layout, 1 << 20),
            Cost("RingReduce", layout, 1 << 20));
}

TEST(ImplementationsTest,
     PriceDoublingBelowTreesForFewBytesAndAboveRingsForMany) {
  for (const int size : {4, 5, 8, 64}) {
    const GroupLayout layout = GroupLayout::Uniform(1, size);
    EXPECT_LT(Cost("RecursiveDoublingReduce", layout, 4),
              Cost("TreeReduce", layout, 4));
    EXPECT_GT(Cost("RecursiveDoublingReduce", layout, 1 << 20),
              Cost("RingReduce", layout, 1 << 20));
  }
}

TEST(ImplementationsTest, PriceHalvingNoHigherThanRings) {
  for (const int size : {2, 5, 8, 64}) {
    const GroupLayout layout = GroupLayout::Uniform(size, 1);
    for (const int64_t bytes : {0, 4, 1 << 10, 1 << 26}) {
      EXPECT_LE(Cost("RecursiveHalvingReduceScatter", layout, bytes),
                Cost("RingReduceScatter", layout, bytes));
      EXPECT_LE(Cost("RecursiveHalvingDoublingReduce", layout, bytes),
                Cost("RingReduce", layout, bytes));
    }
  }
}

TEST(ImplementationsTest, PriceRingsBelowBruckWhereTasksHaveManyDevices) {
  EXPECT_GT(Cost("BruckGather", GroupLayout::Uniform(4, 2), 1 << 20),
            Cost("RingGather", GroupLayout::Uniform(4, 2), 1 << 20));
  EXPECT_LT(Cost("BruckGather", GroupLayout::Uniform(8, 1), 1 << 20),
            Cost("RingGather", GroupLayout::Uniform(8, 1), 1 << 20));
}

std::string Chosen(CollectiveType type, const GroupLayout& layout,
                   int64_t bytes) {
  return SelectImplementation(CollectiveRegistry::Global(),
                              {.type = type,
                               .layout = layout,
                               .device_type = "CPU",
                               .bytes = bytes})
      ->name;
}

TEST(ImplementationsTest, PriceLevelsBelowRingsWhereTasksHaveManyDevices) {
  for (const int64_t bytes : {0, 1 << 10, 1 << 26}) {
    for (const auto& [flat, levels] :
         {std::pair("RingReduce", "HierarchicalRingReduce"),
          std::pair("RingGather", "HierarchicalGather"),
          std::pair("RingReduceScatter", "HierarchicalReduceScatter")}) {
      const GroupLayout layout = GroupLayout::Uniform(3, 3);
      EXPECT_LT(Cost(levels, layout, bytes), Cost(flat, layout, bytes));
    }
  }
}

// Returns the cost of gaps: one second for each further message that leaves or
// enters a process at the same time.
double CostOfGaps(const std::string& name, CostQuery query) {
  const auto factory = CollectiveRegistry::Global().Find(name);
  const ImplementationTraits& traits = (*factory)->traits();
  query.type = traits.collectives.front();
  query.model.between_gap_seconds = 1;
  const double with = traits.cost_seconds(query);
  query.model.between_gap_seconds = 0;
  const double without = traits.cost_seconds(query);
  return with == without ? 0 : with - without;  // Both may be infinite.
}

TEST(ImplementationsTest, PriceMessagesAtOnceBetweenProcessesAlone) {
  const GroupLayout layout = GroupLayout::Uniform(2, 4);
  const GroupLayout one_task = GroupLayout::Uniform(1, 8);
  for (const std::string& name : Names()) {
    for (const int64_t bytes : {0, 1 << 20}) {
      EXPECT_EQ(CostOfGaps(name, {.layout = one_task, .bytes = bytes}), 0)
          << name;
      EXPECT_EQ(
          CostOfGaps(name,
                     {.layout = layout, .bytes = bytes, .one_process = true}),
          0)
          << name;
    }
  }
  const auto gaps = [&](const char* name) {
    return CostOfGaps(name, {.layout = layout, .bytes = 64});
  };
  // Four members exchange sums with four others at the same time. In
  // TreeReduce, one member sends a sum and later receives the result.
  EXPECT_NEAR(gaps("RecursiveDoublingReduce"), 7, 1e-9);
  EXPECT_EQ(gaps("TreeReduce"), 0);
  // Each of two halves costs as much as both.
  EXPECT_NEAR(gaps("HierarchicalHalvingDoublingReduce"), 2 * 7, 1e-9);
}

TEST(ImplementationsTest, ReduceFewBytesInPassesWhereTasksHaveManyDevices) {
  using enum CollectiveType;
  for (const int num_tasks : {2, 8}) {
    EXPECT_EQ(Chosen(kAllReduce, GroupLayout::Uniform(num_tasks, 4), 64),
              "LocalThenRecursiveDoubling");
    EXPECT_EQ(Chosen(kAllReduce, GroupLayout::Uniform(num_tasks, 1), 64),
              "RecursiveDoublingReduce");
  }
}

TEST(ImplementationsTest, PricePiecesThatPassThroughAProcess) {
  const auto gaps = [](int num_tasks, int64_t bytes) {
    return CostOfGaps(
        "ChainBroadcast",
        {.layout = GroupLayout::Uniform(num_tasks, 2), .bytes = bytes});
  };
  EXPECT_EQ(gaps(3, 64), 0);  // A single piece.
  EXPECT_GE(gaps(3, 64 << 20), 1);
  EXPECT_EQ(gaps(2, 64 << 20), 0);  // Each process only sends or only receives.
}

// Between two ranks these algorithms do the same exchange. The strictest
// determinism wins, then the first name.
TEST(ImplementationsTest, SettleTiesBetweenTwoRanksOnTheMostDeterministic) {
  using enum CollectiveType;
  const GroupLayout two = GroupLayout::Uniform(2, 1);
  const int64_t bytes = 64 << 20;
  for (const char* same : {"HierarchicalHalvingDoublingReduce",
                           "HierarchicalRingReduce", "RingReduce"}) {
    EXPECT_EQ(Cost(same, two, bytes),
              Cost("RecursiveHalvingDoublingReduce", two, bytes));
  }
  EXPECT_EQ(Cost("RingReduceScatter", two, bytes),
            Cost("RecursiveHalvingReduceScatter", two, bytes));
  EXPECT_EQ(Cost("DirectReduceScatter", two, bytes),
            Cost("RecursiveHalvingReduceScatter", two, bytes));
  EXPECT_EQ(Chosen(kReduceScatter, two, bytes), "DirectReduceScatter");
  EXPECT_EQ(Cost("RingGather", two, bytes), Cost("BruckGather", two, bytes));
  EXPECT_EQ(Chosen(kAllGather, two, bytes), "BruckGather");
}

TEST(ImplementationsTest, PriceTheSameStepsTheSame) {
  for (const int num_tasks : {1, 2, 8}) {
    for (const int num_devices : {1, 2, 8}) {
      const auto layout = GroupLayout::Uniform(num_tasks, num_devices);
      for (const int64_t bytes : {0, 1 << 10, 1 << 26}) {
        EXPECT_DOUBLE_EQ(
            Cost("RecursiveHalvingDoublingReduce", layout, bytes),
            Cost("HierarchicalHalvingDoublingReduce", layout, bytes));
        EXPECT_EQ(Cost("RecursiveHalvingReduceScatter", layout, bytes),
                  Cost("HierarchicalReduceScatter", layout, bytes));
      }
    }
  }
}

TEST(ImplementationsTest, AreChosenByTheLinksBetweenProcesses) {
  using enum CollectiveType;
  const int64_t large = 1 << 26;
  const auto power_of_two = GroupLayout::Uniform(4, 2);
  EXPECT_EQ(Chosen(kAllReduce, power_of_two, 4), "LocalThenRecursiveDoubling");
  EXPECT_EQ(Chosen(kAllReduce, power_of_two, large),
            "LocalThenRecursiveHalvingDoubling");
  EXPECT_EQ(Chosen(kAllGather, power_of_two, large), "HierarchicalGather");
  const auto other = GroupLayout::Uniform(3, 3);
  EXPECT_EQ(Chosen(kAllReduce, other, large),
            "LocalThenRecursiveHalvingDoubling");
  EXPECT_EQ(Chosen(kReduceScatter, other, large), "HierarchicalReduceScatter");
  EXPECT_EQ(Chosen(kAllReduce, *GroupLayout::Create({0, 0, 0, 1, 2, 2}), large),
            "LocalThenRecursiveHalvingDoubling");
}

TEST(ImplementationsTest, ExchangeEveryBlockOnceBetweenProcesses) {
  for (int num_tasks = 2; num_tasks <= 64; ++num_tasks) {
    for (const int num_devices : {1, 2, 8}) {
      const auto layout = GroupLayout::Uniform(num_tasks, num_devices);
      for (const int64_t bytes : {0, 1 << 10, 1 << 26}) {
        EXPECT_EQ(Chosen(CollectiveType::kAllToAll, layout, bytes),
                  "PairwiseAllToAll");
      }
    }
  }
  EXPECT_EQ(Chosen(CollectiveType::kAllToAll,
                   *GroupLayout::Create({0, 0, 0, 1, 2, 2}), 4),
            "PairwiseAllToAll");
}

TEST(ImplementationsTest, PriceFewerRoundsWhereBlocksAreSentMoreThanOnce) {
  const GroupLayout layout = GroupLayout::Uniform(8, 1);
  EXPECT_GT(Cost("BruckAllToAll", layout, 0),
            1.5 * Cost("PairwiseAllToAll", layout, 0));
}

TEST(ImplementationsTest, PriceDoubleTreesBelowRingsForManyRanks) {
  const GroupLayout layout = GroupLayout::Uniform(1000, 1);
  for (const int64_t bytes : {4, 1 << 20, 1 << 26}) {
    EXPECT_LT(Cost("DoubleTreeReduce", layout, bytes),
              Cost("RingReduce", layout, bytes));
  }
  EXPECT_LT(Cost("DoubleTreeReduce", layout, 1 << 26),
            Cost("TreeReduce", layout, 1 << 26));
}

TEST(ImplementationsTest, BroadcastManyBytesThroughPipelines) {
  const auto chosen = [](const GroupLayout& layout, int64_t bytes) {
    return Chosen(CollectiveType::kBroadcast, layout, bytes);
  };
  const auto few_tasks = GroupLayout::Uniform(8, 8);
  const auto many_tasks = GroupLayout::Uniform(512, 1);
  for (const GroupLayout& layout : {few_tasks, many_tasks}) {
    EXPECT_EQ(chosen(layout, 4), "HierarchicalTreeBroadcast");
  }
  EXPECT_EQ(chosen(few_tasks, 1 << 26), "ChainBroadcast");
  EXPECT_EQ(chosen(many_tasks, 1 << 26), "DoubleTreeBroadcast");
}

TEST(ImplementationsTest, SendNothingByDefaultWithinOneProcess) {
  for (const CollectiveType type : kAllCollectiveTypes) {
    const bool moves = type != CollectiveType::kBarrier;
    for (const int size : {2, 3, 8, 64}) {
      for (const int num_tasks : {1, 4}) {
        for (const int64_t bytes : {0, 4, 1 << 10, 1 << 26}) {
          const GroupLayout layout = GroupLayout::Uniform(num_tasks, size);
          SelectionRequest request = {.type = type,
                                      .layout = layout,
                                      .device_type = "CPU",
                                      .bytes = moves ? bytes : 0,
                                      .one_process = true};
          const auto& registry = CollectiveRegistry::Global();
          const auto chosen_sends = [&] {
            const std::string name =
                SelectImplementation(registry, request)->name;
            return !(*registry.Find(name))->traits().needs_one_process;
          };
          EXPECT_FALSE(chosen_sends());
          request.one_process = false;
          EXPECT_TRUE(chosen_sends());
        }
      }
    }
  }
}

TEST(ImplementationsTest, PriceNothingForOneRankAndMoreForMoreBytes) {
  for (const std::string& name : Names()) {
    EXPECT_EQ(Cost(name, GroupLayout::Uniform(1, 1), 1 << 20), 0) << name;
    const GroupLayout layout = GroupLayout::Uniform(2, 4);
    EXPECT_GT(Cost(name, layout, 0), 0) << name;
    EXPECT_GE(Cost(name, layout, 1 << 20), Cost(name, layout, 1 << 10)) << name;
  }
}

// Returns the number of messages between processes in the price. Each takes one
// second of a single shared processor; all else is free.
double MessagesPriced(const ImplementationTraits& traits,
                      const GroupLayout& layout, int64_t bytes) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  constexpr LinkCost kFree = {.bytes_per_second = kEndless};
  return traits.cost_seconds(
      {.type = traits.collectives.front(),
       .layout = layout,
       .bytes = bytes,
       .model = {.within = kFree,
                 .between = kFree,
                 .between_gap_seconds = 0,
                 .shared = {.num = 1,
                            .message = {.latency_seconds = 1,
                                        .bytes_per_second = kEndless}}}});
}

// Returns the number of messages between tasks in the schedules of all ranks.
int MessagesSent(const Algorithm& algorithm, const GroupLayout& layout,
                 int64_t bytes) {
  std::vector<int> to_next_task, one_way = {0};
  for (int rank = 0; rank < layout.size(); ++rank) {
    const int devices = layout.size() / layout.num_tasks();
    to_next_task.push_back((rank + devices) % layout.size());
  }
  if (algorithm.subdivide != nullptr) {
    one_way = algorithm.subdivide({.layout = layout, .bytes = bytes});
  }
  int num_sent = 0;
  for (int rank = 0; rank < layout.size(); ++rank) {
    const Schedule schedule =
        algorithm.plan({.layout = layout,
                        .type = algorithm.traits.collectives.front(),
                        .rank = rank,
                        .permutation = to_next_task,
                        .subdiv_offsets = one_way});
    for (const Lane& lane : schedule.lanes) {
      for (const Step& step : lane) {
        num_sent += step.kind == StepKind::kSend &&
                    layout.task_of(step.peer) != layout.task_of(rank);
      }
    }
  }
  return num_sent;
}

// The price is exact with one device per task, except for trees of blocks.
TEST(ImplementationsTest, PriceAllMessagesOfProcessesThatShareProcessors) {
  constexpr int64_t kBytes = 1 << 20;
  for (const std::string& name : Names()) {
    const auto factory = *CollectiveRegistry::Global().Find(name);
    const Algorithm* const algorithm = AlgorithmOf(*factory);
    if (algorithm == nullptr || algorithm->traits.cost_seconds == nullptr ||
        algorithm->traits.needs_one_process) {
      continue;
    }
    for (const auto& [tasks, devices] :
         {std::pair(2, 1), std::pair(4, 1), std::pair(5, 1), std::pair(8, 1),
          std::pair(3, 2), std::pair(4, 3)}) {
      const GroupLayout layout = GroupLayout::Uniform(tasks, devices);
      const double priced = MessagesPriced(algorithm->traits, layout, kBytes);
      const int sent = MessagesSent(*algorithm, layout, kBytes);
      const bool is_exact =
          devices == 1 && name.find("DoubleTreeReduce") == name.npos;
      EXPECT_GT(priced, (is_exact ? 0.999 : 0.4) * sent)
          << name << " " << tasks;
      EXPECT_LT(priced, (is_exact ? 1.001 : 1.4) * sent)
          << name << " " << tasks;
    }
  }
}

TEST(ImplementationsTest, NamesOfTheFieldResolve) {
  const CollectiveRegistry& registry = CollectiveRegistry::Global();
  EXPECT_EQ(registry.Resolve("RingReducer"), "RingReduce");
  EXPECT_EQ(registry.Resolve("RingGatherer"), "RingGather");
  EXPECT_EQ(registry.Resolve("HierarchicalTreeBroadcaster"),
            "HierarchicalTreeBroadcast");
  EXPECT_EQ(*registry.Find("RingReducer"), *registry.Find("RingReduce"));
}

}  // namespace implementations_test
}  // namespace tutti
