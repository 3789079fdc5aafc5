#include "tools/cluster/cluster_options.h"

#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace cluster_options_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ClusterOptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ClusterOptions> Resolve(const ClusterWords& flags) {
    return ResolveClusterOptions(flags, OwnVariables());
  }

  Variables OwnVariables() {
    return [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
  }

  // Resolves a sufficient set of flags together with `more`.
  absl::StatusOr<ClusterOptions> ResolveWith(const ClusterWords& more) {
    ClusterWords flags = more;
    flags.insert({"cluster", "localhost:7000,localhost:7001"});
    flags.insert({"task", "1"});
    return Resolve(flags);
  }

  std::string ErrorOf(const absl::StatusOr<ClusterOptions>& options) {
    EXPECT_EQ(ExitStatus(options.status()), 2) << options.status();
    return std::string(options.status().message());
  }
  std::string ErrorWith(const ClusterWords& more) {
    return ErrorOf(ResolveWith(more));
  }

  static std::string WriteFile(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/cluster.json";
    std::ofstream(path) << text;
    return path;
  }

  void SetSlurm() {
    variables_.insert({{"SLURM_PROCID", "2"},
                       {"SLURM_NTASKS", "3"},
                       {"SLURM_STEP_NODELIST", "node[1-2]"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2,1"}});
  }

  std::map<std::string, std::string> variables_;
};

TEST_F(ClusterOptionsTest, FlagsSayWhoTakesPart) {
  const auto options = ResolveWith({});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->cluster.job, "worker");
  EXPECT_THAT(options->cluster.addresses,
              ElementsAre("localhost:7000", "localhost:7001"));
  EXPECT_EQ(options->cluster.this_task, 1);
  EXPECT_EQ(options->listen_address, "localhost:7001");
}

TEST_F(ClusterOptionsTest, TheRestHasDefaults) {
  const auto options = ResolveWith({});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->devices_per_task, 1);
  EXPECT_EQ(options->start_timeout, absl::Seconds(60));
  EXPECT_FALSE(options->fast_detection);
  EXPECT_THAT(options->token, IsEmpty());
  EXPECT_FALSE(options->tls.enabled());
  EXPECT_FALSE(options->insecure);
}

TEST_F(ClusterOptionsTest, FlagsSayTheRest) {
  const auto options = ResolveWith({{"job", "trainer"},
                                    {"devices-per-task", "3"},
                                    {"start-timeout", "1.5"},
                                    {"detect", "fast"},
                                    {"tls-cert", "certs/task-{task}.pem"},
                                    {"tls-key", "certs/task-{task}.key"},
                                    {"tls-ca", "certs/ca.pem"}});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->cluster.job, "trainer");
  EXPECT_EQ(options->devices_per_task, 3);
  EXPECT_EQ(options->start_timeout, absl::Seconds(1.5));
  EXPECT_TRUE(options->fast_detection);
  ASSERT_TRUE(options->tls.enabled());
  EXPECT_EQ(options->tls.certificate, "certs/task-1.pem");
  EXPECT_EQ(options->tls.key, "certs/task-1.key");
  EXPECT_EQ(options->tls.ca, "certs/ca.pem");
}

TEST_F(ClusterOptionsTest, BlanksAroundAddressesAreNoMatter) {
  EXPECT_THAT(
      ResolveWith({{"cluster", "localhost:1, localhost:2"}})->cluster.addresses,
      ElementsAre("localhost:1", "localhost:2"));
}

TEST_F(ClusterOptionsTest, TheTokenComesFromTheEnvironmentAlone) {
  variables_["TUTTI_TOKEN"] = "secret";
  EXPECT_EQ(ResolveWith({})->token, "secret");
}

TEST_F(ClusterOptionsTest, VariablesSayAllThatFlagsSay) {
  variables_ = {{"TUTTI_CLUSTER", "localhost:1,localhost:2"},
                {"TUTTI_TASK", "1"},
                {"TUTTI_JOB", "trainer"},
                {"TUTTI_DEVICES_PER_TASK", "2"},
                {"TUTTI_START_TIMEOUT", "3"},
                {"TUTTI_DETECT", "fast"},
                {"TUTTI_BIND", "0.0.0.0"},
                {"TUTTI_INSECURE", "1"}};
  const auto options = Resolve({});
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->cluster.addresses, SizeIs(2));
  EXPECT_EQ(options->cluster.this_task, 1);
  EXPECT_EQ(options->cluster.job, "trainer");
  EXPECT_EQ(options->devices_per_task, 2);
  EXPECT_EQ(options->start_timeout, absl::Seconds(3));
  EXPECT_TRUE(options->fast_detection);
  EXPECT_EQ(options->listen_address, "0.0.0.0:2");
  EXPECT_TRUE(options->insecure);
}

