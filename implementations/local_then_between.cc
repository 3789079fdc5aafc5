#include "implementations/local_then_between.h"

#include "schedule/algorithm.h"
#include "schedule/schedule_between_tasks.h"

namespace tutti {

const Algorithm& AlgorithmBetween(absl::string_view name) {
  return *AlgorithmOf(**FindBetweenTasks(name));
}

}  // namespace tutti
