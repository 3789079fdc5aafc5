#include "resolvers/local/instance_check.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/collective/member_params.h"
#include "framework/collective/op_fields.h"
#include "framework/collective/request_fields.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace {

using Requests = absl::Span<const std::shared_ptr<const CollectiveRequest>>;

// all_to_all with rows keeps group size squared numbers.
constexpr int kMaxUnevenAllToAll = 4096;

// Lists which ranks have which value of `field`.
absl::Status DifferenceError(Requests requests, const RequestField& field) {
  constexpr size_t kMostValues = 8;
  std::vector<std::vector<int>> ranks_by_value;
  int num_others = 0;
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    const auto same =
        std::find_if(ranks_by_value.begin(), ranks_by_value.end(),
                     [&](const std::vector<int>& ranks) {
                       return field.same(*requests[ranks[0]], *requests[rank]);
                     });
    if (same != ranks_by_value.end()) {
      same->push_back(static_cast<int>(rank));
    } else if (ranks_by_value.size() < kMostValues) {
      ranks_by_value.push_back({static_cast<int>(rank)});
    } else {
      ++num_others;
    }
  }
  std::string text = absl::StrCat(InstanceLabel(*requests[0]),
                                  ": members differ in ", field.name, ": ");
  for (const std::vector<int>& ranks : ranks_by_value) {
    absl::StrAppend(&text, &ranks == ranks_by_value.data() ? "" : "; ",
                    RankList(ranks), ranks.size() == 1 ? " has " : " have ",
                    ValueText(field, *requests[ranks[0]]));
  }
  if (num_others > 0) {
    absl::StrAppend(&text, "; and ", num_others, " more have other values");
  }
  return absl::InvalidArgumentError(text);
}

absl::Status CheckAgreement(Requests requests) {
  const RequestField* difference = nullptr;
  for (const auto& request : requests) {
    const RequestField* const field = FirstDifference(*requests[0], *request);
    if (field == nullptr) continue;
    if (difference == nullptr || field < difference) difference = field;
  }
  return difference == nullptr ? absl::OkStatus()
                               : DifferenceError(requests, *difference);
}

absl::StatusOr<int> FindSource(Requests requests) {
  std::vector<int> sources;
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    if (std::get<Broadcast>(requests[rank]->op).is_source) {
      sources.push_back(static_cast<int>(rank));
    }
  }
  if (sources.size() == 1) return sources[0];
  return absl::InvalidArgumentError(absl::StrCat(
      InstanceLabel(*requests[0]), ": a broadcast needs one source, ",
      sources.empty()
          ? absl::StrCat("but none of its ", requests.size(), " members is one")
          : absl::StrCat("but ", RankList(sources), " are sources")));
}

absl::StatusOr<int> FindRoot(Requests requests) {
  const CollectiveOp& op = requests[0]->op;
  if (std::holds_alternative<Broadcast>(op)) return FindSource(requests);
  return RootOf(op).value_or(0);
}

// Collects CollInstanceParams::rows. Rows that all members know are taken from
// rank 0: the other members' rows may be of another execution.
absl::StatusOr<std::vector<int64_t>> CollectRows(Requests requests) {
  const CollectiveOp& op = requests[0]->op;
  std::vector<int64_t> rows = KnownRows(*requests[0]);
  if (!rows.empty() || !IsUneven(op)) return rows;
  if (!ExchangesBlocks(TypeOf(op))) {
    for (const auto& request : requests) rows.push_back(request->shape.dim(0));
  } else {
    if (requests.size() > kMaxUnevenAllToAll) {
      return absl::InvalidArgumentError(absl::StrCat(
          InstanceLabel(*requests[0]),
          ": all_to_all with send_rows is limited to ", kMaxUnevenAllToAll,
          " members, this group has ", requests.size()));
    }
    for (const auto& request : requests) {
      const auto& sent = std::get<AllToAll>(request->op).send_rows;
      rows.insert(rows.end(), sent.begin(), sent.end());
    }
  }
  return rows;
}

absl::StatusOr<int64_t> BytesOf(const CollInstanceParams& instance,
                                const CollGroupParams& group) {
  // Takes the shapes of the root, which has both. Without a root, any rank has
  // both.
  ASSIGN_OR_RETURN(const auto input,
                   InputShape(instance, group.size(), instance.root));
  ASSIGN_OR_RETURN(const auto output,
                   OutputShape(instance, group.size(), instance.root));
  const TensorShape& larger =
      input.num_elements() > output.num_elements() ? input : output;
  return SizeInBytes(instance.dtype, larger);
}

