#include "tools/commands/run_plan.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace {

bool OnlyRootHasInput(CollectiveType type) {
  return HasRoot(type) && !HasInput(type, /*rank=*/1, /*root=*/0);
}

// Whether the files are the inputs of the roots alone.
bool AreRootsAlone(const RunSettings& settings, int num_files) {
  return settings.devices.has_value() && *settings.devices != num_files &&
         OnlyRootHasInput(settings.spec.type) && num_files == settings.groups;
}

// Text such as "1 rank" or "3 ranks".
std::string Count(int count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// Explains why `num_files` is not one file for each rank.
std::string Misfit(const RunSettings& settings, int num_files) {
  const int devices = *settings.devices;
  if (!settings.tasks_of_cluster.has_value()) {
    return absl::StrCat("--devices ", devices, " does not fit ",
                        Count(num_files, "input file"));
  }
  const int tasks = *settings.tasks_of_cluster;
  return absl::StrCat(
      Count(tasks, "task"), " with ", Count(devices / tasks, "device"),
      tasks == 1 ? " has " : " each are ", Count(devices, "rank"),
      ", but there ", num_files == 1 ? "is " : "are ",
      Count(num_files, "input file"));
}

absl::StatusOr<int> CountRanks(const RunSettings& settings, int num_files) {
  const CollectiveType type = settings.spec.type;
  if (type == CollectiveType::kBarrier) {
    if (num_files > 0) return UsageError("barrier takes no --input");
    if (!settings.devices.has_value()) {
      return UsageError("barrier needs --devices, the number of ranks");
    }
    return *settings.devices;
  }
  if (num_files == 0) {
    return UsageError(
        absl::StrCat(Name(type), " needs --input, the .npy files"));
  }
  if (!settings.devices.has_value() || *settings.devices == num_files ||
      AreRootsAlone(settings, num_files)) {
    return settings.devices.value_or(num_files);
  }
  return UsageError(absl::StrCat(
      Misfit(settings, num_files), "; wanted one file per rank",
      OnlyRootHasInput(type) ? ", or the root's file alone of each group"
                             : ""));
}

bool DifferOnlyInFirstDim(const TensorShape& a, const TensorShape& b) {
  if (a.num_dims() == 0 || a.num_dims() != b.num_dims()) return false;
  return std::equal(a.dims().begin() + 1, a.dims().end(), b.dims().begin() + 1);
}

// Checks that the inputs of one group fit together.
absl::Status CheckAlike(CollectiveType type,
                        absl::Span<const InputFile> files) {
  const bool may_be_uneven = InputIsOwnBlock(type);
  for (const InputFile& file : files) {
    const NpyHeader& first = files[0].header;
    const bool same_shape =
        first.shape == file.header.shape ||
        (may_be_uneven && DifferOnlyInFirstDim(first.shape, file.header.shape));
    if (first.dtype == file.header.dtype && same_shape &&
        first.descr == file.header.descr) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        files[0].path, " holds ", ToString(first), ", but ", file.path,
        " holds ", ToString(file.header), "; ", Name(type),
        may_be_uneven ? " needs one dtype on all ranks, and shapes that differ "
                        "at most in the first dimension"
                      : " needs one dtype and shape on all ranks"));
  }
  return absl::OkStatus();
}

// Checks that the collective can take elements that are read as bytes.
absl::Status CheckBytes(CollectiveType type,
                        absl::Span<const InputFile> files) {
  for (const InputFile& file : files) {
    const NpyHeader& header = file.header;
    if (header.descr.empty()) continue;
    if (Reduces(type)) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path, " holds ", ToString(header), ", elements that ",
          Name(type), " cannot combine, only move: wanted numbers"));
    }
    if (HasRankBlocks(type) && header.shape.num_dims() == 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path, " holds ", ToString(header), "; ", Name(type),
                       " needs at least one dimension"));
    }
  }
  return absl::OkStatus();
}

bool AreUneven(absl::Span<const InputFile> files) {
  return std::any_of(files.begin(), files.end(), [&](const InputFile& file) {
    return !(file.header.shape == files[0].header.shape);
  });
}

// Files of one group: one per rank, the root's alone, or none.
struct GroupFiles {
  absl::Span<const InputFile> files;
  int first = 0;  // Index among all files.
  bool one_per_rank = false;
  bool uneven = false;
};

void SetUneven(CollectiveOp& op) {
  std::visit(
      [](auto& typed) {
        if constexpr (requires { typed.uneven; }) typed.uneven = true;
      },
      op);
}

