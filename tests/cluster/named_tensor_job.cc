#include "tests/cluster/named_tensor_job.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace tutti {
namespace {

ClusterSpec ClusterOf(int num_ranks, int this_task) {
  ClusterSpec cluster;
  for (int task = 0; task < num_ranks; ++task) {
    cluster.addresses.push_back(absl::StrCat("host", task, ":1"));
  }
  cluster.this_task = this_task;
  return cluster;
}

}  // namespace

NamedTensorJob::NamedTensorJob(int num_ranks, const Environment& environment,
                               CoordinatorSettings settings,
                               size_t part_elements, MakeDevice make_device,
                               size_t max_entries)
    : environment_(environment),
      network_(ClusterOf(num_ranks, 0), environment.queue, part_elements) {
  for (int rank = 0; rank < num_ranks; ++rank) {
    ClusterRuntime::Options options = {
        .cluster = ClusterOf(num_ranks, rank),
        .environment = environment,
        .make_transport = [this, rank](uint64_t incarnation)
            -> absl::StatusOr<std::shared_ptr<Transport>> {
          return network_.Connect(rank, incarnation);
        },
        .coordinator = settings,
        .max_entries = max_entries};
    if (make_device != nullptr) {
      options.make_devices = [&make_device, rank](uint64_t incarnation) {
        std::vector<std::unique_ptr<Device>> devices;
        devices.push_back(make_device({.name = {"worker", 0, rank, "CPU", 0},
                                       .incarnation = incarnation}));
        return devices;
      };
    }
    auto runtime = ClusterRuntime::Create(std::move(options));
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtimes_.push_back(*std::move(runtime));
  }
}

void NamedTensorJob::Join() {
  for (const auto& runtime : runtimes_) {
    runtime->Join(
        environment_.clock->Now() + absl::Seconds(60), nullptr,
        [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  }
}

}  // namespace tutti
