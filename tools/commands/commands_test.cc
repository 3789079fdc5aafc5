#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "remote/transport_registry.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/base/named_only_testing.h"
#include "tools/base/temp_folder_testing.h"
#include "tools/commands/certs_command.h"
#include "tools/commands/info_command.h"
#include "tools/commands/launch_command.h"
#include "tools/commands/run_plan.h"
#include "tools/commands/support_table.h"
#include "tools/commands/tool.h"
#include "tutti/implementation.h"

namespace tutti {
namespace commands_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

class CertsCommandTest : public ::testing::Test {
 protected:
  CertsCommandTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directory(root_);
  }

  absl::Status Make(const CertsOptions& options) {
    return MakeCerts(options, {out_, err_});
  }

  // Whether openssl accepts the certificate for the name in `check`.
  bool IsGood(const std::string& certificate, const std::string& check) const {
    return Succeeds(
        absl::StrCat("openssl verify -x509_strict -purpose "
                     "sslserver -CAfile ",
                     certs_, "/ca.pem ", check, " ", certs_, "/", certificate));
  }

  static bool Succeeds(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }

  static std::set<std::string> NamesIn(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  static int ModeOf(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return static_cast<int>(status.st_mode & 0777U);
  }

  const std::string root_ = ::testing::TempDir() + "/certs_test";
  const std::string certs_ = root_ + "/certs";
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(CertsCommandTest, EachTaskHasACertificateOfTheAuthority) {
  ASSERT_THAT(Make({.tasks = 2, .out = certs_ + "/"}), IsOk());
  EXPECT_THAT(NamesIn(certs_),
              ElementsAre("ca.key", "ca.pem", "task-0.key", "task-0.pem",
                          "task-1.key", "task-1.pem"));
  EXPECT_THAT(NamesIn(root_), ElementsAre("certs"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname task-0"));
  EXPECT_TRUE(IsGood("task-1.pem", "-verify_hostname task-1"));
  EXPECT_FALSE(IsGood("task-1.pem", "-verify_hostname task-0"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname localhost"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_ip 127.0.0.1"));
  EXPECT_TRUE(IsGood("task-0.pem", "-purpose sslclient"));
  EXPECT_TRUE(Succeeds(absl::StrCat("openssl x509 -noout -subject -in ", certs_,
                                    "/task-1.pem | grep -q 'CN = task-1$'")));
  EXPECT_THAT(out_.str(), HasSubstr("certs/ca.pem, and task-0.pem to task-1"));
}

TEST_F(CertsCommandTest, KeysBelongToTheirCertificates) {
  ASSERT_THAT(Make({.tasks = 1, .out = certs_}), IsOk());
  EXPECT_TRUE(Succeeds(
      absl::StrCat("test \"$(openssl pkey -pubout -in ", certs_,
                   "/task-0.key)\" = \"$(openssl x509 -pubkey -noout -in ",
                   certs_, "/task-0.pem)\"")));
}

TEST_F(CertsCommandTest, OnlyTheOwnerCanReadTheKeys) {
  ASSERT_THAT(Make({.tasks = 1, .out = certs_}), IsOk());
  EXPECT_EQ(ModeOf(certs_), 0700);
  EXPECT_EQ(ModeOf(certs_ + "/ca.key"), 0600);
  EXPECT_EQ(ModeOf(certs_ + "/task-0.key"), 0600);
}

TEST_F(CertsCommandTest, HostsAreNamesOfAllTasks) {
  ASSERT_THAT(Make({.tasks = 1,
                    .out = certs_,
                    .hosts = {"h1.x", "10.0.0.7", "fe80::1"}}),
              IsOk());
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname h1.x"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_ip 10.0.0.7"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_ip fe80::1"));
  EXPECT_FALSE(IsGood("task-0.pem", "-verify_hostname h2.x"));
}

TEST_F(CertsCommandTest, WhatIsNoHostIsQuoted) {
  for (const std::string host :
       {"a b", "a\nCN = x", "a/b", "[::1]", "1:2", "DNS:x"}) {
    EXPECT_THAT(
        Make({.tasks = 1, .out = certs_, .hosts = {host}}),
        ExitsWith(2, HasSubstr("\"" + host + "\" is neither the name")));
  }
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(CertsCommandTest, AnEmptyDirectoryIsFilled) {
  std::filesystem::create_directory(certs_);
  chmod(certs_.c_str(), 0755);
  ASSERT_THAT(Make({.tasks = 1, .out = certs_}), IsOk());
  EXPECT_THAT(NamesIn(certs_),
              ElementsAre("ca.key", "ca.pem", "task-0.key", "task-0.pem"));
  EXPECT_EQ(ModeOf(certs_), 0700);
}

TEST_F(CertsCommandTest, AnEmptyDirectoryIsFilledByAnyName) {
  std::filesystem::create_directory(certs_);
  const std::string link = root_ + "/link";
  std::filesystem::create_directory_symlink("certs", link);
  EXPECT_THAT(Make({.tasks = 1, .out = link}), IsOk());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname task-0"));

  std::filesystem::remove_all(certs_);
  std::filesystem::create_directory(certs_);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(certs_);
  EXPECT_THAT(Make({.tasks = 1, .out = "."}), IsOk());
  std::filesystem::current_path(before);
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname task-0"));
}

TEST_F(CertsCommandTest, WhatIsThereStays) {
  ASSERT_THAT(Make({.tasks = 1, .out = certs_}), IsOk());
  const auto time = std::filesystem::last_write_time(certs_ + "/ca.key");
  EXPECT_THAT(Make({.tasks = 2, .out = certs_}),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       EndsWith("/certs: wanted a directory that is new or "
                                "empty")));
  EXPECT_EQ(std::filesystem::last_write_time(certs_ + "/ca.key"), time);
  std::ofstream(root_ + "/file") << "mine";
  EXPECT_THAT(Make({.tasks = 1, .out = root_ + "/file"}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("/file:")));
}

TEST_F(CertsCommandTest, DirectoriesThatCannotBeMadeAreNamed) {
  EXPECT_THAT(Make({.tasks = 1, .out = "/proc/certs"}),
              IsNotFound("/proc/certs: cannot be made"));
}

TEST_F(CertsCommandTest, AnEmptyDirectoryStaysEmptyAfterAFailure) {
  std::filesystem::create_directory(certs_);
  const FileSizeLimit full_disk(100);
  EXPECT_THAT(Make({.tasks = 1, .out = certs_}),
              ExitsWith(1, HasSubstr("/certs/ca.pem: cannot be written")));
  EXPECT_THAT(NamesIn(certs_), IsEmpty());
}

TEST_F(CertsCommandTest, ASignalLeavesNothing) {
  EXPECT_EXIT(
      {
        std::thread([this] {
          while (NamesIn(root_).empty() || NamesIn(certs_).empty()) {
            std::this_thread::yield();
          }
          kill(getpid(), SIGINT);
        }).detach();
        (void)Make({.tasks = 65536, .out = certs_});
      },
      ::testing::KilledBySignal(SIGINT), "");
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

class InfoTest : public ::testing::Test {
 protected:
  InfoTest() {
    EXPECT_THAT(registry_.Register(
                    "Rings", std::make_shared<NamedOnly>(ImplementationTraits{
                                 .summary = "round and round",
                                 .collectives = {CollectiveType::kAllReduce,
                                                 CollectiveType::kReduce},
                                 .device_types = {"CPU"},
                                 .delegate = "Library",
                                 .rank_list = RankListUse::kOwners,
                                 .supports_uneven = true})),
                IsOk());
  }

  CollectiveRegistry registry_;
};

TEST_F(InfoTest, KnowsWhatItWasBuiltWith) {
  const BuildInfo build = ThisBuild();
  EXPECT_EQ(build.version, "0.1.0");
  EXPECT_THAT(build.compiler, Not(IsEmpty()));
  EXPECT_THAT(build.simd, Not(IsEmpty()));
  EXPECT_GT(build.num_processors, 0);
  EXPECT_GT(build.memory_bytes, 0);
}

TEST_F(InfoTest, TheTextNamesEveryAlgorithmWithItsTraits) {
  const std::string text = FormatInfo({.version = "1.2.3",
                                       .compiler = "Some 4",
                                       .optimized = true,
                                       .simd = {"AVX2", "SSE4"},
                                       .num_processors = 2,
                                       .missing_extensions = {"MPI"},
                                       .gpus = {.cuda = "13.0 in /cuda",
                                                .nccl = "2.1 in /nccl",
                                                .why_no_nccl = "not here",
                                                .why_none = "no driver"}},
                                      registry_);
  EXPECT_THAT(text, HasSubstr("tutti 1.2.3\n"));
  EXPECT_THAT(text, HasSubstr("compiler      Some 4\n"));
  EXPECT_THAT(text, HasSubstr("SIMD          AVX2, SSE4\n"));
  EXPECT_THAT(text, HasSubstr("sanitizer     none\n"));
  EXPECT_THAT(text, HasSubstr("MPI           not built in\n"));
  EXPECT_THAT(text,
              HasSubstr("GPUs          none: no driver; CUDA: 13.0 in /cuda; "
                        "NCCL: 2.1 in /nccl; its library: not here\n"));
  EXPECT_THAT(text, HasSubstr("\nRings  round and round\n"));
  EXPECT_THAT(text, HasSubstr("\nRings  all_reduce,reduce  CPU      Library "));
}

// Registers an implementation that runs when it is named.
void AddNamedOnly(CollectiveRegistry& registry, const std::string& name,
                  ImplementationTraits traits) {
  EXPECT_THAT(
      registry.Register(name, std::make_shared<NamedOnly>(std::move(traits))),
      IsOk());
}

TEST(SupportTableTest, ShowsTheDTypesOfEveryPlace) {
  CollectiveRegistry registry;
  AddNamedOnly(
      registry, "Passes",
      {.collectives = {CollectiveType::kAllReduce, CollectiveType::kAllGather},
       .device_types = {"CPU"},
       .needs_one_process = true,
       .reduces_at_once = true});
  AddNamedOnly(
      registry, "Steps",
      {.collectives = {CollectiveType::kAllGather}, .is_made_of_steps = true});
  AddNamedOnly(
      registry, "Library",
      {.collectives = {CollectiveType::kAllReduce},
       .device_types = {"GPU"},
       .delegate = "Tubes",
       .why_not_ops = [](DType dtype, const MergeOp& merge_op, const FinalOp&) {
         const bool serves = dtype == DType::kInt8 && !merge_op.is_custom() &&
                             merge_op.kind() == ReductionKind::kBxor;
         return std::string(serves ? "" : "does not");
       }});
  AddNamedOnly(registry, "In host memory",
               {.collectives = {CollectiveType::kBroadcast}});
  const SupportTable table = SupportOf(registry, {"Tubes", "Wires"});
  EXPECT_THAT(
      std::regex_replace(FormatSupport(table), std::regex(" {2,}"), "|"),
      AllOf(StartsWith("dtypes of|CPU, one process|CPU, Tubes|CPU, Wires|"
                       "GPU, one process|GPU, Tubes|GPU, Wires\n"
                       "all_reduce avg,sum,prod|all but bool|none|none|none|"
                       "none|none\n"
                       "all_reduce min,max|all but complex|none|none|none|none|"
                       "none\n"
                       "all_reduce band,bor|integers, bool|none|none|none|none|"
                       "none\n"
                       "all_reduce bxor|integers, bool|none|none|none|int8|"
                       "none\n"
                       "all_gather|all|all|all|all|all|all\n"),
            HasSubstr("\nbroadcast|all|all|all|none|none|none\n"),
            HasSubstr("\nbarrier|none|none|none|none|none|none\n")));
  const Json json = SupportAsJson(table);
  EXPECT_EQ(json[3]["collective"], "all_reduce");
  EXPECT_EQ(json[3]["reductions"].dump(), R"(["bxor"])");
  EXPECT_EQ(json[3]["places"][4].dump(),
            R"({"device_type":"GPU","transport":"Tubes","dtypes":["int8"]})");
  EXPECT_TRUE(json[4]["places"][0]["transport"].is_null());
}

TEST(SupportTableTest, EveryCollectiveOfThisBuildRunsOnCpusEverywhere) {
  const auto json =
      InfoAsJson(ThisBuild(), CollectiveRegistry::Global())["support"];
  std::set<std::string> collectives;
  for (const auto& row : json) {
    collectives.insert(row["collective"]);
    for (const auto& place : row["places"]) {
      EXPECT_GT(place["dtypes"].size(), 0u) << row["collective"] << place;
      if (!row["reductions"].empty()) continue;
      EXPECT_EQ(place["dtypes"].size(), kAllDTypes.size())
          << row["collective"] << place;
    }
  }
  EXPECT_EQ(collectives.size(), kAllCollectiveTypes.size());
}

TEST_F(InfoTest, TheTextShowsWhatRunsWhere) {
  EXPECT_THAT(FormatInfo({}, registry_),
              ContainsRegex("\ndtypes of +CPU, one process\nall_reduce "));
}

TEST_F(InfoTest, GpusAreCountedAndNamed) {
  const BuildInfo build = {
      .gpus = {.nccl_version = "2.1.3", .names = {"Some GPU", "Other GPU"}}};
  EXPECT_THAT(FormatInfo(build, registry_),
              HasSubstr("GPUs          2: Some GPU, Other GPU; CUDA: "));
  const auto json = InfoAsJson(build, registry_);
  EXPECT_EQ(json["gpus"].dump(),
            R"({"names":["Some GPU","Other GPU"],"why_none":null,"cuda":"",)"
            R"("nccl":"","nccl_version":"2.1.3","why_no_nccl":null,)"
            R"("why_nccl_within_process":null})");
}

TEST_F(InfoTest, SaysWhereNcclServesOneProcessAlone) {
  const BuildInfo build = {.gpus = {.nccl_version = "2.1.3",
                                    .why_nccl_within_process = "it is old"}};
  EXPECT_THAT(FormatInfo(build, registry_),
              HasSubstr("its library: 2.1.3, for groups of one process alone: "
                        "it is old\n"));
  EXPECT_EQ(InfoAsJson(build, registry_)["gpus"]["why_nccl_within_process"],
            "it is old");
}

TEST_F(InfoTest, SaysWhetherMpiTakesMemoryOfGpus) {
  BuildInfo build = {.extensions = {"gRPC", "MPI"}};
  EXPECT_THAT(FormatInfo(build, registry_),
              HasSubstr("gRPC          built in\n"
                        "MPI           built in, not CUDA-aware\n"));
  EXPECT_EQ(InfoAsJson(build, registry_)["build"]["cuda_aware_mpi"], false);
  build.has_cuda_aware_mpi = true;
  EXPECT_THAT(FormatInfo(build, registry_),
              HasSubstr("MPI           built in, CUDA-aware\n"));
  EXPECT_EQ(InfoAsJson(build, registry_)["build"]["cuda_aware_mpi"], true);
}

TEST_F(InfoTest, CudaAndNcclAreBuiltInOrMissing) {
  const BuildInfo build = ThisBuild();
  EXPECT_THAT(build.gpus.has_cuda ? build.extensions : build.missing_extensions,
              Contains("CUDA"));
  EXPECT_THAT(build.gpus.has_nccl ? build.extensions : build.missing_extensions,
              Contains("NCCL"));
}

TEST_F(InfoTest, ListsWhatCannotRunHereWithTheReason) {
  const BuildInfo build = {.gpus = {.why_none = "no driver"}};
  EXPECT_THAT(FormatInfo(build, registry_), Not(HasSubstr("not here")));
  EXPECT_THAT(registry_.Register(
                  "Kernels", std::make_shared<NamedOnly>(ImplementationTraits{
                                 .collectives = {CollectiveType::kReduce},
                                 .device_types = {"GPU"},
                                 .device_needs = {.library = "NCCL"}})),
              IsOk());
  EXPECT_THAT(FormatInfo(build, registry_),
              AllOf(ContainsRegex("\nKernels +reduce +GPU +NCCL "),
                    EndsWith("\nnot here  reason\n"
                             "Kernels   needs a GPU: no driver\n")));
  EXPECT_EQ(InfoAsJson(build, registry_)["algorithms"][0]["why_not_here"],
            "needs a GPU: no driver");
}

TEST_F(InfoTest, ListsWhatTheBackendsOfTheBuildBring) {
  const BuildInfo build = ThisBuild();
  const CollectiveRegistry& registry = CollectiveRegistry::Global();
  EXPECT_EQ(registry.Find("GpuLocalReduce").ok(), build.gpus.has_cuda);
  EXPECT_EQ(registry.Find("NcclReduce").ok(), build.gpus.has_nccl);
  EXPECT_EQ(registry.Find("MpiReduce").ok(),
            TransportRegistry::Global().Find("MPI").ok());
}

TEST_F(InfoTest, TheJsonHasTheSame) {
  const auto json = InfoAsJson(ThisBuild(), registry_);
  EXPECT_EQ(json["version"], "0.1.0");
  EXPECT_EQ(json["device_types"].dump(), R"(["CPU"])");
  ASSERT_EQ(json["algorithms"].size(), 1u);
  EXPECT_EQ(json["algorithms"][0].dump(),
            R"({"name":"Rings","summary":"round and round",)"
            R"("collectives":["all_reduce","reduce"],"device_types":["CPU"],)"
            R"("is_schedule":false,"chosen_by_cost":false,)"
            R"("needs_one_process":false,)"
            R"("preserves_rank_order":false,"supports_subdivisions":false,)"
            R"("supports_uneven":true,"shares_output":false,)"
            R"("takes_segments":false,)"
            R"("rank_list":"owners","delegate":"Library",)"
            R"("delegates_between_processes":false,)"
            R"("determinism":"fixed layout","why_not_here":null})");
}

// Replaces the tool by a script, which gets the words
//   worker --cluster ADDRESSES --task I ... -- WORDS
class LaunchTest : public ::testing::Test {
 protected:
  absl::Status Run(const std::string& script, LaunchOptions options) {
    const std::string file = ::testing::TempDir() + "/launched.sh";
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    chmod(file.c_str(), 0700);
    options.grace = absl::InfiniteDuration();
    return Launch(options, file, {out_, err_});
  }

  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(LaunchTest, TasksKnowTheClusterAndTheCommand) {
  EXPECT_THAT(Run("echo \"$#:$*\"; test $5 = 0",
                  {.tasks = 1,
                   .cluster = {{"devices-per-task", "2"}},
                   .words = {"perf", "a b", "[1,2]"}}),
              IsOk());
  EXPECT_THAT(out_.str(),
              MatchesRegex("11:worker --cluster 127\\.0\\.0\\.1:[0-9]+ --task "
                           "0 --devices-per-task 2 -- perf a b \\[1,2\\]\n"));
}

TEST_F(LaunchTest, EachTaskHasItsNumber) {
  EXPECT_THAT(Run("echo task $5", {.tasks = 3, .words = {"perf"}}), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("task 0\n"));
  EXPECT_THAT(out_.str(), HasSubstr("[1] task 1\n"));
  EXPECT_THAT(out_.str(), HasSubstr("[2] task 2\n"));
  EXPECT_THAT(err_.str(), IsEmpty());
}

TEST_F(LaunchTest, TasksAreStoppedWhenNobodyCanHaveWhatTheyPrint) {
  out_.setstate(std::ios::badbit);
  EXPECT_THAT(Run("echo; exec sleep 1000", {.tasks = 2, .words = {"perf"}}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("written")));
}

TEST_F(LaunchTest, ATokenIsInTheEnvironmentAndInNoArgument) {
  setenv("TUTTI_TOKEN", "old", 1);
  const std::string script =
      "case \"$*\" in *$TUTTI_TOKEN*) exit 1;; esac; echo $TUTTI_TOKEN";
  EXPECT_THAT(Run(script, {.tasks = 1, .words = {"perf"}}), IsOk());
  const std::string first = out_.str();
  EXPECT_THAT(first, MatchesRegex("[0-9a-f]+\n"));
  EXPECT_EQ(first.size(), 33);
  out_.str("");
  EXPECT_THAT(Run(script, {.tasks = 1, .words = {"perf"}}), IsOk());
  EXPECT_NE(out_.str(), first);
}

// The first descriptor of a task is the socket that listens at its address. It
// has the sockets of no other task.
TEST_F(LaunchTest, TasksInheritSocketsThatListenAtTheirAddresses) {
  setenv("TUTTI_LISTENERS", "99", 1);
  const std::string script = R"(
      address=$(echo $3 | cut -d, -f$(($5 + 1)))
      port=$(printf %04X ${address##*:})
      socket=$(readlink /proc/$$/fd/${TUTTI_LISTENERS%%,*} | tr -dc 0-9)
      grep -q ": 0100007F:$port 00000000:0000 0A .* $socket " /proc/net/tcp &&
          echo $(echo $TUTTI_LISTENERS | tr , '\n' | wc -l) listeners, \
               $(ls -l /proc/$$/fd | grep -c socket:) sockets)";
  EXPECT_THAT(Run(script, {.tasks = 3, .words = {"perf"}}), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("2 listeners, 2 sockets\n"));
  EXPECT_THAT(out_.str(), HasSubstr("[1] 2 listeners, 2 sockets\n"));
  EXPECT_THAT(out_.str(), HasSubstr("[2] 2 listeners, 2 sockets\n"));
}

TEST_F(LaunchTest, OtherClustersOfTheEnvironmentAreNotTheirs) {
  setenv("TUTTI_CLUSTER_FILE", "other.json", 1);
  setenv("TUTTI_BIND", "0.0.0.0", 1);
  setenv("TUTTI_PORT", "1", 1);
  EXPECT_THAT(Run("test -z \"$TUTTI_CLUSTER_FILE$TUTTI_BIND$TUTTI_PORT\"",
                  {.tasks = 1, .words = {"perf"}}),
              IsOk());
}

TEST_F(LaunchTest, TheFirstErrorAndItsStatusAreThoseOfTheWhole) {
  EXPECT_THAT(
      Run("test $5 = 1 || exec sleep 1000; echo 'tutti: bad input' >&2; exit 3",
          {.tasks = 3, .words = {"perf"}}),
      ExitsWith(3, "task 1 failed with exit status 3: bad input"));
  EXPECT_EQ(err_.str(), "[1] tutti: bad input\n");
}

TEST_F(LaunchTest, ASilentFailureIsOneToo) {
  const absl::Status status = Run("exit 2", {.tasks = 1, .words = {"perf"}});
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_FALSE(IsUsageError(status));
  EXPECT_EQ(status.message(), "task 0 failed with exit status 2");
}

TEST_F(LaunchTest, ASignalThatKilledATaskIsSaidInWords) {
  const absl::Status status =
      Run("kill -KILL $$", {.tasks = 1, .words = {"perf"}});
  EXPECT_EQ(ExitStatus(status), 128 + SIGKILL);
  EXPECT_EQ(status.message(), "task 0 was killed by signal 9 (Killed)");
}

TEST_F(LaunchTest, SignalsGoToAllTasksAndThenEndTheProcess) {
  EXPECT_EXIT((void)Run("test $5 = 0 && kill -TERM $PPID; exec sleep 1000",
                        {.tasks = 3, .words = {"perf"}}),
              ::testing::KilledBySignal(SIGTERM), "");
}

TEST_F(LaunchTest, AProgramThatCannotRunIsNamed) {
  EXPECT_THAT(
      Launch({.tasks = 2, .words = {"perf"}}, "/nowhere/tutti", {out_, err_}),
      ExitsWith(1, HasSubstr("cannot run /nowhere/tutti")));
}

NpyHeader Floats(const std::vector<int64_t>& dims) {
  return {DType::kFloat32, *TensorShape::Create(dims)};
}

std::vector<InputFile> Files(const std::vector<NpyHeader>& headers) {
  std::vector<InputFile> files;
  for (const NpyHeader& header : headers) {
    files.push_back({absl::StrCat("rank", files.size(), ".npy"), header});
  }
  return files;
}

std::vector<InputFile> Alike(int count) {
  return Files(std::vector<NpyHeader>(count, Floats({4, 3})));
}

std::string ErrorOf(const RunSettings& settings,
                    const std::vector<InputFile>& files, int exit_status) {
  const auto plan = PlanRun(settings, files);
  EXPECT_EQ(ExitStatus(plan.status()), exit_status) << plan.status();
  return std::string(plan.status().message());
}

TEST(RunPlanTest, EveryRankReducesItsFile) {
  const auto plan =
      PlanRun({.spec = {.type = CollectiveType::kAllReduce, .reduction = "sum"},
               .algorithm = "RingReduce",
               .determinism = Determinism::kFixedLayout},
              Alike(4));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->description, "all_reduce sum float32[4,3] on 4 ranks");
  ASSERT_EQ(plan->ranks.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    const PlannedRank& planned = plan->ranks[rank];
    EXPECT_EQ(planned.input, rank);
    EXPECT_TRUE(planned.has_output);
    EXPECT_EQ(planned.request.rank, rank);
    EXPECT_EQ(planned.request.group_size, 4);
    EXPECT_EQ(planned.request.shape.ToString(), "[4,3]");
    EXPECT_EQ(planned.request.impl_details.implementation, "RingReduce");
    EXPECT_EQ(planned.request.impl_details.determinism,
              Determinism::kFixedLayout);
  }
}

TEST(RunPlanTest, GroupsAreConsecutiveAndApart) {
  const auto plan = PlanRun(
      {.spec = {.type = CollectiveType::kReduce, .reduction = "sum", .root = 1},
       .groups = 2},
      Files({Floats({2}), Floats({2}), Floats({5}), Floats({5})}));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->description,
            "reduce sum to rank 1 float32[2], float32[5] on 2 groups of 2 "
            "ranks");
  for (int i = 0; i < 4; ++i) {
    const PlannedRank& planned = plan->ranks[i];
    EXPECT_EQ(planned.input, i);
    EXPECT_EQ(planned.request.group_key, i / 2);
    EXPECT_EQ(planned.request.rank, i % 2);
    EXPECT_EQ(planned.has_output, i % 2 == 1);
  }
}

TEST(RunPlanTest, OnlyTheRootOfABroadcastNeedsItsFile) {
  const auto plan =
      PlanRun({.spec = {.type = CollectiveType::kBroadcast, .root = 1},
               .groups = 2,
               .devices = 6},
              Files({Floats({2}), Floats({5})}));
  ASSERT_THAT(plan, IsOk());
  for (int i = 0; i < 6; ++i) {
    const PlannedRank& planned = plan->ranks[i];
    EXPECT_EQ(planned.input.has_value(), i % 3 == 1);
    EXPECT_EQ(planned.request.shape.ToString(), i < 3 ? "[2]" : "[5]");
  }
  EXPECT_EQ(plan->ranks[1].input, 0);
  EXPECT_EQ(plan->ranks[4].input, 1);
}

TEST(RunPlanTest, OfOneFilePerRankABroadcastReadsTheRoots) {
  const auto plan = PlanRun(
      {.spec = {.type = CollectiveType::kBroadcast, .root = 2}}, Alike(3));
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->ranks[0].input.has_value());
  EXPECT_FALSE(plan->ranks[1].input.has_value());
  EXPECT_EQ(plan->ranks[2].input, 2);
}

TEST(RunPlanTest, ABarrierTakesDevicesAndNoFiles) {
  const RunSettings settings = {.spec = {.type = CollectiveType::kBarrier},
                                .devices = 8};
  const auto plan = PlanRun(settings, {});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->description, "barrier on 8 ranks");
  EXPECT_EQ(plan->ranks.size(), 8u);
  EXPECT_FALSE(plan->ranks[0].input.has_value());
  EXPECT_FALSE(plan->ranks[0].has_output);
  EXPECT_THAT(ErrorOf(settings, Alike(8), 2), HasSubstr("no --input"));
  EXPECT_THAT(ErrorOf({.spec = settings.spec}, {}, 2), HasSubstr("--devices"));
}

TEST(RunPlanTest, DifferentShapesNameBothFilesAndBothShapes) {
  EXPECT_THAT(ErrorOf({.spec = {.type = CollectiveType::kAllReduce}},
                      Files({Floats({3}), Floats({3}), Floats({4})}), 1),
              AllOf(HasSubstr("rank0.npy holds float32[3]"),
                    HasSubstr("rank2.npy holds float32[4]")));
}

TEST(RunPlanTest, DifferentDTypesNameBothFilesAndBothDTypes) {
  for (CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kAllGather,
        CollectiveType::kBroadcast, CollectiveType::kGather}) {
    EXPECT_THAT(
        ErrorOf({.spec = {.type = type}},
                Files({Floats({3}), {DType::kInt8, *TensorShape::Create({3})}}),
                1),
        AllOf(HasSubstr("rank0.npy holds float32[3]"),
              HasSubstr("rank1.npy holds int8[3]")));
  }
}

TEST(RunPlanTest, AnAllGatherMayDifferInTheFirstDimensionAlone) {
  const RunSettings settings = {.spec = {.type = CollectiveType::kAllGather}};
  const auto plan = PlanRun(settings, Files({Floats({3, 2}), Floats({0, 2})}));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->ranks[0].request.op, CollectiveOp(AllGather{.uneven = true}));
  EXPECT_EQ(plan->ranks[1].request.shape.ToString(), "[0,2]");
  ErrorOf(settings, Files({Floats({3, 2}), Floats({3, 3})}), 1);
  ErrorOf(settings, Files({Floats({3, 2}), Floats({3})}), 1);
  ErrorOf(settings, Files({Floats({}), Floats({1})}), 1);
}

TEST(RunPlanTest, AGatherMayDifferInTheFirstDimensionAlone) {
  const RunSettings settings = {
      .spec = {.type = CollectiveType::kGather, .root = 1}};
  const auto plan = PlanRun(settings, Files({Floats({3, 2}), Floats({0, 2})}));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->ranks[0].request.op,
            CollectiveOp(GatherToRoot{.root = 1, .uneven = true}));
  ErrorOf(settings, Files({Floats({3, 2}), Floats({3, 3})}), 1);
}

