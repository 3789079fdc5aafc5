#include "tools/request/random_elements.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tools/request/reference_reduction.h"

namespace tutti {
namespace random_elements_test {

constexpr int64_t kCount = 500;

Workload Of(const std::string& reduction, DType dtype, int group_size) {
  return {.spec = *ParseCollectiveSpec(
              {.collective = "all_reduce", .reduction = reduction}),
          .dtype = dtype,
          .group_size = group_size,
          .count = kCount};
}

std::vector<std::byte> Reduce(
    const Workload& workload,
    const std::vector<std::vector<std::byte>>& contributions) {
  ReferenceReduction reduction(workload.spec, workload.dtype, kCount);
  for (const auto& elements : contributions) reduction.Add(elements);
  return reduction.Result();
}

class RandomElementsTest
    : public ::testing::TestWithParam<std::tuple<std::string, DType, int>> {
 protected:
  Workload workload() const {
    const auto& [reduction, dtype, group_size] = GetParam();
    return Of(reduction, dtype, group_size);
  }

  bool IsSupported() const {
    return workload().spec.merge_op.CheckSupports(workload().dtype).ok();
  }

  std::vector<std::vector<std::byte>> Contributions() const {
    std::vector<std::vector<std::byte>> contributions;
    for (int rank = 0; rank < workload().group_size; ++rank) {
      contributions.push_back(RandomElements(workload(), kCount, rank));
    }
    return contributions;
  }
};

// Rounding after each step, as the library does, gives the same result.
TEST_P(RandomElementsTest, NothingIsRoundedOnTheWay) {
  if (!IsSupported()) GTEST_SKIP();
  const auto contributions = Contributions();
  CollectiveSpec step = workload().spec;
  if (step.reduction == "avg") step.reduction = "sum";
  std::vector<std::byte> partial = contributions[0];
  for (size_t rank = 1; rank < contributions.size(); ++rank) {
    ReferenceReduction one_step(step, workload().dtype, kCount);
    one_step.Add(partial);
    one_step.Add(contributions[rank]);
    partial = one_step.Result();
  }
  Workload all_at_once = workload();
  all_at_once.spec = step;
  EXPECT_EQ(partial, Reduce(all_at_once, contributions));
}

TEST_P(RandomElementsTest, AContributionThatIsMissingShows) {
  if (!IsSupported() || workload().group_size == 1) GTEST_SKIP();
  const auto contributions = Contributions();
  const auto whole = Reduce(workload(), contributions);
  for (size_t rank : {size_t{0}, contributions.size() - 1}) {
    auto others = contributions;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(rank));
    EXPECT_NE(Reduce(workload(), others), whole) << "without rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RandomElementsTest,
    ::testing::Combine(::testing::Values("sum", "avg", "prod", "min", "max",
                                         "band", "bor", "bxor"),
                       ::testing::ValuesIn(kAllDTypes),
                       ::testing::Values(1, 2, 8, 63)),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "_",
                          Name(std::get<1>(info.param)), "_",
                          std::get<2>(info.param));
    });

TEST(RandomElementsTest, TheSeedDecides) {
  const Workload workload = Of("sum", DType::kFloat32, 4);
  EXPECT_EQ(RandomElements(workload, kCount, 1),
            RandomElements(workload, kCount, 1));
  EXPECT_NE(RandomElements(workload, kCount, 1),
            RandomElements(workload, kCount, 2));
}

TEST(RandomElementsTest, BoolsAreZeroOrOne) {
  const Workload workload = {.spec = {.type = CollectiveType::kBroadcast},
                             .dtype = DType::kBool};
  const auto elements = RandomElements(workload, kCount, 1);
  for (std::byte element : elements)
    EXPECT_LE(std::to_integer<int>(element), 1);
  EXPECT_TRUE(std::count(elements.begin(), elements.end(), std::byte{1}) > 0);
}

TEST(RandomElementsTest, FewRanksAreExactWhereSumsHaveFewBits) {
  EXPECT_EQ(MaxExactRanks(Of("sum", DType::kBFloat16, 1000)), 256);
  EXPECT_EQ(MaxExactRanks(Of("avg", DType::kFloat16, 1000)), 2048);
  EXPECT_EQ(MaxExactRanks(Of("sum", DType::kFloat32, 1000)), kMaxGroupSize);
  EXPECT_EQ(MaxExactRanks(Of("max", DType::kBFloat16, 1000)), kMaxGroupSize);
}

}  // namespace random_elements_test
}  // namespace tutti
