#include "implementations/hierarchical_reduce.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/collective_request.h"
#include "framework/collective_type.h"
#include "framework/group_layout.h"
#include "framework/registry.h"
#include "implementations/bruck_gather.h"
#include "implementations/cost.h"
#include "implementations/hierarchical_tree_broadcast.h"
#include "implementations/hierarchy.h"
#include "implementations/tree_reduce.h"
#include "schedule/algorithm.h"

namespace tutti {
namespace {

using enum CollectiveType;

// A composition may be made of itself, without end.
absl::StatusOr<const Algorithm*> FindPart(absl::string_view name) {
  const auto factory = CollectiveRegistry::Global().Find(name);
  if (!factory.ok()) return factory.status();
  const Algorithm* const algorithm = AlgorithmOf(**factory);
  if (algorithm == nullptr || algorithm->traits.check_parts != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " is no schedule of one level, as each level has to be"));
  }
  const absl::Status status = CheckFitsAsPart(name, algorithm->traits);
  if (!status.ok()) return status;
  return algorithm;
}

bool Does(const Algorithm& algorithm, CollectiveType type) {
  return absl::c_linear_search(algorithm.traits.collectives, type);
}

// How it reduces inside tasks: with the fewest bytes that it can.
std::optional<CollectiveType> TypeInside(const Algorithm& algorithm) {
  for (const CollectiveType type : {kReduceScatter, kReduce, kAllReduce}) {
    if (Does(algorithm, type)) return type;
  }
  return std::nullopt;
}

// REQUIRES: CheckLevels() is OK.
const Algorithm& PartNamed(absl::string_view name) { return **FindPart(name); }

// As a composition plans it where it gives no other offsets.
constexpr int kOneRing[] = {0};

int NumChunks(PlanFunction plan, CollectiveType type, const GroupLayout& layout,
              absl::Span<const int> offsets) {
  return NumChunksOfPart(
      plan, {.layout = layout, .type = type, .subdiv_offsets = offsets});
}

// What reduces inside tasks, in so many blocks.
struct Inside {
  PlanFunction plan;
  CollectiveType type;
  int num_blocks = 1;

  // The device that carries a block between tasks. It has the task's sum.
  int OwnerOf(int block, int num_devices) const {
    switch (type) {
      case kReduceScatter:
        return block * num_devices / num_blocks;
      case kAllReduce:
        return block % num_devices;
      default:
        return 0;
    }
  }
  int NumOwners(int num_devices) const {
    return type == kReduce ? 1 : std::min(num_blocks, num_devices);
  }

  // Some devices do not have the results yet.
  bool Spreads(int num_tasks, int num_devices) const {
    return num_devices > 1 && (num_tasks > 1 || type != kAllReduce);
  }

  // Each device has the results of one block, and they bring them to each
  // other. Else trees do, block by block.
  bool Gathers(int num_devices) const {
    return type == kReduceScatter && num_blocks == num_devices;
  }
};

Inside InsideOf(const GroupLayout& layout, const ReduceLevels& levels) {
  if (!IsEven(layout)) return {PlanTreeReduce, kReduce};
  const Algorithm& algorithm = PartNamed(levels.inside);
  Inside inside = {algorithm.plan, *TypeInside(algorithm)};
  const auto task = GroupLayout::Uniform(1, LargestTask(layout));
  inside.num_blocks = NumChunks(inside.plan, inside.type, task, kOneRing);
  return inside;
}

// What all-reduces between tasks.
struct Between {
  PlanFunction plan = nullptr;  // With one task, none.
  std::vector<int> offsets;     // Of its subdivisions.
  int num_chunks = 1;           // Of each block.
};

GroupLayout FirstsOf(int num_tasks) {
  return GroupLayout::Uniform(num_tasks, /*devices_per_task=*/1);
}

// As many as make a chunk for each task at least, where it can be cut so
// finely: then the stages overlap.
int NumSubdivs(const Algorithm& between, int num_tasks, int chunks_each) {
  return between.traits.supports_subdivisions
             ? (num_tasks + chunks_each - 1) / chunks_each
             : 1;
}