TEST(RunPlanTest, AScatterIsUnevenIfAskedFor) {
  const std::vector<InputFile> files = Files({Floats({3, 2}), Floats({3, 2})});
  RunSettings settings = {.spec = {.type = CollectiveType::kReduceScatter}};
  EXPECT_THAT(ErrorOf(settings, files, 1), HasSubstr("not divisible"));
  settings.uneven = true;
  const auto plan = PlanRun(settings, files);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->ranks[1].request.op,
            CollectiveOp(ReduceScatter{.uneven = true}));
}

TEST(RunPlanTest, AnEvenAllGatherIsNotCalledUneven) {
  const auto plan =
      PlanRun({.spec = {.type = CollectiveType::kAllGather}}, Alike(2));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->ranks[0].request.op, CollectiveOp(AllGather{}));
}

TEST(RunPlanTest, RankListsMustFitTheGroups) {
  const RunSettings settings = {.spec = {.type = CollectiveType::kAllReduce},
                                .groups = 2,
                                .rank_list = {0, 2}};
  EXPECT_EQ(ErrorOf(settings, Alike(4), 2),
            "--rank-list: [0,2] does not list ranks of a group of 2: 2 is no "
            "rank");
  EXPECT_THAT(PlanRun(settings, Alike(6)), IsOk());
}

