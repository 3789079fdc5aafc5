#ifndef TUTTI_TOOLS_FILES_REPLACEABLE_PATH_H_
#define TUTTI_TOOLS_FILES_REPLACEABLE_PATH_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace tutti {

// Path to rename a file to, so that `path` names it: links stay, and their
// target is replaced, whether it exists or not. Errors, INVALID_ARGUMENT and
// naming `path`: a directory, or another file that is not regular; a link that
// leads nowhere; a file that a process has open ("/dev/stdout"); the file that
// is standard output or error, whose content would be lost.
absl::StatusOr<std::filesystem::path> ReplaceablePath(const std::string& path);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_REPLACEABLE_PATH_H_