Between BetweenOf(int num_tasks, const ReduceLevels& levels) {
  if (num_tasks == 1) return {};
  const Algorithm& algorithm = PartNamed(levels.between);
  const GroupLayout tasks = FirstsOf(num_tasks);
  Between between = {.plan = algorithm.plan, .offsets = {0}};
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

// Adds the stages of one rank, in order. What the last one's messages in a task
// have for tags comes first, for these are known; those of the first one lie
// behind, and those of each of its rounds between those of the others.
class Stages {
 public:
  // The request outlives this.
  Stages(const PlanRequest& request, Inside inside, Between between)
      : inside_(inside),
        between_(std::move(between)),
        planner_(request, inside_.num_blocks * between_.num_chunks),
        num_devices_(planner_.hierarchy().num_devices()),
        num_tasks_(planner_.hierarchy().num_tasks()) {}

  Schedule Plan() {
    if (num_devices_ > 1 || num_tasks_ == 1) ReduceInside();
    if (num_tasks_ > 1) ReduceBetween();
    if (inside_.Spreads(num_tasks_, num_devices_)) Spread();
    return planner_.Build();
  }

 private:
  // Chunk `i` of each block.
  std::vector<int> OfEachBlock(int i) const {
    std::vector<int> chunks;
    for (int block = 0; block < inside_.num_blocks; ++block) {
      chunks.push_back(block * between_.num_chunks + i);
    }
    return chunks;
  }

  void ReduceInside() {
    const int num_rounds = between_.num_chunks;
    const int tags_to_spread = num_rounds * inside_.num_blocks;
    for (int i = 0; i < num_rounds; ++i) {
      planner_.AddInTask({.plan = inside_.plan,
                          .type = inside_.type,
                          .first_tag = tags_to_spread + i,
                          .tag_stride = num_rounds,
                          .chunks = OfEachBlock(i),
                          .finishes = num_tasks_ == 1,
                          .ends_at_once = inside_.type == kAllReduce});
    }
  }

  void ReduceBetween() {
    for (int block = 0; block < inside_.num_blocks; ++block) {
      std::vector<int> chunks(static_cast<size_t>(between_.num_chunks));
      std::iota(chunks.begin(), chunks.end(), block * between_.num_chunks);
      planner_.AddAcrossTasks(inside_.OwnerOf(block, num_devices_),
                              {.plan = between_.plan,
                               .type = kAllReduce,
                               .first_tag = block,
                               .tag_stride = inside_.num_blocks,
                               .chunks = std::move(chunks),
                               .finishes = true,
                               .subdiv_offsets = between_.offsets});
    }
  }

  void Spread() {
    for (int i = 0; i < between_.num_chunks; ++i) {
      const std::vector<int> chunks = OfEachBlock(i);
      if (inside_.Gathers(num_devices_)) {
        planner_.AddInTask({.plan = PlanBruckGather,
                            .type = kAllGather,
                            .num_tags = num_devices_,
                            .chunks = chunks});
        continue;
      }
      for (int block = 0; block < inside_.num_blocks; ++block) {
        planner_.AddInTask({.plan = PlanHierarchicalTreeBroadcast,
                            .type = kBroadcast,
                            .root = inside_.OwnerOf(block, num_devices_),
                            .num_tags = 1,
                            .chunks = {chunks[static_cast<size_t>(block)]}});
      }
    }
  }

  const Inside inside_;
  const Between between_;
  HierarchicalPlanner planner_;
  const int num_devices_;
  const int num_tasks_;
};

// --- Prices ------------------------------------------------------------------

// Of messages that follow each other, and of the bytes in them.
struct Price {
  double latency = 0;
  double all = 0;

  double transfer() const { return all - latency; }
  void Add(const Price& more) {
    latency += more.latency;
    all += more.all;
  }
};

Price PriceOf(const Algorithm& part, CostQuery query, int num_subdivs) {
  if (part.traits.cost_seconds == nullptr) {
    return {.all = std::numeric_limits<double>::infinity()};
  }
  const auto seconds = [&] {
    return part.subdivided_seconds == nullptr
               ? part.traits.cost_seconds(query)
               : part.subdivided_seconds(query, num_subdivs);
  };
  const double all = seconds();
  query.bytes = 0;
  return {seconds(), all};
}

Price PriceOf(const Traffic& traffic, const CostModel& model,
              double block_bytes) {
  return {traffic.Seconds(model, 0), traffic.Seconds(model, block_bytes)};
}

// Plans of many ranks take long, and prices are asked for often. So few ranks
// tell in how many chunks many are: in one for each, or always in as many.
int Few(int num_ranks) { return std::min(num_ranks, 3); }

int PredictedChunks(int chunks_of_few, int num_ranks) {
  return chunks_of_few == Few(num_ranks) ? num_ranks : chunks_of_few;
}

// As InsideOf(), predicted.
Inside PredictedInside(const GroupLayout& layout, const ReduceLevels& levels) {
  if (!IsEven(layout)) return InsideOf(layout, levels);
  const int num_devices = LargestTask(layout);
  Inside inside = InsideOf(GroupLayout::Uniform(1, Few(num_devices)), levels);
  inside.num_blocks = PredictedChunks(inside.num_blocks, num_devices);
  return inside;
}

// Of what reduces in the largest task.
Price PriceInside(const CostQuery& query, const ReduceLevels& levels,
                  const Inside& inside) {
  const auto task = GroupLayout::Uniform(1, LargestTask(query.layout));
  const CostQuery in_task = {.type = inside.type,
                             .layout = task,
                             .bytes = query.bytes,
                             .model = query.model,
                             .one_process = true};
  return IsEven(query.layout)
             ? PriceOf(PartNamed(levels.inside), in_task, std::size(kOneRing))
             : PriceOf(TreeReduceTraffic(in_task), query.model,
                       static_cast<double>(query.bytes));
}

// Of what spreads the results there.
Price PriceOfSpread(const CostQuery& query, const Inside& inside) {
  const int num_devices = LargestTask(query.layout);
  const auto bytes = static_cast<double>(query.bytes);
  if (!inside.Spreads(query.layout.num_tasks(), num_devices)) return {};
  return inside.Gathers(num_devices)
             ? PriceOf(TrafficInTask(query, BruckGatherTraffic, kAllGather),
                       query.model, bytes / num_devices)
             : PriceOf(TrafficInTask(query, HierarchicalTreeBroadcastTraffic,
                                     kBroadcast),
                       query.model, bytes);
}

// Of one in `num_owners` of the bytes, as many times at once in each process.
// Members share its links, and each message of one waits the gap for those of
// the others.
Price PriceBetween(const CostQuery& query, const Algorithm& between,
                   int num_subdivs, int num_owners) {
  CostModel model = query.model;
  model.between.latency_seconds += (num_owners - 1) * model.between_gap_seconds;
  model.between_gap_seconds *= num_owners;
  model.between.bytes_per_second /= num_owners;
  model.shared.message.latency_seconds *= num_owners;
  model.shared.message.bytes_per_second /= num_owners;
  const GroupLayout tasks = FirstsOf(query.layout.num_tasks());
  return PriceOf(between,
                 {.type = kAllReduce,
                  .layout = tasks,
                  .bytes = query.bytes / num_owners,
                  .model = model,
                  .one_process = query.one_process},
                 num_subdivs);
}

}  // namespace

