#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_BETWEEN_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_BETWEEN_H_

#include "absl/strings/string_view.h"
#include "tutti/schedule.h"

namespace tutti {

// Helper for stand-ins: the level between tasks of a LocalThen.

// Returns the registered schedule `name`; it lives as long as the registry.
// REQUIRES: FindInterTaskLevel(name) is OK.
const Algorithm& AlgorithmBetween(absl::string_view name);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_BETWEEN_H_
