#include "implementations/two_level/hierarchical_reduce.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "implementations/bruck_gather.h"
#include "implementations/parts/cost.h"
#include "implementations/tree_reduce.h"
#include "implementations/two_level/hierarchical_tree_broadcast.h"
#include "implementations/two_level/hierarchy.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace {

using enum CollectiveType;

// Adds the stages of one rank, in order. Messages of the last stage in a task
// have the lowest tags, because their number is known. Tags of the first stage
// come after them; tags of its rounds are interleaved.
class Stages {
 public:
  // `request` outlives this.
  Stages(const PlanRequest& request, LevelInside inside, LevelBetween between)
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
  // Returns chunk `i` of each block.
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

  const LevelInside inside_;
  const LevelBetween between_;
  HierarchicalPlanner planner_;
  const int num_devices_;
  const int num_tasks_;
};

// --- Prices ------------------------------------------------------------------

// Price of messages in sequence, and of their bytes.
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

// Number of ranks from which chunks are predicted. Plans of many ranks take
// long, and prices are requested often. A few ranks show whether there is a
// chunk for each rank, or a fixed number.
int Few(int num_ranks) { return std::min(num_ranks, 3); }

int PredictedChunks(int chunks_of_few, int num_ranks) {
  return chunks_of_few == Few(num_ranks) ? num_ranks : chunks_of_few;
}

// Predicts InsideOf().
LevelInside PredictedInside(const GroupLayout& layout,
                            const ReduceLevels& levels) {
  if (!IsEven(layout)) return InsideOf(layout, levels);
  const int num_devices = LargestTask(layout);
  LevelInside inside =
      InsideOf(GroupLayout::Uniform(1, Few(num_devices)), levels);
  inside.num_blocks = PredictedChunks(inside.num_blocks, num_devices);
  return inside;
}

// Price of the reduction in the largest task.
Price PriceInside(const CostQuery& query, const ReduceLevels& levels,
                  const LevelInside& inside) {
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

// Price of spreading the results in the largest task.
Price PriceOfSpread(const CostQuery& query, const LevelInside& inside) {
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

// Price of the part between tasks, for 1 / num_owners of the bytes and
// `num_owners` parts at once in each process. The owners share the process's
// links, and each message of one owner waits for the gaps of the others.
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

Schedule PlanHierarchicalReduce(const PlanRequest& request,
                                const ReduceLevels& levels) {
  const LevelInside inside = InsideOf(request.layout, levels);
  LevelBetween between = BetweenOf(request.layout.num_tasks(), levels);
  std::string problem =
      ProblemOfChunks(int64_t{inside.num_blocks} * between.num_chunks);
  if (!problem.empty()) return {.problem = std::move(problem)};
  return Stages(request, inside, std::move(between)).Plan();
}

double HierarchicalReduceSeconds(const CostQuery& query,
                                 const ReduceLevels& levels) {
  if (!CheckLevels(levels).ok()) {
    return std::numeric_limits<double>::infinity();
  }
  const int num_tasks = query.layout.num_tasks();
  const int num_devices = LargestTask(query.layout);
  const LevelInside inside = PredictedInside(query.layout, levels);
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
  // Some chunks are between tasks while others are inside.
  const int num_rounds = chunks_each * num_subdivs;
  return num_rounds * within.latency + across.latency +
         std::max(within.transfer(), across.transfer()) +
         std::min(within.transfer(), across.transfer()) / num_rounds;
}

}  // namespace tutti
