#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "tutti/cluster_runtime.h"

namespace tutti {
namespace {

// Largest number of members of a group.
constexpr int kMaxTasks = 65536;

absl::Status CheckAddress(int task, absl::string_view address) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address of task ", task, ", \"", address, "\", ",
                     what, "; wanted is host:port"));
  };
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return error("has no port");
  if (colon == 0) return error("has no host");
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return error("has a port that is not a number from 1 to 65535");
  }
  return absl::OkStatus();
}

}  // namespace

std::string ClusterSpec::Label(int task) const {
  if (task < 0 || task >= num_tasks()) return absl::StrCat("task ", task);
  return absl::StrCat("task ", task, " (", addresses[task], ")");
}

std::string ClusterSpec::TaskName(int task) const {
  return DeviceName{.job = job, .task = task}.TaskName();
}

absl::StatusOr<int> ClusterSpec::TaskOf(const DeviceName& device) const {
  if (device.job == job && device.replica == 0 && device.task >= 0 &&
      device.task < num_tasks()) {
    return device.task;
  }
  return absl::NotFoundError(absl::StrCat(
      device.ToString(), " is in none of the ", num_tasks(), " tasks of ",
      "this cluster: ", TaskName(0), " to ", TaskName(num_tasks() - 1)));
}

absl::Status Validate(const ClusterSpec& cluster) {
  const int num_tasks = cluster.num_tasks();
  if (num_tasks < 1 || num_tasks > kMaxTasks) {
    return absl::InvalidArgumentError(
        absl::StrCat("a cluster has 1 to ", kMaxTasks, " tasks, this one has ",
                     cluster.addresses.size()));
  }
  if (cluster.this_task < 0 || cluster.this_task >= num_tasks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no task ", cluster.this_task, ": the ", num_tasks,
        " tasks of this cluster are 0 to ", num_tasks - 1));
  }
  const DeviceName probe{.job = cluster.job, .type = "CPU"};
  const auto parsed = DeviceName::Parse(probe.ToString());
  if (!parsed.ok() || parsed->job != cluster.job) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", cluster.job, "\" cannot be the name of a job"));
  }
  absl::flat_hash_map<absl::string_view, int> task_of_address;
  for (int task = 0; task < num_tasks; ++task) {
    const std::string& address = cluster.addresses[task];
    RETURN_IF_ERROR(CheckAddress(task, address));
    const auto [other, is_new] = task_of_address.emplace(address, task);
    if (is_new) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tasks ", other->second, " and ", task,
                     " both have the address ", address));
  }
  return absl::OkStatus();
}

}  // namespace tutti
