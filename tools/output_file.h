#ifndef TUTTI_TOOLS_OUTPUT_FILE_H_
#define TUTTI_TOOLS_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Writes one file as OutputFiles does: it appears whole or not at all, also if
// the process is interrupted. Errors name the file, or what is in its way.
absl::Status WriteOutputFile(const std::string& path,
                             absl::string_view content);

}  // namespace tutti

#endif  // TUTTI_TOOLS_OUTPUT_FILE_H_
