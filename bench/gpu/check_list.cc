#include "bench/gpu/check_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/abort_checks.h"
#include "bench/gpu/device_checks.h"
#include "bench/gpu/kernel_checks.h"
#include "bench/gpu/local_checks.h"
#include "bench/gpu/nccl_checks.h"
#include "bench/gpu/schedule_checks.h"
#include "bench/gpu/task_checks.h"

namespace tutti {
namespace {

// Devices on one GPU; more than one pass over memory takes, too.
constexpr int kGroupSizes[] = {1, 2, 4, 8, 11};

constexpr int kScheduleSizes[] = {2, 4, 8};

// Of NcclTaskChecks().
constexpr int kGpusOfTasks = 4;

// The first GPU to which GPU 0 has no link, or -1.
absl::StatusOr<int> FirstWithoutLink(GpuRuntime& runtime, int num_gpus) {
  for (int peer = 1; peer < num_gpus; ++peer) {
    const absl::StatusOr<PeerLink> link = runtime.LinkBetween(0, peer);
    if (!link.ok()) return link.status();
    if (*link == PeerLink::kNone) return peer;
  }
  return -1;
}

void Append(std::vector<Check> more, CheckList* list) {
  std::move(more.begin(), more.end(), std::back_inserter(list->checks));
}

// They lack a rank, which communicators that block would wait for.
void AppendAbortChecks(const std::shared_ptr<NcclRuntime>& nccl, int num_gpus,
                       CheckList* list) {
  if (nccl->WhyBlocking().empty()) {
    return Append(AbortChecks(nccl, num_gpus), list);
  }
  list->left_out.push_back(
      absl::StrCat("aborts of NCCL: it runs within one process alone, as ",
                   nccl->WhyBlocking()));
}

}  // namespace

absl::StatusOr<CheckList> AllChecks(
    GpuRuntime& runtime,
    const absl::StatusOr<std::shared_ptr<NcclRuntime>>& nccl, GpuTiming& timing,
    const CheckScale& scale) {
  const absl::StatusOr<int> num_gpus = runtime.NumGpus();
  if (!num_gpus.ok()) return num_gpus.status();
  if (*num_gpus == 0) {
    return absl::NotFoundError("the driver knows of no GPU");
  }
  const absl::StatusOr<int> unreached = FirstWithoutLink(runtime, *num_gpus);
  if (!unreached.ok()) return unreached.status();
  CheckList list;
  Append(DeviceChecks(*num_gpus, scale), &list);
  for (int gpu = 0; gpu < *num_gpus; ++gpu) {
    CheckScale of_gpu = scale;
    // They are all alike.
    if (gpu > 0)
      of_gpu.large_elements = std::min<int64_t>(10'007, scale.large_elements);
    Append(KernelChecks(gpu, of_gpu), &list);
  }
  Append(GraphChecks(timing, scale), &list);
  for (const int size : kGroupSizes) {
    Append(LocalChecks({.num_gpus = 1, .devices_per_gpu = size}, scale), &list);
  }
  for (const int size : kScheduleSizes) {
    Append(ScheduleChecks({.num_gpus = 1, .devices_per_gpu = size}, scale),
           &list);
  }
  if (*num_gpus > 1) {
    Append(ScheduleChecks({.num_gpus = *num_gpus, .devices_per_gpu = 1}, scale),
           &list);
  }
  Append(TaskChecks(scale), &list);
  if (nccl.ok()) {
    Append(NcclChecks(*nccl, /*num_gpus=*/1, scale), &list);
    if (*num_gpus > 1) Append(NcclChecks(*nccl, *num_gpus, scale), &list);
    AppendAbortChecks(*nccl, *num_gpus, &list);
    if (*num_gpus >= kGpusOfTasks) {
      Append(NcclTaskChecks(*nccl, scale), &list);
    } else if (*num_gpus > 1) {
      list.left_out.push_back(
          absl::StrCat("NCCL within several tasks of 2 GPUs: there are ",
                       *num_gpus, " GPUs"));
    }
  } else {
    list.left_out.push_back(
        absl::StrCat("collectives of NCCL: ", nccl.status().message()));
  }
  if (*num_gpus == 1) {
    list.left_out.emplace_back(
        "groups over several GPUs, and aborts of their launches: there is one "
        "GPU");
  } else if (*unreached >= 0) {
    list.left_out.push_back(absl::StrCat(
        "GpuLocal collectives over several GPUs: GPU 0 has no link to GPU ",
        *unreached));
  } else {
    Append(LocalChecks({.num_gpus = *num_gpus, .devices_per_gpu = 1}, scale),
           &list);
  }
  if (!scale.holds_streams) {
    list.left_out.emplace_back(
        "that no call of a ring waits for a stream: not wanted in this run");
  }
  if (scale.spoils_gpu) {
    Append({FaultCheck()}, &list);
  } else {
    list.left_out.push_back("a GPU that fails: not wanted in this run");
  }
  return list;
}

}  // namespace tutti
