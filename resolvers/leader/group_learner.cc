#include "resolvers/leader/group_learner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/member_params.h"
#include "resolvers/local/instance_check.h"
#include "resolvers/messages/group_codec.h"

namespace tutti {

GroupLearner::Answer GroupLearner::Decode(const LeaderRequest& question,
                                          int leader,
                                          const proto::Settled& settled) {
  ASSIGN_OR_RETURN(const auto found,
                   LearnFrom(question, leader, settled.group()));
  SettledGroups::Group& group = *found;
  const auto rank = group.rank_of_device.find(question.device_name);
  if (rank == group.rank_of_device.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group.members lacks ", question.device_name, ", which asked"));
  }
  if (!question.number.has_value()) {
    return MembershipIn(group.params, group.task, rank->second);
  }
  ASSIGN_OR_RETURN(auto instance, FindOrDecode(question, group, rank->second,
                                               settled.instance()));
  ASSIGN_OR_RETURN(auto params,
                   MakeMemberParams(group.params, std::move(instance),
                                    group.task, rank->second));
  MutexLock lock(mu_);
  settled_->AddMember(group, question.device_name, {question.request, params});
  return params;
}

// Shares the first member's result with the other members of this task.
absl::StatusOr<std::shared_ptr<const CollInstanceParams>>
GroupLearner::FindOrDecode(const LeaderRequest& question,
                           const SettledGroups::Group& group, int rank,
                           const proto::Instance& message) {
  {
    MutexLock lock(mu_);
    const auto found = group.instances.find(question.id.instance_key);
    if (found != group.instances.end()) return found->second.params;
  }
  ASSIGN_OR_RETURN(auto decoded, DecodeInstance(*question.request,
                                                *group.params, rank, message));
  RETURN_IF_ERROR(CheckDecided(options_.policy, *group.params, *group.task,
                               decoded,
                               question.request->impl_details.implementation));
  return std::make_shared<const CollInstanceParams>(std::move(decoded));
}

absl::StatusOr<SettledGroups::GroupPtr> GroupLearner::LearnFrom(
    const LeaderRequest& question, int leader, const proto::Group& message) {
  if (message.members_size() == 0) {
    MutexLock lock(mu_);
    auto group = settled_->Find(question.id.group_key);
    if (group != nullptr && group->params->generation == message.generation()) {
      return group;
    }
    return absl::AbortedError(
        absl::StrCat("group ", question.id.group_key, " ended meanwhile"));
  }
  ASSIGN_OR_RETURN(auto group,
                   DecodeGroup(options_.cluster, *question.request, message));
  return Learn(std::move(group), leader);
}

// Adds the group for all members of this task, when its first member hears of
// it.
absl::StatusOr<SettledGroups::GroupPtr> GroupLearner::Learn(
    std::shared_ptr<const CollGroupParams> group, int leader) {
  const GroupKey key = group->key;
  const uint64_t generation = group->generation;
  options_.directory->Add(std::move(group));
  ASSIGN_OR_RETURN(const auto living,
                   options_.directory->Find(key, generation));
  SettledGroups::GroupPtr replaced;  // Freed without the lock.
  SettledGroups::GroupPtr added;
  bool is_new = false;
  {
    MutexLock lock(mu_);
    const auto before = settled_->Find(key);
    added = settled_->Add(living, &replaced);
    if (added == nullptr) {
      return absl::AbortedError(
          absl::StrCat("group ", key, " was formed again meanwhile"));
    }
    is_new = added != before;
    if (is_new) added->leader = leader;
  }
  if (is_new) owner_.OnLearned(*living, leader);
  return added;
}

absl::Status GroupLearner::Add(
    const LeaderRequest& question, int leader,
    const std::shared_ptr<const CollectiveParams>& params) {
  ASSIGN_OR_RETURN(const auto group, Learn(params->group, leader));
  if (!question.number.has_value()) return absl::OkStatus();
  MutexLock lock(mu_);
  settled_->AddMember(*group, question.device_name, {question.request, params});
  return absl::OkStatus();
}

}  // namespace tutti
