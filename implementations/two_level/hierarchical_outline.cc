#include "implementations/two_level/hierarchical_outline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "implementations/parts/cost.h"
#include "implementations/parts/shuffle_outline.h"
#include "implementations/two_level/hierarchy.h"
#include "schedule/proof/verifier.h"
#include "schedule/simulate/planned_outline.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace {

using Transfer = OutlineRound::Transfer;
using Work = OutlineRound::Work;
using OwnedOutline = std::unique_ptr<const Outline>;

// Outlines of the parts, among the devices of each task, or among devices with
// the same index in their tasks.
struct Parts {
  OwnedOutline inside;   // Null with one device per task.
  OwnedOutline between;  // Null with one task.
  OwnedOutline gather;   // Null with one device per task.

  int num_chunks_of_block() const {
    return between == nullptr ? 1 : between->size().num_chunks;
  }

  // Round of the blocks. The part between tasks begins in it.
  int begin() const {
    return inside == nullptr ? 0 : inside->size().num_rounds - 1;
  }

  // Returns for how many chunks of each of its blocks a task gets the results
  // in a round of the whole.
  int64_t NumResults(int round, int task) const {
    if (between == nullptr) return round == begin() ? 1 : 0;
    const int own = round - begin();
    return own < 0 || own >= between->size().num_rounds
               ? 0
               : between->NumResults(own, task);
  }
};

// Returns the round in which the last task has the results of its last chunk.
int LastResult(const Parts& parts, int num_tasks) {
  int round = parts.begin();
  if (parts.between != nullptr) round += parts.between->size().num_rounds - 1;
  const auto has_results = [&] {
    for (int task = 0; task < num_tasks; ++task) {
      if (parts.NumResults(round, task) > 0) return true;
    }
    return false;
  };
  while (round > 0 && !has_results()) --round;
  return round;
}

int NumRounds(const Parts& parts, int num_tasks) {
  int last = parts.begin();
  if (parts.between != nullptr) last += parts.between->size().num_rounds - 1;
  if (parts.gather != nullptr) {
    last = std::max(last, LastResult(parts, num_tasks) +
                              parts.gather->size().num_rounds - 1);
  }
  return last + 1;
}

int PeriodOf(const GroupLayout& layout, const Parts& parts) {
  if (parts.between == nullptr) return parts.inside->size().period;
  const int devices = LargestTask(layout);
  const bool is_uniform =
      layout == GroupLayout::Uniform(layout.num_tasks(), devices);
  return is_uniform ? parts.between->size().period * devices : layout.size();
}

// Returns a bound on the transfers of a round. All rounds of the gather may run
// at once, with different chunks. The part inside tasks and the part between
// tasks never share a round.
int64_t MostTransfers(const GroupLayout& layout, const Parts& parts) {
  const int num_tasks = layout.num_tasks();
  int64_t inside = 0;
  int64_t later = 0;
  if (parts.inside != nullptr) {
    inside = parts.inside->size().most_transfers * num_tasks;
    if (inside == 0) return 0;
  }
  if (parts.between != nullptr) {
    later = parts.between->size().most_transfers * LargestTask(layout);
    if (later == 0) return 0;
  }
  if (parts.gather != nullptr) {
    later += int64_t{parts.gather->size().num_rounds - 1} * layout.size();
  }
  return std::max(inside, later);
}

Outline::Size SizeOf(const GroupLayout& layout, const Parts& parts) {
  const int num_chunks = parts.num_chunks_of_block();
  int64_t scratch = 0;
  if (parts.inside != nullptr) {
    scratch += num_chunks * parts.inside->size().scratch_chunks;
  }
  if (parts.between != nullptr) {
    scratch += parts.between->size().scratch_chunks;
  }
  return {.num_ranks = layout.size(),
          .num_chunks = LargestTask(layout) * num_chunks,
          .num_rounds = NumRounds(parts, layout.num_tasks()),
          .scratch_chunks = scratch,
          .period = PeriodOf(layout, parts),
          .is_ring = parts.inside == nullptr && parts.between->size().is_ring,
          .most_transfers = MostTransfers(layout, parts)};
}

