#include "implementations/two_level/hierarchical_levels.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "implementations/parts/cost.h"
#include "implementations/tree_reduce.h"
#include "implementations/two_level/hierarchy.h"
#include "schedule/find_part.h"
#include "tutti/schedule.h"

namespace tutti {

using enum CollectiveType;

namespace {

// Finds the algorithm of a level. Refuses compositions: a composition could
// contain itself, without end.
absl::StatusOr<const Algorithm*> FindLevel(absl::string_view name) {
  ASSIGN_OR_RETURN(const auto factory, FindPart(name));
  const Algorithm* const algorithm = AlgorithmOf(*factory);
  if (algorithm == nullptr || algorithm->traits.check_parts != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " is no schedule of one level, as each level has to be"));
  }
  RETURN_IF_ERROR(CheckFitsAsPart(name, algorithm->traits));
  return algorithm;
}

bool Does(const Algorithm& algorithm, CollectiveType type) {
  return absl::c_linear_search(algorithm.traits.collectives, type);
}

// Returns the type of reduction inside tasks: the supported type with the
// fewest bytes.
std::optional<CollectiveType> TypeInside(const Algorithm& algorithm) {
  for (const CollectiveType type : {kReduceScatter, kReduce, kAllReduce}) {
    if (Does(algorithm, type)) return type;
  }
  return std::nullopt;
}

}  // namespace

absl::Status CheckLevels(const ReduceLevels& levels) {
  ASSIGN_OR_RETURN(const auto inside, FindLevel(levels.inside));
  if (!TypeInside(*inside).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        levels.inside, " does not reduce, as the level inside tasks has to"));
  }
  ASSIGN_OR_RETURN(const auto between, FindLevel(levels.between));
  if (Does(*between, kAllReduce)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(levels.between,
                   " does not all-reduce, as the level between tasks has to"));
}

const Algorithm& PartNamed(absl::string_view name) { return **FindLevel(name); }

int NumChunks(PlanFunction plan, CollectiveType type, const GroupLayout& layout,
              absl::Span<const int> offsets) {
  return NumChunksOfPart(
      plan, {.layout = layout, .type = type, .subdiv_offsets = offsets});
}

int LevelInside::OwnerOf(int block, int num_devices) const {
  switch (type) {
    case kReduceScatter:
      return block * num_devices / num_blocks;
    case kAllReduce:
      return block % num_devices;
    default:
      return 0;
  }
}

int LevelInside::NumOwners(int num_devices) const {
  return type == kReduce ? 1 : std::min(num_blocks, num_devices);
}

bool LevelInside::Spreads(int num_tasks, int num_devices) const {
  return num_devices > 1 && (num_tasks > 1 || type != kAllReduce);
}

bool LevelInside::Gathers(int num_devices) const {
  return type == kReduceScatter && num_blocks == num_devices;
}

LevelInside InsideOf(const GroupLayout& layout, const ReduceLevels& levels) {
  if (!IsEven(layout)) return {PlanTreeReduce, kReduce};
  const Algorithm& algorithm = PartNamed(levels.inside);
  LevelInside inside = {algorithm.plan, *TypeInside(algorithm)};
  const auto task = GroupLayout::Uniform(1, LargestTask(layout));
  inside.num_blocks = NumChunks(inside.plan, inside.type, task, kOneRing);
  return inside;
}

int NumSubdivs(const Algorithm& between, int num_tasks, int chunks_each) {
  return between.traits.supports_subdivisions
             ? (num_tasks + chunks_each - 1) / chunks_each
             : 1;
}

LevelBetween BetweenOf(int num_tasks, const ReduceLevels& levels) {
  if (num_tasks == 1) return {};
  const Algorithm& algorithm = PartNamed(levels.between);
  const GroupLayout tasks = FirstsOf(num_tasks);
  LevelBetween between = {.plan = algorithm.plan, .offsets = {0}};
  const auto cut = [&] {
    between.num_chunks =
        NumChunks(between.plan, kAllReduce, tasks, between.offsets);
  };
  cut();
  const int num_subdivs = NumSubdivs(algorithm, num_tasks, between.num_chunks);
  if (num_subdivs == 1) return between;
  between.offsets.assign(static_cast<size_t>(num_subdivs), 0);
  cut();
  return between;
}

}  // namespace tutti
