#include "framework/collective/layout_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doubles/status_matchers.h"
#include "tutti/params.h"

namespace tutti {
namespace layout_text_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(LayoutTextTest, AProductAndASumAreRead) {
  const auto product = ParseLayoutText("4x2", 8);
  ASSERT_THAT(product, IsOk());
  EXPECT_THAT(*product, ElementsAre(2, 2, 2, 2));
  const auto sum = ParseLayoutText("3+1+2", 8);
  ASSERT_THAT(sum, IsOk());
  EXPECT_THAT(*sum, ElementsAre(3, 1, 2));
}

TEST(LayoutTextTest, ItsTextIsThatOfTheGroup) {
  EXPECT_EQ(LayoutText({2, 2}), GroupLayout::Uniform(2, 2).ToString());
  EXPECT_EQ(LayoutText({2, 1}), GroupLayout::Create({0, 0, 1})->ToString());
  EXPECT_EQ(LayoutText({7}), GroupLayout::Uniform(1, 7).ToString());
}

TEST(LayoutTextTest, WhatIsNoLayoutIsQuoted) {
  for (const char* text : {"", "x", "8", "4x2 ", "1+", "0x2", "-1x2"}) {
    EXPECT_THAT(ParseLayoutText(text, 8),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(text), HasSubstr("is no layout"))));
  }
  const std::string many(1'000'000, '+');
  EXPECT_LT(ParseLayoutText(many, 8).status().message().size(), 300u);
}

TEST(LayoutTextTest, MoreRanksThanTheLimitAreRefused) {
  EXPECT_THAT(ParseLayoutText("8x1", 8), IsOk());
  EXPECT_THAT(ParseLayoutText("5+3", 8), IsOk());
  for (const char* text : {"99999999999x1", "1x9", "3x3", "8+1"}) {
    EXPECT_THAT(ParseLayoutText(text, 8),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("wanted at most 8 ranks")));
  }
}

}  // namespace layout_text_test
}  // namespace tutti
