#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_BETWEEN_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_BETWEEN_H_

#include "absl/strings/string_view.h"
#include "tutti/schedule.h"

namespace tutti {

// The level between tasks of a LocalThen, for what stands for it.

// The registered schedule of that name, as long as the registry. REQUIRES:
// FindBetweenTasks(name) is OK.
const Algorithm& AlgorithmBetween(absl::string_view name);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_BETWEEN_H_
