#include "tools/request/collective_spec.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace collective_spec_test {

using ::testing::HasSubstr;

// The message of the UsageError that the words cause.
std::string ErrorOf(const CollectiveWords& words) {
  const auto spec = ParseCollectiveSpec(words);
  EXPECT_EQ(ExitStatus(spec.status()), 2);
  return std::string(spec.status().message());
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

TEST(CollectiveSpecTest, SumAndRootZeroAreTheDefaults) {
  const auto spec = ParseCollectiveSpec({.collective = "reduce"});
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(ToString(*spec), "reduce sum to rank 0");
}

TEST(CollectiveSpecTest, UnknownNamesListTheKnownOnes) {
  EXPECT_THAT(ErrorOf({.collective = "allreduce"}), HasSubstr("all_reduce"));
  EXPECT_THAT(ErrorOf({.collective = "reduce", .reduction = "mean"}),
              HasSubstr("bxor, avg"));
}

TEST(CollectiveSpecTest, WordsThatDoNotGoWithTheCollectiveAreRefused) {
  EXPECT_EQ(ErrorOf({.collective = "barrier", .reduction = "sum"}),
            "--reduction does not go with barrier, only with all_reduce, "
            "reduce_scatter, reduce");
  EXPECT_EQ(ErrorOf({.collective = "all_reduce", .root = 0}),
            "--root does not go with all_reduce, only with broadcast, reduce, "
            "gather, scatter");
  EXPECT_EQ(ErrorOf({.collective = "reduce", .permutation = {0}}),
            "--permutation does not go with reduce, only with permute");
}

TEST(CollectiveSpecTest, RootsMustBeRanks) {
  CollectiveSpec spec{.type = CollectiveType::kBroadcast, .root = 3};
  EXPECT_THAT(CheckGroupSize(spec, 4), IsOk());
  EXPECT_EQ(ExitStatus(CheckGroupSize(spec, 3)), 2);
  EXPECT_EQ(CheckGroupSize(spec, 3).message(),
            "--root 3 is no rank of a group of 3; wanted 0 to 2");
  spec.root = -1;
  EXPECT_EQ(ExitStatus(CheckGroupSize(spec, 3)), 2);
}

TEST(CollectiveSpecTest, PermutationsMustBePermutations) {
  CollectiveSpec spec{.type = CollectiveType::kPermute,
                      .permutation = {2, 0, 1}};
  EXPECT_THAT(CheckGroupSize(spec, 3), IsOk());
  EXPECT_EQ(ExitStatus(CheckGroupSize(spec, 4)), 2);
  spec.permutation = {2, 0, 0};
  const absl::Status status = CheckGroupSize(spec, 3);
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_EQ(status.message(),
            "--permutation: [2,0,0] is not a permutation of 3 ranks: 0 stands "
            "twice");
  spec.permutation = {2, 0, 3};
  EXPECT_EQ(CheckGroupSize(spec, 3).message(),
            "--permutation: [2,0,3] is not a permutation of 3 ranks: 3 is no "
            "rank");
  spec.permutation = {1, 0};
  EXPECT_EQ(CheckGroupSize(spec, 3).message(),
            "--permutation: [1,0] is not a permutation of 3 ranks: it has 2 "
            "entries");
}

TEST(CollectiveSpecTest, RankListsMustListRanksOnce) {
  EXPECT_THAT(CheckRankList({}, 3), IsOk());
  EXPECT_THAT(CheckRankList({2, 0}, 3), IsOk());
  EXPECT_EQ(ExitStatus(CheckRankList({0, 3}, 3)), 2);
  EXPECT_EQ(CheckRankList({0, 3}, 3).message(),
            "--rank-list: [0,3] does not list ranks of a group of 3: 3 is no "
            "rank");
  EXPECT_EQ(CheckRankList({1, 0, 1}, 3).message(),
            "--rank-list: [1,0,1] does not list ranks of a group of 3: 1 "
            "stands twice");
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

}  // namespace collective_spec_test
}  // namespace tutti
