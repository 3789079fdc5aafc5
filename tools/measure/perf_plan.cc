#include "tools/measure/perf_plan.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status_macros.h"
#include "tools/base/exit_status.h"

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

double Micros(absl::Duration time) { return absl::ToDoubleMicroseconds(time); }

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
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

PerfRow MakePerfRow(const Workload& workload, const Measurement& measurement) {
  const bool has_data = workload.spec.type != CollectiveType::kBarrier;
  const absl::Duration p50 = Percentile(measurement.times, 50);
  const double seconds = std::max(absl::ToDoubleSeconds(p50), 1e-9);
  PerfRow row;
  row.collective = std::string(Name(workload.spec.type));
  row.bytes = BytesOf(workload);
  row.count = workload.count;
  if (has_data) row.dtype = std::string(Name(workload.dtype));
  row.reduction = workload.spec.reduction;
  row.algorithm = measurement.algorithm;
  row.p50_us = Micros(p50);
  row.p99_us = Micros(Percentile(measurement.times, 99));
  row.algbw = static_cast<double>(row.bytes) / seconds / 1e9;
  row.busbw = row.algbw * BusFactor(workload.spec.type, workload.group_size);
  row.wrong = measurement.wrong;
  if (has_data) {
    row.least_bandwidth =
        static_cast<double>(LeastMovedBytes(workload)) / seconds;
  }
  return row;
}

std::optional<double> LimitShare(const PerfRow& row, double copy_bandwidth) {
  if (!row.least_bandwidth.has_value() || copy_bandwidth <= 0) {
    return std::nullopt;
  }
  return *row.least_bandwidth / copy_bandwidth;
}

absl::Duration Percentile(std::vector<absl::Duration> times, int percent) {
  const size_t rank = (times.size() * static_cast<size_t>(percent) + 99) / 100;
  const auto nth = times.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(times.begin(), nth, times.end());
  return *nth;
}

double BusFactor(CollectiveType type, int group_size) {
  const double others = static_cast<double>(group_size - 1) / group_size;
  if (HasRankBlocks(type)) return others;
  return Reduces(type) && !HasRoot(type) && !IsScan(type) ? 2 * others : 1;
}

TextTable PerfTable() {
  return TextTable({{"bytes", Align::kRight, 10},
                    {"count", Align::kRight, 10},
                    {"dtype", Align::kLeft, 13},
                    {"reduction", Align::kLeft},
                    {"algorithm", Align::kLeft, 30},
                    {"p50 [us]", Align::kRight, 10},
                    {"p99 [us]", Align::kRight, 10},
                    {"algbw [GB/s]"},
                    {"busbw [GB/s]"},
                    {"wrong"},
                    {"limit [%]"}});
}

std::vector<std::string> Cells(const PerfRow& row, double copy_bandwidth) {
  const std::optional<double> limit_share = LimitShare(row, copy_bandwidth);
  return {absl::StrCat(row.bytes),
          absl::StrCat(row.count),
          OrDash(row.dtype),
          OrDash(row.reduction),
          row.algorithm,
          absl::StrFormat("%.1f", row.p50_us),
          absl::StrFormat("%.1f", row.p99_us),
          absl::StrFormat("%.3f", row.algbw),
          absl::StrFormat("%.3f", row.busbw),
          row.wrong.has_value() ? absl::StrCat(*row.wrong) : "-",
          limit_share.has_value() ? absl::StrFormat("%.1f", *limit_share * 100)
                                  : "-"};
}

Json ToJson(const PerfRow& row, double copy_bandwidth) {
  return {{"collective", row.collective},
          {"bytes", row.bytes},
          {"count", row.count},
          {"dtype", OrNull(row.dtype)},
          {"reduction", OrNull(row.reduction)},
          {"algorithm", row.algorithm},
          {"p50_us", row.p50_us},
          {"p99_us", row.p99_us},
          {"algbw", row.algbw},
          {"busbw", row.busbw},
          {"wrong", OrNull(row.wrong)},
          {"limit_share", OrNull(LimitShare(row, copy_bandwidth))}};
}

}  // namespace tutti
