#include "tools/commands/tool.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tutti/implementation.h"

namespace tutti {
namespace tool_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Simulates a program that registers one name twice.
class ToolWithARegistrationErrorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    CollectiveRegistry& registry = CollectiveRegistry::Global();
    const auto factory = registry.Find("RingReduce");
    ASSERT_TRUE(factory.ok());
    ASSERT_FALSE(registry.Register("RingReduce", *factory).ok());
  }

  int Run(std::vector<const char*> words) {
    words.insert(words.begin(), "tutti");
    return RunTool(static_cast<int>(words.size()), words.data(), {out_, err_});
  }

  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(ToolWithARegistrationErrorTest, CommandsDoNothingButNameIt) {
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"verify", "--max-ranks", "2"},
        {"perf", "barrier", "--devices", "2"},
        {"run", "barrier", "--devices", "2"}}) {
    err_.str("");
    EXPECT_EQ(Run(words), 1) << words[0];
    EXPECT_THAT(out_.str(), IsEmpty()) << words[0];
    EXPECT_THAT(err_.str(), HasSubstr("RingReduce")) << words[0];
  }
}

TEST_F(ToolWithARegistrationErrorTest, InfoShowsTheRestAndFails) {
  EXPECT_EQ(Run({"info"}), 1);
  EXPECT_THAT(out_.str(), HasSubstr("TreeReduce"));
  EXPECT_THAT(err_.str(), HasSubstr("RingReduce"));
}

TEST_F(ToolWithARegistrationErrorTest, HelpIsThereAllTheSame) {
  EXPECT_EQ(Run({"verify", "--help"}), 0);
  EXPECT_THAT(err_.str(), IsEmpty());
}

}  // namespace tool_test
}  // namespace tutti
