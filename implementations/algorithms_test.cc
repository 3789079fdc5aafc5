#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "implementations/parts/binomial_tree.h"
#include "implementations/plan_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"
#include "tutti/selection.h"

namespace tutti {
namespace algorithms_test {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

GroupLayout Uniform(int tasks, int devices) {
  return GroupLayout::Uniform(tasks, devices);
}

// --- implementations ---------------------------------------------------------

const std::vector<std::string>& Names() {
  static const auto* const names =
      new std::vector<std::string>{"Barrier",
                                   "BruckAllToAll",
                                   "BruckGather",
                                   "ChainBroadcast",
                                   "ChainScan",
                                   "DirectReduceScatter",
                                   "DirectReduceToRoot",
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
                                   "LocalScan",
                                   "LocalScatter",
                                   "LocalThenDoubleTree",
                                   "LocalThenRecursiveDoubling",
                                   "LocalThenRecursiveHalvingDoubling",
                                   "LocalThenRing",
                                   "PairwiseAllToAll",
                                   "Permute",
                                   "RecursiveDoublingReduce",
                                   "RecursiveDoublingScan",
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
  const GroupLayout layout = Uniform(1, 8);
  EXPECT_LT(Cost("TreeReduce", layout, 4), Cost("RingReduce", layout, 4));
  EXPECT_GT(Cost("TreeReduce", layout, 1 << 20),
            Cost("RingReduce", layout, 1 << 20));
}

TEST(ImplementationsTest,
     PriceDoublingBelowTreesForFewBytesAndAboveRingsForMany) {
  for (const int size : {4, 5, 8, 64}) {
    const GroupLayout layout = Uniform(1, size);
    EXPECT_LT(Cost("RecursiveDoublingReduce", layout, 4),
              Cost("TreeReduce", layout, 4));
    EXPECT_GT(Cost("RecursiveDoublingReduce", layout, 1 << 20),
              Cost("RingReduce", layout, 1 << 20));
  }
}

TEST(ImplementationsTest, PriceHalvingNoHigherThanRings) {
  for (const int size : {2, 5, 8, 64}) {
    const GroupLayout layout = Uniform(size, 1);
    for (const int64_t bytes : {0, 4, 1 << 10, 1 << 26}) {
      EXPECT_LE(Cost("RecursiveHalvingReduceScatter", layout, bytes),
                Cost("RingReduceScatter", layout, bytes));
      EXPECT_LE(Cost("RecursiveHalvingDoublingReduce", layout, bytes),
                Cost("RingReduce", layout, bytes));
    }
  }
}

TEST(ImplementationsTest, PriceRingsBelowBruckWhereTasksHaveManyDevices) {
  EXPECT_GT(Cost("BruckGather", Uniform(4, 2), 1 << 20),
            Cost("RingGather", Uniform(4, 2), 1 << 20));
  EXPECT_LT(Cost("BruckGather", Uniform(8, 1), 1 << 20),
            Cost("RingGather", Uniform(8, 1), 1 << 20));
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
      const GroupLayout layout = Uniform(3, 3);
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
  const GroupLayout layout = Uniform(2, 4);
  const GroupLayout one_task = Uniform(1, 8);
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
    EXPECT_EQ(Chosen(kAllReduce, Uniform(num_tasks, 4), 64),
              "LocalThenRecursiveDoubling");
    EXPECT_EQ(Chosen(kAllReduce, Uniform(num_tasks, 1), 64),
              "RecursiveDoublingReduce");
  }
}

TEST(ImplementationsTest, PricePiecesThatPassThroughAProcess) {
  const auto gaps = [](int num_tasks, int64_t bytes) {
    return CostOfGaps("ChainBroadcast",
                      {.layout = Uniform(num_tasks, 2), .bytes = bytes});
  };
  EXPECT_EQ(gaps(3, 64), 0);  // A single piece.
  EXPECT_GE(gaps(3, 64 << 20), 1);
  EXPECT_EQ(gaps(2, 64 << 20), 0);  // Each process only sends or only receives.
}

// Between two ranks these algorithms do the same exchange. The strictest
// determinism wins, then the first name.
TEST(ImplementationsTest, SettleTiesBetweenTwoRanksOnTheMostDeterministic) {
  using enum CollectiveType;
  const GroupLayout two = Uniform(2, 1);
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
      const auto layout = Uniform(num_tasks, num_devices);
      for (const int64_t bytes : {0, 1 << 10, 1 << 26}) {
        // Inside tasks, only the flat one sends a step's blocks as one message.
        if (num_devices == 1) {
          EXPECT_DOUBLE_EQ(
              Cost("RecursiveHalvingDoublingReduce", layout, bytes),
              Cost("HierarchicalHalvingDoublingReduce", layout, bytes));
        }
        EXPECT_EQ(Cost("RecursiveHalvingReduceScatter", layout, bytes),
                  Cost("HierarchicalReduceScatter", layout, bytes));
      }
    }
  }
}

TEST(ImplementationsTest, AreChosenByTheLinksBetweenProcesses) {
  using enum CollectiveType;
  const int64_t large = 1 << 26;
  const auto power_of_two = Uniform(4, 2);
  EXPECT_EQ(Chosen(kAllReduce, power_of_two, 4), "LocalThenRecursiveDoubling");
  EXPECT_EQ(Chosen(kAllReduce, power_of_two, large),
            "LocalThenRecursiveHalvingDoubling");
  EXPECT_EQ(Chosen(kAllGather, power_of_two, large), "HierarchicalGather");
  const auto other = Uniform(3, 3);
  EXPECT_EQ(Chosen(kAllReduce, other, large),
            "LocalThenRecursiveHalvingDoubling");
  EXPECT_EQ(Chosen(kReduceScatter, other, large), "HierarchicalReduceScatter");
  EXPECT_EQ(Chosen(kAllReduce, *GroupLayout::Create({0, 0, 0, 1, 2, 2}), large),
            "LocalThenRecursiveHalvingDoubling");
}

