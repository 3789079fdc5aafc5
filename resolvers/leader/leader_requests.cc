#include "resolvers/leader/leader_requests.h"

#include <algorithm>
#include <set>

namespace tutti {

void LeaderRequests::Add(const LeaderRequestPtr& question) {
  question->place = ++last_place_;
  questions_[question->id].emplace(
      std::pair(question->device_name, question->place), question);
  ++size_;
}

bool LeaderRequests::Contains(const LeaderRequest& question) const {
  const auto of_instance = questions_.find(question.id);
  return of_instance != questions_.end() &&
         of_instance->second.contains({question.device_name, question.place});
}

void LeaderRequests::Remove(const LeaderRequest& question) {
  const auto of_instance = questions_.find(question.id);
  of_instance->second.erase({question.device_name, question.place});
  if (of_instance->second.empty()) questions_.erase(of_instance);
  --size_;
}

const LeaderRequest* LeaderRequests::FindAny(InstanceId id) const {
  const auto of_instance = questions_.find(id);
  return of_instance == questions_.end()
             ? nullptr
             : of_instance->second.begin()->second.get();
}

std::vector<LeaderRequestPtr> LeaderRequests::OfDevice(
    InstanceId id, const std::string& device_name) const {
  std::vector<LeaderRequestPtr> found;
  const auto of_instance = questions_.find(id);
  if (of_instance == questions_.end()) return found;
  const OfInstance& questions = of_instance->second;
  for (auto next = questions.lower_bound({device_name, 0});
       next != questions.end() && next->first.first == device_name; ++next) {
    found.push_back(next->second);
  }
  return found;
}

std::vector<LeaderRequestPtr> LeaderRequests::Where(
    absl::FunctionRef<bool(const LeaderRequest&)> matches) const {
  std::vector<LeaderRequestPtr> found;
  for (const auto& [id, of_instance] : questions_) {
    for (const auto& [name, question] : of_instance) {
      if (matches(*question)) found.push_back(question);
    }
  }
  return found;
}

std::vector<LeaderRequestPtr> LeaderRequests::SetEndReason(
    GroupKey key, const absl::Status& reason) {
  std::vector<LeaderRequestPtr> of_group =
      Where([key](const LeaderRequest& question) {
        return question.id.group_key == key;
      });
  for (const LeaderRequestPtr& question : of_group) {
    if (!question->end_reason.has_value()) question->end_reason = reason;
  }
  return of_group;
}

std::vector<LeaderRequestPtr> LeaderRequests::SentTo(
    int leader, const std::vector<LeaderRequestPtr>& questions) const {
  std::vector<LeaderRequestPtr> sent;
  for (const LeaderRequestPtr& question : questions) {
    if (Contains(*question) && question->leader == leader) {
      sent.push_back(question);
    }
  }
  std::sort(sent.begin(), sent.end(),
            [](const LeaderRequestPtr& a, const LeaderRequestPtr& b) {
              return a->place < b->place;
            });
  return sent;
}

std::vector<int> LeaderRequests::RequestedTasks() const {
  std::set<int> tasks;
  for (const auto& [id, of_instance] : questions_) {
    for (const auto& [name, question] : of_instance) {
      if (question->is_polled) tasks.insert(question->leader);
    }
  }
  return std::vector<int>(tasks.begin(), tasks.end());
}

void EndingCalls::Begin(const InstanceId& id, const absl::Status& error) {
  OfInstance& calls = calls_[id];
  ++calls.num_calls;
  calls.error = std::string(error.message());
}

void EndingCalls::End(const InstanceId& id) {
  const auto found = calls_.find(id);
  if (--found->second.num_calls == 0) calls_.erase(found);
}

std::string EndingCalls::ErrorOf(const InstanceId& id) const {
  const auto found = calls_.find(id);
  return found == calls_.end() ? "" : found->second.error;
}

}  // namespace tutti
