#include "tools/cluster/cluster_flags.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace cluster_flags_test {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class ClusterFlagsTest : public ::testing::Test {
 protected:
  void Parse(std::vector<const char*> words) {
    words.insert(words.begin(), "tutti");
    app_.parse(static_cast<int>(words.size()), words.data());
  }

  CLI::App app_;
  ClusterWords words_;
};

TEST_F(ClusterFlagsTest, ValuesAreKeptByTheNamesOfTheirOptions) {
  AddClusterOptions(&app_, &words_);
  Parse({"--cluster", "a:1,b:2", "--task=1", "--insecure", "--tls-cert", "c"});
  EXPECT_THAT(words_, UnorderedElementsAre(
                          Pair("cluster", "a:1,b:2"), Pair("task", "1"),
                          Pair("insecure", "true"), Pair("tls-cert", "c")));
}

TEST_F(ClusterFlagsTest, NothingGivenIsNothingSaid) {
  AddClusterOptions(&app_, &words_);
  Parse({});
  EXPECT_THAT(words_, ::testing::IsEmpty());
}

TEST_F(ClusterFlagsTest, EmptyValuesAreRefused) {
  AddTaskOptions(&app_, &words_);
  EXPECT_THROW(Parse({"--job", ""}), CLI::ValidationError);
}

TEST_F(ClusterFlagsTest, ACommandTakesItsOwnCluster) {
  std::optional<ClusterOptions> cluster;
  EXPECT_THAT(TakeOwnCluster({}, &cluster), IsOk());
  EXPECT_FALSE(cluster.has_value());
  EXPECT_THAT(
      TakeOwnCluster({{"cluster", "localhost:1"}, {"task", "0"}}, &cluster),
      IsOk());
  ASSERT_TRUE(cluster.has_value());
  EXPECT_EQ(cluster->cluster.num_tasks(), 1);
}

TEST_F(ClusterFlagsTest, ACommandOfAWorkerHasTheClusterOfTheWorker) {
  std::optional<ClusterOptions> cluster = ClusterOptions();
  EXPECT_THAT(TakeOwnCluster({}, &cluster), IsOk());
  const absl::Status status = TakeOwnCluster({{"task", "0"}}, &cluster);
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_EQ(status.message(),
            "--task goes to the worker, before the --, not after it; launch "
            "settles it by itself");
  EXPECT_EQ(TakeOwnCluster({{"job", "a"}}, &cluster).message(),
            "--job goes to the worker or to launch, before the --, not after "
            "it");
}

TEST_F(ClusterFlagsTest, AClusterSaysHowManyRanksThereAre) {
  int devices = 0;
  app_.add_option("--devices", devices);
  Parse({"--devices", "3"});
  std::optional<ClusterOptions> cluster;
  EXPECT_THAT(CheckOptionsOfCluster(app_, cluster, {"--devices"}), IsOk());
  cluster.emplace();
  cluster->cluster.addresses = {"localhost:1"};
  const absl::Status status =
      CheckOptionsOfCluster(app_, cluster, {"--devices"});
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_EQ(status.message(),
            "--devices does not go with a cluster, whose number of tasks (1) "
            "and --devices-per-task (1) say how many ranks there are");
}

}  // namespace cluster_flags_test
}  // namespace tutti