TEST(ImplementationsTest, ExchangeEveryBlockOnceBetweenProcesses) {
  for (int num_tasks = 2; num_tasks <= 64; ++num_tasks) {
    for (const int num_devices : {1, 2, 8}) {
      const auto layout = Uniform(num_tasks, num_devices);
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
  const GroupLayout layout = Uniform(8, 1);
  EXPECT_GT(Cost("BruckAllToAll", layout, 0),
            1.5 * Cost("PairwiseAllToAll", layout, 0));
}

TEST(ImplementationsTest, PriceDoubleTreesBelowRingsForManyRanks) {
  const GroupLayout layout = Uniform(1000, 1);
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
  const auto few_tasks = Uniform(8, 8);
  const auto many_tasks = Uniform(512, 1);
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
          const GroupLayout layout = Uniform(num_tasks, size);
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
    EXPECT_EQ(Cost(name, Uniform(1, 1), 1 << 20), 0) << name;
    const GroupLayout layout = Uniform(2, 4);
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
      const GroupLayout layout = Uniform(tasks, devices);
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

// --- all algorithms ----------------------------------------------------------

// Returns a request for the algorithm's first collective.
VerifyCase RequestFor(const char* name, const GroupLayout& layout,
                      int root = 0) {
  const ImplementationTraits& traits = AlgorithmNamed(name).traits;
  VerifyCase request = {
      .layout = layout, .type = traits.collectives.front(), .root = root};
  if (traits.supports_subdivisions) request.subdiv_offsets = {0};
  return request;
}

TEST(AlgorithmsTest, TakeAsManyTransfersInARowAsTheySay) {
  for (int n = 1; n <= 65; ++n) {
    const int log2 = CeilLog2(n);
    for (const auto& [name, transfers] :
         {std::pair{"RingReduce", 2 * (n - 1)},
          {"RingGather", n - 1},
          {"RingReduceScatter", n - 1},
          {"DirectReduceToRoot", n > 1 ? 1 : 0},
          {"DirectReduceScatter", n > 1 ? 1 : 0},
          {"RecursiveDoublingReduce", log2},
          {"RecursiveDoublingScan", log2},
          {"ChainScan", n - 1},
          {"RecursiveHalvingReduceScatter", log2},
          {"RecursiveHalvingDoublingReduce", 2 * log2},
          {"BruckGather", log2},
          {"Barrier", log2}}) {
      EXPECT_EQ(TransfersInARow(name, RequestFor(name, Uniform(1, n))),
                transfers)
          << name << " among " << n;
    }
  }
  VerifyCase rings = RequestFor("RingReduce", Uniform(1, 17));
  rings.subdiv_offsets = {0, -1, 2};
  EXPECT_EQ(TransfersInARow("RingReduce", rings), 2 * 16);
}

// Returns the receives into scratch that the very next step does not reduce.
std::vector<Step> KeptArrivals(const Schedule& plan) {
  std::vector<Step> kept;
  for (const Lane& lane : plan.lanes) {
    for (size_t i = 0; i < lane.size(); ++i) {
      const Slot arrived = lane[i].into;
      if (lane[i].kind != StepKind::kRecv) continue;
      if (arrived.space != Space::kScratch) continue;
      const bool is_read =
          i + 1 < lane.size() && lane[i + 1].kind == StepKind::kReduce &&
          (lane[i + 1].left == arrived) != (lane[i + 1].right == arrived);
      if (!is_read) kept.push_back(lane[i]);
    }
  }
  return kept;
}

TEST(AlgorithmsTest, ReadEveryReceivedSumOnceInTheNextStep) {
  for (const char* name :
       {"RingReduce", "TreeReduce", "RecursiveDoublingReduce",
        "RecursiveDoublingScan", "ChainScan", "RecursiveHalvingReduceScatter",
        "RecursiveHalvingDoublingReduce"}) {
    for (int n = 2; n <= 65; ++n) {
      for (const Schedule& plan :
           PlansOf(name, RequestFor(name, Uniform(1, n)))) {
        EXPECT_THAT(KeptArrivals(plan), IsEmpty()) << name << " among " << n;
      }
    }
  }
}

constexpr int kManyRanks = 65536;

TEST(AlgorithmsTest, HoldOnManyRanks) {
  VerifyCase all_reduce = RequestFor("TreeReduce", Uniform(1, kManyRanks));
  all_reduce.type = CollectiveType::kAllReduce;
  VerifyCase reduce = RequestFor("TreeReduce", Uniform(1, kManyRanks), 12345);
  reduce.type = CollectiveType::kReduce;
  EXPECT_THAT(Verify(AlgorithmNamed("TreeReduce"), all_reduce), IsOk());
  EXPECT_THAT(Verify(AlgorithmNamed("TreeReduce"), reduce), IsOk());
  for (const auto& [name, layout] :
       {std::pair{"HierarchicalTreeBroadcast", Uniform(kManyRanks, 1)},
        {"HierarchicalTreeBroadcast", Uniform(8192, 8)},
        {"RecursiveDoublingReduce", Uniform(1, 4096)},
        {"RecursiveDoublingReduce", Uniform(1, 5000)},
        {"RecursiveDoublingScan", Uniform(1, 1000)},
        {"ChainScan", Uniform(1000, 1)},
        {"RecursiveHalvingDoublingReduce", Uniform(1, 256)},
        {"RecursiveHalvingDoublingReduce", Uniform(1, 300)}}) {
    EXPECT_THAT(Verify(AlgorithmNamed(name),
                       RequestFor(name, layout, layout.size() / 5 * 4)),
                IsOk())
        << name << " on " << layout.ToString();
  }
}

// Number of blocks that a rank receives, and of blocks that it keeps sums of.
struct Load {
  size_t received = 0;
  size_t kept = 0;
};

Load LoadOf(const Schedule& plan) {
  Load load = {.received = StepsOf(plan, StepKind::kRecv).size()};
  std::vector<Slot> kept;
  for (const Step& reduce : StepsOf(plan, StepKind::kReduce)) {
    if (reduce.into.space != Space::kScratch) continue;
    if (std::find(kept.begin(), kept.end(), reduce.into) != kept.end()) {
      continue;
    }
    kept.push_back(reduce.into);
  }
  load.kept = kept.size();
  return load;
}

// Returns the number of copies of the input to scratch memory.
int SetAside(const Schedule& plan) {
  const auto copies = StepsOf(plan, StepKind::kCopy);
  return static_cast<int>(std::count_if(
      copies.begin(), copies.end(),
      [](const Step& step) { return step.into.space == Space::kScratch; }));
}

// --- scans -------------------------------------------------------------------

VerifyCase ScanOf(const char* name, CollectiveType type, int num_ranks) {
  VerifyCase request = RequestFor(name, Uniform(1, num_ranks));
  request.type = type;
  return request;
}

TEST(ScanTest, BracketsFollowFromTheRanksAlone) {
  using enum CollectiveType;
  for (const auto& [name, type, output] :
       {std::tuple("ChainScan", kScan, "(((0.0+1.0)+2.0)+3.0)"),
        std::tuple("ChainScan", kExscan, "((0.0+1.0)+2.0)"),
        std::tuple("RecursiveDoublingScan", kScan, "((0.0+1.0)+(2.0+3.0))"),
        std::tuple("RecursiveDoublingScan", kExscan, "((0.0+1.0)+2.0)")}) {
    for (int num_ranks = 4; num_ranks <= 9; ++num_ranks) {
      EXPECT_EQ(OutputOf(name, ScanOf(name, type, num_ranks), 3, 0), output)
          << name;
    }
  }
}

TEST(ScanTest, AnExscanSendsAsMuchAsAScan) {
  for (const char* name : {"ChainScan", "RecursiveDoublingScan"}) {
    for (int n = 1; n <= 17; ++n) {
      const auto scans = PlansOf(name, ScanOf(name, CollectiveType::kScan, n));
      const auto exscans =
          PlansOf(name, ScanOf(name, CollectiveType::kExscan, n));
      EXPECT_EQ(TransfersInARow(name, ScanOf(name, CollectiveType::kExscan, n)),
                TransfersInARow(name, ScanOf(name, CollectiveType::kScan, n)));
      for (size_t rank = 0; rank < scans.size(); ++rank) {
        EXPECT_EQ(StepsOf(exscans[rank], StepKind::kSend).size(),
                  StepsOf(scans[rank], StepKind::kSend).size());
      }
    }
  }
}

TEST(ChainScanTest, GoesFromRankToRankOnAnyLayoutInPieces) {
  VerifyCase request =
      RequestFor("ChainScan", *GroupLayout::Create({0, 1, 0, 1, 0}));
  request.subdiv_offsets = {0, -1, 2};
  for (const CollectiveType type :
       {CollectiveType::kScan, CollectiveType::kExscan}) {
    request.type = type;
    const auto plans = PlansOf("ChainScan", request);
    for (int rank = 0; rank < 5; ++rank) {
      const auto sends =
          StepsOf(plans[static_cast<size_t>(rank)], StepKind::kSend);
      EXPECT_THAT(sends, SizeIs(rank < 4 ? 3 : 0));
      for (const Step& step : sends) EXPECT_EQ(step.peer, rank + 1);
    }
    EXPECT_EQ(TransfersInARow("ChainScan", request), 4 - 1 + 3);
  }
}

// The chain has the fewest messages between tasks of several devices.
TEST(ImplementationsTest, ScanFewBytesByDoublingAndManyThroughAChain) {
  for (const CollectiveType type :
       {CollectiveType::kScan, CollectiveType::kExscan}) {
    for (const GroupLayout& layout : {Uniform(8, 1), Uniform(64, 1)}) {
      EXPECT_EQ(Chosen(type, layout, 64), "RecursiveDoublingScan");
      EXPECT_EQ(Chosen(type, layout, 1 << 28), "ChainScan");
    }
    EXPECT_EQ(Chosen(type, Uniform(4, 2), 64), "ChainScan");
  }
}

// --- ring --------------------------------------------------------------------

VerifyCase Ring(CollectiveType type, int num_ranks,
                std::vector<int> offsets = {0}) {
  return {.layout = Uniform(1, num_ranks),
          .type = type,
          .subdiv_offsets = std::move(offsets)};
}

TEST(RingReduceTest, EveryRankSendsToTheNextInTheList) {
  VerifyCase request = Ring(CollectiveType::kAllReduce, 5);
  request.rank_list = {3, 0, 4, 2, 1};
  const auto plans = PlansOf("RingReduce", request);
  for (int place = 0; place < 5; ++place) {
    const auto& plan = plans[request.rank_list[place]];
    for (const Step& step : StepsOf(plan, StepKind::kSend)) {
      EXPECT_EQ(step.peer, request.rank_list[(place + 1) % 5]);
    }
  }
}

TEST(RingReduceTest, EveryRankSendsTheLeastPossible) {
  const int n = 6;
  for (const Schedule& plan :
       PlansOf("RingReduce", Ring(CollectiveType::kAllReduce, n, {0, -1}))) {
    EXPECT_EQ(plan.num_chunks, 2 * n);  // 2 rings; each sends 2 (n - 1) of n.
    EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(2 * 2 * (n - 1)));
    EXPECT_THAT(StepsOf(plan, StepKind::kReduce), SizeIs(2 * (n - 1)));
  }
}

TEST(RingReduceTest, FirstSendIsStraightFromTheInputAndNothingIsCopied) {
  for (const Schedule& plan :
       PlansOf("RingReduce", Ring(CollectiveType::kAllReduce, 5, {0, 2}))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    ASSERT_THAT(plan.lanes, SizeIs(4));
    EXPECT_EQ(plan.lanes[0][0].left.space, Space::kInput);
    EXPECT_EQ(plan.lanes[2][0].left.space, Space::kInput);
  }
}

TEST(RingReduceTest, PartsAreAddedOnTheRightFromTheRankAfterTheOwner) {
  const VerifyCase request = Ring(CollectiveType::kAllReduce, 4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OutputOf("RingReduce", request, rank, 0),
              "f(((1.0+2.0)+3.0)+0.0)");
    EXPECT_EQ(OutputOf("RingReduce", request, rank, 2),
              "f(((3.2+0.2)+1.2)+2.2)");
  }
  EXPECT_EQ(OutputOf("RingReduce", Ring(CollectiveType::kAllReduce, 4, {0, -4}),
                     0, 1),
            "f(((3.1+2.1)+1.1)+0.1)");
}

TEST(RingReduceTest, OneRankAppliesTheFinalOp) {
  EXPECT_EQ(OutputOf("RingReduce", Ring(CollectiveType::kAllReduce, 1), 0, 0),
            "f0.0");
}

TEST(RingGatherTest, EveryRankSendsEachBlockOnceAndCopiesItsOwn) {
  const int n = 6;
  for (const Schedule& plan :
       PlansOf("RingGather", Ring(CollectiveType::kAllGather, n, {0, -1}))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(2 * (n - 1)));
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(2));  // Pieces.
    EXPECT_EQ(plan.lanes[0][0].left.space, Space::kInput);
  }
}

