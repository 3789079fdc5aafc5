#ifndef TUTTI_TOOLS_FILES_REPLACEABLE_PATH_H_
#define TUTTI_TOOLS_FILES_REPLACEABLE_PATH_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace tutti {

// Where a file has to be renamed to, so that `path` names it: links stay, and
// what they lead to is replaced, whether it exists or not. Errors,
// INVALID_ARGUMENT and naming `path`: a directory, or what else is no regular
// file; a link that leads nowhere; what a process has open ("/dev/stdout"), and
// the file that is standard output or error, which would lose what it has.
absl::StatusOr<std::filesystem::path> ReplaceablePath(const std::string& path);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_REPLACEABLE_PATH_H_