TEST_F(ClusterOptionsTest, FlagsComeBeforeFilesBeforeVariablesBeforeSlurm) {
  SetSlurm();
  EXPECT_EQ(Resolve({{"insecure", "true"}})->cluster.addresses[2],
            "node2:7000");
  variables_["TUTTI_CLUSTER"] = "localhost:1,localhost:2,localhost:3";
  EXPECT_EQ(Resolve({})->cluster.addresses[2], "localhost:3");
  EXPECT_EQ(Resolve({})->cluster.this_task, 2);
  variables_["TUTTI_TASK"] = "0";
  variables_["TUTTI_DEVICES_PER_TASK"] = "5";
  EXPECT_EQ(Resolve({})->cluster.this_task, 0);
  variables_["TUTTI_CLUSTER_FILE"] =
      WriteFile(R"({"tasks": ["localhost:4"], "devices_per_task": 6})");
  EXPECT_THAT(Resolve({})->cluster.addresses, ElementsAre("localhost:4"));
  EXPECT_EQ(Resolve({})->devices_per_task, 6);
  const auto options =
      Resolve({{"cluster", "localhost:8,localhost:9"}, {"task", "1"}});
  EXPECT_THAT(options->cluster.addresses, SizeIs(2));
  EXPECT_EQ(options->cluster.this_task, 1);
  EXPECT_EQ(options->devices_per_task, 6);
}

TEST_F(ClusterOptionsTest, SlurmsVariablesSayWhoTakesPart) {
  SetSlurm();
  const auto options = Resolve({{"insecure", "true"}, {"port", "9000"}});
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->cluster.addresses,
              ElementsAre("node1:9000", "node1:9001", "node2:9000"));
  EXPECT_EQ(options->cluster.this_task, 2);
  EXPECT_EQ(options->listen_address, "[::]:9000");
}

TEST_F(ClusterOptionsTest, WhoTakesPartMustBeSaid) {
  EXPECT_THAT(ErrorOf(Resolve({})),
              AllOf(StartsWith("wanted to know who takes part: --cluster"),
                    HasSubstr("--cluster-file"), HasSubstr("TUTTI_CLUSTER"),
                    HasSubstr("srun")));
}

TEST_F(ClusterOptionsTest, WhichTaskThisIsMustBeSaid) {
  EXPECT_THAT(ErrorOf(Resolve({{"cluster", "localhost:1,localhost:2"}})),
              AllOf(StartsWith("wanted to know which of the 2 tasks this is: "
                               "--task, TUTTI_TASK")));
}

TEST_F(ClusterOptionsTest, ATaskAloneNeedsNoNumber) {
  EXPECT_EQ(Resolve({{"cluster", "localhost:1"}})->cluster.this_task, 0);
}

TEST_F(ClusterOptionsTest, WrongAddressesAreQuoted) {
  EXPECT_EQ(ErrorWith({{"cluster", "localhost:1,localhost"}}),
            "--cluster: the address of task 1, \"localhost\", has no port; "
            "wanted is host:port");
  EXPECT_THAT(ErrorWith({{"cluster", "localhost:1,"}}),
              StartsWith("--cluster: the address of task 1, \"\", "));
  EXPECT_THAT(ErrorWith({{"cluster", "localhost:1,localhost:1"}}),
              "--cluster: tasks 0 and 1 both have the address localhost:1");
  for (const std::string host :
       {"::1", "a/b", "http://a", "[a]", "[::1", "a b", "[]", "unix:/x"}) {
    EXPECT_EQ(ErrorWith({{"cluster", host + ":1"}}),
              "--cluster: \"" + host +
                  "\" is no host: wanted is a name, an "
                  "IPv4 address, or an IPv6 address in brackets");
  }
}

TEST_F(ClusterOptionsTest, AddressesOfIPv6HaveBrackets) {
  const auto options = Resolve({{"cluster", "[::1]:1,[::1]:2"}, {"task", "0"}});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->listen_address, "[::1]:1");
}