TEST(RingReduceScatterTest, EveryRankSendsTheLeastPossible) {
  const int n = 6;
  for (const Schedule& plan :
       PlansOf("RingReduceScatter", Ring(CollectiveType::kReduceScatter, n))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(n - 1));
    EXPECT_THAT(StepsOf(plan, StepKind::kReduce), SizeIs(n - 1));
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    EXPECT_EQ(plan.lanes[0][0].left.space, Space::kInput);
  }
}

TEST(RingReduceScatterTest, KeepsNoMoreThanTwoPartialSumsPerRing) {
  for (const Schedule& plan :
       PlansOf("RingReduceScatter", Ring(CollectiveType::kReduceScatter, 9))) {
    EXPECT_EQ(LoadOf(plan).kept, 2u);
  }
}

TEST(RingReduceScatterTest, SumsEndAtTheirOwners) {
  EXPECT_EQ(OutputOf("RingReduceScatter",
                     Ring(CollectiveType::kReduceScatter, 4), 2, 2),
            "f(((3.2+0.2)+1.2)+2.2)");
}

TEST(RingTest, LargeTensorsAreSubdividedByDefault) {
  const GroupLayout layout = Uniform(1, 8);
  for (const char* name : {"RingReduce", "RingGather", "RingReduceScatter"}) {
    const Algorithm& algorithm = AlgorithmNamed(name);
    ASSERT_TRUE(algorithm.traits.supports_subdivisions);
    EXPECT_THAT(
        algorithm.subdivide({.layout = layout, .bytes = int64_t{64} << 20}),
        testing::ElementsAre(0, -4));
  }
}

