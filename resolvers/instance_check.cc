#include "resolvers/instance_check.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/collective_implementation.h"
#include "framework/collective_shapes.h"
#include "framework/selection.h"
#include "resolvers/request_fields.h"

namespace tutti {
namespace {

using Requests = absl::Span<const std::shared_ptr<const CollectiveRequest>>;

// all_to_all with rows keeps group size squared numbers.
constexpr int kMaxUnevenAllToAll = 4096;

std::string Label(const CollectiveRequest& request) {
  return absl::StrCat("group ", request.group_key, ", instance ",
                      request.instance_key);
}

std::string RankList(const std::vector<int>& ranks) {
  constexpr size_t kMostToList = 8;
  const size_t listed = std::min(ranks.size(), kMostToList);
  return absl::StrCat(
      ranks.size() == 1 ? "rank " : "ranks ",
      absl::StrJoin(ranks.begin(),
                    ranks.begin() + static_cast<ptrdiff_t>(listed), ", "),
      ranks.size() > listed
          ? absl::StrCat(" and ", ranks.size() - listed, " more")
          : "");
}

std::string Quoted(const std::string& value) {
  return value.empty() ? "none" : value;
}

// `field` is the first that some rank has another value for than rank 0.
absl::Status DifferenceError(const CollGroupParams& group, Requests requests,
                             size_t field) {
  std::map<std::string, std::vector<int>> ranks_by_value;
  absl::string_view name;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto fields = FieldsOf(*requests[rank]);
    if (rank == 0) name = fields[field].name;
    const bool has_field = field < fields.size() && fields[field].name == name;
    ranks_by_value[has_field ? Quoted(fields[field].value) : "none"].push_back(
        rank);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Label(*requests[0]), ": members differ in ", name, ": ",
      absl::StrJoin(
          ranks_by_value, "; ", [](std::string* out, const auto& entry) {
            absl::StrAppend(out, RankList(entry.second), " ",
                            entry.second.size() == 1 ? "has " : "have ",
                            entry.first);
          })));
}

absl::Status CheckAgreement(const CollGroupParams& group, Requests requests) {
  const auto wanted = FieldsOf(*requests[0]);
  for (int rank = 1; rank < group.size(); ++rank) {
    if (requests[rank] == requests[0]) continue;
    const auto found = FieldsOf(*requests[rank]);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const bool same = i < found.size() && found[i].name == wanted[i].name &&
                        found[i].value == wanted[i].value;
      if (!same) return DifferenceError(group, requests, i);
    }
  }
  return absl::OkStatus();
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
      Label(*requests[0]), ": a broadcast needs one source, ",
      sources.empty()
          ? absl::StrCat("but none of its ", requests.size(), " members is one")
          : absl::StrCat("but ", RankList(sources), " are sources")));
}

absl::StatusOr<int> FindRoot(Requests requests) {
  const CollectiveOp& op = requests[0]->op;
  if (std::holds_alternative<Broadcast>(op)) return FindSource(requests);
  if (const auto* reduce = std::get_if<ReduceToRoot>(&op)) return reduce->root;
  if (const auto* gather = std::get_if<GatherToRoot>(&op)) return gather->root;
  if (const auto* scatter = std::get_if<ScatterFromRoot>(&op)) {
    return scatter->root;
  }
  return 0;
}

