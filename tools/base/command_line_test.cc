#include "tools/base/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/base/text.h"

namespace tutti {
namespace command_line_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST(EnvironmentVariablesTest, AnEmptyOneIsNotSet) {
  unsetenv("TUTTI_TEST");
  EXPECT_EQ(EnvironmentVariable("TUTTI_TEST"), std::nullopt);
  setenv("TUTTI_TEST", "", 1);
  EXPECT_EQ(EnvironmentVariable("TUTTI_TEST"), std::nullopt);
  setenv("TUTTI_TEST", "value", 1);
  EXPECT_THAT(EnvironmentVariable("TUTTI_TEST"),
              ::testing::Optional(std::string("value")));
}

TEST(ExitStatusTest, TellsBadUsageFromAFailedRun) {
  EXPECT_EQ(ExitStatus(absl::OkStatus()), 0);
  EXPECT_EQ(ExitStatus(absl::InvalidArgumentError("a bad file")), 1);
  EXPECT_EQ(ExitStatus(absl::DeadlineExceededError("too late")), 1);
  EXPECT_EQ(ExitStatus(UsageError("--root 9")), 2);
}

TEST(ExitStatusTest, UsageErrorKeepsItsMessage) {
  EXPECT_EQ(UsageError("--root 9").message(), "--root 9");
}

TEST(ErrorLineTest, NamesTheProgram) {
  EXPECT_EQ(ErrorLine(absl::NotFoundError("no such file")),
            "tutti: no such file\n");
}

TEST(ErrorLineTest, StaysOneLineWhateverTheMessageHolds) {
  EXPECT_EQ(ErrorLine(absl::NotFoundError("a\nb\r\x1b[31mc\n")),
            "tutti: a b  [31mc\n");
}

TEST(ExitStatusTest, OtherProgramsHaveTheirOwn) {
  const absl::Status status = ErrorWithExitStatus(137, "it was killed");
  EXPECT_EQ(ExitStatus(status), 137);
  EXPECT_EQ(ErrorLine(status), "tutti: it was killed\n");
  EXPECT_FALSE(IsUsageError(ErrorWithExitStatus(2, "of another program")));
  EXPECT_TRUE(IsUsageError(UsageError("of this one")));
}

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

TEST(SizesTest, UnitsArePowersOf1024) {
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("4"), 4);
  EXPECT_EQ(*ParseBytes("64K"), 65536);
  EXPECT_EQ(*ParseBytes("64m"), 67108864);
  EXPECT_EQ(*ParseBytes("1G"), 1073741824);
}

TEST(SizesTest, OtherTextIsRefusedWithTheFormWanted) {
  for (absl::string_view text :
       {"", "K", "-4", "+4", " 4", "4.5M", "64KB", "64 K", "1T", "four",
        "9223372036854775808", "8589934592G"}) {
    const auto bytes = ParseBytes(text);
    EXPECT_FALSE(bytes.ok()) << text;
    EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("64K"));
  }
}

TEST(SizesTest, FormattedSizesAreReadBack) {
  for (int64_t bytes :
       {int64_t{0}, int64_t{4}, int64_t{1000}, int64_t{1024}, int64_t{65536},
        int64_t{1} << 30, (int64_t{1} << 30) + 1}) {
    EXPECT_EQ(*ParseBytes(FormatBytes(bytes)), bytes);
  }
  EXPECT_EQ(FormatBytes(65536), "64K");
  EXPECT_EQ(FormatBytes(1000), "1000");
}

TEST(SizesTest, SizesGrowByTheFactorUpToTheLast) {
  EXPECT_THAT(GeometricSizes(4, 64, 4), ElementsAre(4, 16, 64));
  EXPECT_THAT(GeometricSizes(4, 63, 4), ElementsAre(4, 16));
  EXPECT_THAT(GeometricSizes(5, 5, 2), ElementsAre(5));
  EXPECT_THAT(GeometricSizes(6, 5, 2), IsEmpty());
}

TEST(SizesTest, TheLargestSizeOverflowsNothing) {
  const int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(GeometricSizes(1, max, 1024).back(), int64_t{1} << 60);
}