// Tests of algorithms in which data goes straight from its source to its
// target.

constexpr int kRanks = 19;

VerifyCase On(CollectiveType type, int num_ranks = kRanks) {
  return {.layout = Uniform(1, num_ranks), .type = type, .root = num_ranks / 2};
}

// Returns the number of scratch slots that a schedule uses.
int ScratchSlots(const Schedule& schedule) {
  std::set<std::pair<int, int>> slots;
  const auto add = [&](const Slot& slot) {
    if (slot.space == Space::kScratch) slots.emplace(slot.chunk, slot.bank);
  };
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane) {
      for (const Slot& slot : {step.into, step.left, step.right}) add(slot);
    }
  }
  return static_cast<int>(slots.size());
}

// Returns the number of lanes with a step of this kind.
int BusyLanes(const Schedule& schedule, StepKind kind) {
  return static_cast<int>(std::count_if(
      schedule.lanes.begin(), schedule.lanes.end(), [kind](const Lane& lane) {
        return std::any_of(lane.begin(), lane.end(), [kind](const Step& step) {
          return step.kind == kind;
        });
      }));
}

// Steps of Gather to the root, and of Scatter from it.
struct Rooted {
  const char* name;
  CollectiveType type;
  StepKind of_root, of_others;
};

class RootedTest : public testing::TestWithParam<Rooted> {
 protected:
  const std::vector<Schedule> plans_ =
      PlansOf(GetParam().name, On(GetParam().type));
};

INSTANTIATE_TEST_SUITE_P(
    GatherAndScatter, RootedTest,
    testing::Values(Rooted{"Gather", CollectiveType::kGather, StepKind::kRecv,
                           StepKind::kSend},
                    Rooted{"Scatter", CollectiveType::kScatter, StepKind::kSend,
                           StepKind::kRecv}),
    [](const auto& info) { return info.param.name; });

TEST_P(RootedTest, RootMovesEveryBlockStraightAFewAtATime) {
  const StepKind kind = GetParam().of_root;
  const auto steps = StepsOf(plans_[kRanks / 2], kind);
  EXPECT_THAT(steps, SizeIs(kRanks - 1));
  for (const Step& step : steps) {
    if (kind == StepKind::kRecv) {
      EXPECT_EQ(step.into, Data(step.peer));
    } else {
      EXPECT_EQ(step.left, Input(step.peer));
    }
  }
  EXPECT_LE(BusyLanes(plans_[kRanks / 2], kind), 8);
}

TEST_P(RootedTest, OthersMoveTheirsOnce) {
  EXPECT_THAT(plans_[0].lanes, SizeIs(1));
  EXPECT_THAT(StepsOf(plans_[0], GetParam().of_others), SizeIs(1));
}

TEST(PairwiseAllToAllTest, EveryBlockIsSentOnceFromTheInput) {
  const auto plans = PlansOf("PairwiseAllToAll", On(CollectiveType::kAllToAll));
  for (const Schedule& plan : plans) {
    const auto sends = StepsOf(plan, StepKind::kSend);
    EXPECT_THAT(sends, SizeIs(kRanks - 1));
    for (const Step& step : sends) EXPECT_EQ(step.left, Input(step.peer));
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(1));  // The own block.
  }
}

TEST(PairwiseAllToAllTest, FewTransfersAreUnderWayAtOnce) {
  for (const Schedule& plan :
       PlansOf("PairwiseAllToAll", On(CollectiveType::kAllToAll))) {
    EXPECT_LE(BusyLanes(plan, StepKind::kSend), 4);
    EXPECT_LE(BusyLanes(plan, StepKind::kRecv), 4);
  }
}

TEST(PairwiseAllToAllTest, NoTwoRanksSendToTheSameOneInARound) {
  const auto plans = PlansOf("PairwiseAllToAll", On(CollectiveType::kAllToAll));
  for (int round = 1; round < kRanks; ++round) {
    std::set<int> targets;
    for (const Schedule& plan : plans) {
      for (const Step& step : StepsOf(plan, StepKind::kSend)) {
        if (step.tag == round) targets.insert(step.peer);
      }
    }
    EXPECT_THAT(targets, SizeIs(kRanks));
  }
}

TEST(PairwiseAllToAllTest, InPlaceSetsHalfOfTheBlocksAside) {
  for (int n : {2, 3, 8, 9}) {
    VerifyCase request = On(CollectiveType::kAllToAll, n);
    request.in_place = InPlace::kAll;
    for (const Schedule& plan : PlansOf("PairwiseAllToAll", request)) {
      EXPECT_EQ(SetAside(plan), n / 2);
    }
  }
}

TEST(DirectReduceScatterTest, EveryBlockGoesToItsOwnerOnceFromTheInput) {
  for (const Schedule& plan :
       PlansOf("DirectReduceScatter", On(CollectiveType::kReduceScatter))) {
    const auto sends = StepsOf(plan, StepKind::kSend);
    EXPECT_THAT(sends, SizeIs(kRanks - 1));
    for (const Step& step : sends) EXPECT_EQ(step.left, Input(step.peer));
    const auto reductions = StepsOf(plan, StepKind::kReduce);
    ASSERT_THAT(reductions, SizeIs(1));
    EXPECT_THAT(SlotsRead(reductions[0]), SizeIs(kRanks));
  }
}

TEST(DirectReduceScatterTest, AnOwnerSetsAsManyBlocksAsideAsOthersSend) {
  for (int n = 2; n <= 17; ++n) {
    for (const Schedule& plan : PlansOf(
             "DirectReduceScatter", On(CollectiveType::kReduceScatter, n))) {
      EXPECT_EQ(ScratchSlots(plan), n - 1);
    }
  }
}

