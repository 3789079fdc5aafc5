#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/command_line.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/cluster/cluster_file.h"
#include "tools/cluster/cluster_mode.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/gpus.h"
#include "tools/request/request_options.h"
#include "tutti/environment.h"

namespace tutti {
namespace cluster_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::string ErrorOf(const std::string& text) {
  const auto words = ParseClusterFile(text, "c.json");
  EXPECT_EQ(ExitStatus(words.status()), 2) << text;
  return std::string(words.status().message());
}

TEST(ClusterFileTest, ValuesAreThoseOfTheOptions) {
  const auto words = ParseClusterFile(
      R"({"job": "trainer", "tasks": ["a:1", "b:2"], "devices_per_task": 2,
          "start_timeout": 1.5, "insecure": true, "tls_cert": "c.pem"})",
      "c.json");
  ASSERT_THAT(words, IsOk());
  EXPECT_THAT(*words,
              UnorderedElementsAre(
                  Pair("job", "trainer"), Pair("cluster", "a:1,b:2"),
                  Pair("devices-per-task", "2"), Pair("start-timeout", "1.5"),
                  Pair("insecure", "true"), Pair("tls-cert", "c.pem")));
}

TEST(ClusterFileTest, WhatIsNotJsonIsToldWhere) {
  EXPECT_THAT(ErrorOf("{"),
              StartsWith("c.json: not JSON: parse error at line"));
  EXPECT_THAT(ErrorOf(""), StartsWith("c.json: not JSON: "));
  EXPECT_THAT(ErrorOf("\xFF"), StartsWith("c.json: not JSON: "));
}

TEST(ClusterFileTest, ErrorsAreShortWhateverTheFileHas) {
  const std::string text = "\"" + std::string(100'000, 'x') + "\"";
  EXPECT_LT(ErrorOf("{" + text + ": 1}").size(), 500);
  EXPECT_LT(ErrorOf(R"({"insecure": )" + text + "}").size(), 500);
}

TEST(ClusterFileTest, OtherJsonIsRefused) {
  EXPECT_EQ(ErrorOf("[]"),
            R"(c.json: wanted is {"tasks": ["host1:7000", ...], ...})");
}

TEST(ClusterFileTest, UnknownKeysAreToldTheKnownOnes) {
  EXPECT_THAT(ErrorOf(R"({"task": 0})"),
              StartsWith("c.json: unknown key \"task\"; known: tasks, job,"));
}

TEST(ClusterFileTest, TasksAreAListOfAddresses) {
  for (const char* tasks : {"1", "\"a:1\"", "[]", "{}", "null"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("{\"tasks\": ", tasks, "}")),
                AllOf(StartsWith("c.json: \"tasks\" is "),
                      HasSubstr("; wanted is a list of one address or more, "
                                "[\"host1")))
        << tasks;
  }
  for (const char* task : {"1", "\"\"", "\"a:1,b:2\"", "[\"a:1\"]", "null"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat(R"({"tasks": ["a:1", )", task, "]}")),
                AllOf(StartsWith("c.json: entry 1 of \"tasks\" is "),
                      HasSubstr("; wanted is an address, \"host1:7000\"")))
        << task;
  }
}

TEST(ClusterFileTest, ValuesHaveTheirTypes) {
  EXPECT_EQ(ErrorOf(R"({"job": ["x"]})"),
            "c.json: \"job\" is array; wanted is a text");
  EXPECT_EQ(ErrorOf(R"({"job": 3})"), "c.json: \"job\" is 3; wanted is a text");
  EXPECT_EQ(ErrorOf(R"({"port": null})"),
            "c.json: \"port\" is null; wanted is a number");
  EXPECT_EQ(ErrorOf(R"({"devices_per_task": "2"})"),
            "c.json: \"devices_per_task\" is \"2\"; wanted is a number");
  for (const char* insecure : {"1", "\"yes\"", "\"true\""}) {
    EXPECT_EQ(ErrorOf(absl::StrCat("{\"insecure\": ", insecure, "}")),
              absl::StrCat("c.json: \"insecure\" is ", insecure,
                           "; wanted is true or false"));
  }
}

TEST(ClusterFileTest, FilesAreRead) {
  const std::string path = ::testing::TempDir() + "/cluster.json";
  std::ofstream(path) << R"({"tasks": ["a:1"]})";
  EXPECT_THAT(*ReadClusterFile(path),
              UnorderedElementsAre(Pair("cluster", "a:1")));
}

