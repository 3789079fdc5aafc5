#include "resolvers/leader/leader_questions.h"

#include <algorithm>
#include <set>

namespace tutti {

void LeaderQuestions::Add(const LeaderQuestionPtr& question) {
  question->place = ++last_place_;
  questions_[question->id].emplace(
      std::pair(question->device_name, question->place), question);
  ++size_;
}

bool LeaderQuestions::Contains(const LeaderQuestion& question) const {
  const auto of_instance = questions_.find(question.id);
  return of_instance != questions_.end() &&
         of_instance->second.contains({question.device_name, question.place});
}

void LeaderQuestions::Remove(const LeaderQuestion& question) {
  const auto of_instance = questions_.find(question.id);
  of_instance->second.erase({question.device_name, question.place});
  if (of_instance->second.empty()) questions_.erase(of_instance);
  --size_;
}

const LeaderQuestion* LeaderQuestions::FindAny(InstanceId id) const {
  const auto of_instance = questions_.find(id);
  return of_instance == questions_.end()
             ? nullptr
             : of_instance->second.begin()->second.get();
}

std::vector<LeaderQuestionPtr> LeaderQuestions::OfDevice(
    InstanceId id, const std::string& device_name) const {
  std::vector<LeaderQuestionPtr> found;
  const auto of_instance = questions_.find(id);
  if (of_instance == questions_.end()) return found;
  const OfInstance& questions = of_instance->second;
  for (auto next = questions.lower_bound({device_name, 0});
       next != questions.end() && next->first.first == device_name; ++next) {
    found.push_back(next->second);
  }
  return found;
}

std::vector<LeaderQuestionPtr> LeaderQuestions::Where(
    absl::FunctionRef<bool(const LeaderQuestion&)> matches) const {
  std::vector<LeaderQuestionPtr> found;
  for (const auto& [id, of_instance] : questions_) {
    for (const auto& [name, question] : of_instance) {
      if (matches(*question)) found.push_back(question);
    }
  }
  return found;
}

std::vector<LeaderQuestionPtr> LeaderQuestions::SetEndReason(
    GroupKey key, const absl::Status& reason) {
  std::vector<LeaderQuestionPtr> of_group =
      Where([key](const LeaderQuestion& question) {
        return question.id.group_key == key;
      });
  for (const LeaderQuestionPtr& question : of_group) {
    if (!question->end_reason.has_value()) question->end_reason = reason;
  }
  return of_group;
}

std::vector<LeaderQuestionPtr> LeaderQuestions::SentTo(
    int leader, const std::vector<LeaderQuestionPtr>& questions) const {
  std::vector<LeaderQuestionPtr> sent;
  for (const LeaderQuestionPtr& question : questions) {
    if (Contains(*question) && question->leader == leader) {
      sent.push_back(question);
    }
  }
  std::sort(sent.begin(), sent.end(),
            [](const LeaderQuestionPtr& a, const LeaderQuestionPtr& b) {
              return a->place < b->place;
            });
  return sent;
}

std::vector<int> LeaderQuestions::AskedTasks() const {
  std::set<int> tasks;
  for (const auto& [id, of_instance] : questions_) {
    for (const auto& [name, question] : of_instance) {
      if (question->is_polled) tasks.insert(question->leader);
    }
  }
  return std::vector<int>(tasks.begin(), tasks.end());
}

}  // namespace tutti
