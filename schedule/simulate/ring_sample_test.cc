#include "schedule/simulate/ring_sample.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/simulate/cluster_model.h"
#include "tutti/params.h"

namespace tutti {
namespace ring_sample_test {

using ::testing::ElementsAre;

// Machine with links within tasks, pairs of tasks, and all tasks.
ClusterModel Machine() {
  return {.links = {{"within", {1e-6, 1e9}, 1},
                    {"pair", {2e-6, 1e9}, 2},
                    {"all", {3e-6, 1e9}}}};
}

std::vector<OutlineRound::Transfer> RingOf(const std::vector<int>& order) {
  std::vector<OutlineRound::Transfer> transfers;
  for (size_t i = 0; i < order.size(); ++i) {
    transfers.push_back({order[i], order[(i + 1) % order.size()], 1});
  }
  return transfers;
}

TEST(SampleRingTest, TakesOneTransferOfEachClass) {
  const GroupLayout layout = GroupLayout::Uniform(4, 3);
  const ClusterModel cluster = Machine();
  const ClusterLinks links(layout, cluster, layout.size());
  const auto sample = SampleRing(RingOf({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
                                 links, /*num_classes=*/3);
  ASSERT_TRUE(sample.has_value());
  EXPECT_THAT(sample->senders, ElementsAre(0, 2, 5));
  EXPECT_THAT(sample->ranks, ElementsAre(0, 1, 2, 3, 5, 6));
  EXPECT_THAT(sample->times, ElementsAre(8, 2, 2));
}

TEST(SampleRingTest, AReceiverBeyondThePeriodIsTheOneThatStandsForIt) {
  const GroupLayout layout = GroupLayout::Uniform(4, 3);
  const ClusterModel cluster = ClusterOf();
  const ClusterLinks links(layout, cluster, /*period=*/3);
  const auto sample = SampleRing({{0, 1, 1}, {1, 2, 1}, {2, 3, 1}}, links,
                                 /*num_classes=*/2);
  ASSERT_TRUE(sample.has_value());
  EXPECT_THAT(sample->ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(sample->times, ElementsAre(2, 1));
}

TEST(SampleRingTest, ThereIsNoneWhereTransfersShareALink) {
  const GroupLayout layout = GroupLayout::Uniform(2, 2);
  const ClusterModel cluster = Machine();
  const ClusterLinks links(layout, cluster, layout.size());
  EXPECT_FALSE(
      SampleRing(RingOf({0, 2, 1, 3}), links, /*num_classes=*/3).has_value());
}

TEST(IsRoundOfRingTest, FindsWhatDiffers) {
  const OutlineRound ring = {.transfers = RingOf({0, 1, 2}),
                             .work = {{0, 1, 0}, {1, 1, 0}, {2, 1, 0}}};
  EXPECT_TRUE(IsRoundOfRing(1, ring, ring, 3));
  EXPECT_FALSE(IsRoundOfRing(0, ring, ring, 3)) << "has transfers";
  EXPECT_TRUE(IsRoundOfRing(0, {.work = ring.work}, ring, 3));
  OutlineRound other = ring;
  other.work.clear();
  EXPECT_TRUE(IsRoundOfRing(2, other, ring, 3));
  other.work = {{0, 1, 0}};
  EXPECT_FALSE(IsRoundOfRing(2, other, ring, 3)) << "works alone";
  other.work = {{0, 1, 0}, {1, 0, 1}, {2, 1, 0}};
  EXPECT_FALSE(IsRoundOfRing(2, other, ring, 3)) << "works differently";
  other = ring;
  for (auto& transfer : other.transfers) transfer.chunks = 2;
  EXPECT_TRUE(IsRoundOfRing(2, other, ring, 3));
  other.transfers[1].chunks = 3;
  EXPECT_FALSE(IsRoundOfRing(2, other, ring, 3)) << "sends more";
  other.transfers = {{0, 2, 1}, {1, 0, 1}, {2, 1, 1}};
  EXPECT_FALSE(IsRoundOfRing(2, other, ring, 3)) << "turns round";
  other.transfers = {{0, 1, 1}, {1, 2, 1}, {2, 1, 1}};
  EXPECT_FALSE(IsRoundOfRing(1, other, other, 3)) << "has two senders";
}

}  // namespace ring_sample_test
}  // namespace tutti
