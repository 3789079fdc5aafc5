#include "tools/measure/perf_plan.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tools/base/algorithm_names.h"
#include "tools/base/exit_status.h"
#include "tools/measure/sweep.h"
#include "tools/request/request_options.h"

namespace tutti {
namespace {

// Stands for the names of all algorithms.
constexpr char kAll[] = "all";

absl::Status CheckDevices(const PerfOptions& options) {
  if (options.devices > kMaxGroupSize) {
    return UsageError(absl::StrCat("--devices ", options.devices,
                                   ": wanted at most ", kMaxGroupSize));
  }
  if (options.devices % options.tasks == 0) return absl::OkStatus();
  return UsageError(absl::StrCat("--tasks ", options.tasks,
                                 " does not divide --devices ",
                                 options.devices));
}

absl::Status ChooseAlgorithms(const PerfOptions& options,
                              const CollectiveRegistry& registry,
                              CollectiveType type, PerfPlan* plan) {
  const std::string& device_type = options.choice.device_type;
  plan->algorithms = options.algorithms;
  plan->may_skip = plan->algorithms == std::vector<std::string>{kAll};
  if (plan->algorithms.empty()) plan->algorithms = {""};
  if (plan->may_skip) {
    plan->algorithms = AlgorithmsFor(registry, type, device_type);
    if (!plan->algorithms.empty()) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat("no algorithm of ", Name(type), " is registered"));
  }
  for (const std::string& name : options.algorithms) {
    if (name == kAll) {
      return UsageError("--algorithm: all stands alone, without other names");
    }
    RETURN_IF_ERROR(CheckAlgorithm(registry, name, type, device_type));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PerfPlan> PlanPerf(const PerfOptions& options,
                                  const CollectiveRegistry& registry) {
  RETURN_IF_ERROR(CheckDevices(options));
  ASSIGN_OR_RETURN(
      const auto workload,
      ParseWorkload(options.collective, options.sweep.dtype, options.devices));
  RETURN_IF_ERROR(CheckRankList(options.choice.rank_list, options.devices));
  ASSIGN_OR_RETURN(const auto sizes, SweptSizes(options.sweep));
  PerfPlan plan{.workloads = SweptWorkloads(workload, sizes)};
  RETURN_IF_ERROR(
      ChooseAlgorithms(options, registry, workload.spec.type, &plan));
  return plan;
}

}  // namespace tutti