absl::Status CheckLevels(const ReduceLevels& levels) {
  const auto inside = FindPart(levels.inside);
  if (!inside.ok()) return inside.status();
  if (!TypeInside(**inside).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        levels.inside, " does not reduce, as the level inside tasks has to"));
  }
  const auto between = FindPart(levels.between);
  if (!between.ok()) return between.status();
  if (Does(**between, kAllReduce)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(levels.between,
                   " does not all-reduce, as the level between tasks has to"));
}

Schedule PlanHierarchicalReduce(const PlanRequest& request,
                                const ReduceLevels& levels) {
  const Inside inside = InsideOf(request.layout, levels);
  Between between = BetweenOf(request.layout.num_tasks(), levels);
  if (int64_t{inside.num_blocks} * between.num_chunks > kMaxChunks) {
    return {.problem = absl::StrCat(inside.num_blocks, " blocks of ",
                                    between.num_chunks,
                                    " chunks are more than ", kMaxChunks)};
  }
  return Stages(request, inside, std::move(between)).Plan();
}

double HierarchicalReduceSeconds(const CostQuery& query,
                                 const ReduceLevels& levels) {
  if (!CheckLevels(levels).ok()) {
    return std::numeric_limits<double>::infinity();
  }
  const int num_tasks = query.layout.num_tasks();
  const int num_devices = LargestTask(query.layout);
  const Inside inside = PredictedInside(query.layout, levels);
  Price within = PriceInside(query, levels, inside);
  within.Add(PriceOfSpread(query, inside));
  if (num_tasks == 1) return within.all;
  const Algorithm& algorithm = PartNamed(levels.between);
  const int chunks_each = PredictedChunks(
      NumChunks(algorithm.plan, kAllReduce, FirstsOf(Few(num_tasks)), kOneRing),
      num_tasks);
  const int num_subdivs = NumSubdivs(algorithm, num_tasks, chunks_each);
  const Price across = PriceBetween(query, algorithm, num_subdivs,
                                    inside.NumOwners(num_devices));
  if (num_devices == 1) return across.all;
  // While some chunks are between tasks, others are inside.
  const int num_rounds = chunks_each * num_subdivs;
  return num_rounds * within.latency + across.latency +
         std::max(within.transfer(), across.transfer()) +
         std::min(within.transfer(), across.transfer()) / num_rounds;
}

}  // namespace tutti