TEST(RunPlanTest, TheRanksOfAClusterMustFitTheFiles) {
  const auto error = [](int tasks, int devices, int files) {
    return ErrorOf({.spec = {.type = CollectiveType::kAllReduce},
                    .devices = tasks * devices,
                    .tasks_of_cluster = tasks},
                   Alike(files), 2);
  };
  EXPECT_THAT(error(3, 1, 4),
              StartsWith("3 tasks with 1 device each are 3 ranks, but there "
                         "are 4 input files; wanted one file per rank"));
  EXPECT_THAT(error(1, 2, 1), StartsWith("1 task with 2 devices has 2 ranks, "
                                         "but there is 1 input file;"));
}

TEST(RunPlanTest, WhatTheLibraryRefusesIsRefusedBeforeAnythingRuns) {
  EXPECT_THAT(ErrorOf({.spec = {.type = CollectiveType::kReduceScatter}},
                      Files({Floats({3}), Floats({3})}), 1),
              "rank0.npy holds float32[3]; reduce_scatter: the first dimension "
              "of [3] is not divisible by the group size 2");
  EXPECT_THAT(ErrorOf({.spec = {.type = CollectiveType::kAllReduce,
                                .merge_op = ReductionKind::kBand}},
                      Alike(2), 1),
              HasSubstr("band"));
  ErrorOf({.spec = {.type = CollectiveType::kReduce, .root = 2}}, Alike(2), 2);
}

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

