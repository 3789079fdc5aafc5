#include "resolvers/leader/leader_questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tutti/collective.h"

namespace tutti {
namespace leader_questions_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr InstanceId kFirst = {.group_key = 1, .instance_key = 1};
constexpr InstanceId kSecond = {.group_key = 1, .instance_key = 2};

LeaderQuestionPtr QuestionOf(const std::string& device_name, InstanceId id) {
  return std::make_shared<LeaderQuestion>(
      LeaderQuestion{.id = id, .device_name = device_name});
}

LeaderQuestionPtr Add(LeaderQuestions& questions,
                      const std::string& device_name, InstanceId id) {
  const LeaderQuestionPtr question = QuestionOf(device_name, id);
  questions.Add(question);
  return question;
}

TEST(LeaderQuestionsTest, OneDeviceMayAskForTheSameAgain) {
  LeaderQuestions questions;
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
  LeaderQuestions questions;
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
  LeaderQuestions questions;
  const auto first = Add(questions, "cpu:0", kFirst);
  Add(questions, "cpu:0", kSecond);
  const auto other = Add(questions, "cpu:1", kFirst);
  EXPECT_THAT(questions.Where([](const LeaderQuestion& question) {
    return question.id == kFirst;
  }),
              UnorderedElementsAre(first, other));
}

TEST(LeaderQuestionsTest, NamesEachOtherTaskThatIsAskedOnce) {
  LeaderQuestions questions;
  Add(questions, "cpu:0", kFirst)->leader = 1;  // Leader is this very task.
  for (const int task : {3, 2, 3}) {
    const auto question = Add(questions, "cpu:1", kSecond);
    question->leader = task;
    question->is_polled = true;
  }
  EXPECT_THAT(questions.AskedTasks(), ElementsAre(2, 3));
  EXPECT_THAT(LeaderQuestions().AskedTasks(), IsEmpty());
}

}  // namespace leader_questions_test
}  // namespace tutti