TEST(PermuteTest, EveryRankSendsOnceFromTheInput) {
  VerifyCase request = On(CollectiveType::kPermute, 4);
  request.permutation = {1, 2, 0, 3};
  const auto plans = PlansOf("Permute", request);
  for (int rank = 0; rank < 3; ++rank) {
    const auto sends = StepsOf(plans[rank], StepKind::kSend);
    ASSERT_THAT(sends, SizeIs(1));
    EXPECT_EQ(sends[0].left, Input(0));
    EXPECT_EQ(sends[0].peer, request.permutation[rank]);
    EXPECT_THAT(StepsOf(plans[rank], StepKind::kCopy), IsEmpty());
  }
  EXPECT_THAT(StepsOf(plans[3], StepKind::kSend), IsEmpty());
  EXPECT_THAT(StepsOf(plans[3], StepKind::kCopy), SizeIs(1));
}

TEST(PermuteTest, TakesOneStep) {
  VerifyCase request = On(CollectiveType::kPermute, 4);
  request.permutation = {1, 2, 3, 0};
  for (InPlace in_place : {InPlace::kNone, InPlace::kAll}) {
    request.in_place = in_place;
    EXPECT_EQ(TransfersInARow("Permute", request), 1);
  }
}

TEST(ShuffleReduceTest, TakesOneRoundToTheOwnersAndLogarithmicallyManyBack) {
  for (const int n : {2, 3, 8, 17}) {
    const VerifyCase request = {.layout = Uniform(1, n)};
    EXPECT_EQ(TransfersInARow("ShuffleReduce", request), 1 + CeilLog2(n));
    for (const Schedule& plan : PlansOf("ShuffleReduce", request)) {
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(2 * (n - 1)));
      EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    }
  }
}

TEST(ShuffleReduceTest, AnOwnerSetsAsManyChunksAsideAsOthersSend) {
  for (int n = 2; n <= 17; ++n) {
    VerifyCase request = {.layout = Uniform(1, n)};
    for (const Schedule& plan : PlansOf("ShuffleReduce", request)) {
      EXPECT_EQ(ScratchSlots(plan), n - 1);
    }
    request.rank_list = {0};
    const auto plans = PlansOf("ShuffleReduce", request);
    EXPECT_EQ(ScratchSlots(plans[0]), n - 1);
    EXPECT_EQ(ScratchSlots(plans[1]), 0);
  }
}

TEST(ShuffleReduceTest, ListedOwnersReduceAPieceEach) {
  const VerifyCase request = {.layout = Uniform(1, 5), .rank_list = {3, 1}};
  EXPECT_EQ(TransfersInARow("ShuffleReduce", request), 2);
  const auto plans = PlansOf("ShuffleReduce", request);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(plans[rank].num_chunks, 2);
    const bool is_owner = rank == 3 || rank == 1;
    const auto reductions = StepsOf(plans[rank], StepKind::kReduce);
    EXPECT_THAT(reductions, SizeIs(is_owner ? 1 : 0));
    for (const Step& step : reductions) {
      EXPECT_EQ(step.into.chunk, rank == 3 ? 0 : 1);
    }
    EXPECT_EQ(OutputOf("ShuffleReduce", request, rank, 1),
              "f(0.1+1.1+2.1+3.1+4.1)");
  }
}

TEST(ShuffleReduceTest, ReducesAllAtOnceInRankOrder) {
  const VerifyCase request = {.layout = Uniform(1, 4)};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OutputOf("ShuffleReduce", request, rank, 2),
              "f(0.2+1.2+2.2+3.2)");
  }
}

// --- tree --------------------------------------------------------------------

GroupLayout Layout(const std::vector<int>& task_of_rank) {
  return *GroupLayout::Create(task_of_rank);
}

TEST(TreeReduceTest, ReducesInLogarithmicallyManySteps) {
  for (int n = 1; n <= 33; ++n) {
    for (int root = 0; root < n; ++root) {
      EXPECT_LE(TransfersInARow("TreeReduce", {.layout = Uniform(1, n),
                                               .type = CollectiveType::kReduce,
                                               .root = root}),
                CeilLog2(n) + (root == 0 ? 0 : 1))
          << n << " ranks, root " << root;
    }
    EXPECT_EQ(
        TransfersInARow("TreeReduce", {.layout = Uniform(1, n),
                                       .type = CollectiveType::kAllReduce}),
        2 * CeilLog2(n));
  }
}

TEST(TreeReduceTest, EveryRankButTheRootSendsUpOnce) {
  const auto plans = PlansOf(
      "TreeReduce",
      {.layout = Uniform(1, 13), .type = CollectiveType::kReduce, .root = 5});
  for (int rank = 0; rank < 13; ++rank) {
    EXPECT_THAT(StepsOf(plans[rank], StepKind::kSend),
                SizeIs(rank == 5 ? 0 : 1));
    EXPECT_THAT(StepsOf(plans[rank], StepKind::kCopy), IsEmpty());
  }
}

TEST(TreeReduceTest, AllReduceSendsTwicePerRankButOne) {
  size_t sends = 0;
  for (const Schedule& plan :
       PlansOf("TreeReduce", {.layout = Uniform(1, 13)})) {
    sends += StepsOf(plan, StepKind::kSend).size();
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
  }
  EXPECT_EQ(sends, 2u * 12);
}

TEST(TreeReduceTest, GroupsRanksFromLeftToRight) {
  const auto sum = [](int root) {
    return OutputOf("TreeReduce",
                    {.layout = Uniform(1, 6),
                     .type = CollectiveType::kReduce,
                     .root = root},
                    root, 0);
  };
  EXPECT_EQ(sum(0), "f(((0.0+1.0)+(2.0+3.0))+(4.0+5.0))");
  EXPECT_EQ(sum(3), "f(((0.0+1.0)+2.0)+((3.0+4.0)+5.0))");
  EXPECT_EQ(sum(5), "f((((0.0+1.0)+(2.0+3.0))+4.0)+5.0)");
}

TEST(TreeReduceTest, WithoutOutputASumIsSetAside) {
  constexpr int kRoot = 5;
  const auto plans = PlansOf("TreeReduce", {.layout = Uniform(1, 16),
                                            .type = CollectiveType::kReduce,
                                            .root = kRoot});
  for (int rank = 0; rank < 16; ++rank) {
    for (const Step& reduce : StepsOf(plans[rank], StepKind::kReduce)) {
      EXPECT_EQ(reduce.into, rank == kRoot ? Data(0) : Scratch(0));
    }
  }
}

