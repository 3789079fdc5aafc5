#include "bench/gpu/ring_trace.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/gpu_group.h"
#include "bench/gpu/launch_trace.h"
#include "bench/gpu/waiter.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// A host takes 1 ms for all steps.
constexpr absl::Duration kHoldLimit = absl::Seconds(10);

std::string TextOf(const LaunchTrace::Counts& counts) {
  return absl::StrCat(counts.launches, " launches, ", counts.run,
                      " of which have run, and ", counts.host_calls,
                      " calls of the host");
}

}  // namespace

RingTrace TraceRing(GpuMachine& machine, int num_members,
                    int64_t num_elements) {
  GpuGroup group(machine, {.devices_per_gpu = num_members});
  std::vector<Tensor> tensors;
  for (int rank = 0; rank < num_members; ++rank) {
    tensors.push_back(group.Allocate(rank, DType::kFloat32, num_elements));
  }
  const auto call_all = [&] {
    CollectiveRequest request =
        group.Request(AllReduce{}, DType::kFloat32, num_elements);
    request.impl_details.implementation = "RingReduce";
    for (int rank = 0; rank < num_members; ++rank) {
      group.Call(rank, request, tensors[rank], &tensors[rank]);
    }
  };
  call_all();
  group.Finish();

  std::unique_ptr<StreamHold> hold;
  if (!machine.scale.is_watched) {
    CudaDevice& first = group.device(0);
    const GpuStream stream = first.compute_stream();
    hold = machine.waiter.Hold(stream, kHoldLimit).value();
    for (int rank = 1; rank < num_members; ++rank) {
      Ok(first.Order(stream, group.device(rank).compute_stream()));
    }
  }
  Clock& clock = *machine.environment.clock;
  machine.trace.SetRuntime(&machine.runtime);
  const absl::Time begin = clock.Now();
  call_all();
  const absl::Duration host_time = clock.Now() - begin;
  LaunchTrace::Counts counts = machine.trace.counts();
  const bool was_held = hold == nullptr || hold->Release();
  if (hold == nullptr) counts.run = 0;
  group.Finish();
  const int at_end = machine.trace.counts().launches;
  machine.trace.SetRuntime(nullptr);

  if (!was_held) {
    Ok(absl::InternalError(absl::StrCat(
        "a call of the host waits for a stream: the calls had not returned ",
        absl::FormatDuration(kHoldLimit), " after the streams were held")));
  }
  // Buffers may be divided among several rings.
  const int steps = 2 * (num_members - 1) * num_members;
  if (at_end == 0 || at_end % steps != 0 || counts.launches != at_end ||
      counts.run != 0 || counts.host_calls != num_members) {
    Ok(absl::InternalError(absl::StrCat(
        "wanted when all members had called: ",
        TextOf({.launches = steps, .host_calls = num_members}), "; found ",
        TextOf(counts), ", and ", at_end, " launches at the end")));
  }
  return {.num_launches = at_end, .host_time = host_time};
}

}  // namespace tutti