// The rows of CollInstanceParams.
absl::StatusOr<std::vector<int64_t>> CollectRows(Requests requests) {
  const CollectiveOp& op = requests[0]->op;
  const auto* gather = std::get_if<AllGather>(&op);
  const auto* exchange = std::get_if<AllToAll>(&op);
  std::vector<int64_t> rows;
  if (gather != nullptr && gather->uneven) {
    for (const auto& request : requests) rows.push_back(request->shape.dim(0));
  }
  if (exchange != nullptr && !exchange->send_rows.empty()) {
    if (requests.size() > kMaxUnevenAllToAll) {
      return absl::InvalidArgumentError(absl::StrCat(
          Label(*requests[0]), ": all_to_all with send_rows is limited to ",
          kMaxUnevenAllToAll, " members, this group has ", requests.size()));
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
  // The root has both, where there is one; elsewhere any rank will do.
  const auto input = InputShape(instance, group.size(), instance.root);
  if (!input.ok()) return input.status();
  const auto output = OutputShape(instance, group.size(), instance.root);
  if (!output.ok()) return output.status();
  const TensorShape& larger =
      input->num_elements() > output->num_elements() ? *input : *output;
  return SizeInBytes(instance.dtype, larger);
}

absl::Status ChooseImplementation(const CollectiveRegistry& registry,
                                  const CollGroupParams& group,
                                  CollInstanceParams* instance) {
  const auto bytes = BytesOf(*instance, group);
  if (!bytes.ok()) return bytes.status();
  const auto selection = SelectImplementation(
      registry,
      {.type = instance->type,
       .layout = *group.layout,
       .device_type = group.device_type,
       .bytes = *bytes,
       .implementation = instance->impl_details.implementation,
       .commutative = instance->merge_op.commutative(),
       .uneven = !instance->rows.empty(),
       .wants_subdivisions = !instance->impl_details.subdiv_offsets.empty()});
  if (!selection.ok()) return selection.status();
  instance->impl_details.implementation = selection->name;
  return selection->factory->Create()->InitializeCollectiveParams(group,
                                                                  instance);
}

}  // namespace

absl::StatusOr<CollInstanceParams> CompleteInstance(
    const CollectiveRegistry& registry, const CollGroupParams& group,
    Requests requests) {
  absl::Status status = CheckAgreement(group, requests);
  if (!status.ok()) return status;
  const CollectiveRequest& first = *requests[0];
  const auto root = FindRoot(requests);
  if (!root.ok()) return root.status();
  auto rows = CollectRows(requests);
  if (!rows.ok()) return rows.status();
  CollInstanceParams instance;
  instance.key = first.instance_key;
  instance.type = TypeOf(first.op);
  instance.dtype = first.dtype;
  instance.shape = first.shape;
  instance.root = *root;
  instance.rows = *std::move(rows);
  if (const auto* permute = std::get_if<Permute>(&first.op)) {
    instance.permutation = permute->permutation;
  }
  instance.merge_op = first.merge_op;
  instance.final_op = first.final_op;
  instance.impl_details = first.impl_details;
  status = ChooseImplementation(registry, group, &instance);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(Label(first), ": ", status.message()));
  }
  return instance;
}

absl::Status CheckSameRequest(const CollectiveRequest& first,
                              const CollectiveRequest& now) {
  if (first == now) return absl::OkStatus();
  const auto wanted = FieldsOf(first);
  const auto found = FieldsOf(now);
  for (size_t i = 0; i < std::min(wanted.size(), found.size()); ++i) {
    if (wanted[i].name == found[i].name && wanted[i].value == found[i].value) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Label(now), " was completed with ", wanted[i].name, " ",
                     Quoted(wanted[i].value), ", but is now called with ",
                     found[i].name, " ", Quoted(found[i].value)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Label(now),
                   " is now called with another role or other rows than when "
                   "it was completed"));
}

absl::StatusOr<std::shared_ptr<const CollectiveParams>> MemberParams(
    std::shared_ptr<const CollGroupParams> group,
    std::shared_ptr<const CollInstanceParams> instance,
    std::shared_ptr<const CollTaskParams> task, int rank) {
  auto input = InputShape(*instance, group->size(), rank);
  if (!input.ok()) return input.status();
  auto output = OutputShape(*instance, group->size(), rank);
  if (!output.ok()) return output.status();
  const auto bytes = SizeInBytes(instance->dtype, *output);
  if (!bytes.ok()) return bytes.status();
  auto params = std::make_shared<CollectiveParams>();
  params->default_rank = rank;
  params->is_source =
      instance->type == CollectiveType::kBroadcast && rank == instance->root;
  params->input_shape = *std::move(input);
  params->output_shape = *std::move(output);
  params->group = std::move(group);
  params->instance = std::move(instance);
  params->task = std::move(task);
  return params;
}

}  // namespace tutti