const ImplementationTraits kOnGpus = {.device_types = {"GPU"}};
const ImplementationTraits kByNccl = {.device_types = {"GPU"},
                                      .device_needs = {.library = "NCCL"}};
const ImplementationTraits kByMpi = {.device_types = {"CPU"},
                                     .delegate = "MPI"};

BuildInfo WithGpu() { return {.gpus = {.names = {"Some GPU"}}}; }

TEST(WhyNotHereTest, CpuDevicesAreEverywhere) {
  EXPECT_EQ(WhyNotHere({}, {}), "");
  EXPECT_EQ(WhyNotHere({.device_types = {"CPU"}}, {}), "");
  EXPECT_EQ(WhyNotHere({.device_types = {"CPU", "GPU"}}, {}), "");
}

TEST(WhyNotHereTest, GpusAreNeededWithTheReasonForTheirAbsence) {
  const BuildInfo build = {.gpus = {.why_none = "no driver"}};
  EXPECT_EQ(WhyNotHere(kOnGpus, build), "needs a GPU: no driver");
  EXPECT_EQ(WhyNotHere(kByNccl, build), "needs a GPU: no driver");
  EXPECT_EQ(WhyNotHere(kOnGpus, WithGpu()), "");
}

TEST(WhyNotHereTest, NcclIsNeededWithTheReasonForItsAbsence) {
  BuildInfo build = WithGpu();
  EXPECT_EQ(WhyNotHere(kByNccl, build), "");
  build.gpus.why_no_nccl = "not installed";
  EXPECT_EQ(WhyNotHere(kByNccl, build), "needs NCCL: not installed");
  EXPECT_EQ(WhyNotHere(kOnGpus, build), "");
}

TEST(WhyNotHereTest, MpiNeedsMpirun) {
  EXPECT_EQ(WhyNotHere(kByMpi, {}),
            "needs processes of mpirun, which has not started this one");
  EXPECT_EQ(WhyNotHere(kByMpi, {.is_started_by_mpirun = true}), "");
}

TEST(WhyNotHereTest, APartThatIsNotLinkedComesFirst) {
  const ImplementationTraits traits = {
      .device_types = {"GPU"},
      .check_parts = [] { return absl::NotFoundError("no Other"); }};
  EXPECT_EQ(WhyNotHere(traits, {}), "cannot be made of its parts: no Other");
}

}  // namespace commands_test
}  // namespace tutti
