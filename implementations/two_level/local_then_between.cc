#include "implementations/two_level/local_then_between.h"

#include "schedule/engine/schedule_between_tasks.h"
#include "tutti/schedule.h"

namespace tutti {

const Algorithm& AlgorithmBetween(absl::string_view name) {
  return *AlgorithmOf(**FindInterTaskLevel(name));
}

}  // namespace tutti