SelectionRequest RequestFor(const SelectionPolicy& policy,
                            const CollGroupParams& group,
                            const CollTaskParams& task,
                            const CollInstanceParams& instance) {
  const CollImplDetails& details = instance.impl_details;
  return {
      .type = instance.type,
      .layout = *group.layout,
      .group = &group,
      .device_type = group.device_type,
      .one_process =
          task.num_local == group.size() || group.layout->num_tasks() == 1,
      .delegate = policy.delegate,
      .implementation = details.implementation,
      .dtype = instance.dtype,
      .merge_op = instance.merge_op,
      .final_op = instance.final_op,
      .uneven = !instance.rows.empty(),
      .recv_rows = ExchangesBlocks(instance.type) && instance.rows_are_given,
      .wants_subdivisions = !details.subdiv_offsets.empty(),
      .num_listed_ranks = details.rank_list.size(),
      .determinism = details.determinism,
      .model = policy.model};
}

absl::Status ChooseImplementation(const SelectionPolicy& policy,
                                  const CollGroupParams& group,
                                  const CollTaskParams& task,
                                  CollInstanceParams* instance) {
  ASSIGN_OR_RETURN(const auto bytes, BytesOf(*instance, group));
  SelectionRequest request = RequestFor(policy, group, task, *instance);
  request.bytes = bytes;
  ASSIGN_OR_RETURN(const auto selection, SelectImplementation(policy, request));
  instance->impl_details.implementation = selection.name;
  return selection.factory->Create()->InitializeCollectiveParams(group,
                                                                 instance);
}

// Returns 0 if no member is local.
size_t FirstLocalRank(const CollTaskParams& task) {
  const auto& is_local = task.is_local;
  const auto first = std::find(is_local.begin(), is_local.end(), true);
  return first == is_local.end() ? 0 : first - is_local.begin();
}

absl::StatusOr<CollInstanceParams> Decide(const SelectionPolicy& policy,
                                          const CollGroupParams& group,
                                          const CollTaskParams& task,
                                          Requests requests) {
  RETURN_IF_ERROR(CheckAgreement(requests));
  const CollectiveRequest& first = *requests[0];
  ASSIGN_OR_RETURN(const auto root, FindRoot(requests));
  ASSIGN_OR_RETURN(auto rows, CollectRows(requests));
  CollInstanceParams instance = InstanceOf(first);
  instance.root = root;
  instance.rows = std::move(rows);
  const CollectiveRequest& own = *requests[FirstLocalRank(task)];
  instance.merge_op = own.merge_op;
  instance.final_op = own.final_op;
  absl::Status status = ChooseImplementation(policy, group, task, &instance);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(InstanceLabel(first), ": ",
                                                    status.message()));
  }
  return instance;
}

}  // namespace

absl::Status CheckDecided(const SelectionPolicy& policy,
                          const CollGroupParams& group,
                          const CollTaskParams& task,
                          const CollInstanceParams& instance,
                          const std::string& wanted) {
  const std::string& name = instance.impl_details.implementation;
  if (!wanted.empty() && name != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "instance.implementation is ", name, ", but ", wanted, " was named"));
  }
  const auto factory = policy.registry->Find(name);
  if (!factory.ok()) return absl::OkStatus();
  const ImplementationTraits& traits = (*factory)->traits();
  SelectionRequest request = RequestFor(policy, group, task, instance);
  request.group = nullptr;  // Only the leader knows device features.
  std::string why_not = WhyNot(traits, request);
  if (why_not.empty() && traits.is_made_of_steps &&
      traits.supports_subdivisions &&
      instance.impl_details.subdiv_offsets.empty()) {
    why_not = "needs subdivisions";
  }
  if (why_not.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("instance.implementation is ", name, ", which ", why_not));
}

absl::StatusOr<std::vector<std::shared_ptr<const CollectiveParams>>>
CompleteInstance(const SelectionPolicy& policy,
                 const std::shared_ptr<const CollGroupParams>& group,
                 const std::shared_ptr<const CollTaskParams>& task,
                 Requests requests) {
  ASSIGN_OR_RETURN(auto decided, Decide(policy, *group, *task, requests));
  const auto instance =
      std::make_shared<const CollInstanceParams>(std::move(decided));
  std::vector<std::shared_ptr<const CollectiveParams>> members;
  for (int rank = 0; rank < group->size(); ++rank) {
    ASSIGN_OR_RETURN(auto params,
                     MakeMemberParams(group, instance, task, rank));
    members.push_back(std::move(params));
  }
  return members;
}

}  // namespace tutti
