#include "framework/collective/request_fields.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/collective/op_fields.h"
#include "tutti/collective.h"

namespace tutti {
namespace {

using Request = CollectiveRequest;

bool IsBarrier(const Request& request) {
  return std::holds_alternative<Barrier>(request.op);
}

bool ReducesData(const Request& request) { return Reduces(TypeOf(request.op)); }

// Dimensions that are equal for all members.
absl::Span<const int64_t> CommonDims(const Request& request) {
  const auto dims = request.shape.dims();
  return MayDifferInRows(request.op) && !dims.empty() ? dims.subspan(1) : dims;
}

std::string ShapeText(const Request& request) {
  if (!MayDifferInRows(request.op)) return request.shape.ToString();
  const auto dims = CommonDims(request);
  return absl::StrCat("[*", dims.empty() ? "" : ",", absl::StrJoin(dims, ","),
                      "]");
}

std::string ListText(absl::Span<const int> numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ","), "]");
}

std::string DependenciesText(const Request& request) {
  return absl::StrJoin(request.impl_details.dependencies, ",",
                       [](std::string* out, InstanceId id) {
                         absl::StrAppend(out, id.group_key, ":",
                                         id.instance_key);
                       });
}

// Fields, the most informative first. All fields after the first only see
// requests of one collective.
constexpr RequestField kFields[] = {
    {"collective",
     [](const Request& a, const Request& b) {
       return TypeOf(a.op) == TypeOf(b.op);
     },
     [](const Request& request) {
       return std::string(Name(TypeOf(request.op)));
     }},
    {"group size",
     [](const Request& a, const Request& b) {
       return a.group_size == b.group_size;
     },
     [](const Request& request) { return absl::StrCat(request.group_size); }},
    {"device type",
     [](const Request& a, const Request& b) {
       return a.device_type == b.device_type;
     },
     [](const Request& request) { return request.device_type; }},
    {"dtype",
     [](const Request& a, const Request& b) {
       return IsBarrier(a) || a.dtype == b.dtype;
     },
     [](const Request& request) { return std::string(Name(request.dtype)); }},
    {"block sizes",
     [](const Request& a, const Request& b) {
       return IsUneven(a.op) == IsUneven(b.op);
     },
     [](const Request& request) {
       return std::string(IsUneven(request.op) ? "uneven" : "even");
     }},
    {"rows of one execution",
     [](const Request& a, const Request& b) {
       return GivesRows(a.op) == GivesRows(b.op);
     },
     [](const Request& request) {
       return std::string(GivesRows(request.op) ? "given" : "not given");
     }},
    {"shape",
     [](const Request& a, const Request& b) {
       return IsBarrier(a) || CommonDims(a) == CommonDims(b);
     },
     ShapeText},
    {"merge op",
     [](const Request& a, const Request& b) {
       return !ReducesData(a) || a.merge_op == b.merge_op;
     },
     [](const Request& request) {
       return std::string(request.merge_op.name());
     }},
    {"final op",
     [](const Request& a, const Request& b) {
       return !ReducesData(a) || a.final_op == b.final_op;
     },
     [](const Request& request) {
       return std::string(request.final_op.name());
     }},
    {"permutation",
     [](const Request& a, const Request& b) {
       return PermutationOf(a.op) == PermutationOf(b.op);
     },
     [](const Request& request) {
       return ListText(PermutationOf(request.op));
     }},
    {"root",
     [](const Request& a, const Request& b) {
       return RootOf(a.op) == RootOf(b.op);
     },
     [](const Request& request) {
       return absl::StrCat(RootOf(request.op).value_or(0));
     }},
    {"implementation",
     [](const Request& a, const Request& b) {
       return a.impl_details.implementation == b.impl_details.implementation;
     },
     [](const Request& request) {
       return request.impl_details.implementation;
     }},
    {"determinism",
     [](const Request& a, const Request& b) {
       return a.impl_details.determinism == b.impl_details.determinism;
     },
     [](const Request& request) {
       return std::string(Name(request.impl_details.determinism));
     }},
    {"subdivision offsets",
     [](const Request& a, const Request& b) {
       return a.impl_details.subdiv_offsets == b.impl_details.subdiv_offsets;
     },
     [](const Request& request) {
       return ListText(request.impl_details.subdiv_offsets);
     }},
    {"list of ranks",
     [](const Request& a, const Request& b) {
       return a.impl_details.rank_list == b.impl_details.rank_list;
     },
     [](const Request& request) {
       return ListText(request.impl_details.rank_list);
     }},
    {"max_subdivs_per_device",
     [](const Request& a, const Request& b) {
       return a.impl_details.max_subdivs_per_device ==
              b.impl_details.max_subdivs_per_device;
     },
     [](const Request& request) {
       return absl::StrCat(request.impl_details.max_subdivs_per_device);
     }},
    {"dependencies",
     [](const Request& a, const Request& b) {
       return a.impl_details.dependencies == b.impl_details.dependencies;
     },
     DependenciesText},
};

}  // namespace

const RequestField* FirstDifference(const CollectiveRequest& a,
                                    const CollectiveRequest& b) {
  const auto* const field = std::find_if(
      std::begin(kFields), std::end(kFields),
      [&](const RequestField& candidate) { return !candidate.same(a, b); });
  return field == std::end(kFields) ? nullptr : field;
}

std::string ValueText(const RequestField& field,
                      const CollectiveRequest& request) {
  constexpr size_t kMostCharacters = 80;
  std::string text = field.text(request);
  if (text.empty()) return "none";
  if (text.size() <= kMostCharacters) return text;
  return absl::StrCat(absl::string_view(text).substr(0, kMostCharacters),
                      "... (", text.size(), " characters)");
}

std::string InstanceLabel(const CollectiveRequest& request) {
  return absl::StrCat("group ", request.group_key, ", instance ",
                      request.instance_key);
}

absl::Status CheckSameRequest(const CollectiveRequest& first,
                              const CollectiveRequest& now) {
  if (&first == &now || first == now) return absl::OkStatus();
  const RequestField* const field = FirstDifference(first, now);
  if (field != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(InstanceLabel(now), " was completed with ", field->name,
                     " ", ValueText(*field, first), ", but is now called with ",
                     ValueText(*field, now), "; give it another instance key"));
  }
  if (GivesRows(now.op) && first.rank == now.rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(InstanceLabel(now),
                   " is now called with another role or other rows than when "
                   "it was completed; give it another instance key"));
}

}  // namespace tutti
