#ifndef TUTTI_TOOLS_FILES_RANK_FILES_H_
#define TUTTI_TOOLS_FILES_RANK_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tutti {

// File name of a rank's result: "rank12.npy".
std::string RankFileName(int rank);

// Checks that writing files of these names into the directory replaces no
// input. Errors: UsageError naming the input that would be replaced.
absl::Status CheckReplacesNoInput(const std::string& directory,
                                  const std::vector<std::string>& names,
                                  const std::vector<std::string>& inputs);

// Checks that each name in the directory leads to a different file, links
// included. Errors: UsageError naming two names that lead to one file.
absl::Status CheckFilesApart(const std::string& directory,
                             const std::vector<std::string>& names);

// Other files in the directory whose names are those of rank results, in
// natural order.
std::vector<std::string> OtherRankFiles(const std::string& directory,
                                        const std::vector<std::string>& names);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_RANK_FILES_H_
