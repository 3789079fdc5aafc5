#include "resolvers/request_fields.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

// The shape, without what may differ between members.
std::string ShapeText(const CollectiveRequest& request) {
  if (std::holds_alternative<Barrier>(request.op)) return "";
  const auto* gather = std::get_if<AllGather>(&request.op);
  const auto* exchange = std::get_if<AllToAll>(&request.op);
  const bool rows_differ =
      (gather != nullptr && gather->uneven) ||
      (exchange != nullptr && !exchange->send_rows.empty());
  if (!rows_differ) return request.shape.ToString();
  const auto dims = request.shape.dims();
  return absl::StrCat("[*", dims.size() > 1 ? "," : "",
                      absl::StrJoin(dims.subspan(1), ","), "]");
}

std::string OptionsText(const CollectiveOp& op) {
  struct Visitor {
    std::string operator()(AllGather op) {
      return op.uneven ? "uneven" : "even";
    }
    std::string operator()(const AllToAll& op) {
      return op.send_rows.empty() ? "even" : "with send_rows";
    }
    std::string operator()(const Permute& op) {
      return absl::StrCat("[", absl::StrJoin(op.permutation, ","), "]");
    }
    std::string operator()(ReduceToRoot op) { return absl::StrCat(op.root); }
    std::string operator()(GatherToRoot op) { return absl::StrCat(op.root); }
    std::string operator()(ScatterFromRoot op) { return absl::StrCat(op.root); }
    std::string operator()(AllReduce) { return ""; }
    std::string operator()(ReduceScatter) { return ""; }
    std::string operator()(Broadcast) { return ""; }
    std::string operator()(Barrier) { return ""; }
  };
  return std::visit(Visitor(), op);
}

absl::string_view OptionsName(CollectiveType type) {
  if (type == CollectiveType::kPermute) return "permutation";
  return HasRoot(type) ? "root" : "block sizes";
}

std::string DependenciesText(const std::vector<InstanceId>& dependencies) {
  return absl::StrJoin(dependencies, ",", [](std::string* out, InstanceId id) {
    absl::StrAppend(out, id.group_key, ":", id.instance_key);
  });
}

}  // namespace

std::vector<RequestField> FieldsOf(const CollectiveRequest& request) {
  const CollectiveType type = TypeOf(request.op);
  std::vector<RequestField> fields = {{"collective", std::string(Name(type))}};
  if (type != CollectiveType::kBarrier) {
    fields.push_back({"dtype", std::string(Name(request.dtype))});
    fields.push_back({"shape", ShapeText(request)});
  }
  if (Reduces(type)) {
    fields.push_back({"merge op", std::string(request.merge_op.name())});
    fields.push_back({"final op", std::string(request.final_op.name())});
  }
  const CollImplDetails& details = request.impl_details;
  fields.push_back({OptionsName(type), OptionsText(request.op)});
  fields.push_back({"implementation", details.implementation});
  fields.push_back(
      {"subdivision offsets",
       absl::StrCat("[", absl::StrJoin(details.subdiv_offsets, ","), "]")});
  fields.push_back(
      {"max_subdivs_per_device", absl::StrCat(details.max_subdivs_per_device)});
  fields.push_back({"dependencies", DependenciesText(details.dependencies)});
  return fields;
}

}  // namespace tutti
