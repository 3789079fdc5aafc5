#include "tools/request/choice_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>

#include "tools/base/exit_status.h"

namespace tutti {
namespace choice_options_test {

using testing::HasSubstr;

class ChoiceOptionsTest : public testing::Test {
 protected:
  ChoiceOptionsTest() { AddChoiceOptions(&app_, &options_); }

  // The error message; empty if parsing succeeds.
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

std::optional<std::string> NoVariable(const std::string& /*name*/) {
  return std::nullopt;
}

// Writes a file with one rule that chooses `algorithm`.
std::string FileFor(const std::string& algorithm) {
  const std::string path = testing::TempDir() + "/" + algorithm + ".json";
  std::ofstream(path) << R"({"version": 1, "rules": [
      {"collective": "all_reduce", "algorithm": ")"
                      << algorithm << "\"}]}";
  return path;
}

class TakeRulesTest : public ChoiceOptionsTest {
 protected:
  // The first rule's algorithm, "none" without rules, or the error message.
  std::string Taken(const Variables& variables) {
    const auto rules =
        TakeRules(options_, variables, CollectiveRegistry::Global());
    if (!rules.ok()) return rules.status().ToString();
    return *rules == nullptr ? "none" : (*rules)->rules[0].implementation;
  }
};

TEST_F(TakeRulesTest, TheOptionComesBeforeTheVariable) {
  const Variables variables =
      [](const std::string& name) -> std::optional<std::string> {
    return name == "TUTTI_RULES" ? FileFor("TreeReduce") : "";
  };
  EXPECT_EQ(Taken(NoVariable), "none");
  EXPECT_EQ(Taken(variables), "TreeReduce");
  EXPECT_EQ(Parse("--rules " + FileFor("RingReduce")), "");
  EXPECT_EQ(Taken(variables), "RingReduce");
}

TEST_F(TakeRulesTest, WhatIsWrongWithTheFileIsAUsageErrorWithItsLine) {
  options_.rules = FileFor("Rnig");
  const auto rules =
      TakeRules(options_, NoVariable, CollectiveRegistry::Global());
  EXPECT_EQ(ExitStatus(rules.status()), 2);
  EXPECT_THAT(rules.status().ToString(), HasSubstr("Rnig.json:2: "));
}

}  // namespace choice_options_test
}  // namespace tutti
