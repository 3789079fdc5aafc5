// `tutti tune` among the tasks of a cluster, which are threads here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tools/cluster/party.h"
#include "tools/commands/collective_commands.h"
#include "tools/request/wrong_algorithms_testing.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/selection.h"

namespace tutti {
namespace tune_between_test {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

REGISTER_COLLECTIVE(Refuser, RefusingAllReduce());
REGISTER_COLLECTIVE(Lopsided, LopsidedBroadcast());

class TuneBetweenTest : public testing::Test {
 protected:
  struct Task {
    TuneOptions options;
    std::ostringstream out;
    std::ostringstream err;
    absl::Status status;
  };

  TuneBetweenTest() {
    for (int i = 0; i < 2; ++i) {
      TuneOptions& options = tasks_[i].options;
      options.collectives = {"all_reduce", "broadcast"};
      options.layouts = {"2x1"};
      options.sweep.max_bytes = "32";
      options.rounds = 1;
      options.iterations = 1;
      options.output = absl::StrCat(testing::TempDir(), "/task", i, ".json");
      options.cluster = {
          .cluster = {.addresses = {"a:1", "b:1"}, .this_task = i}};
      std::filesystem::remove(options.output);
    }
  }

  // Runs `tutti tune` on both tasks until it ends.
  void Tune() {
    auto runtimes = JoinedGrpcTasks(2, environment_.get());
    ASSERT_THAT(runtimes, IsOk());
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        Task& task = tasks_[i];
        task.status = TuneRules(task.options, environment_.get(),
                                PartyOf(&(*runtimes)[i]), {task.out, task.err});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  absl::StatusOr<std::shared_ptr<const SelectionRules>> Rules() const {
    return ReadRulesFile(tasks_[0].options.output,
                         CollectiveRegistry::Global());
  }

  void ExpectNoFiles() const {
    for (const Task& task : tasks_) {
      EXPECT_FALSE(std::filesystem::exists(task.options.output));
    }
  }

  std::array<Task, 2> tasks_;

 private:
  PartyFactory PartyOf(std::unique_ptr<ClusterRuntime>* runtime) const {
    return [this, runtime](int num_ranks, int num_tasks) {
      EXPECT_EQ(num_ranks, 2);
      EXPECT_EQ(num_tasks, 2);
      return MakeClusterParty(environment_.get(), std::move(*runtime), "tune");
    };
  }

  const DefaultEnvironment environment_{2};
};

TEST_F(TuneBetweenTest, RulesAreForSeveralProcesses) {
  Tune();
  for (const Task& task : tasks_) EXPECT_THAT(task.status, IsOk());
  const auto rules = Rules();
  ASSERT_THAT(rules, IsOk());
  ASSERT_THAT((*rules)->rules, Not(IsEmpty()));
  for (const SelectionRule& rule : (*rules)->rules) {
    EXPECT_EQ(rule.layout, "2x1");
    EXPECT_EQ(rule.one_process, false);
    // Needs all members in one process.
    EXPECT_THAT(rule.implementation,
                Not(AnyOf("LocalReduce", "LocalBroadcast")));
  }
  EXPECT_FALSE((*rules)->past_caches_from_bytes.has_value());
}

TEST_F(TuneBetweenTest, OneTaskPrintsAndWrites) {
  Tune();
  EXPECT_THAT(tasks_[0].out.str(),
              AllOf(HasSubstr("model: chosen algorithm within 10 %"),
                    HasSubstr(" of 4 points"), Not(HasSubstr("past the"))));
  EXPECT_TRUE(std::filesystem::exists(tasks_[0].options.output));
  EXPECT_EQ(tasks_[1].out.str(), "");
  EXPECT_EQ(tasks_[1].err.str(), "");
  EXPECT_FALSE(std::filesystem::exists(tasks_[1].options.output));
}

TEST_F(TuneBetweenTest, OneTasksFileThatCannotBeWrittenEndsAll) {
  tasks_[0].options.output = "/dev/null/rules.json";
  Tune();
  EXPECT_THAT(std::string(tasks_[0].status.message()),
              testing::StartsWith("/dev/null: "));
  EXPECT_THAT(std::string(tasks_[1].status.message()),
              ContainsRegex("^task 0 .127.0.0.1:[0-9]+.: /dev/null: "));
  EXPECT_EQ(tasks_[0].out.str(), "");
  ExpectNoFiles();
}

TEST_F(TuneBetweenTest, WhatAnotherTaskCouldNotWriteIsNoMatter) {
  tasks_[1].options.output = "/dev/null/rules.json";
  Tune();
  for (const Task& task : tasks_) EXPECT_THAT(task.status, IsOk());
}

TEST_F(TuneBetweenTest, WhatRefusesIsLeftOutOnAllTasksWithALineOfOne) {
  Tune();
  for (const Task& task : tasks_) ASSERT_THAT(task.status, IsOk());
  EXPECT_THAT(
      tasks_[0].err.str(),
      AllOf(HasSubstr("tutti: skipped Refuser for all_reduce sum of 4 bytes on "
                      "2x1: "),
            HasSubstr("not today"),
            // Task 0 learns of the refusal in the collective, or afterwards.
            ContainsRegex("tutti: skipped Lopsided for broadcast from rank 0 "
                          "of 32 bytes on 2x1: (task 1 .*: )?not rank 1\n")));
  const auto rules = Rules();
  ASSERT_THAT(rules, IsOk());
  for (const SelectionRule& rule : (*rules)->rules) {
    EXPECT_THAT(rule.implementation, Not(AnyOf("Refuser", "Lopsided")));
  }
}

TEST_F(TuneBetweenTest, ADeadlineEndsAllAndNothingIsWritten) {
  for (Task& task : tasks_) task.options.deadline_seconds = 1e-9;
  Tune();
  for (const Task& task : tasks_) {
    EXPECT_THAT(
        task.status,
        StatusIs(absl::StatusCode::kDeadlineExceeded,
                 testing::StartsWith("all_reduce sum of 4 bytes on 2x1, ")));
  }
  ExpectNoFiles();
}

}  // namespace tune_between_test
}  // namespace tutti
