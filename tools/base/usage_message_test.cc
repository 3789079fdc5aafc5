#include "tools/base/usage_message.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tutti {
namespace usage_message_test {

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

}  // namespace usage_message_test
}  // namespace tutti
