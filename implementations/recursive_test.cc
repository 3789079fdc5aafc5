#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "implementations/parts/binomial_tree.h"
#include "implementations/plan_testing.h"

namespace tutti {
namespace recursive_test {

using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

VerifyCase Among(int num_ranks, CollectiveType type) {
  return {.layout = GroupLayout::Uniform(1, num_ranks), .type = type};
}

VerifyCase AllReduce(int num_ranks) {
  return Among(num_ranks, CollectiveType::kAllReduce);
}

bool IsPowerOfTwo(int value) { return (value & (value - 1)) == 0; }

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

TEST(RecursiveDoublingReduceTest, TakesTheLogarithmOfTheRanks) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(TransfersInARow("RecursiveDoublingReduce", AllReduce(n)),
              CeilLog2(n));
  }
}

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

TEST(RecursiveDoublingReduceTest, EveryReceivedSumIsReadOnceByTheNextStep) {
  for (int n : {2, 5, 16}) {
    for (const Schedule& plan :
         PlansOf("RecursiveDoublingReduce", AllReduce(n))) {
      EXPECT_THAT(KeptArrivals(plan), IsEmpty());
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

TEST(RecursiveDoublingReduceTest, HoldsOnManyRanks) {
  for (int n : {4096, 5000}) {
    EXPECT_EQ(Verify(AlgorithmNamed("RecursiveDoublingReduce"), AllReduce(n)),
              absl::OkStatus());
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

TEST(RecursiveHalvingReduceScatterTest, TakesTheLogarithmOfTheRanks) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(
        TransfersInARow("RecursiveHalvingReduceScatter", ReduceScatter(n)),
        CeilLog2(n));
  }
}

TEST(RecursiveHalvingReduceScatterTest, EveryRankSendsTheLeastPossible) {
  for (int n = 2; n <= 65; ++n) {
    for (const Schedule& plan :
         PlansOf("RecursiveHalvingReduceScatter", ReduceScatter(n))) {
      EXPECT_EQ(plan.num_chunks, n);
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(n - 1));
      EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
      EXPECT_THAT(KeptArrivals(plan), IsEmpty());
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

TEST(RecursiveHalvingDoublingReduceTest, TakesTwiceTheLogarithmOfTheRanks) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(TransfersInARow("RecursiveHalvingDoublingReduce", AllReduce(n)),
              2 * CeilLog2(n));
  }
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
      EXPECT_THAT(KeptArrivals(plan), IsEmpty());
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

TEST(RecursiveHalvingDoublingReduceTest, HoldsOnManyRanks) {
  for (int n : {256, 300}) {
    EXPECT_EQ(
        Verify(AlgorithmNamed("RecursiveHalvingDoublingReduce"), AllReduce(n)),
        absl::OkStatus());
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
  return {.layout = GroupLayout::Uniform(1, num_ranks),
          .type = CollectiveType::kAllGather};
}

TEST(BruckGatherTest, TakesTheLogarithmOfTheRanks) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(TransfersInARow("BruckGather", AllGather(n)), CeilLog2(n));
  }
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
  return {.layout = GroupLayout::Uniform(1, num_ranks),
          .type = CollectiveType::kAllToAll,
          .in_place = in_place};
}

// Returns the number of copies of the input to scratch memory.
int SetAside(const Schedule& plan) {
  const auto copies = StepsOf(plan, StepKind::kCopy);
  return static_cast<int>(std::count_if(
      copies.begin(), copies.end(),
      [](const Step& step) { return step.into.space == Space::kScratch; }));
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

}  // namespace recursive_test
}  // namespace tutti