VerifyCase Broadcast(const GroupLayout& layout, int root) {
  return {.layout = layout, .type = CollectiveType::kBroadcast, .root = root};
}

TEST(HierarchicalTreeBroadcastTest, TakesTheLogarithmsOfTasksAndDevices) {
  for (int num_tasks : {1, 2, 3, 8}) {
    for (int devices : {1, 2, 5, 8}) {
      for (int root = 0; root < num_tasks * devices; ++root) {
        EXPECT_LE(TransfersInARow("HierarchicalTreeBroadcast",
                                  Broadcast(Uniform(num_tasks, devices), root)),
                  CeilLog2(num_tasks) + CeilLog2(devices));
      }
    }
  }
}

TEST(BroadcastTest, EntersEachTaskOnce) {
  const GroupLayout layout = Layout({0, 1, 2, 0, 1, 2, 0, 2, 2, 3});
  for (const char* name : {"HierarchicalTreeBroadcast", "ChainBroadcast"}) {
    SCOPED_TRACE(name);
    for (int root = 0; root < layout.size(); ++root) {
      const auto plans = PlansOf(name, RequestFor(name, layout, root));
      int between_tasks = 0;
      for (int rank = 0; rank < layout.size(); ++rank) {
        const auto receives = StepsOf(plans[rank], StepKind::kRecv);
        EXPECT_THAT(receives, SizeIs(rank == root ? 0 : 1));
        for (const Step& step : receives) {
          between_tasks += layout.task_of(step.peer) != layout.task_of(rank);
        }
      }
      EXPECT_EQ(between_tasks, layout.num_tasks() - 1);
    }
  }
}

// The ranks by which TensorFlow's HierarchicalTreeBroadcaster enters each task.
TEST(HierarchicalTreeBroadcastTest, EntersTasksByTheirFirstRank) {
  const std::vector<int> variable = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                     2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
  const std::tuple<GroupLayout, int, std::vector<int>> cases[] = {
      {Uniform(1, 8), 2, {}},
      {Uniform(4, 8), 0, {8, 16, 24}},
      {Uniform(4, 8), 2, {8, 16, 24}},
      {Uniform(4, 8), 9, {0, 16, 24}},
      {Layout(variable), 0, {4, 8, 14}},
      {Layout(variable), 2, {4, 8, 14}},
      {Layout(variable), 9, {0, 4, 14}}};
  for (const auto& [layout, root, expected] : cases) {
    const auto plans =
        PlansOf("HierarchicalTreeBroadcast", Broadcast(layout, root));
    std::vector<int> entered;
    for (int rank = 0; rank < layout.size(); ++rank) {
      for (const Step& step : StepsOf(plans[rank], StepKind::kRecv)) {
        if (layout.task_of(step.peer) == layout.task_of(rank)) continue;
        entered.push_back(rank);
        const bool from_source = step.peer == root;
        EXPECT_TRUE(from_source ||
                    layout.task_of(step.peer) != layout.task_of(root))
            << "rank " << rank << " receives from rank " << step.peer;
      }
    }
    EXPECT_EQ(entered, expected) << layout.size() << " ranks, root " << root;
  }
}

TEST(HierarchicalTreeBroadcastTest, SourceSendsFromItsInput) {
  const auto plans = PlansOf("HierarchicalTreeBroadcast",
                             Broadcast(Uniform(2, 4), /*root=*/5));
  const auto sends = StepsOf(plans[5], StepKind::kSend);
  EXPECT_THAT(sends, SizeIs(3));
  for (const Step& send : sends) EXPECT_EQ(send.left, Input(0));
}

TEST(HierarchicalTreeBroadcastTest, LargeSubtreesAreServedFirst) {
  const auto plans = PlansOf("HierarchicalTreeBroadcast",
                             Broadcast(Uniform(1, 8), /*root=*/0));
  std::vector<int> peers;
  for (const Step& send : StepsOf(plans[0], StepKind::kSend)) {
    peers.push_back(send.peer);
  }
  EXPECT_THAT(peers, ElementsAre(4, 2, 1));
}

VerifyCase InPieces(int num_ranks, int num_pieces, CollectiveType type) {
  return {.layout = Uniform(1, num_ranks),
          .type = type,
          .subdiv_offsets = std::vector<int>(num_pieces)};
}

TEST(DoubleTreeReduceTest, APieceTakesOneStepMore) {
  for (int n = 2; n <= 33; ++n) {
    for (const int pieces : {1, 2, 7}) {
      EXPECT_LE(
          TransfersInARow("DoubleTreeReduce",
                          InPieces(n, pieces, CollectiveType::kAllReduce)),
          3 * CeilLog2(n) + pieces - 1);
    }
  }
}

TEST(DoubleTreeReduceTest, EveryRankSendsAndReceivesAtMostTwiceTheBuffer) {
  for (const int n : {2, 3, 8, 13}) {
    for (const Schedule& plan :
         PlansOf("DoubleTreeReduce",
                 InPieces(n, /*num_pieces=*/3, CollectiveType::kAllReduce))) {
      ASSERT_EQ(plan.num_chunks, 6);
      EXPECT_LE(StepsOf(plan, StepKind::kSend).size(), 12u);
      EXPECT_LE(StepsOf(plan, StepKind::kRecv).size(), 12u);
      EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    }
  }
}

TEST(DoubleTreeReduceTest, KeepsTheOrderOfRanks) {
  const VerifyCase request = InPieces(6, 1, CollectiveType::kAllReduce);
  for (const int rank : {0, 3}) {
    EXPECT_EQ(OutputOf("DoubleTreeReduce", request, rank, 0),
              "f((0.0+(1.0+2.0))+(3.0+(4.0+5.0)))");
  }
}

TEST(DoubleTreeReduceTest, DifferentOffsetsAreDifferentTrees) {
  VerifyCase request = {.layout = Uniform(2, 4), .subdiv_offsets = {0, 1, 0}};
  EXPECT_EQ(OutputOf("DoubleTreeReduce", request, 0, 0).find("f("), 0u);
  const std::string first = OutputOf("DoubleTreeReduce", request, 0, 1);
  const std::string rotated = OutputOf("DoubleTreeReduce", request, 0, 3);
  EXPECT_LT(first.find("0.1"), first.find("1.1"));
  EXPECT_GT(rotated.find("0.3"), rotated.find("1.3"));
}

