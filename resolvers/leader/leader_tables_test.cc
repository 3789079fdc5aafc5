#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "framework/base/ended_steps.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/leader/leader_requests.h"
#include "resolvers/leader/settled_groups.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace leader_tables_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(EndingCallsTest, AnErrorStaysUntilTheLastCallHasEnded) {
  const InstanceId id{7, 3};
  EndingCalls calls;
  EXPECT_EQ(calls.ErrorOf(id), "");
  calls.Begin(id, absl::AbortedError("first"));
  calls.Begin(id, absl::AbortedError("last"));
  EXPECT_EQ(calls.ErrorOf({7, 4}), "");
  calls.End(id);
  EXPECT_EQ(calls.ErrorOf(id), "last");
  calls.End(id);
  EXPECT_EQ(calls.ErrorOf(id), "");
}

ExecKey Execution(int64_t step, uint64_t number) {
  return {.step = step, .group = 7, .instance = 8, .execution = number};
}

GivenUp WordOf(const ExecKey& execution, bool is_own = false) {
  return {.execution = execution,
          .reason = absl::DeadlineExceededError("too late"),
          .is_own = is_own};
}

const absl::Status kReason = WordOf(Execution(1, 0)).reason;

TEST(GivenUpExecutionsTest, TheFirstReasonOfAnExecutionStays) {
  GivenUpExecutions given_up;
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_TRUE(given_up.Add(WordOf(Execution(1, 0))));
  EXPECT_FALSE(given_up.Add({Execution(1, 0), absl::AbortedError("later")}));
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
  EXPECT_THAT(given_up.Find(Execution(1, 1)), IsOk());
  EXPECT_THAT(given_up.Find(Execution(2, 0)), IsOk());
}

TEST(GivenUpExecutionsTest, KeepsTheNewest) {
  GivenUpExecutions given_up(/*max_entries=*/2);
  for (uint64_t i = 0; i < 3; ++i) given_up.Add(WordOf(Execution(1, i)));
  EXPECT_EQ(given_up.size(), 2u);
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_EQ(given_up.Find(Execution(1, 1)), kReason);
  EXPECT_EQ(given_up.Find(Execution(1, 2)), kReason);
}

TEST(GivenUpExecutionsTest, ForgetsAStepThatEndsAndNoOther) {
  GivenUpExecutions given_up;
  given_up.Add(WordOf(Execution(1, 0)));
  given_up.Add(WordOf(Execution(2, 0)));
  for (int i = 0; i < 2; ++i) given_up.EndStep(1);
  EXPECT_EQ(given_up.Find(Execution(1, 0)), StepHasEndedError(1));
  EXPECT_EQ(given_up.Find(Execution(2, 0)), kReason);
  EXPECT_EQ(given_up.size(), 1u);
}

TEST(GivenUpExecutionsTest, TakesNothingMoreOfAStepThatHasEnded) {
  GivenUpExecutions given_up;
  given_up.EndStep(1);
  EXPECT_FALSE(given_up.Add(WordOf(Execution(1, 0))));
  EXPECT_FALSE(given_up.Add(WordOf(Execution(1, 1), /*is_own=*/true)));
  EXPECT_EQ(given_up.Find(Execution(1, 0)), StepHasEndedError(1));
  EXPECT_EQ(given_up.size(), 0u);
}

TEST(GivenUpExecutionsTest, ListsThoseOfAGroupAndItsOwn) {
  GivenUpExecutions given_up;
  ExecKey other = Execution(1, 0);
  other.group = 70;
  EXPECT_TRUE(given_up.Add(WordOf(Execution(1, 0), /*is_own=*/true)));
  given_up.Add(WordOf(other));
  given_up.Add(WordOf(Execution(1, 1)));
  ASSERT_EQ(given_up.OfGroup(7).size(), 2u);
  EXPECT_EQ(given_up.OfGroup(7)[1].execution, Execution(1, 1));
  EXPECT_EQ(given_up.OfGroup(7)[1].reason, kReason);
  ASSERT_EQ(given_up.Own().size(), 1u);
  EXPECT_EQ(given_up.Own()[0].execution, Execution(1, 0));
}

constexpr InstanceId kFirst = {.group_key = 1, .instance_key = 1};
constexpr InstanceId kSecond = {.group_key = 1, .instance_key = 2};

LeaderRequestPtr QuestionOf(const std::string& device_name, InstanceId id) {
  return std::make_shared<LeaderRequest>(
      LeaderRequest{.id = id, .device_name = device_name});
}

