#ifndef TUTTI_SCHEDULE_FIND_PART_H_
#define TUTTI_SCHEDULE_FIND_PART_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/implementation.h"

namespace tutti {

// What another one is made of, in the global registry. Errors: NOT_FOUND with
// the name alone, as it is one of many reasons in a table.
absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindPart(
    absl::string_view name);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_FIND_PART_H_