TEST(ChainBroadcastTest, APieceTakesOneStepMore) {
  for (const int n : {2, 3, 8}) {
    for (const int pieces : {1, 2, 7}) {
      VerifyCase request = InPieces(n, pieces, CollectiveType::kBroadcast);
      request.root = n - 1;
      EXPECT_EQ(TransfersInARow("ChainBroadcast", request), n - 2 + pieces);
    }
  }
}

TEST(DoubleTreeBroadcastTest, APieceTakesOneStepMore) {
  for (int n = 2; n <= 33; ++n) {
    for (const int pieces : {1, 2, 7}) {
      VerifyCase request = InPieces(n, pieces, CollectiveType::kBroadcast);
      request.root = n / 2;
      EXPECT_LE(TransfersInARow("DoubleTreeBroadcast", request),
                CeilLog2(n - 1) + pieces);
    }
  }
}

TEST(DoubleTreeBroadcastTest, NobodySendsMoreThanTheBuffer) {
  for (const int n : {2, 3, 8, 13}) {
    const auto plans = PlansOf("DoubleTreeBroadcast",
                               InPieces(n, 3, CollectiveType::kBroadcast));
    for (const Schedule& plan : plans) {
      ASSERT_EQ(plan.num_chunks, 6);
      EXPECT_LE(StepsOf(plan, StepKind::kSend).size(), 6u);
    }
    EXPECT_THAT(StepsOf(plans[0], StepKind::kSend), SizeIs(6));
  }
}

TEST(BarrierTest, TakesLogarithmicallyManyRounds) {
  for (int n = 1; n <= 65; ++n) {
    const VerifyCase request = {.layout = Uniform(1, n),
                                .type = CollectiveType::kBarrier};
    for (const Schedule& plan : PlansOf("Barrier", request)) {
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(CeilLog2(n)));
    }
  }
}

TEST(BarrierTest, PlansForManyRanksAreShort) {
  const GroupLayout layout = Uniform(1, kManyRanks);
  for (int rank : {0, 1, kManyRanks / 2, kManyRanks - 1}) {
    const Schedule plan = AlgorithmNamed("Barrier").plan(
        {.layout = layout, .type = CollectiveType::kBarrier, .rank = rank});
    EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(16));
    EXPECT_THAT(StepsOf(plan, StepKind::kRecv), SizeIs(16));
  }
}

// --- recursive ---------------------------------------------------------------

VerifyCase Among(int num_ranks, CollectiveType type) {
  return {.layout = Uniform(1, num_ranks), .type = type};
}

VerifyCase AllReduce(int num_ranks) {
  return Among(num_ranks, CollectiveType::kAllReduce);
}

bool IsPowerOfTwo(int value) { return (value & (value - 1)) == 0; }

TEST(RecursiveDoublingReduceTest, SendsTheBufferOnceAStepOrTwiceToAPair) {
  for (int n = 1; n <= 65; ++n) {
    const int steps = CeilLog2(n);
    for (const Schedule& plan :
         PlansOf("RecursiveDoublingReduce", AllReduce(n))) {
      EXPECT_EQ(plan.num_chunks, 1);
      EXPECT_THAT(StepsOf(plan, StepKind::kRecv), SizeIs(Le(steps)));
      if (IsPowerOfTwo(n)) {
        EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(steps));
      } else {
        EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(Le(2 * steps)));
      }
    }
  }
}

TEST(RecursiveDoublingReduceTest, AllGetOneSumInTheOrderOfRanks) {
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(OutputOf("RecursiveDoublingReduce", AllReduce(5), rank, 0),
              "f(((0.0+1.0)+2.0)+(3.0+4.0))");
  }
  for (int n = 1; n <= 33; ++n) {
    const std::string first =
        OutputOf("RecursiveDoublingReduce", AllReduce(n), 0, 0);
    for (int rank = 1; rank < n; ++rank) {
      EXPECT_EQ(OutputOf("RecursiveDoublingReduce", AllReduce(n), rank, 0),
                first);
    }
  }
}

TEST(RecursiveDoublingReduceTest, OnlyInPlaceIsTheInputCopied) {
  VerifyCase request = AllReduce(6);
  for (const Schedule& plan : PlansOf("RecursiveDoublingReduce", request)) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
  }
  request.in_place = InPlace::kAll;
  for (const Schedule& plan : PlansOf("RecursiveDoublingReduce", request)) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(1));
    for (const Step& send : StepsOf(plan, StepKind::kSend)) {
      EXPECT_EQ(send.left.space, Space::kScratch);
    }
  }
}

TEST(RecursiveDoublingReduceTest, SetsAsideEachSumButTheLast) {
  for (int n = 2; n <= 65; ++n) {
    for (const InPlace in_place : {InPlace::kNone, InPlace::kAll}) {
      VerifyCase request = AllReduce(n);
      request.in_place = in_place;
      const size_t copies = in_place == InPlace::kAll ? 1 : 0;
      size_t most = 0;
      for (const Schedule& plan : PlansOf("RecursiveDoublingReduce", request)) {
        EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(copies));
        most = std::max(most, LoadOf(plan).kept);
      }
      EXPECT_EQ(most, CeilLog2(n) - 1) << n << " ranks";
    }
  }
}

VerifyCase ReduceScatter(int num_ranks) {
  return Among(num_ranks, CollectiveType::kReduceScatter);
}

TEST(RecursiveHalvingReduceScatterTest, EveryRankSendsTheLeastPossible) {
  for (int n = 2; n <= 65; ++n) {
    for (const Schedule& plan :
         PlansOf("RecursiveHalvingReduceScatter", ReduceScatter(n))) {
      EXPECT_EQ(plan.num_chunks, n);
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(n - 1));
      EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    }
  }
}

TEST(RecursiveHalvingReduceScatterTest, ReceivesLittleAndSetsAsideHalfAtMost) {
  for (int n = 2; n <= 65; ++n) {
    for (const Schedule& plan :
         PlansOf("RecursiveHalvingReduceScatter", ReduceScatter(n))) {
      const Load load = LoadOf(plan);
      EXPECT_LE(load.received, n - 1 + CeilLog2(n)) << n << " ranks";
      EXPECT_LE(load.kept, (n + 1) / 2) << n << " ranks";
    }
  }
}

TEST(RecursiveHalvingReduceScatterTest, SumsAreInTheOrderOfRanks) {
  EXPECT_EQ(OutputOf("RecursiveHalvingReduceScatter", ReduceScatter(4), 2, 2),
            "f((0.2+1.2)+(2.2+3.2))");
  EXPECT_EQ(OutputOf("RecursiveHalvingReduceScatter", ReduceScatter(5), 4, 4),
            "f(((0.4+1.4)+2.4)+(3.4+4.4))");
}

