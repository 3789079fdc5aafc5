#include "tools/base/option_values.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace tutti {
namespace option_values_test {

TEST(OptionValuesTest, WholeNumbersAreDigitsWithinTheRange) {
  const CLI::Validator check = WholeNumber(1, 16);
  for (const char* text : {"1", "16", "007"}) {
    EXPECT_EQ(check(text), "") << text;
  }
  for (const std::string text : {"", "0", "17", "-1", "+1", " 1", "1.5", "1e1",
                                 "0x1", "x", "1K", "99999999999999999999"}) {
    EXPECT_EQ(check(text), "\"" + text + "\" is no whole number from 1 to 16");
  }
}

TEST(OptionValuesTest, LeadingZerosDoNotMakeANumberOctal) {
  std::string text = "010";
  EXPECT_EQ(WholeNumber(0, 16)(text), "");
  EXPECT_EQ(text, "10");
}

TEST(OptionValuesTest, TheLargestNumberIsOne) {
  const CLI::Validator check =
      WholeNumber(0, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(check("18446744073709551615"), "");
  EXPECT_NE(check("18446744073709551616"), "");
}

TEST(OptionValuesTest, SecondsArePositiveNumbers) {
  for (const char* text : {"1", "0.5", "1e-9", "inf"}) {
    EXPECT_EQ(PositiveSeconds()(text), "") << text;
  }
  for (const std::string text : {"", "0", "-1", "nan", "x", "1s"}) {
    EXPECT_EQ(PositiveSeconds()(text),
              "\"" + text + "\" is no positive number of seconds");
  }
}

TEST(OptionValuesTest, SecondsHaveNoBlanks) {
  EXPECT_NE(PositiveSeconds()(" 1"), "");
  EXPECT_NE(PositiveSeconds()("1 "), "");
}

TEST(OptionValuesTest, EmptyNamesAreRefused) {
  EXPECT_EQ(NotEmpty()("a"), "");
  EXPECT_EQ(NotEmpty()(""), "\"\" is no name");
}

}  // namespace option_values_test
}  // namespace tutti
