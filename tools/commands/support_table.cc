#include "tools/commands/support_table.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/base/text.h"
#include "tools/request/request_options.h"
#include "tools/request/workload.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/selection.h"

namespace tutti {
namespace {

using Entries = std::vector<CollectiveRegistry::Entry>;
using DTypes = std::vector<DType>;

constexpr int kNumMembers = 2;
constexpr char kHostDevice[] = "CPU";

// Whether the implementation can reach the memory of such devices.
bool TakesMemory(const ImplementationTraits& traits,
                 absl::string_view device_type) {
  return device_type == kHostDevice || !traits.device_types.empty() ||
         traits.is_made_of_steps;
}

// Whether an implementation serves the request at the place.
bool IsServed(const Entries& entries, const CollectiveRequest& request,
              const SupportTable::Place& place) {
  const bool one_process = place.transport.empty();
  const GroupLayout layout = one_process ? GroupLayout::Uniform(1, kNumMembers)
                                         : GroupLayout::Uniform(kNumMembers, 1);
  const SelectionRequest choice = {.type = TypeOf(request.op),
                                   .layout = layout,
                                   .device_type = place.device_type,
                                   .one_process = one_process,
                                   .delegate = place.transport,
                                   .dtype = request.dtype,
                                   .merge_op = request.merge_op,
                                   .final_op = request.final_op};
  return absl::c_any_of(entries, [&](const CollectiveRegistry::Entry& entry) {
    const ImplementationTraits& traits = entry.factory->traits();
    return TakesMemory(traits, place.device_type) &&
           WhyNot(traits, choice).empty();
  });
}

// All words for reductions; one empty word if the collective does not reduce.
std::vector<std::string> ReductionsOf(CollectiveType type) {
  if (!Reduces(type)) return {""};
  std::vector<std::string> words = {"avg"};
  for (const ReductionKind kind : kAllReductionKinds) {
    words.emplace_back(Name(kind));
  }
  return words;
}

// A valid request for each dtype; none if the collective has no such reduction.
std::vector<CollectiveRequest> RequestsOf(CollectiveType type,
                                          const std::string& reduction) {
  std::vector<CollectiveRequest> requests;
  for (const DType dtype : kAllDTypes) {
    const auto workload = ParseWorkload(
        {.collective = std::string(Name(type)), .reduction = reduction},
        std::string(Name(dtype)), kNumMembers);
    if (!workload.ok()) continue;
    CollectiveRequest request = RequestOf(*workload, /*rank=*/0);
    if (Validate(request).ok()) requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<DTypes> DTypesAt(const std::vector<SupportTable::Place>& places,
                             const Entries& entries,
                             const std::vector<CollectiveRequest>& requests) {
  std::vector<DTypes> dtypes(places.size());
  for (const CollectiveRequest& request : requests) {
    for (size_t i = 0; i < places.size(); ++i) {
      if (IsServed(entries, request, places[i])) {
        dtypes[i].push_back(request.dtype);
      }
    }
  }
  return dtypes;
}

std::vector<SupportTable::Place> PlacesOf(
    const Entries& entries, const std::vector<std::string>& transports) {
  std::set<std::string> device_types = {kHostDevice};
  for (const auto& entry : entries) {
    const auto& types = entry.factory->traits().device_types;
    device_types.insert(types.begin(), types.end());
  }
  std::vector<SupportTable::Place> places;
  for (const std::string& device_type : device_types) {
    places.push_back({device_type, /*transport=*/""});
    for (const std::string& transport : transports) {
      places.push_back({device_type, transport});
    }
  }
  return places;
}

// Names of the dtypes. A class of dtypes has one name if all of it is there.
std::string ListOf(DTypes dtypes) {
  std::vector<std::string> names;
  for (const auto& [name, is_in] :
       {std::pair("floats", &IsFloating), std::pair("integers", &IsInteger),
        std::pair("complex", &IsComplex)}) {
    if (absl::c_count_if(dtypes, is_in) != absl::c_count_if(kAllDTypes, is_in))
      continue;
    names.emplace_back(name);
    std::erase_if(dtypes, is_in);
  }
  for (const DType dtype : dtypes) names.emplace_back(Name(dtype));
  return absl::StrJoin(names, ", ");
}

std::string DTypesText(const DTypes& dtypes) {
  if (dtypes.empty()) return "none";
  DTypes others;
  for (const DType dtype : kAllDTypes) {
    if (!absl::c_linear_search(dtypes, dtype)) others.push_back(dtype);
  }
  if (others.empty()) return "all";
  const std::string but = absl::StrCat("all but ", ListOf(others));
  const std::string list = ListOf(dtypes);
  return but.size() < list.size() ? but : list;
}

std::string TextOf(const SupportTable::Place& place) {
  return absl::StrCat(
      place.device_type, ", ",
      place.transport.empty() ? "one process" : place.transport);
}

}  // namespace

SupportTable SupportOf(const CollectiveRegistry& registry,
                       const std::vector<std::string>& transports) {
  const Entries entries = registry.List();
  SupportTable table{.places = PlacesOf(entries, transports)};
  for (const CollectiveType type : kAllCollectiveTypes) {
    const size_t first = table.rows.size();
    for (const std::string& reduction : ReductionsOf(type)) {
      const auto requests = RequestsOf(type, reduction);
      if (requests.empty()) continue;
      auto dtypes = DTypesAt(table.places, entries, requests);
      const auto row = std::find_if(
          table.rows.begin() + static_cast<std::ptrdiff_t>(first),
          table.rows.end(),
          [&](const auto& other) { return other.dtypes == dtypes; });
      if (row != table.rows.end()) {
        row->reductions.push_back(reduction);
        continue;
      }
      table.rows.push_back({.type = type, .dtypes = std::move(dtypes)});
      if (Reduces(type)) table.rows.back().reductions.push_back(reduction);
    }
  }
  return table;
}

std::string FormatSupport(const SupportTable& table) {
  std::vector<Column> columns = {{"dtypes of", Align::kLeft}};
  for (const auto& place : table.places) {
    columns.push_back({TextOf(place), Align::kLeft});
  }
  std::vector<std::vector<std::string>> rows;
  for (const SupportTable::Row& row : table.rows) {
    auto& cells = rows.emplace_back();
    cells.push_back(absl::StrCat(Name(row.type),
                                 row.reductions.empty() ? "" : " ",
                                 absl::StrJoin(row.reductions, ",")));
    for (const DTypes& dtypes : row.dtypes) cells.push_back(DTypesText(dtypes));
  }
  return FormatTable(std::move(columns), rows);
}

Json SupportAsJson(const SupportTable& table) {
  Json rows = Json::array();
  for (const SupportTable::Row& row : table.rows) {
    Json places = Json::array();
    for (size_t i = 0; i < table.places.size(); ++i) {
      Json dtypes = Json::array();
      for (const DType dtype : row.dtypes[i]) {
        dtypes.push_back(std::string(Name(dtype)));
      }
      places.push_back({{"device_type", table.places[i].device_type},
                        {"transport", OrNull(table.places[i].transport)},
                        {"dtypes", std::move(dtypes)}});
    }
    rows.push_back({{"collective", std::string(Name(row.type))},
                    {"reductions", row.reductions},
                    {"places", std::move(places)}});
  }
  return rows;
}

}  // namespace tutti