TEST(RecursiveHalvingDoublingReduceTest, SendsTheLeastPossibleInAll) {
  for (int n = 2; n <= 65; ++n) {
    const size_t least = 2 * (n - 1);
    size_t in_all = 0;
    for (const Schedule& plan :
         PlansOf("RecursiveHalvingDoublingReduce", AllReduce(n))) {
      const auto sends = static_cast<size_t>(ChunksOf(plan, StepKind::kSend));
      in_all += sends;
      EXPECT_LE(sends, least + (IsPowerOfTwo(n) ? 0 : CeilLog2(n) - 1));
      EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    }
    EXPECT_EQ(in_all, n * least);
  }
}

// A rank without a partner exchanges a message with each rank of a pair.
TEST(RecursiveHalvingDoublingReduceTest, AStepIsOneMessageOrTwoToAPair) {
  for (int n = 2; n <= 65; ++n) {
    for (const Schedule& plan :
         PlansOf("RecursiveHalvingDoublingReduce", AllReduce(n))) {
      const int steps = 2 * CeilLog2(n);
      for (const StepKind kind : {StepKind::kSend, StepKind::kRecv}) {
        if (IsPowerOfTwo(n)) {
          EXPECT_THAT(StepsOf(plan, kind), SizeIs(steps));
        } else {
          EXPECT_THAT(StepsOf(plan, kind), SizeIs(Le(2 * steps)));
        }
      }
    }
  }
}

TEST(RecursiveHalvingDoublingReduceTest, SumsAsRecursiveDoublingDoes) {
  for (int n : {1, 2, 3, 4, 7, 16, 17}) {
    const std::string doubling =
        OutputOf("RecursiveDoublingReduce", AllReduce(n), 0, 0);
    for (int chunk = 0; chunk < n; ++chunk) {
      const std::string of_chunk =
          absl::StrReplaceAll(doubling, {{".0", absl::StrCat(".", chunk)}});
      EXPECT_EQ(OutputOf("RecursiveHalvingDoublingReduce", AllReduce(n),
                         /*rank=*/n - 1, chunk),
                of_chunk);
    }
  }
}

VerifyCase AllGather(int num_ranks) {
  return {.layout = Uniform(1, num_ranks), .type = CollectiveType::kAllGather};
}

TEST(BruckGatherTest, EveryRankSendsAndReceivesTheLeastPossible) {
  for (int n = 1; n <= 65; ++n) {
    for (const Schedule& plan : PlansOf("BruckGather", AllGather(n))) {
      EXPECT_EQ(plan.num_chunks, n);
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(n - 1));
      EXPECT_THAT(StepsOf(plan, StepKind::kRecv), SizeIs(n - 1));
    }
  }
}

TEST(BruckGatherTest, CopiesTheOwnBlockAloneAndSetsNothingAside) {
  for (const Schedule& plan : PlansOf("BruckGather", AllGather(6))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(1));
    for (const Step& receive : StepsOf(plan, StepKind::kRecv)) {
      EXPECT_EQ(receive.into.space, Space::kData);
    }
  }
}

VerifyCase AllToAll(int num_ranks, InPlace in_place = InPlace::kNone) {
  return {.layout = Uniform(1, num_ranks),
          .type = CollectiveType::kAllToAll,
          .in_place = in_place};
}

TEST(BruckAllToAllTest, TakesTheLogarithmOfTheRanks) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(TransfersInARow("BruckAllToAll", AllToAll(n)),
              std::bit_width(unsigned(n)) - 1);
    EXPECT_LE(TransfersInARow("BruckAllToAll", AllToAll(n, InPlace::kAll)),
              CeilLog2(n));
  }
}

TEST(BruckAllToAllTest, ABlockIsSentOncePerBitOfItsDistance) {
  for (int n = 1; n <= 65; ++n) {
    int bits = 0;
    for (unsigned distance = 1; distance < unsigned(n); ++distance) {
      bits += std::popcount(distance);
    }
    for (const Schedule& plan : PlansOf("BruckAllToAll", AllToAll(n))) {
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(bits));
      EXPECT_THAT(StepsOf(plan, StepKind::kRecv), SizeIs(bits));
    }
  }
}

TEST(BruckAllToAllTest, SendsToRanksThatArePowersOfTwoFurtherOn) {
  const auto plans = PlansOf("BruckAllToAll", AllToAll(11));
  for (int rank = 0; rank < 11; ++rank) {
    for (const Step& send : StepsOf(plans[rank], StepKind::kSend)) {
      EXPECT_THAT((send.peer - rank + 11) % 11, AnyOf(1, 2, 4, 8));
    }
  }
}

TEST(BruckAllToAllTest, FirstSendsFromTheInputAndLastReceivesIntoTheOutput) {
  constexpr int kRanks = 13;
  for (const Schedule& plan : PlansOf("BruckAllToAll", AllToAll(kRanks))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(1));  // The own block.
    std::set<int> sent;
    for (const Step& send : StepsOf(plan, StepKind::kSend)) {
      if (send.left.space == Space::kInput) sent.insert(send.left.chunk);
    }
    EXPECT_THAT(sent, SizeIs(kRanks - 1));
    std::set<int> received;
    for (const Step& receive : StepsOf(plan, StepKind::kRecv)) {
      if (receive.into.space == Space::kData) {
        received.insert(receive.into.chunk);
      }
    }
    EXPECT_THAT(received, SizeIs(kRanks - 1));
  }
}

TEST(BruckAllToAllTest, ABlockBetweenItsHopsHasAtMostTwoSlots) {
  for (int n = 1; n <= 65; ++n) {
    for (const InPlace in_place : {InPlace::kNone, InPlace::kAll}) {
      for (const Schedule& plan :
           PlansOf("BruckAllToAll", AllToAll(n, in_place))) {
        std::set<std::pair<int, int>> slots;
        for (const Step& receive : StepsOf(plan, StepKind::kRecv)) {
          if (receive.into.space != Space::kScratch) continue;
          slots.emplace(receive.into.chunk, receive.into.bank);
          EXPECT_LE(receive.into.bank, 1);
        }
        EXPECT_LT(slots.size(), 2 * n);
      }
    }
  }
}

TEST(BruckAllToAllTest, InPlaceSetsTheLogarithmOfTheBlocksAside) {
  for (int n = 1; n <= 65; ++n) {
    for (const Schedule& plan :
         PlansOf("BruckAllToAll", AllToAll(n, InPlace::kAll))) {
      EXPECT_EQ(SetAside(plan), std::bit_width(unsigned(n)) - 1);
    }
  }
}

}  // namespace algorithms_test
}  // namespace tutti
