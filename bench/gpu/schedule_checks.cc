#include "bench/gpu/schedule_checks.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/group_cases.h"
#include "bench/gpu/ring_trace.h"
#include "bench/gpu/suite_group.h"
#include "bench/gpu/suite_machine.h"
#include "gpu/testing/gpu_cases.h"
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

}  // namespace

std::vector<Check> ScheduleChecks(const GroupShape& shape,
                                  const CheckScale& scale) {
  std::vector<Check> checks;
  if (shape.num_gpus == 1) {
    checks.push_back(
        {.name = absl::StrCat("1 GPUs of ", shape.devices_per_gpu,
                              " devices: no wait of the host between steps"),
         .run = [ring = TracedRing{.num_members = shape.devices_per_gpu,
                                   .holds_streams = scale.holds_streams}](
                    SuiteMachine& machine) {
           return TraceRing(machine, ring).status();
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
