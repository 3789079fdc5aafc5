#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"

namespace tutti {
namespace determinism_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr Determinism kAll[] = {Determinism::kByRankOrder,
                                Determinism::kFixedLayout,
                                Determinism::kNotGuaranteed};

TEST(DeterminismTest, EveryNameIsParsed) {
  for (const Determinism determinism : kAll) {
    const auto parsed = ParseDeterminism(Name(determinism));
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, determinism);
  }
}

TEST(DeterminismTest, UnderscoresStandForSpaces) {
  const auto parsed = ParseDeterminism("by_rank_order");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(*parsed, Determinism::kByRankOrder);
}

TEST(DeterminismTest, AnUnknownNameListsTheKnown) {
  EXPECT_THAT(
      ParseDeterminism("bitwise"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"bitwise\""), HasSubstr("by_rank_order"))));
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

}  // namespace determinism_test
}  // namespace tutti
