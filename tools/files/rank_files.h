#ifndef TUTTI_TOOLS_FILES_RANK_FILES_H_
#define TUTTI_TOOLS_FILES_RANK_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tutti {

// The name of a rank's result: "rank12.npy".
std::string RankFileName(int rank);

// Whether writing files of such names into the directory leaves the inputs
// alone. Errors: UsageError naming the input that it would replace.
absl::Status CheckReplacesNoInput(const std::string& directory,
                                  const std::vector<std::string>& names,
                                  const std::vector<std::string>& inputs);

// Whether each of the names in the directory has a file to itself, where they
// are links too. Errors: UsageError naming two that lead to one file.
absl::Status CheckFilesApart(const std::string& directory,
                             const std::vector<std::string>& names);

// What else has the name of a rank's result in the directory, in natural order.
std::vector<std::string> OtherRankFiles(const std::string& directory,
                                        const std::vector<std::string>& names);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_RANK_FILES_H_