TEST_F(ClusterOptionsTest, WrongTasksAreQuoted) {
  EXPECT_EQ(ErrorWith({{"task", "2"}}),
            "--task: there is no task 2: the 2 tasks of this cluster are 0 to "
            "1");
  for (const std::string task : {"-1", "x", "", "1.0", "65536"}) {
    EXPECT_EQ(ErrorWith({{"task", task}}),
              "--task: \"" + task + "\" is no whole number from 0 to 65535");
  }
  variables_["TUTTI_TASK"] = "x";
  EXPECT_THAT(ErrorOf(Resolve({{"cluster", "localhost:1"}})),
              StartsWith("TUTTI_TASK: \"x\" is no whole number"));
  variables_ = {{"SLURM_PROCID", "7"}};
  EXPECT_THAT(ErrorOf(Resolve({{"cluster", "localhost:1"}})),
              StartsWith("SLURM_PROCID: there is no task 7"));
}

TEST_F(ClusterOptionsTest, WrongNamesOfJobsAreQuoted) {
  EXPECT_EQ(ErrorWith({{"job", "a/b"}}),
            "--job: \"a/b\" cannot be the name of a job");
}

TEST_F(ClusterOptionsTest, WrongNumbersAreQuoted) {
  EXPECT_EQ(ErrorWith({{"devices-per-task", "0"}}),
            "--devices-per-task: \"0\" is no whole number from 1 to 32768");
  EXPECT_EQ(ErrorWith({{"start-timeout", "soon"}}),
            "--start-timeout: \"soon\" is no positive number of seconds");
  EXPECT_EQ(ErrorWith({{"detect", "slow"}}),
            "--detect: \"slow\" is neither default nor fast");
  variables_["TUTTI_INSECURE"] = "yes";
  EXPECT_EQ(ErrorWith({}), "TUTTI_INSECURE: \"yes\" is neither true nor false");
}

TEST_F(ClusterOptionsTest, WrongValuesOfFilesAreToldByTheirKeys) {
  const std::string path =
      WriteFile(R"({"tasks": ["localhost:1"], "devices_per_task": -1})");
  EXPECT_THAT(ErrorOf(Resolve({{"cluster-file", path}, {"task", "0"}})),
              StartsWith(path + ": devices_per_task: \"-1\" is no whole"));
  WriteFile(R"({"tasks": ["localhost"]})");
  EXPECT_THAT(ErrorOf(Resolve({{"cluster-file", path}, {"task", "0"}})),
              StartsWith(path + ": tasks: the address of task 0"));
}

TEST_F(ClusterOptionsTest, FilesThatCannotBeReadAreNamed) {
  const auto options = Resolve({{"cluster-file", "/nowhere.json"}});
  EXPECT_EQ(ExitStatus(options.status()), 1);
  EXPECT_THAT(std::string(options.status().message()),
              HasSubstr("/nowhere.json: cannot be read"));
}

TEST_F(ClusterOptionsTest, PortsAreForSlurm) {
  EXPECT_EQ(ErrorWith({{"port", "7000"}}),
            "--port: does not go with --cluster, whose addresses have ports");
  SetSlurm();
  EXPECT_EQ(ErrorOf(Resolve({{"port", "0"}})),
            "--port: \"0\" is no whole number from 1 to 65535");
}

TEST_F(ClusterOptionsTest, AddressesToListenAtMayBeOthers) {
  EXPECT_EQ(ResolveWith({{"bind", "127.0.0.2"}})->listen_address,
            "127.0.0.2:7001");
  EXPECT_EQ(ResolveWith({{"bind", "[::1]"}})->listen_address, "[::1]:7001");
  for (const std::string bind : {"::1", "localhost:7000", "a b"}) {
    EXPECT_EQ(ErrorWith({{"bind", bind}}),
              "--bind: \"" + bind +
                  "\" is no address such as 10.0.0.1 or "
                  "[::]; the port is that of the task");
  }
}

