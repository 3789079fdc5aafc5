#ifndef TUTTI_TOOLS_REQUEST_WORKLOAD_OPTIONS_H_
#define TUTTI_TOOLS_REQUEST_WORKLOAD_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/request/collective_spec.h"
#include "tools/request/workload.h"
#include "tutti/params.h"

namespace tutti {

// Parsers of options that describe a group and its data. All are pure. Errors:
// UsageError that names the option and quotes its value.

// Parses the value of `option`, from 1 byte to 1 PiB: the limit keeps later
// arithmetic far from overflow.
absl::StatusOr<int64_t> ParseSize(absl::string_view option,
                                  const std::string& text);

// Parses --layout: "4x2" is 4 tasks with 2 devices each; "3+1+2" lists the
// devices of each task, as GroupLayout::ToString() does. At most `max_ranks` in
// total.
absl::StatusOr<GroupLayout> ParseLayout(const std::string& text, int max_ranks);

// Names of all dtypes, in lines of at most `columns` characters.
std::string DTypeNames(size_t columns);

// Returns a workload without its size. A permute without a permutation sends to
// the next rank. Errors: also for a dtype that the reduction does not support.
absl::StatusOr<Workload> ParseWorkload(const CollectiveWords& words,
                                       const std::string& dtype,
                                       int group_size);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_WORKLOAD_OPTIONS_H_
