// `--algorithm all` skips algorithms that refuse. All registered ones are
// wrong.

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/base/exit_status.h"
#include "tools/commands/perf_command.h"
#include "tools/request/wrong_algorithms.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {
namespace perf_refusals_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

REGISTER_COLLECTIVE(Refuser, RefusingAllReduce());
REGISTER_COLLECTIVE(Fickle, FickleBroadcast());

class PerfRefusalsTest : public ::testing::Test {
 protected:
  absl::Status MeasureAll(const std::string& collective) {
    PerfOptions options;
    options.collective.collective = collective;
    options.devices = 2;
    options.sweep.max_bytes = "64";
    options.iterations = 2;
    options.algorithms = {"all"};
    options.json = json_;
    const DefaultEnvironment environment(2);
    return MeasureCollective(options, environment.get(), /*num_workers=*/2,
                             LocalParty(environment.get()), {out_, err_});
  }

  bool json_ = true;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(PerfRefusalsTest, WhereAllRefuseTheLastRefusalIsTheError) {
  const absl::Status status = MeasureAll("all_reduce");
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not today"));
  EXPECT_THAT(err_.str(), HasSubstr("skipped Refuser"));
  EXPECT_EQ(nlohmann::json::parse(out_.str()).size(), 0u);
}

TEST_F(PerfRefusalsTest, WhereAllRefuseThereIsNoTable) {
  json_ = false;
  EXPECT_EQ(ExitStatus(MeasureAll("all_reduce")), 1);
  EXPECT_THAT(out_.str(), IsEmpty());
}

TEST_F(PerfRefusalsTest, AnAlgorithmThatServedOneSizeMayNotRefuseTheNext) {
  const absl::Status status = MeasureAll("broadcast");
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("too much"));
  EXPECT_THAT(err_.str(), IsEmpty());
  EXPECT_EQ(nlohmann::json::parse(out_.str()).size(), 1u);
}

}  // namespace perf_refusals_test
}  // namespace tutti