LeaderRequestPtr Add(LeaderRequests& questions, const std::string& device_name,
                     InstanceId id) {
  const LeaderRequestPtr question = QuestionOf(device_name, id);
  questions.Add(question);
  return question;
}

TEST(LeaderQuestionsTest, OneDeviceMayAskForTheSameAgain) {
  LeaderRequests questions;
  const auto first = Add(questions, "cpu:0", kFirst);
  const auto other = Add(questions, "cpu:1", kFirst);
  const auto again = Add(questions, "cpu:0", kFirst);
  Add(questions, "cpu:0", kSecond);
  EXPECT_THAT(questions.OfDevice(kFirst, "cpu:0"), ElementsAre(first, again));
  questions.Remove(*first);
  EXPECT_THAT(questions.OfDevice(kFirst, "cpu:0"), ElementsAre(again));
  EXPECT_THAT(questions.OfDevice(kFirst, "cpu:1"), ElementsAre(other));
}

TEST(LeaderQuestionsTest, ContainsWhatWasAddedUntilItIsRemoved) {
  LeaderRequests questions;
  const auto question = QuestionOf("cpu:0", kFirst);
  EXPECT_FALSE(questions.Contains(*question));
  questions.Add(question);
  EXPECT_TRUE(questions.Contains(*question));
  EXPECT_EQ(questions.FindAny(kFirst), question.get());
  EXPECT_EQ(questions.FindAny(kSecond), nullptr);
  EXPECT_EQ(questions.size(), 1u);
  questions.Remove(*question);
  EXPECT_FALSE(questions.Contains(*question));
  EXPECT_EQ(questions.FindAny(kFirst), nullptr);
  EXPECT_EQ(questions.size(), 0u);
}

TEST(LeaderQuestionsTest, FindsThoseThatMatch) {
  LeaderRequests questions;
  const auto first = Add(questions, "cpu:0", kFirst);
  Add(questions, "cpu:0", kSecond);
  const auto other = Add(questions, "cpu:1", kFirst);
  EXPECT_THAT(questions.Where([](const LeaderRequest& question) {
    return question.id == kFirst;
  }),
              UnorderedElementsAre(first, other));
}

TEST(LeaderQuestionsTest, NamesEachOtherTaskThatIsAskedOnce) {
  LeaderRequests questions;
  Add(questions, "cpu:0", kFirst)->leader = 1;  // Leader is this very task.
  for (const int task : {3, 2, 3}) {
    const auto question = Add(questions, "cpu:1", kSecond);
    question->leader = task;
    question->is_polled = true;
  }
  EXPECT_THAT(questions.RequestedTasks(), ElementsAre(2, 3));
  EXPECT_THAT(LeaderRequests().RequestedTasks(), IsEmpty());
}

constexpr GroupKey kGroup = 7;

std::shared_ptr<const CollGroupParams> GenerationOf(uint64_t generation) {
  auto group = std::make_shared<CollGroupParams>();
  group->key = kGroup;
  group->generation = generation;
  return group;
}

// Adds in the wrong order, as two threads may do.
TEST(SettledGroupsTest, AnEarlierGenerationDoesNotReplaceALaterOne) {
  SettledGroups settled("/job:worker/replica:0/task:0");
  SettledGroups::GroupPtr replaced;
  const auto later = settled.Add(GenerationOf(2), &replaced);
  EXPECT_EQ(settled.Add(GenerationOf(1), &replaced), nullptr);
  EXPECT_EQ(replaced, nullptr);
  EXPECT_EQ(settled.Find(kGroup), later);
  const auto latest = settled.Add(GenerationOf(3), &replaced);
  EXPECT_EQ(replaced, later);
  EXPECT_EQ(settled.Find(kGroup), latest);
  EXPECT_EQ(settled.num_groups(), 1u);
}

TEST(SettledGroupsTest,
     AFailedGenerationIsReturnedOnceAndForgottenByALaterOne) {
  SettledGroups settled("/job:worker/replica:0/task:0");
  settled.SetFailed(kGroup, 4);
  EXPECT_EQ(settled.BeginAgain(kGroup).failed_generation, 4u);
  EXPECT_EQ(settled.BeginAgain(kGroup).failed_generation, 0u);
  EXPECT_TRUE(settled.IsFormedAgain(kGroup));
  settled.SetFailed(kGroup, 5);
  SettledGroups::GroupPtr replaced;
  settled.Add(GenerationOf(6), &replaced);
  EXPECT_FALSE(settled.IsFormedAgain(kGroup));
  EXPECT_EQ(settled.BeginAgain(kGroup).failed_generation, 0u);
}

}  // namespace leader_tables_test
}  // namespace tutti
