#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/registry.h"
#include "schedule/algorithm.h"
#include "schedule/standard_cases.h"

namespace tutti {
namespace {

constexpr int kMaxRanks = 64;

const std::vector<std::string>& Names() {
  static const auto* const names =
      new std::vector<std::string>{"AllToAll",
                                   "Barrier",
                                   "DirectReduceScatter",
                                   "Gather",
                                   "HierarchicalTreeBroadcast",
                                   "Permute",
                                   "RingGather",
                                   "RingReduce",
                                   "RingReduceScatter",
                                   "Scatter",
                                   "TreeReduce"};
  return *names;
}

class SymbolicTest
    : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(SymbolicTest, HoldsInEveryStandardCase) {
  const auto& [name, num_ranks] = GetParam();
  const auto factory = CollectiveRegistry::Global().Find(name);
  ASSERT_TRUE(factory.ok()) << factory.status();
  const Algorithm* const algorithm = AlgorithmOf(**factory);
  ASSERT_NE(algorithm, nullptr);
  const VerifyReport report = VerifyStandardCases(
      *algorithm, {.min_ranks = num_ranks, .max_ranks = num_ranks});
  EXPECT_GT(report.cases, 0);
  EXPECT_TRUE(report.first_failure.ok())
      << report.failed << " of " << report.cases
      << " cases fail; first: " << report.first_failure.message();
}

INSTANTIATE_TEST_SUITE_P(All, SymbolicTest,
                         testing::Combine(testing::ValuesIn(Names()),
                                          testing::Range(1, kMaxRanks + 1)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "On",
                                               std::get<1>(info.param));
                         });

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

TEST(ImplementationsTest, PriceNothingForOneRankAndMoreForMoreBytes) {
  for (const std::string& name : Names()) {
    EXPECT_EQ(Cost(name, GroupLayout::Uniform(1, 1), 1 << 20), 0) << name;
    const GroupLayout layout = GroupLayout::Uniform(2, 4);
    EXPECT_GT(Cost(name, layout, 0), 0) << name;
    EXPECT_GE(Cost(name, layout, 1 << 20), Cost(name, layout, 1 << 10)) << name;
  }
}

}  // namespace
}  // namespace tutti