// A program with the commands `play` and `stop`.
class UsageMessageTest : public ::testing::Test {
 protected:
  UsageMessageTest() {
    app_.require_subcommand(0, 1);
    CLI::App* play = app_.add_subcommand("play");
    play->add_option("TUNE", tune_, "march,\nor waltz")->required();
    play->add_option("--speed", speed_, "from slow\nto fast")
        ->check(CLI::Range(1, 9));
    CLI::Option* loud = play->add_flag("--loud", loud_);
    play->add_flag("--soft", soft_)->excludes(loud);
    play->add_flag("--encore", encore_)->needs(loud);
    app_.add_subcommand("stop");
  }

  // The message for a command line of `words`.
  std::string MessageOf(std::vector<const char*> words) {
    words.insert(words.begin(), "tutti");
    try {
      app_.parse(static_cast<int>(words.size()), words.data());
    } catch (const CLI::ParseError& error) {
      return UsageMessage(error, app_);
    }
    return "";
  }

  CLI::App app_;
  std::string tune_;
  int speed_ = 0;
  bool loud_ = false;
  bool soft_ = false;
  bool encore_ = false;
};

TEST_F(UsageMessageTest, UnknownCommandsAreToldTheKnownOnes) {
  EXPECT_EQ(MessageOf({"rest", "--loud", "3"}),
            "unknown command \"rest\"; known: play, stop");
  EXPECT_EQ(MessageOf({""}), "unknown command \"\"; known: play, stop");
}

TEST_F(UsageMessageTest, UnknownOptionsAreQuoted) {
  EXPECT_EQ(MessageOf({"--slow"}), "unknown option \"--slow\"");
  EXPECT_EQ(MessageOf({"play", "march", "--slow", "3"}),
            "unknown option \"--slow\"");
}

TEST_F(UsageMessageTest, ArgumentsTooManyAreQuoted) {
  EXPECT_EQ(MessageOf({"play", "march", "waltz"}),
            "unexpected argument \"waltz\"; wanted TUNE and options only");
  EXPECT_EQ(MessageOf({"play", "march", "stop"}),
            "unexpected argument \"stop\"; wanted TUNE and options only");
  EXPECT_EQ(MessageOf({"stop", "now"}),
            "unexpected argument \"now\"; wanted options only");
}

TEST_F(UsageMessageTest, AMissingArgumentIsDescribed) {
  EXPECT_EQ(MessageOf({"play"}), "wanted a TUNE: march, or waltz");
  EXPECT_EQ(MessageOf({"--", "play"}), "TUNE is required");
}

TEST_F(UsageMessageTest, OptionsWithoutTheirValueAreDescribed) {
  EXPECT_EQ(MessageOf({"play", "march", "--speed"}),
            "--speed needs a value: from slow to fast");
}

TEST_F(UsageMessageTest, OptionsThatExcludeEachOtherAreNamed) {
  EXPECT_EQ(MessageOf({"play", "march", "--soft", "--loud"}),
            "--loud does not go with --soft");
}

TEST_F(UsageMessageTest, OptionsThatNeedAnotherNameIt) {
  EXPECT_EQ(MessageOf({"play", "march", "--encore"}), "--encore needs --loud");
}

TEST_F(UsageMessageTest, OptionsGivenTwiceAreNamed) {
  EXPECT_EQ(MessageOf({"play", "march", "--speed", "1", "--speed", "2"}),
            "--speed is given more than once");
}

TEST_F(UsageMessageTest, FlagsTakeNoValue) {
  EXPECT_EQ(MessageOf({"play", "march", "--loud=maybe"}),
            "--loud takes no value");
  app_.get_subcommand("play")->get_option("--loud")->disable_flag_override();
  EXPECT_EQ(MessageOf({"play", "march", "--loud=false"}),
            "--loud takes no value");
}

TEST_F(UsageMessageTest, WhatAValidatorSaysStays) {
  EXPECT_EQ(MessageOf({"play", "march", "--speed", "x"}),
            "--speed: Value x not in range 1 to 9");
}

}  // namespace command_line_test
}  // namespace tutti