// Returns, by rank, its index among the devices of its task.
std::vector<int> DevicesOf(const GroupLayout& layout) {
  std::vector<int> devices(static_cast<size_t>(layout.size()));
  for (const std::vector<int>& ranks : layout.tasks()) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      devices[ranks[i]] = static_cast<int>(i);
    }
  }
  return devices;
}

class Levels final : public Outline {
 public:
  Levels(const GroupLayout& layout, Parts parts)
      : Outline(SizeOf(layout, parts)),
        layout_(layout),
        device_of_(DevicesOf(layout)),
        parts_(std::move(parts)) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    TaskRound now;
    for (int rank = first; rank < end; ++rank) {
      const int task = layout_.task_of(rank);
      if (task != now.task) now = RoundOf(task, round);
      const size_t before = into->transfers.size();
      Work work = {.rank = rank};
      AppendInside(round, rank, &work, into);
      AppendBetween(now, rank, &work, into);
      AppendGather(now, rank, into);
      std::sort(into->transfers.begin() + static_cast<int64_t>(before),
                into->transfers.end());
      if (work.reduced_chunks + work.copied_chunks > 0) {
        into->work.push_back(work);
      }
    }
  }

  int64_t NumResults(int round, int rank) const override {
    const int task = layout_.task_of(rank);
    int64_t num_results = parts_.NumResults(round, task);
    if (parts_.gather == nullptr) return num_results;
    for (int own = 1; own < parts_.gather->size().num_rounds; ++own) {
      num_results += parts_.NumResults(round - own, task) *
                     parts_.gather->NumResults(own, device_of_[rank]);
    }
    return num_results;
  }

 private:
  // Facts of a round that all devices of a task share.
  struct TaskRound {
    int task = -1;
    OutlineRound between;  // Ranks are tasks.

    // By round of the gather, from 1 on: chunks in that round.
    std::vector<int64_t> gathered;
  };

  TaskRound RoundOf(int task, int round) const {
    TaskRound result = {.task = task};
    const int own = round - parts_.begin();
    if (parts_.between != nullptr && own >= 0 &&
        own < parts_.between->size().num_rounds) {
      parts_.between->Append(own, task, task + 1, &result.between);
    }
    if (parts_.gather == nullptr) return result;
    for (int step = 1; step < parts_.gather->size().num_rounds; ++step) {
      result.gathered.push_back(parts_.NumResults(round - step, task));
    }
    return result;
  }

  // Appends the part inside, once for each chunk of a block.
  void AppendInside(int round, int rank, Work* work, OutlineRound* into) const {
    if (parts_.inside == nullptr || round > parts_.begin()) return;
    const int64_t times = parts_.num_chunks_of_block();
    const size_t num_working = into->work.size();
    AppendInTask(*parts_.inside, round, rank, times, into);
    if (into->work.size() == num_working) return;
    work->reduced_chunks += times * into->work.back().reduced_chunks;
    work->copied_chunks += times * into->work.back().copied_chunks;
    into->work.pop_back();
  }

  void AppendBetween(const TaskRound& now, int rank, Work* work,
                     OutlineRound* into) const {
    const int device = device_of_[rank];
    for (const Transfer& transfer : now.between.transfers) {
      into->transfers.push_back({rank, layout_.tasks()[transfer.to][device],
                                 transfer.chunks, transfer.messages});
    }
    for (const Work& own : now.between.work) {
      work->reduced_chunks += own.reduced_chunks;
      work->copied_chunks += own.copied_chunks;
    }
  }

  void AppendGather(const TaskRound& now, int rank, OutlineRound* into) const {
    for (size_t i = 0; i < now.gathered.size(); ++i) {
      if (now.gathered[i] == 0) continue;
      AppendInTask(*parts_.gather, static_cast<int>(i) + 1, rank,
                   now.gathered[i], into);
    }
  }

  // Appends the rank's transfers in a round of a part, `times` times, and its
  // work once.
  void AppendInTask(const Outline& part, int round, int rank, int64_t times,
                    OutlineRound* into) const {
    const std::vector<int>& ranks = layout_.tasks()[layout_.task_of(rank)];
    const int device = device_of_[rank];
    const size_t num_sent = into->transfers.size();
    part.Append(round, device, device + 1, into);
    for (size_t i = num_sent; i < into->transfers.size(); ++i) {
      Transfer& transfer = into->transfers[i];
      transfer = {rank, ranks[transfer.to], times * transfer.chunks,
                  times * MessagesOf(transfer)};
    }
  }

  // Chunk i of one block is next to that of another block only if there is no
  // other.
  int64_t MessagesOf(const Transfer& in_task) const {
    return parts_.num_chunks_of_block() == 1 ? in_task.messages
                                             : in_task.chunks;
  }

  const GroupLayout layout_;
  const std::vector<int> device_of_;  // By rank.
  const Parts parts_;
};

