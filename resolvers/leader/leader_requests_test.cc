#include "resolvers/leader/leader_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tutti/collective.h"

namespace tutti {
namespace leader_requests_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

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
  EXPECT_THAT(questions.AskedTasks(), ElementsAre(2, 3));
  EXPECT_THAT(LeaderRequests().AskedTasks(), IsEmpty());
}

}  // namespace leader_requests_test
}  // namespace tutti
