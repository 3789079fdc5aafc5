#include "schedule/engine/schedule_runner.h"

#include <utility>

#include "framework/collective/group_resources.h"
#include "schedule/engine/bound_schedule.h"
#include "schedule/engine/schedule_run.h"
#include "schedule/engine/spare_objects.h"

namespace tutti {

struct ScheduleRunner::State {
  State(std::shared_ptr<const CompiledSchedule> schedule,
        const CollectiveParams& params)
      : bound(std::move(schedule), params),
        spares(params.group->resources->GetOrCreate<SpareBytes>(),
               ScheduleRun::NumSpareBytes(bound)) {}

  const BoundSchedule bound;
  SpareObjects<ScheduleRun> spares;
};

ScheduleRunner::ScheduleRunner(std::shared_ptr<const CompiledSchedule> schedule,
                               const CollectiveParams& params)
    : state_(std::make_unique<State>(std::move(schedule), params)) {}

ScheduleRunner::~ScheduleRunner() = default;

void ScheduleRunner::Run(const CollectiveContext& context,
                         StatusCallback done) const {
  std::unique_ptr<ScheduleRun> run = state_->spares.Take();
  if (run == nullptr) {
    run = std::make_unique<ScheduleRun>(state_->bound, state_->spares);
  }
  ScheduleRun::Start(std::move(run), context, std::move(done));
}

}  // namespace tutti
