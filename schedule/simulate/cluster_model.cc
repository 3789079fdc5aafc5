#include "schedule/simulate/cluster_model.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

absl::Status CheckTime(absl::string_view name, double seconds) {
  if (seconds >= 0 && std::isfinite(seconds)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", seconds, "; wanted is 0 or more"));
}

// Infinity is a valid rate: the work takes no time. 1 / rate must be finite, so
// that 0 bytes take 0 seconds.
absl::Status CheckRate(absl::string_view name, double rate) {
  if (rate > 0 && std::isfinite(1 / rate)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", rate, "; wanted is more than 0",
                   rate > 0 ? ", and more than that" : ""));
}

absl::Status CheckTasks(const std::vector<LinkClass>& links, size_t index) {
  const int tasks = links[index].tasks;
  const auto wrong = [&](absl::string_view wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("tasks is ", tasks, "; wanted is ", wanted));
  };
  if (index + 1 == links.size()) {
    return tasks == 0 ? absl::OkStatus() : wrong("0, all, of the last class");
  }
  if (index == 0) {
    return tasks == 1 ? absl::OkStatus() : wrong("1 of the first of several");
  }
  const int before = links[index - 1].tasks;
  if (tasks > before && tasks % before == 0) return absl::OkStatus();
  return wrong(absl::StrCat("a multiple of ", before,
                            ", which the class before has, and more"));
}

absl::Status CheckLink(const std::vector<LinkClass>& links, size_t index) {
  const LinkClass& link = links[index];
  for (const absl::Status& status :
       {CheckTime("latency", link.cost.latency_seconds),
        CheckRate("bandwidth", link.cost.bytes_per_second),
        CheckTasks(links, index)}) {
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("links[", index, "]: ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckHost(const Host& host) {
  const auto check = [](absl::string_view name, double number) {
    if (number >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("host: ", name, " is ", number, "; wanted is 0 or more"));
  };
  for (const absl::Status& status :
       {check("tasks", host.tasks), check("processors", host.processors),
        check("inline bytes", host.inline_bytes)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

int NumHosts(const Host& host, int num_tasks) {
  return host.tasks == 0 ? 1 : (num_tasks - 1) / host.tasks + 1;
}

ClusterModel ClusterOf(const CostModel& model) {
  return {.links = {{.name = "within tasks", .cost = model.within, .tasks = 1},
                    {.name = "between tasks", .cost = model.between}}};
}

absl::Status CheckCluster(const ClusterModel& cluster) {
  if (cluster.links.empty()) {
    return absl::InvalidArgumentError("links is empty; wanted is at least one");
  }
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    RETURN_IF_ERROR(CheckLink(cluster.links, i));
  }
  for (const absl::Status& status :
       {CheckTime("message overhead", cluster.seconds_per_message),
        CheckRate("reduction", cluster.reduced_bytes_per_second),
        CheckRate("copy", cluster.copied_bytes_per_second),
        CheckHost(cluster.host)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tutti
