#ifndef TUTTI_SCHEDULE_FIND_PART_H_
#define TUTTI_SCHEDULE_FIND_PART_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/implementation.h"

namespace tutti {

// Finds a part of another implementation in the global registry. Errors:
// NOT_FOUND, with the name alone as its message; the caller lists many such
// reasons in a table.
absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindPart(
    absl::string_view name);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_FIND_PART_H_
