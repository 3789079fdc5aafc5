#include "tools/choice_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

using testing::HasSubstr;

class ChoiceOptionsTest : public testing::Test {
 protected:
  ChoiceOptionsTest() { AddChoiceOptions(&app_, &options_); }

  // The error, empty if there is none.
  std::string Parse(const std::string& words) {
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app_;
  ChoiceOptions options_;
};

TEST_F(ChoiceOptionsTest, NothingIsDemandedByDefault) {
  EXPECT_EQ(Parse(""), "");
  EXPECT_EQ(options_.determinism, Determinism::kNotGuaranteed);
}

TEST_F(ChoiceOptionsTest, AClassOfDeterminismIsTaken) {
  EXPECT_EQ(Parse("--determinism by_rank_order"), "");
  EXPECT_EQ(options_.determinism, Determinism::kByRankOrder);
}

TEST_F(ChoiceOptionsTest, AnUnknownClassListsTheKnown) {
  EXPECT_THAT(Parse("--determinism exact"), HasSubstr("\"exact\"; known: "));
}

}  // namespace
}  // namespace tutti