absl::StatusOr<OwnedOutline> OutlineOfPart(absl::string_view name,
                                           absl::string_view where,
                                           const VerifyCase& request) {
  auto outline = OutlineOf(PartNamed(name), request, kMaxPlannedSteps);
  if (outline.ok()) return outline;
  return absl::Status(
      outline.status().code(),
      absl::StrCat(name, " ", where, ": ", outline.status().message()));
}

bool HaveResultsInLastRound(const Outline& inside) {
  for (int device = 0; device < inside.size().num_ranks; ++device) {
    if (inside.NumResults(inside.size().num_rounds - 1, device) == 0) {
      return false;
    }
  }
  return true;
}

// With a single device, any way of reducing does.
bool BringsEachDeviceABlock(const LevelInside& inside, int num_devices) {
  return num_devices == 1 ? inside.num_blocks == 1
                          : inside.Gathers(num_devices);
}

absl::StatusOr<OwnedOutline> OutlineInside(const GroupLayout& task,
                                           CollectiveType type,
                                           const ReduceLevels& levels) {
  VerifyCase request = {.layout = task, .type = type, .blocks_differ = true};
  if (PartNamed(levels.inside).traits.supports_subdivisions) {
    request.subdiv_offsets.assign(std::begin(kOneRing), std::end(kOneRing));
  }
  auto outline = OutlineOfPart(levels.inside, "inside tasks", request);
  if (outline.ok() && !HaveResultsInLastRound(**outline)) {
    return absl::UnimplementedError(absl::StrCat(
        levels.inside,
        " inside tasks does not bring all devices their blocks in its last "
        "round"));
  }
  return outline;
}

absl::StatusOr<OwnedOutline> OutlineBetween(int num_tasks, InPlace in_place,
                                            const ReduceLevels& levels) {
  VerifyCase request = {.layout = FirstsOf(num_tasks), .in_place = in_place};
  if (PartNamed(levels.between).traits.supports_subdivisions) {
    request.subdiv_offsets = BetweenOf(num_tasks, levels).offsets;
  }
  return OutlineOfPart(levels.between, "between tasks", request);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> HierarchicalReduceOutline(
    const PlanRequest& request, const ReduceLevels& levels) {
  const GroupLayout& layout = request.layout;
  if (!IsEven(layout)) {
    return absl::UnimplementedError("tasks have different numbers of devices");
  }
  const int num_devices = LargestTask(layout);
  const auto task = GroupLayout::Uniform(1, num_devices);
  const LevelInside level = InsideOf(task, levels);
  if (!BringsEachDeviceABlock(level, num_devices)) {
    return absl::UnimplementedError(absl::StrCat(
        levels.inside, " inside tasks does not bring each device a block"));
  }
  const int64_t num_chunks =
      int64_t{num_devices} * BetweenOf(layout.num_tasks(), levels).num_chunks;
  const std::string problem = ProblemOfChunks(num_chunks);
  if (!problem.empty()) return absl::InvalidArgumentError(problem);
  Parts parts;
  if (num_devices > 1 || layout.num_tasks() == 1) {
    auto inside = OutlineInside(task, level.type, levels);
    if (!inside.ok()) return inside;
    parts.inside = *std::move(inside);
  }
  if (layout.num_tasks() > 1) {
    // Blocks are in the output.
    const InPlace in_place = num_devices > 1 ? InPlace::kAll : InPlace::kNone;
    auto between = OutlineBetween(layout.num_tasks(), in_place, levels);
    if (!between.ok()) return between;
    parts.between = *std::move(between);
  }
  if (num_devices > 1) {
    auto gather = ShuffleOutline({.layout = task}, {.gathers = true});
    if (!gather.ok()) return gather;
    parts.gather = *std::move(gather);
  }
  return std::make_unique<Levels>(layout, std::move(parts));
}

}  // namespace tutti
