#include "tools/base/bounded_text.h"

#include <gtest/gtest.h>

namespace tutti {
namespace bounded_text_test {

TEST(BoundedTextTest, WhatFitsStaysAsItIs) {
  EXPECT_EQ(BoundedText("run barrier", 100), "run barrier");
  EXPECT_EQ(BoundedText(std::string(100, 'x'), 100), std::string(100, 'x'));
}

TEST(BoundedTextTest, LongTextsStayDifferentAndBounded) {
  const std::string text(3000, 'x');
  const std::string first = BoundedText(text + "a", 100);
  const std::string second = BoundedText(text + "b", 100);
  EXPECT_EQ(first.size(), 100u);
  EXPECT_EQ(second.size(), 100u);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, BoundedText(text + "a", 100));
  EXPECT_EQ(first.substr(0, 40), text.substr(0, 40));
}

}  // namespace bounded_text_test
}  // namespace tutti