TEST_F(ClusterOptionsTest, OtherMachinesNeedTlsOrToBeInsecureInSoManyWords) {
  const ClusterWords flags = {{"cluster", "localhost:1,host2:2"},
                              {"task", "0"}};
  EXPECT_THAT(ErrorOf(Resolve(flags)),
              AllOf(StartsWith("the address of task 1, host2:2, can be reached "
                               "from other machines: wanted --tls-cert"),
                    HasSubstr("--insecure")));
  EXPECT_THAT(ErrorWith({{"bind", "0.0.0.0"}}),
              StartsWith("the address to listen at, 0.0.0.0:7001, can be"));
  ClusterWords insecure = flags;
  insecure["insecure"] = "true";
  EXPECT_THAT(Resolve(insecure), IsOk());
  ClusterWords tls = flags;
  tls.insert({{"tls-cert", "c"}, {"tls-key", "k"}, {"tls-ca", "a"}});
  EXPECT_THAT(Resolve(tls), IsOk());
}

TEST_F(ClusterOptionsTest, TlsNeedsAllOfItsFiles) {
  EXPECT_EQ(ErrorWith({{"tls-cert", "c"}}),
            "--tls-cert: needs --tls-key and --tls-ca as well");
  EXPECT_EQ(ErrorWith({{"tls-key", "k"}, {"tls-ca", "a"}}),
            "--tls-ca: needs --tls-cert as well");
}

TEST_F(ClusterOptionsTest, TlsIsNotInsecure) {
  EXPECT_EQ(ErrorWith({{"tls-cert", "c"},
                       {"tls-key", "k"},
                       {"tls-ca", "a"},
                       {"insecure", "true"}}),
            "--insecure does not go with --tls-cert: give one");
}

TEST(IsLoopbackTest, OnlyThisMachineCanReachIt) {
  for (const char* host :
       {"localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "[::1]"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"", "host", "127.evil.com", "10.0.0.1", "0.0.0.0",
                           "[::]", "localhost.com", "127.0.0.1.com"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST_F(ClusterOptionsTest, MpirunSaysWhoTakesPart) {
  variables_ = {{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "2"}};
  SetSlurm();
  const auto options = Resolve({{"devices-per-task", "4"}});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->transport, "MPI");
  EXPECT_EQ(options->cluster.num_tasks(), 3);
  EXPECT_EQ(options->cluster.this_task, 2);
  EXPECT_EQ(options->devices_per_task, 4);
}

TEST_F(ClusterOptionsTest, AClusterThatIsGivenGoesBeforeMpirun) {
  variables_ = {{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "2"}};
  const auto options = ResolveWith({});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->transport, "gRPC");
  EXPECT_EQ(options->cluster.this_task, 1);
}

TEST_F(ClusterOptionsTest, WhatIsOfGrpcAloneDoesNotGoWithMpirun) {
  variables_ = {{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "2"}};
  for (const char* name : {"tls-cert", "bind", "task"}) {
    EXPECT_THAT(ErrorOf(Resolve({{name, "1"}})),
                AllOf(HasSubstr(name), HasSubstr("mpirun")));
  }
}

TEST_F(ClusterOptionsTest, VariablesOfMpirunThatAreWrongAreNamed) {
  variables_ = {{"OMPI_COMM_WORLD_SIZE", "3"}};
  EXPECT_THAT(ErrorOf(Resolve({})), HasSubstr("OMPI_COMM_WORLD_RANK"));
  variables_["OMPI_COMM_WORLD_RANK"] = "3";
  EXPECT_THAT(ErrorOf(Resolve({})), StartsWith("OMPI_COMM_WORLD_RANK: "));
  variables_["OMPI_COMM_WORLD_SIZE"] = "none";
  EXPECT_THAT(ErrorOf(Resolve({})), StartsWith("OMPI_COMM_WORLD_SIZE: "));
}

TEST_F(ClusterOptionsTest, AnMpirunThatIsNotOpenMpisIsRefused) {
  const auto status = [this] { return CheckNotStartedByHydra(OwnVariables()); };
  EXPECT_THAT(status(), IsOk());
  // Set by Hydra or Slurm.
  variables_ = {{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}};
  EXPECT_THAT(status(), IsOk());
  variables_["MPI_LOCALNRANKS"] = "1";
  EXPECT_EQ(ExitStatus(status()), 2);
  EXPECT_THAT(std::string(status().message()),
              StartsWith("MPI_LOCALNRANKS is set and PMI_SIZE is 2: "));
  variables_["PMI_SIZE"] = "1";
  EXPECT_THAT(status(), IsOk());
}

}  // namespace cluster_options_test
}  // namespace tutti
