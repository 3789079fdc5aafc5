#include "gpu/suite/schedule_checks.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/collective_request.h"
#include "framework/dtype.h"
#include "framework/tensor.h"
#include "gpu/gpu_cases.h"
#include "gpu/gpu_runtime.h"
#include "gpu/suite/counting_runtime.h"
#include "gpu/suite/group_cases.h"
#include "gpu/suite/pending_calls.h"
#include "gpu/suite/suite_group.h"
#include "gpu/suite/suite_machine.h"
#include "tests/conformance/implementation_under_test.h"

namespace tutti {
namespace {

using conformance::ImplementationUnderTest;

absl::Status CheckSchedule(SuiteMachine& machine, const GroupShape& shape,
                           const ImplementationUnderTest& schedule,
                           const CheckScale& scale) {
  const auto group =
      SuiteGroup::Create(machine, shape.num_gpus, shape.devices_per_gpu);
  if (!group.ok()) return group.status();
  return RunCases(**group, schedule, CasesOf(schedule, GridOf(**group), scale));
}

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

 private:
  SuiteMachine& machine_;
};

// When all members have called, the steps of all of them are on the streams,
// and each member's stream is to call the host once, at its end.
absl::Status CheckNoHostWaits(SuiteMachine& machine, int num_members) {
  CountingRuntime runtime(machine.runtime());
  MachineWith counted(runtime, machine);
  const auto group = SuiteGroup::Create(counted, 1, num_members);
  if (!group.ok()) return group.status();
  CollectiveRequest request =
      (*group)->Request(AllReduce{}, DType::kFloat32, 1001);
  request.impl_details.implementation = "RingReduce";
  std::vector<Tensor> tensors;
  for (int rank = 0; rank < num_members; ++rank) {
    tensors.push_back((*group)->Allocate(rank, DType::kFloat32, 1001));
  }
  const int64_t launches = runtime.num_launches();
  const int64_t host_calls = runtime.num_host_calls();
  for (int rank = 0; rank < num_members; ++rank) {
    (*group)->Call(rank, request, tensors[rank], &tensors[rank]);
  }
  const int64_t put = runtime.num_launches() - launches;
  const int64_t told = runtime.num_host_calls() - host_calls;
  absl::Status status = (*group)->Finish();
  if (!status.ok()) return status;
  const int64_t steps = int64_t{2} * (num_members - 1) * num_members;
  if (put == steps && told == num_members &&
      runtime.num_launches() - launches == steps) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("wanted: ", steps, " launches and ", num_members,
                   " calls of the host when all members have called; found ",
                   put, " and ", told, ", and ",
                   runtime.num_launches() - launches, " launches at the end"));
}

}  // namespace

std::vector<Check> ScheduleChecks(const GroupShape& shape,
                                  const CheckScale& scale) {
  std::vector<Check> checks;
  if (shape.num_gpus == 1) {
    checks.push_back(
        {.name = absl::StrCat("1 GPUs of ", shape.devices_per_gpu,
                              " devices: no wait of the host between steps"),
         .run = [size = shape.devices_per_gpu](SuiteMachine& machine) {
           return CheckNoHostWaits(machine, size);
         }});
  }
  for (const ImplementationUnderTest& schedule : Schedules()) {
    checks.push_back({.name = absl::StrCat(shape.num_gpus, " GPUs of ",
                                           shape.devices_per_gpu,
                                           " devices: ", schedule.name),
                      .run = [shape, scale, schedule](SuiteMachine& machine) {
                        return CheckSchedule(machine, shape, schedule, scale);
                      }});
  }
  return checks;
}

}  // namespace tutti