TEST(ClusterFileTest, FilesThatCannotBeReadAreNamed) {
  EXPECT_THAT(ReadClusterFile("/nowhere.json"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nowhere.json: cannot be read")));
  EXPECT_THAT(ReadClusterFile(::testing::TempDir()).status(),
              ::testing::Not(IsOk()));
}

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
  EXPECT_THAT(
      TakeOwnCluster({{"task", "0"}}, &cluster),
      ExitsWith(
          2,
          "--task goes to the worker, before the --, not after it; launch "
          "settles it by itself"));
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
  EXPECT_THAT(
      CheckOptionsOfCluster(app_, cluster, {"--devices"}),
      ExitsWith(
          2,
          "--devices does not go with a cluster, whose number of tasks (1) "
          "and --devices-per-task (1) say how many ranks there are"));
}

TEST(ClusterModeTest, SaysWhatToInstallInThePlaceOfMpi) {
  EXPECT_THAT(FindTransport(TransportRegistry(), {.transport = "MPI"}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("install libopenmpi-dev and openmpi-bin and "
                                 "build it again, or say by --cluster who")));
}

TEST(ClusterModeTest, ListsTheTransportsInPlaceOfAnUnknownOne) {
  EXPECT_THAT(
      FindTransport(TransportRegistry::Global(), {.transport = "pigeon"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("\"pigeon\" is linked; there are: ")));
  EXPECT_THAT(FindTransport(TransportRegistry::Global(), {.transport = "gRPC"}),
              IsOk());
}

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
  EXPECT_THAT(Resolve({{"cluster-file", "/nowhere.json"}}),
              ExitsWith(1, HasSubstr("/nowhere.json: cannot be read")));
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

TEST_F(ClusterOptionsTest, SocketsThatListenMayBeInherited) {
  EXPECT_THAT(ResolveWith({})->listeners, IsEmpty());
  variables_["TUTTI_LISTENERS"] = "";
  EXPECT_THAT(ResolveWith({})->listeners, IsEmpty());
  variables_["TUTTI_LISTENERS"] = "5,17";
  EXPECT_THAT(ResolveWith({})->listeners, ElementsAre(5, 17));
  for (const std::string word : {"x", "-1", "4,"}) {
    variables_["TUTTI_LISTENERS"] = word;
    EXPECT_THAT(ErrorWith({}), HasSubstr("TUTTI_LISTENERS: \""));
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

TEST(GpusTest, ThereAreGpusOrAReason) {
  const GpuReport report = GpusHere();
  EXPECT_EQ(report.names.empty(), !report.why_none.empty());
}

TEST(GpusTest, DevicesOnGpusNeedOne) {
  const DefaultEnvironment environment(1);
  EXPECT_EQ(DeviceMakerFor("GPU", environment.get()).ok(),
            GpusHere().why_none.empty());
}

TEST(GpusTest, TheBuildSaysWhatItFoundOrWhyNot) {
  const GpuReport report = GpusHere();
  EXPECT_THAT(report.cuda, Not(IsEmpty()));
  EXPECT_THAT(report.nccl, Not(IsEmpty()));
  EXPECT_EQ(report.nccl_version.empty(), !report.why_no_nccl.empty());
}

class SharedCommandTest : public testing::Test {
 protected:
  SharedCommandTest() {
    AddCollectiveOptions(command_, &collective_);
    command_->add_option("--iterations", iterations_)
        ->transform(WholeNumber(1, 100));
    command_->add_option("--algorithm", algorithms_)
        ->delimiter(',')
        ->allow_extra_args(false);
    command_->add_flag("--check", check_);
    command_->add_flag("--json", json_);
    command_->add_option("--input", inputs_);
    command_->add_option("--output", output_);
    command_->add_option("--rules", rules_);
    AddClusterOptions(command_, &cluster_);
  }

  std::string Of(const std::string& line) {
    app_.parse(line);
    return SharedCommand(*command_);
  }

  CLI::App app_;
  CLI::App* const command_ = app_.add_subcommand("perf");
  CollectiveWords collective_;
  ClusterWords cluster_;
  int iterations_ = 0;
  std::vector<std::string> algorithms_;
  std::vector<std::string> inputs_;
  std::string output_;
  std::string rules_;
  bool check_ = false;
  bool json_ = false;
};

TEST_F(SharedCommandTest, HasTheNameAndTheCollective) {
  EXPECT_EQ(Of("perf barrier"), "perf barrier");
}

TEST_F(SharedCommandTest, TheOrderIsThatOfTheCommandNotOfTheLine) {
  const std::string wanted =
      "perf all_reduce --reduction max --iterations 5 --algorithm A,B --check";
  EXPECT_EQ(Of("perf --check --algorithm A,B --reduction max all_reduce "
               "--iterations 5"),
            wanted);
  EXPECT_EQ(Of("perf --iterations 5 all_reduce --algorithm A --algorithm B "
               "--reduction max --check"),
            wanted);
}

TEST_F(SharedCommandTest, NumbersAreWrittenOneWay) {
  EXPECT_EQ(Of("perf barrier --iterations 010"),
            "perf barrier --iterations 10");
}

TEST_F(SharedCommandTest, WhatTasksMayHaveOfTheirOwnIsLeftOut) {
  EXPECT_EQ(Of("perf barrier --cluster a:1,b:2 --task 1 --insecure "
               "--devices-per-task 2 --input a b --output c --rules d --json"),
            "perf barrier");
}

}  // namespace cluster_test
}  // namespace tutti
