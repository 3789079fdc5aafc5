#include "tools/base/algorithm_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/named_only.h"

namespace tutti {
namespace algorithm_names_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

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
  EXPECT_THAT(FindAlgorithm(registry_, "Rings"), IsOk());
  const absl::Status status = FindAlgorithm(registry_, "Ring").status();
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_EQ(status.message(),
            "unknown algorithm \"Ring\" (did you mean Rings?); known: Gpu, "
            "Host, Rings");
}

TEST_F(AlgorithmNamesTest, OnesThatDoNotServeAreToldWhichDo) {
  EXPECT_THAT(CheckAlgorithm(registry_, "Host", CollectiveType::kAllReduce),
              IsOk());
  for (const char* name : {"Host", "Gpu"}) {
    const absl::Status status =
        CheckAlgorithm(registry_, name, CollectiveType::kReduce);
    EXPECT_EQ(ExitStatus(status), 2);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(name), HasSubstr("not do reduce"),
                      EndsWith("these do: Rings")));
  }
  EXPECT_EQ(
      ExitStatus(CheckAlgorithm(registry_, "Gpu", CollectiveType::kAllReduce)),
      2);
  EXPECT_THAT(
      std::string(
          CheckAlgorithm(registry_, "Gpu", CollectiveType::kGather).message()),
      EndsWith("these do: none"));
}

TEST_F(AlgorithmNamesTest, WhatALibraryRunsIsNamedAndNotAmongAll) {
  ASSERT_THAT(registry_.Register(
                  "Theirs", std::make_shared<NamedOnly>(ImplementationTraits{
                                .collectives = {CollectiveType::kAllReduce},
                                .delegate = "Library"})),
              IsOk());
  EXPECT_THAT(CheckAlgorithm(registry_, "Theirs", CollectiveType::kAllReduce),
              IsOk());
  EXPECT_EQ(
      ExitStatus(CheckAlgorithm(registry_, "Theirs", CollectiveType::kReduce)),
      2);
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kAllReduce),
              ElementsAre("Host", "Rings"));
}

TEST_F(AlgorithmNamesTest, WhatCannotBeMadeOfItsPartsSaysWhy) {
  ASSERT_THAT(
      registry_.Register(
          "Made",
          std::make_shared<NamedOnly>(ImplementationTraits{
              .collectives = {CollectiveType::kAllReduce},
              .check_parts =
                  [] { return absl::NotFoundError("nobody is Lost"); }})),
      IsOk());
  const absl::Status status =
      CheckAlgorithm(registry_, "Made", CollectiveType::kAllReduce);
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_EQ(status.message(),
            "Made cannot be made of its parts: nobody is Lost");
  EXPECT_THAT(
      std::string(
          CheckAlgorithm(registry_, "Made", CollectiveType::kGather).message()),
      HasSubstr("not do gather"));
}

TEST_F(AlgorithmNamesTest, AllMeansWhatRunsTheCollectiveOnThisMachine) {
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kAllReduce),
              ElementsAre("Host", "Rings"));
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kReduce),
              ElementsAre("Rings"));
  EXPECT_THAT(AlgorithmsFor(registry_, CollectiveType::kGather), ElementsAre());
}

}  // namespace algorithm_names_test
}  // namespace tutti
