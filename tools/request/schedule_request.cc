#include "tools/request/schedule_request.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "schedule/chunk_map.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/request/request_options.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

constexpr int kDefaultRanks = 8;
constexpr char kDefaultBytes[] = "1M";

absl::StatusOr<StandIn> FindShown(const CollectiveRegistry& registry,
                                  const std::string& name) {
  ASSIGN_OR_RETURN(const auto factory, FindAlgorithm(registry, name));
  auto shown = StandInOf(*factory);
  if (shown.ok()) return shown;
  std::vector<std::string> others;
  for (const auto& entry : registry.List()) {
    if (StandInOf(*entry.factory).ok()) others.push_back(entry.name);
  }
  return UsageError(absl::StrCat(
      name, " has no steps to show: ", shown.status().message(),
      "; these do: ", others.empty() ? "none" : absl::StrJoin(others, ", ")));
}

absl::StatusOr<GroupLayout> LayoutOf(const ScheduleWords& words,
                                     int max_ranks) {
  if (words.layout.empty()) {
    return GroupLayout::Uniform(1, words.ranks.value_or(kDefaultRanks));
  }
  auto layout = ParseLayout(words.layout, max_ranks);
  if (!layout.ok() || words.ranks.value_or(layout->size()) == layout->size()) {
    return layout;
  }
  return UsageError(absl::StrCat("--ranks ", *words.ranks,
                                 " does not fit --layout ", words.layout,
                                 ", which has ", layout->size()));
}

// Fills in a collective that the algorithm runs if `given` names none.
absl::StatusOr<CollectiveWords> ChooseCollective(const ScheduleWords& given,
                                                 const Algorithm& algorithm) {
  CollectiveWords words = given.collective;
  std::vector<absl::string_view> names;
  for (CollectiveType type : algorithm.traits.collectives) {
    names.push_back(Name(type));
  }
  if (words.collective.empty() && !names.empty()) {
    words.collective = std::string(names[0]);
  }
  const auto type = ParseCollectiveType(words.collective);
  if (!type.ok()) return UsageError(type.status().message());
  if (std::find(names.begin(), names.end(), words.collective) != names.end()) {
    return words;
  }
  return UsageError(absl::StrCat(given.name, " does not do ", words.collective,
                                 "; it does ", absl::StrJoin(names, ", ")));
}

std::vector<int> SubdivisionsOf(const Algorithm& algorithm,
                                const GroupLayout& layout, int64_t bytes) {
  if (!algorithm.traits.supports_subdivisions) return {};
  if (algorithm.subdivide == nullptr) return {0};
  return algorithm.subdivide({.layout = layout, .bytes = bytes});
}

// The parts of a resolver's answer that determine the chunks.
CollectiveParams ParamsOf(const Workload& workload) {
  auto group = std::make_shared<CollGroupParams>();
  group->members.resize(workload.group_size);
  auto instance = std::make_shared<CollInstanceParams>();
  instance->type = workload.spec.type;
  instance->dtype = workload.dtype;
  instance->shape = RequestOf(workload, /*rank=*/0).shape;
  instance->root = workload.spec.root;
  CollectiveParams params;
  params.group = std::move(group);
  params.instance = std::move(instance);
  return params;
}

// A barrier's token is one byte.
int64_t ElementBytes(const Workload& workload) {
  const bool is_barrier = workload.spec.type == CollectiveType::kBarrier;
  return is_barrier ? 1 : static_cast<int64_t>(SizeOf(workload.dtype));
}

}  // namespace

std::string TitleOf(const ScheduleWords& words,
                    const ScheduleRequest& request) {
  return absl::StrCat(words.name, ": ", ToString(request.request));
}

absl::StatusOr<ScheduleRequest> ParseScheduleRequest(
    const ScheduleWords& words, const CollectiveRegistry& registry,
    int max_ranks) {
  ASSIGN_OR_RETURN(auto shown, FindShown(registry, words.name));
  ASSIGN_OR_RETURN(const auto layout, LayoutOf(words, max_ranks));
  ASSIGN_OR_RETURN(const auto collective,
                   ChooseCollective(words, shown.algorithm));
  ASSIGN_OR_RETURN(auto workload,
                   ParseWorkload(collective, "float32", layout.size()));
  const CollectiveSpec& spec = workload.spec;
  if (spec.type == CollectiveType::kBarrier && words.bytes.has_value()) {
    return UsageError("--bytes does not go with barrier, which moves no data");
  }
  ASSIGN_OR_RETURN(const auto bytes,
                   ParseSize("--bytes", words.bytes.value_or(kDefaultBytes)));
  workload.count = CountFor(spec.type, workload.dtype, layout.size(), bytes);
  VerifyCase request = {.layout = layout,
                        .type = spec.type,
                        .root = spec.root,
                        .permutation = spec.permutation,
                        .subdiv_offsets = SubdivisionsOf(
                            shown.algorithm, layout, BytesOf(workload))};
  return ScheduleRequest{std::move(shown), std::move(request),
                         std::move(workload)};
}

void AddScheduleOptions(CLI::App* app, int max_ranks, ScheduleWords* words) {
  app->add_option("NAME", words->name, "a registered name (see `tutti info`)")
      ->required()
      ->option_text(" ");
  app->add_option(
         "--ranks", words->ranks,
         absl::StrCat("how many, at most ", max_ranks, " [default: 8]"))
      ->transform(WholeNumber(1, max_ranks))
      ->option_text("N");
  app->add_option("--layout", words->layout,
                  "tasks x devices of each, or the devices of each\n"
                  "task: 4x2, 3+1+2 [default: one task]")
      ->check(NotEmpty())
      ->option_text("TxD");
  app->add_option("--collective", words->collective.collective,
                  "where the algorithm does several\n"
                  "[default: the first of `tutti info`]")
      ->check(NotEmpty())
      ->option_text("NAME");
  AddRoleOptions(app, max_ranks, &words->collective);
  app->add_option("--bytes", words->bytes,
                  "of the larger of one rank's buffers; K, M and G\n"
                  "are powers of 1024 [default: 1M]; a barrier has none")
      ->option_text("SIZE");
}

std::vector<int64_t> TransferBytes(const GroupPlan& plan,
                                   const Workload& workload) {
  std::vector<int64_t> bytes(plan.num_steps());
  CollectiveParams params = ParamsOf(workload);
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    params.default_rank = rank;
    const ChunkMap chunks(params, plan.memory().num_chunks);
    for (int lane = plan.first_lane(rank); lane < plan.first_lane(rank + 1);
         ++lane) {
      const GroupPlan::LaneInfo& info = plan.lane(lane);
      for (int i = 0; i < info.num_steps; ++i) {
        const Step& step = plan.step(info.first_step + i);
        if (!IsTransfer(step)) continue;
        const Slot& slot = step.kind == StepKind::kSend ? step.left : step.into;
        bytes[info.first_step + i] =
            chunks.RangeOf(slot).size * ElementBytes(workload);
      }
    }
  }
  return bytes;
}

}  // namespace tutti
