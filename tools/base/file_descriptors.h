#ifndef TUTTI_TOOLS_BASE_FILE_DESCRIPTORS_H_
#define TUTTI_TOOLS_BASE_FILE_DESCRIPTORS_H_

#include "absl/status/status.h"

namespace tutti {

// Lets this process, one of `num_tasks` tasks, have as many file descriptors as
// the system allows it. Errors: RESOURCE_EXHAUSTED if that is too few.
absl::Status AllowFileDescriptors(int num_tasks);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_FILE_DESCRIPTORS_H_
