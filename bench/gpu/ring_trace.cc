#include "bench/gpu/ring_trace.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/stream_hold.h"
#include "bench/gpu/suite_group.h"
#include "bench/gpu/tracing_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Waits as another one does, for what is done with `runtime`.
class MachineWith : public SuiteMachine {
 public:
  MachineWith(GpuRuntime& runtime, SuiteMachine& machine)
      : SuiteMachine(runtime, machine.environment(),
                     /*host_block_bytes=*/size_t{1} << 20),
        machine_(machine) {}
  absl::Status Wait(PendingCalls& calls) override {
    return machine_.Wait(calls);
  }
  absl::StatusOr<std::unique_ptr<StreamHold>> Hold(
      GpuStream stream, absl::Duration limit) override {
    return machine_.Hold(stream, limit);
  }

 private:
  SuiteMachine& machine_;
};

// A group whose launches are seen.
class Tracer {
 public:
  Tracer(SuiteMachine& machine, const TracedRing& ring)
      : ring_(ring),
        clock_(*machine.environment().clock),
        runtime_(machine.runtime(), clock_, ring.timing),
        machine_(runtime_, machine) {}

  absl::StatusOr<RingTrace> Run();

 private:
  // What the host had done when all calls had returned.
  struct Put {
    size_t num_launches = 0;
    int64_t num_host_calls = 0;
    size_t num_run = 0;  // Launches that had also run.
  };

  absl::Status MakeGroup();
  void CallAll();

  // The compute streams of all members. Nothing if they are not to be held.
  absl::Status HoldAll();
  absl::StatusOr<Put> Look() const;

  absl::Status CheckHeld() const;
  absl::Status CheckPut(const Put& put) const;
  absl::StatusOr<RingTrace> Trace() const;

  const TracedRing ring_;
  Clock& clock_;
  TracingRuntime runtime_;
  MachineWith machine_;
  std::unique_ptr<SuiteGroup> group_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<StreamHold> hold_;  // Ends before the group.
  int start_ = 0;                     // The mark behind the hold.
  absl::Time held_, released_;
};

absl::StatusOr<RingTrace> Tracer::Run() {
  absl::Status status = MakeGroup();
  if (!status.ok()) return status;
  CallAll();
  status = group_->Finish();
  if (status.ok()) status = HoldAll();
  if (!status.ok()) return status;
  runtime_.Begin();
  CallAll();
  const absl::StatusOr<Put> put = Look();
  released_ = clock_.Now();
  const bool was_held = hold_ == nullptr || hold_->Release();
  status = group_->Finish();
  if (!put.ok()) return put.status();
  if (!status.ok()) return status;
  status = was_held ? CheckPut(*put) : CheckHeld();
  if (!status.ok()) return status;
  return Trace();
}

absl::Status Tracer::MakeGroup() {
  auto group = SuiteGroup::Create(machine_, 1, ring_.num_members);
  if (!group.ok()) return group.status();
  group_ = *std::move(group);
  for (int rank = 0; rank < group_->size(); ++rank) {
    tensors_.push_back(
        group_->Allocate(rank, DType::kFloat32, ring_.num_elements));
  }
  return absl::OkStatus();
}

void Tracer::CallAll() {
  CollectiveRequest request =
      group_->Request(AllReduce{}, DType::kFloat32, ring_.num_elements);
  request.impl_details.implementation = "RingReduce";
  for (int rank = 0; rank < group_->size(); ++rank) {
    group_->Call(rank, request, tensors_[rank], &tensors_[rank]);
  }
}

absl::Status Tracer::HoldAll() {
  if (!ring_.holds_streams) return absl::OkStatus();
  CudaDevice& first = group_->device(0);
  held_ = clock_.Now();
  auto hold = machine_.Hold(first.compute_stream(), ring_.hold_limit);
  if (!hold.ok()) return hold.status();
  hold_ = *std::move(hold);
  if (ring_.timing != nullptr) {
    const absl::StatusOr<int> start =
        ring_.timing->Mark(first.compute_stream());
    if (!start.ok()) return start.status();
    start_ = *start;
  }
  absl::Status status;
  for (int rank = 1; rank < group_->size(); ++rank) {
    status.Update(first.Order(first.compute_stream(),
                              group_->device(rank).compute_stream()));
  }
  return status;
}

absl::StatusOr<Tracer::Put> Tracer::Look() const {
  const std::vector<TracedLaunch> launches = runtime_.launches();
  Put put = {.num_launches = launches.size(),
             .num_host_calls = runtime_.num_host_calls()};
  if (hold_ == nullptr) return put;
  for (const TracedLaunch& launch : launches) {
    const auto is_over = machine_.runtime().IsDone(launch.over->get());
    if (!is_over.ok()) return is_over.status();
    if (*is_over) ++put.num_run;
  }
  return put;
}

// The limit ended the hold.
absl::Status Tracer::CheckHeld() const {
  const std::vector<TracedLaunch> launches = runtime_.launches();
  const auto num_put =
      std::count_if(launches.begin(), launches.end(), [&](const auto& launch) {
        return launch.returned < held_ + ring_.hold_limit;
      });
  return absl::InternalError(absl::StrCat(
      "a call of the host waits for a stream: ", num_put, " of ",
      launches.size(), " launches had returned ",
      absl::FormatDuration(ring_.hold_limit), " after the streams were held"));
}

absl::Status Tracer::CheckPut(const Put& put) const {
  const auto num_members = static_cast<size_t>(ring_.num_members);
  const size_t steps = 2 * (num_members - 1) * num_members;
  const size_t at_end = runtime_.launches().size();
  // Of one ring, or of each into which the buffers are divided.
  const bool is_all = at_end > 0 && at_end % steps == 0;
  if (is_all && put.num_launches == at_end && put.num_run == 0 &&
      put.num_host_calls == ring_.num_members) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "wanted: ", steps, " launches of a ring, of which none has run, and ",
      num_members, " calls of the host when all members have called; found ",
      put.num_launches, ", ", put.num_run, " and ", put.num_host_calls,
      ", and ", at_end, " launches at the end"));
}

absl::StatusOr<RingTrace> Tracer::Trace() const {
  std::map<void*, int> ranks;
  for (int rank = 0; rank < group_->size(); ++rank) {
    ranks[group_->device(rank).collective_stream().handle] = rank;
  }
  std::vector<int> num_steps(group_->size());
  RingTrace trace;
  for (const TracedLaunch& launch : runtime_.launches()) {
    const int rank = ranks.at(launch.stream.handle);
    RingStep step = {.rank = rank,
                     .step = num_steps[rank]++,
                     .called = launch.called - released_,
                     .returned = launch.returned - released_};
    if (hold_ != nullptr && ring_.timing != nullptr) {
      const auto began = ring_.timing->SecondsBetween(start_, launch.began);
      if (!began.ok()) return began.status();
      const auto ended = ring_.timing->SecondsBetween(start_, launch.ended);
      if (!ended.ok()) return ended.status();
      step.run = {.began = *began, .ended = *ended};
    }
    trace.push_back(step);
  }
  return trace;
}

}  // namespace

absl::StatusOr<RingTrace> TraceRing(SuiteMachine& machine,
                                    const TracedRing& ring) {
  return Tracer(machine, ring).Run();
}

}  // namespace tutti