PlannedRank PlanRank(const RunSettings& settings, const GroupFiles& group,
                     int group_size, int rank) {
  const CollectiveSpec& spec = settings.spec;
  const int file = group.one_per_rank ? rank : 0;
  PlannedRank planned;
  planned.request = RequestOf(spec, group_size, rank);
  if (group.uneven) SetUneven(planned.request.op);
  if (!group.files.empty()) {
    planned.request.dtype = group.files[file].header.dtype;
    planned.request.shape = group.files[file].header.shape;
    planned.descr = group.files[file].header.descr;
  }
  planned.request.impl_details.implementation = settings.algorithm;
  planned.request.impl_details.determinism = settings.determinism;
  planned.request.impl_details.rank_list = settings.rank_list;
  if (HasInput(spec.type, rank, spec.root)) planned.input = group.first + file;
  planned.has_output = HasOutput(spec.type, rank, spec.root);
  return planned;
}

absl::Status Refused(const RunSettings& settings, const GroupFiles& group,
                     int rank, const std::string& why) {
  std::string text = absl::StrCat(Name(settings.spec.type), ": ", why);
  if (!group.files.empty()) {
    const InputFile& file = group.files[group.one_per_rank ? rank : 0];
    text =
        absl::StrCat(file.path, " holds ", ToString(file.header), "; ", text);
  }
  return absl::InvalidArgumentError(text);
}

// Adds the ranks of one group to the plan.
absl::Status PlanGroup(const RunSettings& settings, int group_key,
                       GroupFiles group, RunPlan* plan) {
  RETURN_IF_ERROR(CheckBytes(settings.spec.type, group.files));
  RETURN_IF_ERROR(CheckAlike(settings.spec.type, group.files));
  group.one_per_rank = static_cast<int>(group.files.size()) == plan->group_size;
  group.uneven = settings.uneven || AreUneven(group.files);
  for (int rank = 0; rank < plan->group_size; ++rank) {
    PlannedRank planned = PlanRank(settings, group, plan->group_size, rank);
    planned.request.group_key = group_key;
    const std::string why = WhyInvalid(planned.request);
    if (!why.empty()) return Refused(settings, group, rank, why);
    plan->ranks.push_back(std::move(planned));
  }
  return absl::OkStatus();
}

// Text such as "float32[3]" or "float32[2], float32[3]", ...: each kind once.
std::string Kinds(const std::vector<InputFile>& files) {
  constexpr size_t kMaxShown = 4;
  std::vector<std::string> kinds;
  for (const InputFile& file : files) {
    const std::string kind = ToString(file.header);
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    if (kinds.size() == kMaxShown) {
      kinds.emplace_back("...");
      break;
    }
    kinds.push_back(kind);
  }
  return absl::StrJoin(kinds, ", ");
}

std::string Describe(const RunSettings& settings, int group_size,
                     const std::vector<InputFile>& files) {
  std::string text = ToString(settings.spec);
  if (!files.empty()) absl::StrAppend(&text, " ", Kinds(files));
  absl::StrAppend(&text, " on ");
  if (settings.groups > 1) {
    absl::StrAppend(&text, settings.groups, " groups of ");
  }
  absl::StrAppend(&text, group_size, group_size == 1 ? " rank" : " ranks");
  return text;
}

}  // namespace

absl::StatusOr<RunPlan> PlanRun(const RunSettings& settings,
                                const std::vector<InputFile>& files) {
  const int num_files = static_cast<int>(files.size());
  ASSIGN_OR_RETURN(const int num_ranks, CountRanks(settings, num_files));
  if (num_ranks % settings.groups != 0) {
    return UsageError(absl::StrCat("--groups ", settings.groups,
                                   " does not divide the number of ranks, ",
                                   num_ranks));
  }
  RunPlan plan{.group_size = num_ranks / settings.groups};
  RETURN_IF_ERROR(CheckGroupSize(settings.spec, plan.group_size));
  RETURN_IF_ERROR(CheckRankList(settings.rank_list, plan.group_size));
  const int files_per_group = num_files / settings.groups;
  for (int group = 0; group < settings.groups; ++group) {
    const int first_file = group * files_per_group;
    const GroupFiles group_files = {
        absl::MakeConstSpan(files).subspan(first_file, files_per_group),
        first_file};
    RETURN_IF_ERROR(PlanGroup(settings, group, group_files, &plan));
  }
  plan.description = Describe(settings, plan.group_size, files);
  return plan;
}

}  // namespace tutti
