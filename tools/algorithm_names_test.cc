#include "tools/algorithm_names.h"

#include "framework/collective_implementation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/exit_status.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NamedOnly : public CollectiveFactory {
 public:
  using CollectiveFactory::CollectiveFactory;
  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return nullptr;
  }
};

class AlgorithmNamesTest : public ::testing::Test {
 protected:
  AlgorithmNamesTest() {
    Register("Rings", {CollectiveType::kAllReduce, CollectiveType::kReduce},
             {});
    Register("Host", {CollectiveType::kAllReduce}, {"GPU", "CPU"});
    Register("Gpu", {CollectiveType::kAllReduce}, {"GPU"});
  }

  void Register(const std::string& name, std::vector<CollectiveType> types,
                std::vector<std::string> devices) {
    ASSERT_THAT(registry_.Register(
                    name, std::make_shared<NamedOnly>(ImplementationTraits{
                              .collectives = types, .device_types = devices})),
                IsOk());
  }

  CollectiveRegistry registry_;
};

TEST_F(AlgorithmNamesTest, UnknownNamesAreAWrongCommandLineAndListTheKnown) {
  EXPECT_THAT(CheckAlgorithm(registry_, "Rings"), IsOk());
  const absl::Status status = CheckAlgorithm(registry_, "Ring");
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Rings"));
}

TEST_F(AlgorithmNamesTest, AllMeansWhatRunsTheCollectiveOnThisMachine) {
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kAllReduce),
              ElementsAre("Host", "Rings"));
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kReduce),
              ElementsAre("Rings"));
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kGather), ElementsAre());
}

}  // namespace
}  // namespace tutti
